package catalog

import (
	"regexp"
	"slices"
	"strings"
)

// cube reads an entry in the format of CubeSandbox's example gateway. What it does not know it
// passes over, since such files were written for another program.
func (r *reader) cube(e *Entry) {
	e.Description = r.text("description")
	e.Properties = r.properties(lenientProperty)
	e.Env, e.Install = r.textMap("env"), r.groups("install")
	groups := r.groups("command")
	if len(r.problems) > 0 {
		return
	}
	if len(groups) == 0 || len(groups[0]) == 0 || groups[0][0] == "" || placeholder.MatchString(groups[0][0]) {
		r.report("command[0][0]", "must be the program")
		return
	}
	e.Runs, e.Command, e.Args = Command, groups[0][0], joinGroups(groups[0][1:], groups[1:])
	e.profit(groups)
	r.declareRest(e)
}

// joinGroups keeps what follows the program as a group of its own, so that an unset property in it
// never takes the program away.
func joinGroups(first []string, rest [][]string) [][]string {
	var groups [][]string
	if len(first) > 0 {
		groups = append(groups, first)
	}
	return append(groups, rest...)
}

// declareRest declares the properties that the entry names but does not list: optional strings.
func (r *reader) declareRest(e *Entry) {
	var texts []string
	for _, group := range e.Args {
		texts = append(texts, group...)
	}
	for _, name := range sortedKeys(e.Env) {
		texts = append(texts, e.Env[name])
	}
	for _, text := range texts {
		for _, name := range names(text) {
			if _, declared := e.Properties[name]; !declared {
				e.Properties[name] = Property{Type: "string"}
			}
		}
	}
}

// profit turns an entry that starts a package by its launcher into one that runs the package.
func (e *Entry) profit(groups [][]string) {
	first := groups[0]
	kind, at := NPM, 1
	switch {
	case first[0] == "uvx":
		kind = PyPI
	case first[0] == "npx":
		for at < len(first) && (first[at] == "-y" || first[at] == "--yes") {
			at++
		}
	default:
		return
	}
	if at >= len(first) {
		return
	}
	name, version, ok := splitPackage(kind, first[at])
	if !ok {
		return
	}
	e.Runs, e.Command = kind, ""
	e.Package, e.Version = name, version
	e.Args = joinGroups(first[at+1:], groups[1:])
	e.Install = slices.DeleteFunc(e.Install, func(step []string) bool { return fetchesOnly(step, first[at]) })
}

var (
	pythonPackage = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)(?:(?:==|@)([0-9][A-Za-z0-9._+!-]*|latest))?$`)
	npmPackage    = regexp.MustCompile(`^((?:@[a-z0-9~._-]+/)?[a-z0-9~][a-z0-9~._-]*)(?:@([0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+-]*|latest))?$`)
)

// splitPackage parts a launcher's argument into package and exact version. Anything else, such as a
// range, an option or a path, is left to the launcher.
func splitPackage(kind Kind, spec string) (name, version string, ok bool) {
	pattern := npmPackage
	if kind == PyPI {
		pattern = pythonPackage
	}
	match := pattern.FindStringSubmatch(spec)
	if match == nil {
		return "", "", false
	}
	return match[1], strings.TrimPrefix(match[2], "latest"), true
}

// fetchesOnly says whether an install step does no more than fetch the package, which installing the
// package does as well.
func fetchesOnly(step []string, spec string) bool {
	return slices.Equal(step, []string{"uv", "tool", "install", spec}) ||
		slices.Equal(step, []string{"npm", "cache", "add", spec})
}
