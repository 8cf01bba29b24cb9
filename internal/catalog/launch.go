package catalog

import (
	"time"

	"mcp-gateway/internal/secret"
)

// Kind says how a server is reached.
type Kind string

// The kinds of launch.
const (
	NPM     Kind = "npm"     // an npm package, run with node
	PyPI    Kind = "pypi"    // a Python package, run in an environment of its own
	Command Kind = "command" // an argument vector, without a shell
	Shell   Kind = "shell"   // a line for /bin/sh -c
	GitHub  Kind = "github"  // a clone, an install line and a run line for /bin/sh -c
	Remote  Kind = "remote"  // a URL
)

// Launch is everything known about one server before the machine is touched. It is made by the
// configuration (for local commands, GitHub and URLs) or by a catalogue entry.
type Launch struct {
	Kind    Kind
	Package string   // npm, pypi: the package
	Version string   // npm, pypi: the exact version; empty means the newest
	Bin     string   // npm, pypi: the executable, where it is not named like the package
	Args    []string // npm, pypi, command: the arguments after the program
	Command string   // command: the program
	Run     string   // shell, github: runCmd
	Install string   // github: installCmd, may be empty
	Owner   string   // github
	Repo    string   // github
	Env     map[string]secret.Value
	Dir     string // command, shell: the working directory; empty means the gateway's own
	URL     string // remote
	Headers map[string]secret.Value
}

// Options are the gateway's own settings for a server: the entry's reserved key "gateway".
type Options struct {
	Allow, Deny  []string      // patterns (path.Match) on a tool's original name; no Allow means all
	CallTimeout  time.Duration // 0 means none
	StartTimeout time.Duration // 0 means the start-up budget
	Isolated     bool          // a process for each session
	Prefix       string        // put before each exposed name: "" (the default) means none
	Protocol     string        // "legacy" (the default), "modern" or "both"
	User         string        // run as this user; empty means as the gateway
}
