package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// LaunchOptions say what to start in the background.
type LaunchOptions struct {
	Argv  []string      // the program and its arguments; nothing secret
	Env   []string      // the whole environment; Launch takes the token and the configuration out of it
	Input []byte        // given over a pipe: the configuration and the token
	Limit time.Duration // how long to wait for the report; 0 means as long as ctx
	Grace time.Duration // how long a daemon that has been told to give up may take; 0 means 3 s
	Log   string        // the daemon's log, quoted when it dies without a report; may be empty
}

// Report is what the daemon says to its launcher, once.
type Report struct {
	OK     bool            `json:"ok"`
	Text   string          `json:"text,omitempty"`   // what to print
	Code   int             `json:"code,omitempty"`   // the launcher's exit code
	Status json.RawMessage `json:"status,omitempty"` // for --json
}

// Died is the error of a daemon that ended without a report.
type Died struct {
	Ended string   // "exit status 2", "signal: killed"
	Lines []string // its last lines on stderr, or else in its log
}

// Error says how it ended, with its lines below.
func (e *Died) Error() string { return "gateway ended before it was ready: " + e.Ended }

// ErrLimit is the cause when the report did not come in time.
var ErrLimit = errors.New("start-up limit reached")

// ErrLauncherGone is the cause of a Start's context when the launcher has disappeared or given up.
var ErrLauncherGone = errors.New("launcher is gone")

// Launch starts the daemon and returns its report. When it returns a report that is not OK, or an
// error, the daemon is gone.
func Launch(ctx context.Context, o LaunchOptions) (Report, error) {
	return Report{}, errors.New("launch: not built yet")
}
