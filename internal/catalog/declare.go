package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog/document"
)

// strictProperty are the only fields that a property of our format has. The other format's reader
// takes what it knows and passes over the rest.
const (
	strictProperty  = true
	lenientProperty = false
)

var propertyFields = []string{"type", "items", "enum", "default", "required", "secret", "description"}

// reservedKeys stand beside the properties in a configuration.
var reservedKeys = []string{"envs", "gateway"}

var propertyTypes = []string{"string", "integer", "number", "boolean", "array"}

func (r *reader) properties(strict bool) map[string]Property {
	properties := map[string]Property{}
	if !r.has("properties") {
		return properties
	}
	members, ok := document.Object(r.fields["properties"])
	if !ok {
		r.report("properties", "must be an object, is "+document.Kind(r.fields["properties"]))
		return properties
	}
	for _, member := range members {
		field := document.Field("properties", member.Name)
		if member.Repeated {
			r.report(field, "is there twice")
		}
		if !propertyName.MatchString(member.Name) {
			r.report(field, "must be named with letters, digits, _, - and .")
		}
		if strict && slices.Contains(reservedKeys, member.Name) {
			r.report(field, "is what every server of a configuration may have, whatever its entry says")
		}
		properties[member.Name] = r.property(field, member.Value, strict)
	}
	return properties
}

func (r *reader) property(field string, raw json.RawMessage, strict bool) Property {
	var p Property
	members, ok := document.Object(raw)
	if !ok {
		r.report(field, "must be an object, is "+document.Kind(raw))
		return p
	}
	for _, member := range members {
		at := document.Field(field, member.Name)
		ok, message := true, ""
		switch member.Name {
		case "type":
			p.Type, ok = document.String(member.Value)
			ok, message = ok && slices.Contains(propertyTypes, p.Type), "must be one of "+strings.Join(propertyTypes, ", ")
		case "required":
			p.Required, ok = document.Bool(member.Value)
			message = "must be true or false"
		case "secret":
			p.Secret, ok = document.Bool(member.Value)
			message = "must be true or false"
		case "description":
			p.Description, _ = r.oneText(at, member.Value)
		case "enum":
			p.Enum = r.oneList(at, member.Value)
		case "items":
			ok, message = isStringType(member.Value), `must be {"type": "string"}`
		case "default":
			p.Default = member.Value
		default:
			if strict {
				r.reportNear(at, "is not one of "+strings.Join(propertyFields, ", "), member.Name, propertyFields)
			}
		}
		if !ok {
			r.report(at, message)
		}
	}
	r.checkProperty(field, p)
	return p
}

func (r *reader) checkProperty(field string, p Property) {
	switch {
	case p.Type == "":
		r.report(field+".type", "is missing, must be one of "+strings.Join(propertyTypes, ", "))
		return
	case p.Enum != nil && p.Type != "string":
		r.report(field+".enum", "goes with strings only")
	}
	if !document.IsNull(p.Default) {
		if _, problem := p.read(p.Default); problem != nil {
			r.report(field+".default"+problem.Field, problem.Message)
		}
	}
}

func isStringType(raw json.RawMessage) bool {
	members, ok := document.Object(raw)
	if !ok || len(members) != 1 || members[0].Name != "type" {
		return false
	}
	name, _ := document.String(members[0].Value)
	return name == "string"
}

// streamableHTTP is the transport that a remote server has when its entry names none.
const streamableHTTP = "streamable-http"

var (
	commitName  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	versionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]*$`)
	need        = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*((>=|==)[0-9]+(\.[0-9]+)*)?$`)
)

// checkOwn checks what the types alone do not say.
func (r *reader) checkOwn(e *Entry) {
	if e.Version != "" && !versionName.MatchString(e.Version) {
		r.report("version", "must be one exact version")
	}
	if e.Commit != "" && !commitName.MatchString(e.Commit) {
		r.report("commit", "must be 40 hex digits")
	}
	if e.Runs == Git && (len(e.Run) > 0) == (e.Bin != "") {
		r.report("run", "must be there, or bin, and not both")
	}
	if e.Transport != "" && e.Transport != "sse" && e.Transport != streamableHTTP {
		r.report("transport", "must be sse or streamable-http")
	}
	if e.Runs == Remote && (e.Args != nil || e.Env != nil || e.Cwd != "") {
		r.report("", "args, env and cwd have no meaning for a server that is elsewhere")
	}
	if e.Runs == Git && len(e.Run) > 0 && len(e.With) > 0 {
		r.report("with", "goes with bin, not with run")
	}
	for i, text := range e.Needs {
		if !need.MatchString(text) {
			r.report(fmt.Sprintf("needs[%d]", i), "must be the name of a command, which >= or == and a version may follow without blanks")
		}
	}
	for i, step := range e.Install {
		if len(step) == 0 {
			r.report(fmt.Sprintf("install[%d]", i), "must not be empty")
		}
	}
}

// checkPlaceholders finds placeholders of properties that are not declared, and text that looks like
// a placeholder and is none.
func (r *reader) checkPlaceholders(e *Entry) {
	for i, group := range e.Args {
		for j, arg := range group {
			r.checkTemplate(e, fmt.Sprintf("args[%d][%d]", i, j), arg)
		}
	}
	for _, name := range sortedKeys(e.Env) {
		r.checkTemplate(e, document.Field("env", name), e.Env[name])
	}
	for _, name := range sortedKeys(e.Headers) {
		r.checkTemplate(e, document.Field("headers", name), e.Headers[name])
	}
	r.checkTemplate(e, "cwd", e.Cwd)
	r.checkTemplate(e, "url", e.URL)
	for _, name := range names(e.URL) {
		p, declared := e.Properties[name]
		mayBeUnset := !p.Required
		if !document.IsNull(p.Default) {
			mayBeUnset = strings.Contains(e.URL, "{{"+name+"?}}")
		}
		if declared && mayBeUnset {
			r.report("url", fmt.Sprintf("names the property %q, which may be unset", name))
		}
	}
}

func (r *reader) checkTemplate(e *Entry, field, text string) {
	for _, name := range names(text) {
		if _, declared := e.Properties[name]; !declared {
			r.report(field, fmt.Sprintf("names the property %q, which is not declared", name))
		}
	}
	if strings.Contains(placeholder.ReplaceAllString(text, ""), "{{") {
		r.report(field, "holds {{ without a placeholder such as {{name}}")
	}
}
