package install

import (
	"context"
	"errors"
	"strings"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
)

// step is one command of an install.
type step struct {
	dir  string
	argv []string
	env  []string
	ran  string // how the command is shown; empty means as it is
}

// run runs one command of an install to its end. Its error is a *fault.Fault.
func (j *job) run(ctx context.Context, s step) error {
	var tail process.Tail
	spec := process.Spec{Name: j.server, Argv: s.argv, Env: s.env, Dir: s.dir}
	if s.ran == "" {
		s.ran = spec.CommandLine()
	}
	exit, err := j.opts.Host.Run(ctx, spec, func(line string) {
		line = j.scrub.Scrub(line)
		tail.Add(line)
		j.opts.Output(j.server, line)
	})
	if err == nil && exit.Success() {
		return nil
	}
	return j.installFault(ctx, s.ran, exit, tail.Lines(), err)
}

// runSteps runs the entry's own commands in a folder.
func (j *job) runSteps(ctx context.Context, dir string) error {
	for _, argv := range j.launch.Steps {
		if err := j.run(ctx, step{dir: dir, argv: argv, env: j.buildEnv()}); err != nil {
			return err
		}
	}
	return nil
}

// installFault says how an install failed; without an err the command's exit is the failure.
func (j *job) installFault(ctx context.Context, ran string, exit process.Exit, lines []string, err error) error {
	f := &fault.Fault{Server: j.server, Cause: fault.InstallFailed, Ran: j.scrub.Scrub(ran), After: exit.After, Stderr: lines, Err: err}
	switch {
	case err == nil:
		f.Ended = exit.String()
		if looksOffline(lines) {
			f.Hint = "is there no network?"
			if ahead := j.ahead(); ahead != "" {
				f.Hint += " Where there is one, " + ahead
			}
		}
	case ctx.Err() != nil:
		f.Ended, f.Err = "still running", context.Cause(ctx)
		f.Hint = j.tooLate()
	case errors.Is(err, process.ErrNotFound):
		f.Cause = fault.NotFound
	}
	return f
}

// tooLate is the hint for an install that the start-up limit has cut off.
func (j *job) tooLate() string {
	if j.pulling {
		return ""
	}
	return j.ahead() + "; or raise --startup-timeout"
}

// brokenInstall is the fault of an install that is of no use, though every command has succeeded.
func (j *job) brokenInstall(err error) error {
	return &fault.Fault{Server: j.server, Cause: fault.InstallFailed, Ran: j.scrub.Scrub(j.what()), Err: err}
}

// offlineSigns are what installers print when a host cannot be reached. They decide on a hint only.
var offlineSigns = []string{
	"enotfound", "econnrefused", "eai_again", "etimedout", "enetunreach", "dns error", "could not resolve host",
	"connection refused", "network is unreachable", "no such host", "name resolution",
	"failed to establish a new connection",
}

func looksOffline(lines []string) bool {
	text := strings.ToLower(strings.Join(lines, "\n"))
	for _, sign := range offlineSigns {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
