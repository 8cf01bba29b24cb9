// Package config turns the bytes of --config into checked servers and warnings. It is pure: it
// touches no clock, file, process, network or environment, so everything is refused or accepted
// before anything starts.
//
// Text from the document other than names never gets into a message, since any of it may be a
// secret. $ and ${VAR} in values stay as they are: nothing is expanded.
package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

// MaxServers is how many servers one gateway starts.
const MaxServers = 64

// Config is a checked configuration.
type Config struct {
	Servers  []Server // sorted by name
	Warnings []string // one line each, for stderr and the log
}

// Server is one checked entry.
type Server struct {
	Name    string
	Launch  catalog.Launch
	Options catalog.Options
}

// Parse checks a configuration and resolves its entries with the catalogue. An error is an *Error
// that holds all problems.
func Parse(data []byte, cat *catalog.Catalog) (*Config, error) {
	raw, fault := document.Check(data)
	if fault != nil {
		return nil, &Error{Problems: []Problem{{Message: fault.Error()}}}
	}
	members, ok := document.Object(raw)
	if !ok {
		return nil, &Error{Problems: []Problem{{Message: "must be an object of servers, is " + document.Kind(raw)}}}
	}
	p := &parser{catalog: cat}
	config := &Config{Servers: []Server{}}
	for _, member := range unwrap(members) {
		if server, ok := p.entry(member); ok {
			config.Servers = append(config.Servers, server)
		}
	}
	if n := p.count; n > MaxServers {
		tooMany := Problem{Message: fmt.Sprintf("holds %d servers, at most %d are allowed", n, MaxServers)}
		p.problems = append([]Problem{tooMany}, p.problems...)
	}
	if len(p.problems) > 0 {
		return nil, &Error{Problems: p.problems}
	}
	slices.SortFunc(config.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	config.Warnings = p.warnings
	return config, nil
}

// unwrap returns the entries of a client's configuration file, {"mcpServers": {...}}. A server that
// happens to have that name says how it runs.
func unwrap(members []document.Member) []document.Member {
	if len(members) != 1 || members[0].Name != wrapper {
		return members
	}
	if document.IsNull(members[0].Value) {
		return nil
	}
	inner, ok := document.Object(members[0].Value)
	if !ok {
		return members
	}
	for _, m := range inner {
		if _, isText := document.String(m.Value); isText && (m.Name == "runCmd" || m.Name == "command" || m.Name == "url") {
			return members
		}
	}
	return inner
}

const wrapper = "mcpServers"

// parser gathers what is said about all entries.
type parser struct {
	catalog  *catalog.Catalog
	count    int // entries that are not disabled
	problems []Problem
	warnings []string
}

// Secrets returns every secret value of the configuration, for a scrubber: values of variables,
// headers and secret properties, and the parts of them that occur alone.
func (c *Config) Secrets() []secret.Value {
	var values []secret.Value
	for _, server := range c.Servers {
		values = append(values, server.Launch.Secrets...)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// entry is one server while it is read.
type entry struct {
	*parser
	name   string
	order  []string
	fields map[string]json.RawMessage
	known  *catalog.Entry // nil when the catalogue does not have the name
	used   map[string]bool

	referred map[string]bool // variables that headers name
	signsIn  bool            // something is said of its sign-in
}

func (e *entry) problem(field, message, hint string) {
	e.problems = append(e.problems, Problem{Server: e.name, Field: field, Message: message, Hint: hint})
}

func (e *entry) warn(format string, args ...any) {
	e.warnings = append(e.warnings, fmt.Sprintf("server %s: ", document.Quote(e.name))+fmt.Sprintf(format, args...))
}

// declared says whether the catalogue's entry of this name has such a property, which then wins over
// every meaning that the field has elsewhere.
func (e *entry) declared(field string) bool {
	if e.known == nil {
		return false
	}
	_, ok := e.known.Properties[field]
	return ok
}

// has says whether the field is there with its meaning for the gateway. null counts as absent.
func (e *entry) has(field string) bool {
	return !e.declared(field) && !document.IsNull(e.fields[field])
}

// take returns such a field and marks it as understood.
func (e *entry) take(field string) (json.RawMessage, bool) {
	if e.declared(field) {
		return nil, false
	}
	e.used[field] = true
	return e.fields[field], e.has(field)
}

// text takes a field that must be a string which a process can be given.
func (e *entry) text(field string) string {
	raw, ok := e.take(field)
	if !ok {
		return ""
	}
	return e.oneText(field, raw)
}

func (e *entry) oneText(field string, raw json.RawMessage) string {
	text, ok := document.String(raw)
	if !ok {
		hint := ""
		if kind := document.Kind(raw); kind == "a number" || kind == "a boolean" {
			hint = "put it in quotes"
		}
		e.problem(field, "must be a string, is "+document.Kind(raw), hint)
		return ""
	}
	if holdsNUL(text) {
		e.problem(field, "must not hold a NUL character", "")
	}
	return text
}

// texts takes a field that must be a list of strings.
func (e *entry) texts(field string) []string {
	raw, ok := e.take(field)
	if !ok {
		return nil
	}
	return e.list(field, raw)
}

func (e *entry) list(field string, raw json.RawMessage) []string {
	elements, ok := document.List(raw)
	if !ok {
		e.problem(field, "must be a list of strings, is "+document.Kind(raw), "")
		return nil
	}
	var texts []string
	for i, element := range elements {
		texts = append(texts, e.oneText(fmt.Sprintf("%s[%d]", field, i), element))
	}
	return texts
}

// object returns the members of a value that must be an object, and reports those that come twice.
func (e *entry) object(field string, raw json.RawMessage, of string) []document.Member {
	members, ok := document.Object(raw)
	if !ok {
		e.problem(field, "must be an object"+of+", is "+document.Kind(raw), "")
	}
	for _, member := range members {
		if member.Repeated {
			e.problem(document.Field(field, member.Name), "is there twice", "")
		}
	}
	return members
}
