package catalog

import (
	"encoding/json"
	"fmt"

	"mcp-gateway/internal/catalog/document"
)

// reader takes the fields of one entry out of their JSON and gathers what is wrong with them.
type reader struct {
	entry    string
	fields   map[string]json.RawMessage
	problems []Problem
}

func (r *reader) report(field, message string) {
	r.problems = append(r.problems, Problem{Entry: r.entry, Field: field, Message: message})
}

// reportNear adds which of the names allowed here may have been meant.
func (r *reader) reportNear(field, message, name string, allowed []string) {
	problem := Problem{Entry: r.entry, Field: field, Message: message}
	if near := Nearest(name, allowed); len(near) > 0 {
		problem.Hint = fmt.Sprintf("did you mean %q?", near[0])
	}
	r.problems = append(r.problems, problem)
}

func (r *reader) has(name string) bool { return !document.IsNull(r.fields[name]) }

// text reads a string; an absent one is empty, one that is there must not be.
func (r *reader) text(name string) string {
	if !r.has(name) {
		return ""
	}
	text, ok := r.oneText(name, r.fields[name])
	if ok && text == "" {
		r.report(name, "must not be empty")
	}
	return text
}

func (r *reader) oneText(field string, raw json.RawMessage) (string, bool) {
	text, ok := document.String(raw)
	if !ok {
		r.report(field, "must be a string, is "+document.Kind(raw))
		return "", false
	}
	for _, b := range []byte(text) {
		if b == 0 {
			r.report(field, "must not hold a NUL character")
			return "", false
		}
	}
	return text, true
}

func (r *reader) texts(name string) []string {
	if !r.has(name) {
		return nil
	}
	return r.oneList(name, r.fields[name])
}

func (r *reader) oneList(field string, raw json.RawMessage) []string {
	elements, ok := document.List(raw)
	if !ok {
		r.report(field, "must be a list of strings, is "+document.Kind(raw))
		return nil
	}
	var texts []string
	for i, element := range elements {
		text, _ := r.oneText(fmt.Sprintf("%s[%d]", field, i), element)
		texts = append(texts, text)
	}
	return texts
}

// groups reads a list of lists of strings.
func (r *reader) groups(name string) [][]string {
	if !r.has(name) {
		return nil
	}
	lists, ok := document.List(r.fields[name])
	if !ok {
		r.report(name, "must be a list of lists of strings, is "+document.Kind(r.fields[name]))
		return nil
	}
	var groups [][]string
	for i, list := range lists {
		groups = append(groups, r.oneList(fmt.Sprintf("%s[%d]", name, i), list))
	}
	return groups
}

func (r *reader) textMap(name string) map[string]string {
	if !r.has(name) {
		return nil
	}
	members, ok := document.Object(r.fields[name])
	if !ok {
		r.report(name, "must be an object of strings, is "+document.Kind(r.fields[name]))
		return nil
	}
	texts := map[string]string{}
	for _, member := range members {
		field := document.Field(name, member.Name)
		if member.Repeated {
			r.report(field, "is there twice")
		}
		text, _ := r.oneText(field, member.Value)
		texts[member.Name] = text
		var message string
		if name == "env" {
			message = CheckEnvName(member.Name)
		} else {
			message = CheckHeader(member.Name, text)
		}
		if message != "" {
			r.report(field, message)
		}
	}
	return texts
}
