package install

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

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

// commandEnv is the environment of an install command that a user wrote: the server's, without the
// dialogue windows by which git and ssh ask for passwords.
func (j *job) commandEnv() []string {
	env := j.without(j.env, "SSH_ASKPASS")
	return j.with(env, map[string]string{"GIT_ASKPASS": "", "PIP_NO_INPUT": "1", "DEBIAN_FRONTEND": "noninteractive"})
}

// buildEnv is the environment in which packages are installed. What the machine has set for the package
// managers stays, but for what would put a package elsewhere or leave parts of it out.
func (j *job) buildEnv() []string {
	env := j.without(j.commandEnv(), "NODE_ENV", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX",
		"npm_config_prefix", "NPM_CONFIG_PREFIX", "npm_config_omit", "NPM_CONFIG_OMIT", "NPM_CONFIG_GLOBAL")
	for name, value := range map[string]string{
		// The usual waits outlast the whole start-up when there is no network.
		"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "10000",
		"UV_PYTHON_INSTALL_DIR": filepath.Join(j.opts.Dir, "python"),
	} {
		if _, set := lookup(env, name); !set {
			env = append(env, name+"="+value)
		}
	}
	return j.with(env, map[string]string{
		"npm_config_global": "false", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_progress": "false",
		"npm_config_update_notifier": "false", "npm_config_loglevel": "error",
		"UV_COMPILE_BYTECODE": "0", "UV_NO_PROGRESS": "1",
		"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_USER": "0", "PIP_PROGRESS_BAR": "off",
		"GOWORK": "off",
	})
}

// without takes variables out of an environment, unless the server's own envs set them.
func (j *job) without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, given := j.launch.Env[name]
		return slices.Contains(names, name) && !given
	})
}

// with sets variables, unless the server's own envs set them. Each stands in the result once: of two,
// programs differ in which they read.
func (j *job) with(env []string, values map[string]string) []string {
	env = j.without(env, slices.Collect(maps.Keys(values))...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, given := j.launch.Env[name]; !given {
			env = append(env, name+"="+values[name])
		}
	}
	return env
}

// lookup finds a variable; of several, the last counts.
func lookup(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// scrubber masks the launch's secrets in what is shown of it.
func scrubber(l catalog.Launch) *secret.Scrubber {
	values := slices.Collect(maps.Values(l.Env))
	return secret.NewScrubber(append(values, l.Secrets...))
}
