package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/process"
)

// Interpreters are what a server runs on. Any other need that an entry names is a program that its
// tools use, or the network: without one the server starts all the same.
var interpreters = []string{"node", "python", "java", "dotnet"}

// lack is something that is missing, and how to get it.
type lack struct {
	err  error
	hint string
}

// require checks that everything is there which the server needs to be installed and to run. The
// error, a *fault.Fault, names all that is missing.
func (j *job) require(ctx context.Context) error {
	var lacks []lack
	seen := map[string]bool{}
	for _, n := range j.requirements() {
		if seen[n.name] && len(n.version) == 0 {
			continue
		}
		seen[n.name] = true
		if l := j.lacks(ctx, n); l != nil {
			lacks = append(lacks, *l)
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	var errs, hints []string
	for _, l := range lacks {
		errs = append(errs, l.err.Error())
		if l.hint != "" && !slices.Contains(hints, l.hint) {
			hints = append(hints, l.hint)
		}
	}
	return j.missing(errors.New(strings.Join(errs, "; ")), strings.Join(hints, "; "))
}

// requirements lists what the server must have: the interpreters that its entry names, those that its
// kind implies, and the tools that build it.
func (j *job) requirements() []need {
	var needs []need
	for _, text := range j.launch.Needs {
		if n := parseNeed(text); slices.Contains(interpreters, n.name) {
			needs = append(needs, n)
		}
	}
	implied := map[catalog.Kind][]string{
		catalog.NPM: {"node", "npm"}, catalog.PyPI: {"python"}, catalog.Go: {"go"}, catalog.Crate: {"cargo"},
	}[j.launch.Kind]
	if j.launch.Kind == catalog.Git && len(j.launch.Program) == 0 {
		implied = []string{"python"}
	}
	for _, name := range implied {
		needs = append(needs, need{name: name})
	}
	if j.launch.Kind == catalog.Command {
		return needs // its steps may be for another machine: they run where its program is missing
	}
	for _, step := range j.launch.Steps {
		if len(step) > 0 && !strings.Contains(step[0], "/") {
			needs = append(needs, need{name: step[0]})
		}
	}
	return needs
}

// lacks says what is missing for one need, or nil.
func (j *job) lacks(ctx context.Context, n need) *lack {
	if n.name == "python" {
		_, l := j.python(ctx)
		return l
	}
	path, err := process.LookPath(n.name, "", j.env)
	if err != nil {
		return &lack{err: fmt.Errorf("needs %s: %w", n, err), hint: hintFor(n)}
	}
	if len(n.version) == 0 {
		return nil
	}
	if version := j.versionOf(ctx, n, path); version != nil && !n.meets(version) {
		return &lack{err: fmt.Errorf("needs %s: %q is %s", n, path, dotted(version)), hint: hintFor(n)}
	}
	return nil
}

// Missing names the needs of a server that are not on the machine and without which some of its tools
// fail.
func (i *Installer) Missing(s Server) []string {
	j := i.job(s)
	var missing []string
	for _, text := range j.launch.Needs {
		n := parseNeed(text)
		if n.name == "network" || slices.Contains(interpreters, n.name) {
			continue
		}
		if _, err := process.LookPath(n.name, "", j.env); err != nil {
			missing = append(missing, n.name)
		}
	}
	return missing
}
