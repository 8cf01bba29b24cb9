package catalog

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"mcp-gateway/internal/catalog/document"
)

// Schema is the JSON Schema of a catalogue file.
//
//go:embed schema.json
var Schema []byte

// Parse reads a catalogue file. An error is an *Error with all problems, each with entry and field.
func Parse(data []byte) (*Catalog, error) {
	raw, fault := document.Check(data)
	if fault != nil {
		return nil, &Error{Problems: []Problem{{Message: fault.Error()}}}
	}
	members, ok := document.Object(raw)
	if !ok {
		return nil, &Error{Problems: []Problem{{Message: "must be an object of entries, is " + document.Kind(raw)}}}
	}
	catalog := &Catalog{entries: map[string]func() *Entry{}}
	var problems []Problem
	for _, member := range members {
		entry, found := parseEntry(member)
		catalog.entries[member.Name] = func() *Entry { return entry }
		problems = append(problems, found...)
	}
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return catalog, nil
}

// Open reads the embedded catalogue, which tests have parsed: every start of the program reads it and
// needs a few of its entries, so each is read when it is first asked for. An entry that has a fault is
// not there. Files from elsewhere go through Parse.
func Open(data []byte) (*Catalog, error) {
	members, ok := document.Object(data)
	if !ok {
		return nil, &Error{Problems: []Problem{{Message: "must be an object of entries"}}}
	}
	catalog := &Catalog{entries: make(map[string]func() *Entry, len(members))}
	for _, member := range members {
		catalog.entries[member.Name] = sync.OnceValue(func() *Entry {
			entry, problems := parseEntry(member)
			if len(problems) > 0 {
				return nil
			}
			return entry
		})
	}
	return catalog, nil
}

func parseEntry(member document.Member) (*Entry, []Problem) {
	entry := &Entry{Name: member.Name, Proven: Proven{Level: Untried}}
	r := &reader{entry: member.Name, fields: map[string]json.RawMessage{}}
	if member.Repeated {
		r.report("", "is there twice")
	}
	if member.Name == "" {
		r.report("", "has no name")
	}
	fields, ok := document.Object(member.Value)
	if !ok {
		r.report("", "must be an object, is "+document.Kind(member.Value))
		return entry, r.problems
	}
	for _, field := range fields {
		if field.Repeated {
			r.report(document.Field("", field.Name), "is there twice")
		}
		r.fields[field.Name] = field.Value
	}
	switch {
	case r.has("runs"):
		r.own(entry)
	case document.Kind(r.fields["command"]) == "a list":
		r.cube(entry)
	default:
		r.report("runs", "is missing, must be one of "+strings.Join(kinds(), ", "))
	}
	return entry, r.problems
}

// The fields of our format: those of every entry, and those that go with what runs says.
var (
	commonFields = []string{"title", "description", "source", "license", "runs", "properties", "args", "env", "cwd", "needs", "proven", "note"}
	kindFields   = map[Kind][]string{
		NPM:     {"package", "version", "bin"},
		PyPI:    {"package", "version", "bin", "with"},
		Go:      {"package", "version", "bin"},
		Crate:   {"package", "version", "bin"},
		Git:     {"repository", "commit", "subdir", "install", "run", "bin", "with"},
		Remote:  {"url", "headers", "transport"},
		Command: {"command", "install"},
		None:    {"reason"},
	}
	requiredFields = map[Kind][]string{
		NPM: {"package"}, PyPI: {"package"}, Go: {"package"}, Crate: {"package"},
		Git: {"repository", "commit"}, Remote: {"url"}, Command: {"command"}, None: {"reason"},
	}
)

func kinds() []string {
	var names []string
	for _, kind := range sortedKeys(kindFields) {
		names = append(names, string(kind))
	}
	return names
}

// own reads an entry of our format.
func (r *reader) own(e *Entry) {
	e.Runs = Kind(r.text("runs"))
	allowed, ok := kindFields[e.Runs]
	if !ok {
		r.reportNear("runs", "must be one of "+strings.Join(kinds(), ", "), string(e.Runs), kinds())
		return
	}
	r.onlyFields(append(slices.Clone(commonFields), allowed...), "an entry that runs "+string(e.Runs))
	for _, name := range requiredFields[e.Runs] {
		if !r.has(name) {
			r.report(name, "is missing")
		}
	}
	e.Title, e.Description = r.text("title"), r.text("description")
	e.Source, e.License, e.Note = r.text("source"), r.text("license"), r.text("note")
	e.Package, e.Version, e.Bin, e.With = r.text("package"), r.text("version"), r.text("bin"), r.texts("with")
	e.Repository, e.Commit, e.Subdir = r.text("repository"), r.text("commit"), r.text("subdir")
	e.Run, e.Install, e.Command = r.texts("run"), r.groups("install"), r.text("command")
	e.URL, e.Headers, e.Transport = r.text("url"), r.textMap("headers"), r.text("transport")
	e.Reason, e.Needs, e.Proven = r.text("reason"), r.texts("needs"), r.proven()
	e.Properties = r.properties(strictProperty)
	e.Args, e.Env, e.Cwd = r.groups("args"), r.textMap("env"), r.text("cwd")
	r.checkOwn(e)
	r.checkPlaceholders(e)
}

// onlyFields reports fields that nobody would read, since in a catalogue they are typing errors.
func (r *reader) onlyFields(allowed []string, where string) {
	for _, name := range sortedKeys(r.fields) {
		if slices.Contains(allowed, name) {
			continue
		}
		r.reportNear(document.Field("", name), "does not belong to "+where, name, allowed)
	}
}

func (r *reader) proven() Proven {
	proven := Proven{Level: Untried}
	if !r.has("proven") {
		return proven
	}
	members, ok := document.Object(r.fields["proven"])
	if !ok {
		r.report("proven", "must be an object, is "+document.Kind(r.fields["proven"]))
		return proven
	}
	for _, member := range members {
		ok := false
		switch member.Name {
		case "level":
			proven.Level, ok = document.String(member.Value)
			ok = ok && slices.Contains([]string{Started, Installed, Untried}, proven.Level)
		case "date":
			proven.Date, ok = document.String(member.Value)
		case "tools":
			ok = json.Unmarshal(member.Value, &proven.Tools) == nil && proven.Tools >= 0
		case "megabytes":
			ok = json.Unmarshal(member.Value, &proven.Megabytes) == nil && proven.Megabytes >= 0
		}
		if !ok {
			r.report(document.Field("proven", member.Name), `must be "level" (started, installed or untried), "tools" and "megabytes" (numbers) or "date" (a string)`)
		}
	}
	return proven
}
