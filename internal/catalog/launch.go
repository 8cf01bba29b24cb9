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
	Go      Kind = "go"      // a Go package, built with go install
	Crate   Kind = "crate"   // a Rust crate, built with cargo install
	Git     Kind = "git"     // a source repository at a pinned commit, built by the entry's steps
	Command Kind = "command" // an argument vector, without a shell
	Shell   Kind = "shell"   // a line for /bin/sh -c
	GitHub  Kind = "github"  // a clone, an install line and a run line for /bin/sh -c
	Remote  Kind = "remote"  // a URL
	None    Kind = "none"    // known, but there is no way to run it here; never the kind of a Launch
)

// Pinned writes a package or a repository with its version, where it has one, as in "name@1.2.3".
func Pinned(name, version string) string {
	if name != "" && version != "" {
		return name + "@" + version
	}
	return name
}

// Launch is everything known about one server before the machine is touched. It is made by the
// configuration (for local commands, GitHub and URLs) or by a catalogue entry. Args, Env and Dir may
// hold a mark for the server's state folder, which WithState replaces before anything is run.
type Launch struct {
	Kind    Kind
	Package string   // npm, pypi, go, crate: the package
	Version string   // npm, pypi, go, crate: the exact version; empty means the newest
	Bin     string   // npm, pypi, go, crate, git: the executable, where it is not named like the package
	With    []string // pypi, git: further Python requirements, as in "mcp<2"
	Args    []string // npm, pypi, go, crate, git, command: the arguments after the program
	Command string   // command: the program
	Run     string   // shell, github: runCmd
	Install string   // github: installCmd, may be empty
	Owner   string   // github
	Repo    string   // github

	Repository string     // git: the URL of the repository
	Commit     string     // git: the commit, 40 hex digits
	Subdir     string     // git: the folder in the clone where steps and program run; empty means its root
	Program    []string   // git: program and first arguments, run in the clone; empty means a Python project with Bin
	Steps      [][]string // git: argument vectors that build the clone; else: what pull runs first, as root
	Needs      []string   // what must be on the machine: "chromium", "node>=22.14.0"

	Env     map[string]secret.Value
	Dir     string // the working directory; empty means the gateway's own, and for git and github the clone
	URL     string // remote
	Headers map[string]secret.Value

	Transport string         // remote: "sse" for the old HTTP+SSE transport; empty means streamable HTTP
	Secrets   []secret.Value // every secret value in this plan, wherever it went, for a scrubber
}

// Options are the gateway's own settings for a server: the entry's reserved key "gateway".
type Options struct {
	Allow, Deny  []string      // patterns (path.Match) on a tool's original name; no Allow means all
	CallTimeout  time.Duration // 0 means none
	StartTimeout time.Duration // 0 means the start-up budget
	Isolated     bool          // a process for each session
	NoCancel     bool          // the server is not told that a call is cancelled
	Prefix       string        // put before each exposed name: "" (the default) means none
	Protocol     string        // "legacy" (the default of a process), "modern" or "both"; empty: a remote server is asked
	User         string        // run as this user; empty means as the gateway
	OAuth        OAuth         // how users sign in to a remote server
}

// OAuth is what the gateway is told of a remote server's sign-in. All of it is optional: what is not said
// is found out.
type OAuth struct {
	ClientID            string       // of the gateway at the authorization server, given by that or a metadata document's URL
	ClientSecret        secret.Value // of that client
	Scopes              []string     // to ask for; nil means those that the server wants, empty means none
	Resource            string       // the identifier of the server at the authorization server (RFC 8707)
	AuthorizationServer string       // its issuer URL
}
