// Package install turns a launch plan into a process that can be started: it finds launchers, clones
// repositories and runs install commands. It alone writes below the servers' folder.
package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

// Options are what New takes.
type Options struct {
	Host      *process.Host
	Dir       string                    // the servers' folder; made when it is first needed
	BaseEnv   []string                  // the environment that the gateway was started in
	GitHubURL string                    // where owner/repo are found; empty means https://github.com
	Log       *slog.Logger              // nil discards
	Progress  func(server, line string) // lines for a person who waits, secrets masked; nil drops them
}

// Installer prepares servers, several side by side.
type Installer struct {
	opts Options
	log  *slog.Logger
}

// New makes an installer.
func New(o Options) *Installer {
	if o.GitHubURL == "" {
		o.GitHubURL = "https://github.com"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(string, string) {}
	}
	return &Installer{opts: o, log: o.Log}
}

// Prepare does everything that has to be done before the server can be started, and describes the
// process to start. Its errors are *fault.Fault.
func (i *Installer) Prepare(ctx context.Context, server string, l catalog.Launch) (process.Spec, error) {
	j := &job{Installer: i, server: server, launch: l, env: serverEnv(i.opts.BaseEnv, l.Env), scrub: scrubber(l)}
	spec := process.Spec{Name: server, Env: j.env, Dir: l.Dir}
	var err error
	switch l.Kind {
	case catalog.Command:
		spec.Argv = append([]string{l.Command}, l.Args...)
		err = j.find(spec, "install the command, or give its full path")
	case catalog.Shell:
		spec.Argv = shellLine(l.Run)
	case catalog.PyPI, catalog.NPM:
		spec.Argv, err = j.launcher()
	case catalog.GitHub:
		spec.Argv = shellLine(l.Run)
		spec.Dir, err = j.github(ctx)
	default:
		err = &fault.Fault{Server: server, Cause: fault.BadConfig, Err: fmt.Errorf("servers of kind %q cannot be started here", l.Kind)}
	}
	if err != nil {
		return process.Spec{}, err
	}
	return spec, nil
}

// job is the preparation of one server.
type job struct {
	*Installer
	server string
	launch catalog.Launch
	env    []string
	scrub  *secret.Scrubber
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

// shellLine runs a line of a configuration.
func shellLine(line string) []string { return []string{"/bin/sh", "-c", line} }

// quiet keeps programs from asking questions that nobody can answer: their stdin is the protocol's, or
// empty.
var quiet = map[string]secret.Value{"GIT_TERMINAL_PROMPT": "0", "npm_config_yes": "true"}

// serverEnv is the environment of a server and of its install command.
func serverEnv(base []string, envs map[string]secret.Value) []string {
	all := maps.Clone(quiet)
	maps.Copy(all, envs)
	return process.ServerEnv(base, all)
}

// installEnv also takes the dialogue windows away by which git and ssh ask for passwords.
func (j *job) installEnv() []string {
	env := slices.DeleteFunc(slices.Clone(j.env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, given := j.launch.Env[name]
		return (name == "GIT_ASKPASS" || name == "SSH_ASKPASS") && !given
	})
	for name, value := range map[string]string{"GIT_ASKPASS": "", "PIP_NO_INPUT": "1", "DEBIAN_FRONTEND": "noninteractive"} {
		if _, given := j.launch.Env[name]; !given {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// scrubber masks the launch's secrets in what is shown of it.
func scrubber(l catalog.Launch) *secret.Scrubber {
	values := slices.Collect(maps.Values(l.Env))
	return secret.NewScrubber(append(values, l.Secrets...))
}
