package cli

import (
	"encoding/json"
	"strings"
)

// argumentTypes knows which JSON types a tool's schema allows for each argument.
type argumentTypes struct{ root map[string]json.RawMessage }

func newArgumentTypes(schema json.RawMessage) argumentTypes {
	var root map[string]json.RawMessage
	json.Unmarshal(schema, &root) // a schema that cannot be read allows everything
	return argumentTypes{root: root}
}

// value turns the text of an argument into JSON. Numbers keep their spelling.
func (a argumentTypes) value(name, text string) json.RawMessage {
	quoted := quote(text)
	trimmed := strings.TrimSpace(text)
	if !json.Valid([]byte(trimmed)) {
		return quoted
	}
	var properties map[string]json.RawMessage
	json.Unmarshal(a.root["properties"], &properties)
	allowed := a.allowed(properties[name], 0)
	kind := jsonType(trimmed)
	if allowed != nil && !allowed[kind] && !(kind == "number" && allowed["integer"] && isInteger(trimmed)) {
		return quoted
	}
	// Where text is allowed too, JSON text in quotes is just text that begins with a quote.
	if kind == "string" && allowed != nil {
		return quoted
	}
	return json.RawMessage(trimmed)
}

func quote(text string) json.RawMessage {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(text)
	return json.RawMessage(strings.TrimSpace(b.String()))
}

// mostNesting bounds how far references are followed: a schema may refer to itself.
const mostNesting = 16

// allowed returns the types that a schema allows, or nil when it allows any.
func (a argumentTypes) allowed(schema json.RawMessage, depth int) map[string]bool {
	var s struct {
		Type  json.RawMessage   `json:"type"`
		Ref   string            `json:"$ref"`
		AnyOf []json.RawMessage `json:"anyOf"`
		OneOf []json.RawMessage `json:"oneOf"`
		AllOf []json.RawMessage `json:"allOf"`
		Enum  []json.RawMessage `json:"enum"`
		Const json.RawMessage   `json:"const"`
	}
	if depth > mostNesting || len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	switch {
	case len(s.Type) > 0:
		return typeNames(s.Type)
	case s.Const != nil:
		return map[string]bool{jsonType(string(s.Const)): true}
	case len(s.Enum) > 0:
		types := map[string]bool{}
		for _, value := range s.Enum {
			types[jsonType(string(value))] = true
		}
		return types
	case s.Ref != "":
		return a.allowed(a.resolve(s.Ref), depth+1)
	case len(s.AnyOf) > 0:
		return a.union(s.AnyOf, depth)
	case len(s.OneOf) > 0:
		return a.union(s.OneOf, depth)
	}
	for _, part := range s.AllOf {
		if types := a.allowed(part, depth+1); types != nil {
			return types
		}
	}
	return nil
}

func (a argumentTypes) union(schemas []json.RawMessage, depth int) map[string]bool {
	all := map[string]bool{}
	for _, schema := range schemas {
		types := a.allowed(schema, depth+1)
		if types == nil {
			return nil
		}
		for name := range types {
			all[name] = true
		}
	}
	return all
}

// resolve follows a reference within the schema, as in "#/$defs/Point".
func (a argumentTypes) resolve(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	level := a.root
	parts := strings.Split(path, "/")
	for i, part := range parts {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		value := level[part]
		if i == len(parts)-1 {
			return value
		}
		level = nil
		if json.Unmarshal(value, &level) != nil {
			return nil
		}
	}
	return nil
}

func typeNames(raw json.RawMessage) map[string]bool {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return map[string]bool{one: true}
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil || len(several) == 0 {
		return nil
	}
	types := map[string]bool{}
	for _, name := range several {
		types[name] = true
	}
	return types
}

// jsonType names the type of a valid JSON text.
func jsonType(text string) string {
	switch strings.TrimSpace(text)[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// isInteger says whether a number is whole as it is written.
func isInteger(number string) bool {
	whole, fraction, _ := strings.Cut(number, ".")
	return !strings.ContainsAny(whole, "eE") && strings.Trim(fraction, "0") == ""
}
