package install

import (
	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
)

// launcher is the command that fetches a package, if need be, and runs it.
func (j *job) launcher() ([]string, error) {
	if j.launch.Kind == catalog.NPM {
		return j.npx()
	}
	return j.uvx()
}

func (j *job) npx() ([]string, error) {
	l := j.launch
	pkg := l.Package
	if l.Version != "" {
		pkg += "@" + l.Version
	}
	argv := []string{"npx", "-y", pkg}
	if l.Bin != "" {
		argv = []string{"npx", "-y", "--package=" + pkg, "--", l.Bin}
	}
	argv = append(argv, l.Args...)
	// npx is a script for node: without node it fails later, and says less.
	for _, program := range []string{"npx", "node"} {
		if _, err := process.LookPath(program, "", j.env); err != nil {
			return nil, j.missing(argv, err, "install Node.js with npm: https://nodejs.org, or the packages nodejs and npm")
		}
	}
	return argv, nil
}

func (j *job) uvx() ([]string, error) {
	l := j.launch
	argv := []string{"uvx"}
	_, err := process.LookPath("uvx", "", j.env)
	if err != nil {
		if _, err := process.LookPath("uv", "", j.env); err == nil {
			argv = []string{"uv", "tool", "run"}
		}
	}
	found := err == nil || argv[0] == "uv"
	for _, requirement := range l.With {
		argv = append(argv, "--with", requirement)
	}
	pkg := l.Package
	if l.Version != "" {
		pkg += "==" + l.Version
	}
	if l.Bin != "" {
		argv = append(argv, "--from", pkg, l.Bin)
	} else {
		argv = append(argv, pkg)
	}
	argv = append(argv, l.Args...)
	if !found {
		return nil, j.missing(argv, err, "install uv: pip install uv")
	}
	return argv, nil
}

func (j *job) missing(argv []string, err error, hint string) error {
	ran := j.scrub.Scrub(process.Spec{Argv: argv}.CommandLine())
	return &fault.Fault{Server: j.server, Cause: fault.NotFound, Ran: ran, Err: err, Hint: hint}
}
