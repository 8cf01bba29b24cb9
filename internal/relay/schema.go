package relay

import (
	"bytes"
	"strconv"
	"strings"

	"mcp-gateway/internal/wire"
)

// Typed clients check a whole tools/list before they use any of it: one schema that they do not expect
// hides every tool of every server from them. So what they refuse is made acceptable, with as little as
// possible and a line in the log; any other schema passes as it is. What a tool takes does not change:
// arguments are objects in any case.

var (
	anyObject = []byte(`{"type":"object"}`)
	noObject  = []byte(`{"type":"object","not":{}}`)
)

// acceptable returns the tool as clients of an era can take it, and what was changed in it.
func acceptable(tool []byte, e int) (out []byte, changes []string) {
	var edits []wire.Change
	change := func(key string, value []byte, what string) {
		edits = append(edits, wire.Change{Key: key, Value: value})
		changes = append(changes, what)
	}
	input := wire.Get(tool, "inputSchema")
	switch kind := wire.Kind(input); {
	case kind == 0 || kind == 'n':
		change("inputSchema", anyObject, "has no inputSchema, it is listed with one that accepts any object")
	case kind == 'f':
		change("inputSchema", noObject, "has the inputSchema false, it is listed with an object schema that accepts nothing")
	case kind != '{':
		change("inputSchema", anyObject, "has an inputSchema that is no object, it is listed with one that accepts any object")
	case !isObjectType(input):
		change("inputSchema", wire.Edit(input, wire.Change{Key: "type", Value: []byte(`"object"`)}), `has an inputSchema without "type":"object", which is added`)
	}
	output := wire.Get(tool, "outputSchema")
	switch kind := wire.Kind(output); {
	case kind == 0:
	case kind != '{':
		change("outputSchema", nil, "has an outputSchema that is no object, which is left out")
	case e == modern: // where any schema is allowed
	case wire.Get(output, "type") == nil:
		change("outputSchema", wire.Edit(output, wire.Change{Key: "type", Value: []byte(`"object"`)}), `has an outputSchema without "type", "object" is added`)
	case !isObjectType(output):
		change("outputSchema", nil, `has an outputSchema of another type than "object", which is left out for clients before 2026-07-28`)
	case dangles(output, output, 0):
		change("outputSchema", nil, "has an outputSchema with a $ref that leads nowhere, which is left out for clients before 2026-07-28")
	}
	if edits == nil {
		return tool, nil
	}
	return wire.Edit(tool, edits...), changes
}

func isObjectType(schema []byte) bool {
	name, ok := wire.GetString(schema, "type")
	return ok && name == "object"
}

// dangles tells whether a reference within the schema's own document leads nowhere.
func dangles(root, part []byte, depth int) bool {
	if depth == 0 && !bytes.Contains(root, []byte(`$ref`)) || depth > maxSchemaDepth {
		return false
	}
	if wire.Kind(part) == '[' {
		for element := range wire.Elements(part) {
			if dangles(root, element, depth+1) {
				return true
			}
		}
		return false
	}
	for key, value := range wire.Members(part) {
		if reference, ok := wire.String(value); ok && key == "$ref" && strings.HasPrefix(reference, "#/") && !leads(root, reference) {
			return true
		}
		if dangles(root, value, depth+1) {
			return true
		}
	}
	return false
}

// leads follows a JSON pointer in a URI fragment (RFC 6901).
func leads(root []byte, reference string) bool {
	at := root
	for token := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if strings.Contains(token, "%") {
			return true // an escaped one is left to the client
		}
		if wire.Kind(at) != '[' {
			at = wire.Get(at, token)
		} else {
			at = elementAt(at, token)
		}
		if at == nil {
			return false
		}
	}
	return true
}

func elementAt(array []byte, token string) []byte {
	n, err := strconv.Atoi(token)
	for element := range wire.Elements(array) {
		if n == 0 && err == nil {
			return element
		}
		n--
	}
	return nil
}
