package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

const maxServerName = 128

// entry reads one server. It is false for a server that is refused or left out.
func (p *parser) entry(member document.Member) (Server, bool) {
	e := &entry{parser: p, name: member.Name, fields: map[string]json.RawMessage{}, used: map[string]bool{}, referred: map[string]bool{}}
	before := len(p.problems)
	if !strings.HasPrefix(member.Name, githubPrefix) {
		e.known, _ = p.catalog.Lookup(member.Name)
	}
	e.checkName(member)
	if !e.readFields(member.Value) {
		p.count++
		return Server{}, false
	}
	if e.leftOut() {
		return Server{}, false
	}
	p.count++
	server := Server{Name: e.name, Options: e.options()}
	environment := e.environment()
	server.Launch = e.launch(environment)
	e.fillSecret(&server.Options.OAuth, environment)
	if server.Launch.Env == nil {
		server.Launch.Env = map[string]secret.Value{}
	}
	for name, value := range environment {
		server.Launch.Env[name] = value
	}
	server.Launch.Secrets = append(server.Launch.Secrets, server.Options.OAuth.ClientSecret)
	addSecrets(&server.Launch, environment)
	if server.Launch.Kind == catalog.Remote {
		e.checkRemote(&server, environment)
	} else {
		if server.Options.Protocol == "" {
			server.Options.Protocol = "legacy"
		}
		if e.signsIn {
			e.warn("gateway.oauth has no effect on a server that is no remote one")
		}
	}
	return server, len(p.problems) == before
}

func (e *entry) checkName(member document.Member) {
	switch {
	case e.name == "":
		e.problem("", "has a server with an empty name", "")
	case utf8.RuneCountInString(e.name) > maxServerName:
		e.problem("", fmt.Sprintf("has a name of more than %d characters", maxServerName), "")
	case strings.ContainsFunc(e.name, unicode.IsControl):
		e.problem("", "has a name with control characters", "")
	}
	if member.Repeated {
		e.problem("", "is there twice", "")
	}
}

// readFields is false for an entry that is no object; null counts as an empty one.
func (e *entry) readFields(raw json.RawMessage) bool {
	if document.IsNull(raw) {
		return true
	}
	members, ok := document.Object(raw)
	if !ok {
		e.problem("", "must be an object, is "+document.Kind(raw), "")
	}
	for _, member := range members {
		if member.Repeated {
			e.problem(document.Field("", member.Name), "is there twice", "")
			continue
		}
		e.order = append(e.order, member.Name)
		e.fields[member.Name] = member.Value
	}
	return ok
}

// leftOut honours what clients write into their files to keep a server without starting it.
func (e *entry) leftOut() bool {
	for _, field := range []string{"disabled", "enabled"} {
		raw, ok := e.take(field)
		if !ok {
			continue
		}
		value, isBool := document.Bool(raw)
		if isBool && value == (field == "disabled") {
			e.warn("is left out: %q is %t", field, value)
			return true
		}
		e.used[field] = isBool
	}
	return false
}

// launch finds out which form the entry has and reads it.
func (e *entry) launch(environment map[string]secret.Value) catalog.Launch {
	var forms []string
	for _, field := range []string{"runCmd", "command", "url"} {
		if e.has(field) && (field != "url" || e.known == nil) {
			forms = append(forms, field)
		}
	}
	switch {
	case strings.HasPrefix(e.name, githubPrefix):
		return e.github()
	case len(forms) > 1:
		e.problem("", "has "+strings.Join(forms, " and "), "give one of them")
		return catalog.Launch{}
	case slices.Contains(forms, "runCmd"):
		launch := catalog.Launch{Kind: catalog.Shell, Run: e.program("runCmd"), Dir: e.folder()}
		e.warnUnknown("field", "runCmd", "envs", "env", "cwd", "gateway")
		return launch
	case slices.Contains(forms, "command"):
		launch := catalog.Launch{Kind: catalog.Command, Command: e.program("command"), Args: e.texts("args"), Dir: e.folder()}
		e.warnUnknown("field", "command", "args", "envs", "env", "cwd", "gateway")
		return launch
	case e.known != nil:
		return e.catalogued()
	case slices.Contains(forms, "url"):
		return e.remote(environment)
	}
	e.problem("", "is not in the catalogue", e.unknownHint())
	return catalog.Launch{}
}

func (e *entry) unknownHint() string {
	if e.name == wrapper {
		return "an object of that name is a client's configuration, and must be the only key"
	}
	near := e.catalog.Nearest(e.name)
	if len(near) == 0 {
		return "see mcp-gateway catalog, or give runCmd, command or url"
	}
	for i, name := range near {
		near[i] = document.Quote(name)
	}
	return "did you mean " + strings.Join(near, " or ") + "? see mcp-gateway catalog"
}

// program takes the field that says what is run.
func (e *entry) program(field string) string {
	before := len(e.problems)
	text := e.text(field)
	if strings.TrimSpace(text) == "" && len(e.problems) == before {
		e.problem(field, "must not be empty", "")
	}
	return text
}

func (e *entry) folder() string {
	if !e.has("cwd") {
		e.used["cwd"] = true
		return ""
	}
	return e.program("cwd")
}

const githubPrefix = "github/"

var githubPart = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (e *entry) github() catalog.Launch {
	parts := strings.Split(strings.TrimPrefix(e.name, githubPrefix), "/")
	malformed := func(part string) bool { return part == "." || part == ".." || !githubPart.MatchString(part) }
	if len(parts) != 2 || slices.ContainsFunc(parts, malformed) {
		e.problem("", "is not of the form github/<owner>/<repo>, each part of letters, digits, _, . and -", "")
		return catalog.Launch{}
	}
	launch := catalog.Launch{Kind: catalog.GitHub, Owner: parts[0], Repo: parts[1], Install: e.text("installCmd")}
	if e.has("runCmd") {
		launch.Run = e.program("runCmd")
	} else {
		e.used["runCmd"] = true
		e.problem("runCmd", "is missing, must be the command that starts the server in the clone", "")
	}
	e.warnUnknown("field", "runCmd", "installCmd", "envs", "env", "gateway")
	return launch
}

// catalogued fills the catalogue's entry with the fields that it declares.
func (e *entry) catalogued() catalog.Launch {
	properties := map[string]json.RawMessage{}
	allowed := []string{"envs", "gateway"}
	for name := range e.known.Properties {
		allowed = append(allowed, name)
		if raw, ok := e.fields[name]; ok {
			properties[name] = raw
			e.used[name] = true
		}
	}
	launch, problems := e.known.Launch(properties)
	for _, problem := range problems {
		e.problem(problem.Field, problem.Message, problem.Hint)
	}
	e.warnUnknown("property", allowed...)
	return launch
}

// warnUnknown warns of every field that nothing has taken.
func (e *entry) warnUnknown(what string, allowed ...string) {
	for _, name := range e.order {
		if e.used[name] {
			continue
		}
		hint := ""
		if near := catalog.Nearest(name, allowed); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %q?)", near[0])
		} else if name == "url" {
			hint = " (a server of your own needs a name that the catalogue does not have)"
		}
		e.warn("unknown %s %s is ignored%s", what, document.Quote(name), hint)
	}
}
