// Package install turns a launch plan into a process that can be started: it installs packages,
// clones repositories, runs install commands, and records what it has resolved, so that a later start
// needs neither network nor launcher. It alone writes below the servers' folder:
//
//	packages/NAME/ID/        one install, private to a server; ID is a hash of all that it depends on
//	packages/NAME/ID.json    the record that makes it whole, written last
//	github/OWNER/REPO/clone  a clone for runCmd
//	state/NAME/              what a server keeps between starts
//	python/                  interpreters that uv had to fetch
package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

// Options are what New takes. An installer that is only asked what is there needs Dir alone.
type Options struct {
	Host      *process.Host
	Dir       string                    // the servers' folder; made when it is first needed
	BaseEnv   []string                  // the environment that the gateway was started in
	GitHubURL string                    // where owner/repo are found; empty means https://github.com
	Jobs      int                       // installs at a time; 0 means one for each CPU, and two at least
	Log       *slog.Logger              // nil discards
	Progress  func(server, deed string) // what is done now, for a person who waits; nil drops it
	Output    func(server, line string) // what the commands print, secrets masked; nil drops it
}

// Server is one server to install or prepare.
type Server struct {
	Name   string
	Launch catalog.Launch
	User   string // whom its process runs as; empty means as the gateway
	Ref    string // github: the branch, tag or commit to clone; empty means the default branch, or what is there
}

// Installer installs and prepares servers, several side by side.
type Installer struct {
	opts   Options
	log    *slog.Logger
	slots  chan struct{} // one for each install at a time
	probes probes
}

// New makes an installer.
func New(o Options) *Installer {
	if o.GitHubURL == "" {
		o.GitHubURL = githubURL
	}
	if o.Jobs <= 0 {
		o.Jobs = max(2, runtime.NumCPU())
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, string) {}
	}
	if o.Output == nil {
		o.Output = func(string, string) {}
	}
	return &Installer{opts: o, log: o.Log, slots: make(chan struct{}, o.Jobs)}
}

// Check looks for what servers cannot run without, before any of them is installed or started: Node.js,
// Python or uv, Java, .NET, and the tools of an install that is still to be done. It gives a fault for
// each server that lacks something.
func (i *Installer) Check(ctx context.Context, servers []Server) []*fault.Fault {
	found := make([]*fault.Fault, len(servers))
	var group errgroup.Group
	group.SetLimit(cap(i.slots))
	for n, s := range servers {
		group.Go(func() error {
			j := i.job(s)
			err := error(nil)
			if r := j.recorded(); r != nil && len(r.Argv) > 0 {
				err = j.findRecorded(r)
			} else {
				err = j.require(ctx)
			}
			errors.As(err, &found[n])
			return nil
		})
	}
	_ = group.Wait() // the faults are in their places
	return slices.DeleteFunc(found, func(f *fault.Fault) bool { return f == nil })
}

// Prepare does everything that has to be done before the server can be started, and describes the
// process to start. Its errors are *fault.Fault.
func (i *Installer) Prepare(ctx context.Context, s Server) (process.Spec, error) {
	j := i.job(s)
	spec := process.Spec{Name: s.Name, Env: j.env, Dir: j.launch.Dir, User: s.User}
	if err := j.makeState(); err != nil {
		return process.Spec{}, err
	}
	var err error
	switch l := j.launch; l.Kind {
	case catalog.Command:
		spec.Argv = append([]string{l.Command}, l.Args...)
		err = j.findOrInstall(ctx, spec)
	case catalog.Shell:
		spec.Argv = shellLine(l.Run)
	case catalog.GitHub:
		spec.Argv = shellLine(l.Run)
		spec.Dir, _, err = j.github(ctx)
	case catalog.NPM, catalog.PyPI, catalog.Go, catalog.Crate, catalog.Git:
		var r *record
		if r, _, err = j.resolve(ctx); err == nil {
			spec.Argv = slices.Concat(r.Argv, l.Args)
			if spec.Dir == "" {
				spec.Dir = r.Dir
			}
			if !r.Compiled { // images often set this, to stay small; here it would slow down every start
				spec.Env = j.without(spec.Env, "PYTHONDONTWRITEBYTECODE")
			}
			err = j.findRecorded(r)
		}
	default:
		err = &fault.Fault{Server: s.Name, Cause: fault.BadConfig, Err: fmt.Errorf("servers of kind %q cannot be started here", l.Kind)}
	}
	if err != nil {
		return process.Spec{}, err
	}
	return spec, nil
}

// job is the work on one server.
type job struct {
	*Installer
	server string
	launch catalog.Launch
	user   string
	ref    string
	env    []string
	scrub  *secret.Scrubber

	needsState bool // the entry names the state folder
	pulling    bool // ahead of any start: nobody needs to be told to pull
}

func (i *Installer) job(s Server) *job {
	l := s.Launch.WithState(StateDir(i.opts.Dir, s.Name))
	return &job{Installer: i, server: s.Name, launch: l, user: s.User, ref: s.Ref,
		env: serverEnv(i.opts.BaseEnv, l.Env), scrub: scrubber(l), needsState: s.Launch.NeedsState()}
}

// findOrInstall makes sure that a command can be started. One that is not there is installed by the
// entry's own steps; where they have run already, or there are none, that is a fault.
func (j *job) findOrInstall(ctx context.Context, spec process.Spec) error {
	const hint = "install the command, or give its full path"
	err := j.find(spec, hint)
	var f *fault.Fault
	if len(j.launch.Steps) == 0 || !errors.As(err, &f) || f.Cause != fault.NotFound {
		return err
	}
	if _, _, err := j.resolve(ctx); err != nil {
		return err
	}
	return j.find(spec, hint)
}

// findRecorded checks that the program of a record is there: the record does not vouch for Node.js and
// others that are not part of the install.
func (j *job) findRecorded(r *record) error {
	_, err := process.LookPath(r.Argv[0], r.Dir, j.env)
	if err == nil {
		return nil
	}
	return j.missing(fmt.Errorf("needs %s: %w", r.Argv[0], err), hintFor(need{name: r.Argv[0]}))
}

// find checks that a process could be started, before anything is.
func (j *job) find(spec process.Spec, hint string) error {
	_, err := process.LookPath(spec.Argv[0], spec.Dir, spec.Env)
	if err == nil {
		return nil
	}
	f := &fault.Fault{Server: j.server, Cause: fault.BadConfig, Ran: j.scrub.Scrub(spec.CommandLine()), Err: err}
	if errors.Is(err, process.ErrNotFound) {
		f.Cause, f.Hint = fault.NotFound, hint
	}
	return f
}

// missing is the fault of a server that cannot run on this machine as it is.
func (j *job) missing(err error, hint string) error {
	return &fault.Fault{Server: j.server, Cause: fault.NotFound, Err: err, Hint: hint}
}

// ahead says how the install can be done ahead of time, for a start that it is too long for.
func (j *job) ahead() string {
	l := j.launch
	line := process.Spec{Argv: []string{"mcp-gateway", "pull", j.server}}.CommandLine()
	switch {
	case j.pulling:
		return ""
	case l.Kind == catalog.GitHub && l.Install != "":
		line = "mcp-gateway pull --config FILE"
	case l.Kind == catalog.GitHub:
		line = "mcp-gateway pull github/" + l.Owner + "/" + l.Repo
	}
	return "install it ahead of time: " + line
}
