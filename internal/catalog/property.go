package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog/document"
)

// value is a property's value as text: one, or the elements of a list.
type value struct {
	list  bool
	texts []string
	given bool // by the user, and not by default
}

// text is the value where it stands inside other text.
func (v value) text() string { return strings.Join(v.texts, ",") }

// Allowed says what a property takes, for a message: "a string", "a list of strings".
func (p Property) Allowed() string {
	if len(p.Enum) > 0 {
		quoted := make([]string, len(p.Enum))
		for i, e := range p.Enum {
			quoted[i] = fmt.Sprintf("%q", e)
		}
		return "one of " + strings.Join(quoted, ", ")
	}
	switch p.Type {
	case "array":
		return "a list of strings"
	case "integer":
		return "an integer"
	}
	return "a " + p.Type
}

// wholeNumber is how an integer must be spelled: servers read arguments with parsers that refuse 1.0.
var wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)

// read checks a value against the property's type. A problem's field is what stands below the
// property ("[1]"), and its message never holds the value, which may be a secret in the wrong place.
func (p Property) read(raw json.RawMessage) (value, *Problem) {
	if p.Type == "array" {
		return p.readList(raw)
	}
	text, ok := "", false
	switch p.Type {
	case "string":
		text, ok = document.String(raw)
	case "integer", "number":
		text, ok = document.Number(raw)
		if ok && p.Type == "integer" && !wholeNumber.MatchString(text) {
			return value{}, &Problem{Message: "must be an integer, is a number with a fraction or an exponent"}
		}
	case "boolean":
		if _, ok = document.Bool(raw); ok {
			text = strings.TrimSpace(string(raw))
		}
	}
	switch {
	case !ok:
		return value{}, &Problem{Message: "must be " + p.Allowed() + ", is " + document.Kind(raw), Hint: p.hint(raw)}
	case len(p.Enum) > 0 && !slices.Contains(p.Enum, text):
		return value{}, &Problem{Message: "must be " + p.Allowed()}
	case strings.ContainsRune(text, 0):
		return value{}, &Problem{Message: "must not hold a NUL character"}
	}
	return value{texts: []string{text}}, nil
}

func (p Property) readList(raw json.RawMessage) (value, *Problem) {
	elements, ok := document.List(raw)
	if !ok {
		return value{}, &Problem{Message: "must be " + p.Allowed() + ", is " + document.Kind(raw), Hint: p.hint(raw)}
	}
	list := value{list: true}
	for i, element := range elements {
		one, problem := Property{Type: "string"}.read(element)
		if problem != nil {
			problem.Field = fmt.Sprintf("[%d]", i)
			return value{}, problem
		}
		list.texts = append(list.texts, one.texts...)
	}
	return list, nil
}

// hint tells the two mistakes that every reader of a type error makes: quotes and brackets.
func (p Property) hint(raw json.RawMessage) string {
	isString := document.Kind(raw) == "a string"
	switch {
	case p.Type == "array" && isString:
		return `put it in brackets: ["..."]`
	case p.Type == "string" && (document.Kind(raw) == "a number" || document.Kind(raw) == "a boolean"):
		return "put it in quotes"
	case (p.Type == "integer" || p.Type == "number" || p.Type == "boolean") && isString:
		return "write it without quotes"
	}
	return ""
}
