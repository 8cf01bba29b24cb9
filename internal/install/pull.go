package install

import (
	"context"
	"fmt"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
)

// The states of Result.
const (
	StateInstalled = "installed" // it was installed just now
	StatePresent   = "present"   // it was there already
	StateNothing   = "nothing"   // there is nothing to install: a remote server, or a command of the machine
)

// Result is what Pull did for one server.
type Result struct {
	State   string
	Version string   // the exact version, or the commit
	Argv    []string // what a start runs, without the server's own arguments; empty for a clone
	Missing []string // programs that some of its tools need, and that are not on the machine
	After   time.Duration
}

// Pull installs a server ahead of time, so that its start needs no network. Its errors are
// *fault.Fault.
func (i *Installer) Pull(ctx context.Context, s Server) (Result, error) {
	start := time.Now()
	j := i.job(s)
	j.pulling = true
	result := Result{State: StateNothing, Missing: i.Missing(s)}
	fresh := false
	var err error
	switch l := j.launch; l.Kind {
	case catalog.GitHub:
		if _, fresh, err = j.github(ctx); err == nil {
			result.State, result.Version = StatePresent, readCloned(j.githubFolder()).Commit
		}
	case catalog.NPM, catalog.PyPI, catalog.Go, catalog.Crate, catalog.Git:
		var r *record
		if r, fresh, err = j.resolve(ctx); err == nil {
			result.State, result.Version, result.Argv = StatePresent, r.Installed, r.Argv
			if !r.Compiled && (l.Kind == catalog.PyPI || l.Kind == catalog.Git) {
				err = j.compile(ctx, j.recordPath(), r)
			}
		}
	case catalog.Command:
		if len(l.Steps) > 0 {
			_, fresh, err = j.resolve(ctx)
			result.State = StatePresent
		}
	case catalog.None:
		err = &fault.Fault{Server: s.Name, Cause: fault.BadConfig, Err: fmt.Errorf("cannot be run here")}
	}
	if err != nil {
		return Result{}, err
	}
	if fresh {
		result.State = StateInstalled
	}
	result.After = time.Since(start)
	return result, nil
}
