// Package catalog reads catalogue files, and turns one of their entries with the properties that a
// user gave for it into a launch plan. It is pure: bytes and values in, values out.
//
// # The format
//
// A catalogue file is one JSON object, server name -> entry. Its JSON Schema is [Schema]. An entry's
// fields are written in this order; title to runs and args to note may be in each:
//
//	title, description  shown to people
//	source, license     where the code lives ("owner/repo/folder"), and its SPDX licence
//	runs                how the server runs, which decides the fields that come next (below)
//	args                groups of arguments: [["--dir", "{{dir}}"], ["{{tags}}"]]
//	env                 environment variables, name -> text with placeholders
//	cwd                 working directory, with placeholders
//	properties          what a user can set, name -> property (below)
//	needs               what must be on the machine (below)
//	proven              {"level": "started" | "installed" | "untried", "tools": 3, "megabytes": 40, "date": "2026-11-29"}
//	note                for maintainers, and users who look closer
//
// What runs can say:
//
//	npm      package, version, bin              an npm package and its executable
//	pypi     package, version, bin, with        a Python package; with holds further requirements, as in "mcp<2"
//	go       package, version, bin              a package for go install
//	crate    package, version, bin              a crate for cargo install
//	git      repository, commit, subdir, install, run   a clone built by install, whose server run starts
//	git      repository, commit, subdir, bin, with      a clone that is a Python project with the executable bin
//	remote   url, transport, headers            a server elsewhere; transport "sse" is the old HTTP+SSE one
//	command  command, install                   a program of the machine; install is what pull runs first
//	none     reason                             no way to run it here, and why; naming it tells the reason
//
// A version is an exact one (for go a commit will do); without it the newest is taken. bin is an
// executable of the package; without it, it is the one named like the last part of the package's name,
// or the only one. run is a list of strings; install is a list of such lists, each one command without
// a shell. Both happen in the clone, or in its folder subdir.
//
// A property is a subset of JSON Schema: type ("string", "integer", "number", "boolean", or "array",
// which is a list of strings), enum (of strings), default, description, and beside that required and
// secret (its value is masked wherever people could read it).
//
// A need is a program by the name of its command, beside those that runs implies, and perhaps its
// version: "chromium", "node>=22.14.0", "python==3.13" (any 3.13). Without node, python, java or dotnet
// the server does not run, without the tools of its install it cannot be built; without another need
// it starts, and some of its tools fail. "network" stands for a server that does nothing without one.
//
// # Placeholders
//
// {{name}} in args, env, cwd, url and headers stands for a property's value: a string as it is, a
// number in the spelling that the user gave, true or false, a list joined by commas. An argument that
// is exactly one placeholder of a list becomes one argument for each element. A property that is
// neither given nor has a default is unset, null and an empty list are too: a group of arguments, a
// variable or a header that names an unset property is left out. {{name?}} stands for a value that the
// user gave: a default does not count, and leaves the property unset. {{@state}} is the server's own
// folder for what it keeps between starts. In a url, values are escaped, unless the url is one
// placeholder.
//
// # The other format
//
// An entry without runs, whose command is a list of groups of strings, is in the format of
// CubeSandbox's example gateway: description, command (program and arguments, groups as above), env,
// install, properties. Both kinds of entry may stand in one file. A command that starts with
// "uvx PACKAGE" or "npx -y PACKAGE" becomes pypi or npm, so that its executable is resolved once and
// started without the launcher.
package catalog

import (
	"maps"
	"slices"
)

// Catalog is a set of entries by name. It never changes once made; a nil Catalog is empty.
type Catalog struct {
	entries map[string]func() *Entry
}

// Merge returns the entries of c, each replaced or joined by those of over.
func (c *Catalog) Merge(over *Catalog) *Catalog {
	merged := &Catalog{entries: map[string]func() *Entry{}}
	for _, part := range []*Catalog{c, over} {
		if part != nil {
			maps.Copy(merged.entries, part.entries)
		}
	}
	return merged
}

// Lookup returns the entry of that name.
func (c *Catalog) Lookup(name string) (*Entry, bool) {
	if c == nil || c.entries[name] == nil {
		return nil, false
	}
	entry := c.entries[name]()
	return entry, entry != nil
}

// Names returns all names, sorted.
func (c *Catalog) Names() []string {
	if c == nil {
		return nil
	}
	return sortedKeys(c.entries)
}

// Entries returns all entries, sorted by name.
func (c *Catalog) Entries() []*Entry {
	entries := []*Entry{}
	for _, name := range c.Names() {
		if entry, ok := c.Lookup(name); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// Nearest returns up to three names that name may have been meant for, the nearest first.
func (c *Catalog) Nearest(name string) []string {
	return Nearest(name, c.Names())
}

// sortedKeys gives the order in which maps are gone through, so that messages and plans never depend
// on Go's random one.
func sortedKeys[K ~string, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
