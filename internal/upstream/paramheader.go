package upstream

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mcp-gateway/internal/wire"
)

// ParamHeader says that an argument of a tool is repeated in the HTTP header Mcp-Param-<Name>
// (2026-07-28, streamable HTTP, custom headers from tool parameters).
type ParamHeader struct {
	Path []string // of property names in the arguments
	Name string
}

const headerKey = "x-mcp-header"

// ParamHeaders reads the annotations of a tool's inputSchema. The error says which one is not as the
// protocol wants it; such a tool must not be offered.
func ParamHeaders(schema []byte) ([]ParamHeader, error) {
	if !bytes.Contains(schema, []byte(headerKey)) {
		return nil, nil
	}
	w := &schemaWalk{seen: map[string]bool{}}
	err := w.schema(schema, nil, true)
	return w.found, err
}

// schemaWalk collects annotations.
type schemaWalk struct {
	found []ParamHeader
	seen  map[string]bool // names in lower case
}

const maxSchemaDepth = 64

// fieldName is a name that HTTP headers can have (RFC 9110, section 5.1).
var fieldName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// schema looks through one schema; reachable tells that only "properties" lead to it.
func (w *schemaWalk) schema(schema []byte, path []string, reachable bool) error {
	if wire.Kind(schema) != '{' || len(path) > maxSchemaDepth {
		return nil
	}
	for key, value := range wire.Members(schema) {
		var err error
		switch key {
		case headerKey:
			err = w.annotation(schema, value, path, reachable)
		case "properties":
			for name, property := range wire.Members(value) {
				if err = w.schema(property, append(slices.Clone(path), name), reachable); err != nil {
					return err
				}
			}
		case "default", "enum", "const", "examples": // values, not schemas
		default:
			err = w.beyond(value, append(slices.Clone(path), key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beyond looks through schemas that something else than "properties" leads to.
func (w *schemaWalk) beyond(value []byte, path []string) error {
	if len(path) > maxSchemaDepth || !bytes.Contains(value, []byte(headerKey)) {
		return nil
	}
	switch wire.Kind(value) {
	case '{':
		if err := w.schema(value, path, false); err != nil {
			return err
		}
	case '[':
		for element := range wire.Elements(value) {
			if err := w.beyond(element, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *schemaWalk) annotation(schema, value []byte, path []string, reachable bool) error {
	at := strings.Join(path, ".")
	name, ok := wire.String(value)
	kind, _ := wire.GetString(schema, "type")
	switch {
	case !reachable || len(path) == 0:
		return fmt.Errorf("%s at %q is not on a property that is reached by properties alone", headerKey, at)
	case !ok || !fieldName.MatchString(name):
		return fmt.Errorf("%s of %q is no name for a header: %.80s", headerKey, at, value)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s is on %q, which is no string, integer or boolean", headerKey, at)
	case w.seen[strings.ToLower(name)]:
		return fmt.Errorf("%s %q is there twice", headerKey, name)
	}
	w.seen[strings.ToLower(name)] = true
	w.found = append(w.found, ParamHeader{Path: path, Name: name})
	return nil
}

// mirrored are the tools of a server with arguments that are repeated in headers, as it listed them
// last.
type mirrored struct {
	mu    sync.Mutex
	tools map[string][]ParamHeader
}

// learn reads a page of tools/list.
func (t *mirrored) learn(result []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tools) == 0 && !bytes.Contains(result, []byte(headerKey)) {
		return
	}
	for tool := range wire.Elements(wire.Get(result, "tools")) {
		name, _ := wire.GetString(tool, "name")
		delete(t.tools, name)
		if headers, err := ParamHeaders(wire.Get(tool, "inputSchema")); err == nil && len(headers) > 0 {
			if t.tools == nil {
				t.tools = map[string][]ParamHeader{}
			}
			t.tools[name] = headers
		}
	}
}

// set adds the headers of a call.
func (t *mirrored) set(h http.Header, tool string, params []byte) {
	t.mu.Lock()
	headers := t.tools[tool]
	t.mu.Unlock()
	if len(headers) == 0 {
		return
	}
	arguments := wire.Get(params, "arguments")
	for _, header := range headers {
		value := arguments
		for _, key := range header.Path {
			value = wire.Get(value, key)
		}
		if text, ok := headerText(value); ok {
			h.Set("Mcp-Param-"+header.Name, encodeHeader(text))
		}
	}
}

// headerText writes a JSON string, integer or boolean as the text of a header.
func headerText(value []byte) (string, bool) {
	switch wire.Kind(value) {
	case '"':
		return wire.String(value)
	case 't', 'f':
		return string(bytes.TrimSpace(value)), true
	case '0':
		text := string(bytes.TrimSpace(value))
		if strings.Trim(text, "0123456789-") == "" {
			return text, true
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return "", false
		}
		return strconv.FormatFloat(f, 'f', -1, 64), true
	}
	return "", false
}

const base64Mark = "=?base64?"

// encodeHeader writes a value so that a header can hold it.
func encodeHeader(text string) string {
	if !requiresBase64(text) {
		return text
	}
	return base64Mark + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// requiresBase64 tells a text that a header cannot hold as it is. An empty one would look like none.
func requiresBase64(text string) bool {
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	return text == "" || strings.TrimSpace(text) != text || strings.ContainsFunc(text, odd) ||
		strings.HasPrefix(text, base64Mark) && strings.HasSuffix(text, "?=")
}

// nameOf is what the header Mcp-Name repeats.
func nameOf(method string, params []byte) (name string, is bool) {
	switch method {
	case "tools/call", "prompts/get":
		return wire.GetString(params, "name")
	case "resources/read":
		return wire.GetString(params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		return wire.GetString(params, "taskId")
	}
	return "", false
}
