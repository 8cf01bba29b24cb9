package catalog

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mcp-gateway/internal/secret"
)

// placeholder is {{name}} or {{name?}}; {{@state}} is the only name with an @.
var placeholder = regexp.MustCompile(`\{\{(@state|[A-Za-z0-9_.-]+\??)\}\}`)

// propertyName is what a placeholder can name.
var propertyName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

const stateName = "@state"

// stateMark stands for the server's state folder until the plan is run. It holds NUL, which no value
// of a user may, so nobody else's text is ever taken for it; and a plan that is run with it in place
// fails at once.
const stateMark = "\x00state\x00"

// names lists the properties that a text names.
func names(text string) []string {
	var found []string
	for _, match := range placeholder.FindAllStringSubmatch(text, -1) {
		if match[1] != stateName {
			found = append(found, strings.TrimSuffix(match[1], "?"))
		}
	}
	return found
}

// values are the set properties of one launch.
type values map[string]value

// of returns the value that a placeholder stands for. A default does not count where the name ends in ?.
func (vs values) of(reference string) (value, bool) {
	name, givenOnly := strings.CutSuffix(reference, "?")
	v, set := vs[name]
	return v, set && (v.given || !givenOnly)
}

// fill replaces the placeholders of a text. It is false when the text names an unset property.
func (vs values) fill(text string, escape func(string, int) string) (string, bool) {
	var out strings.Builder
	at := 0
	for _, match := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[at:match[0]])
		reference := text[match[2]:match[3]]
		at = match[1]
		if reference == stateName {
			out.WriteString(stateMark)
			continue
		}
		v, set := vs.of(reference)
		if !set {
			return "", false
		}
		if escape != nil {
			out.WriteString(escape(v.text(), match[0]))
		} else {
			out.WriteString(v.text())
		}
	}
	out.WriteString(text[at:])
	return out.String(), true
}

// fillGroups fills groups of arguments and leaves out those that name an unset property.
func (vs values) fillGroups(groups [][]string) []string {
	var args []string
	for _, group := range groups {
		if filled, ok := vs.fillGroup(group); ok {
			args = append(args, filled...)
		}
	}
	return args
}

func (vs values) fillGroup(group []string) ([]string, bool) {
	var args []string
	for _, arg := range group {
		if match := placeholder.FindStringSubmatch(arg); match != nil && match[0] == arg {
			if v, set := vs.of(match[1]); set && v.list {
				args = append(args, v.texts...)
				continue
			}
		}
		text, ok := vs.fill(arg, nil)
		if !ok {
			return nil, false
		}
		args = append(args, text)
	}
	return args, true
}

// fillMap fills variables or headers and leaves out those that name an unset property.
func (vs values) fillMap(templates map[string]string) map[string]secret.Value {
	filled := map[string]secret.Value{}
	for name, template := range templates {
		if text, ok := vs.fill(template, nil); ok {
			filled[name] = secret.Value(text)
		}
	}
	return filled
}

// fillURL escapes what it fills in, so that a value never changes the URL's structure; a URL that is
// one placeholder is the user's as a whole.
func (vs values) fillURL(template string) (string, bool) {
	if match := placeholder.FindString(template); match == template {
		return vs.fill(template, nil)
	}
	query := strings.IndexByte(template, '?')
	return vs.fill(template, func(text string, at int) string {
		if query >= 0 && at > query {
			return url.QueryEscape(text)
		}
		return url.PathEscape(text)
	})
}

// NeedsState says whether the plan names the server's own state folder.
func (l Launch) NeedsState() bool {
	marked := func(text string) bool { return strings.Contains(text, stateMark) }
	for _, v := range l.Env {
		if marked(v.Reveal()) {
			return true
		}
	}
	return marked(l.Dir) || slices.ContainsFunc(l.Args, marked)
}

// WithState returns the plan with the server's own state folder filled in wherever the entry names
// it ({{@state}}). Every plan must pass here before it is run or shown.
func (l Launch) WithState(dir string) Launch {
	fill := func(text string) string { return strings.ReplaceAll(text, stateMark, dir) }
	l.Dir = fill(l.Dir)
	l.Args = slices.Clone(l.Args)
	for i := range l.Args {
		l.Args[i] = fill(l.Args[i])
	}
	l.Env = maps.Clone(l.Env)
	for name, v := range l.Env {
		l.Env[name] = secret.Value(fill(v.Reveal()))
	}
	return l
}
