// Package fault describes why a server cannot be used: the closed list of causes, and the report
// that a person reads.
package fault

import (
	"fmt"
	"time"
)

// Cause is one of a closed list, printed in brackets and explained in the README.
type Cause string

// The causes.
const (
	NotFound          Cause = "not_found"           // the command is not on PATH, or not executable
	ExitedBeforeReady Cause = "exited_before_ready" // the process ended before it had answered initialize and its lists
	HandshakeTimeout  Cause = "handshake_timeout"   // it lives, but did not answer within its start limit
	HandshakeInvalid  Cause = "handshake_invalid"   // it answered with something that is not MCP
	InstallFailed     Cause = "install_failed"      // an install command failed
	CloneFailed       Cause = "clone_failed"        // the repository could not be cloned
	BadConfig         Cause = "bad_config"          // the entry cannot work as it is written
	SignInRequired    Cause = "sign_in_required"    // a remote server wants credentials
	Unreachable       Cause = "unreachable"         // a remote server does not answer, or not with MCP
)

// Fault is one server's failure. It is an error; Error gives one line, without the server's own lines.
type Fault struct {
	Server string
	Cause  Cause
	Ran    string        // what was run, as a shell line, or the URL; empty when nothing was
	Ended  string        // how it ended: "exit status 1", "signal: killed", "still running", "" when not started
	After  time.Duration // from its start to the failure; 0 when nothing was started
	Stderr []string      // its last lines, cleaned and scrubbed, oldest first
	Hint   string        // what the reader can do next; may be empty
	Err    error         // the cause below, may be nil
}

// Error says server, cause, what was run and how it ended in one line.
func (f *Fault) Error() string {
	s := fmt.Sprintf("server %q [%s]", f.Server, f.Cause)
	if f.Ran != "" {
		s += ": " + f.Ran
	}
	if f.Ended != "" {
		s += ": " + f.Ended
	}
	if f.After > 0 {
		s += fmt.Sprintf(" after %.1f s", f.After.Seconds())
	}
	if f.Err != nil {
		s += ": " + f.Err.Error()
	}
	return s
}

// Unwrap returns the cause below.
func (f *Fault) Unwrap() error { return f.Err }
