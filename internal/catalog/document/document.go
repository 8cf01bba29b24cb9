// Package document reads JSON that people and SDKs write: objects with their members in order and
// every repeated name seen, values that keep their spelling, and faults that tell the place without
// quoting what stands there, since it may be a secret.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fault is a place where the text is not JSON.
type Fault struct {
	Line, Column int // both from 1; the column counts bytes
	Expected     string
}

// Error tells place and expectation in one line.
func (f *Fault) Error() string {
	return fmt.Sprintf("not valid JSON at line %d, column %d: %s", f.Line, f.Column, f.Expected)
}

// Member is one name and value of an object.
type Member struct {
	Name     string
	Value    json.RawMessage
	Repeated bool // the object has this name further up as well
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Check returns the one JSON value that data holds, without a byte order mark. Text that is not
// UTF-8 is refused, since decoding would replace bytes of it silently.
func Check(data []byte) (json.RawMessage, *Fault) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &Fault{Line: 1, Column: 1, Expected: "it is empty, expected an object"}
	}
	if at := firstInvalid(data); at >= 0 {
		return nil, newFault(data, at, "expected UTF-8 text")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		at := len(data)
		if syntax, ok := err.(*json.SyntaxError); ok {
			// The offset counts the bytes read, so the offending one stands before it.
			at = max(int(syntax.Offset)-1, 0)
			if strings.HasPrefix(syntax.Error(), "unexpected end") {
				at = len(data)
			}
		}
		return nil, newFault(data, at, expectation(data, at, err.Error()))
	}
	return raw, nil
}

func newFault(data []byte, at int, expected string) *Fault {
	before := data[:at]
	return &Fault{
		Line:     bytes.Count(before, []byte("\n")) + 1,
		Column:   at - bytes.LastIndexByte(before, '\n'),
		Expected: expected,
	}
}

func firstInvalid(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

// expectations maps what encoding/json says to what a reader should have written. Its own text is
// not passed on, because it quotes the document.
var expectations = []struct{ said, expected string }{
	{"unexpected end", "it ends too early"},
	{"looking for beginning of object key", `expected a name in double quotes`},
	{"after object key:value pair", `expected "," or "}" after a value`},
	{"after object key", `expected ":" after a name`},
	{"after array element", `expected "," or "]" after a list's element`},
	{"after top-level value", "expected nothing more after the end"},
	{"in string literal", "expected an escape such as \\n for a control character in a string"},
	{"in string escape code", "expected a known escape after a backslash in a string"},
	{"in \\u hexadecimal", "expected four hex digits after \\u"},
	{"in numeric literal", "expected digits in a number"},
	{"in literal", "expected true, false or null"},
	{"looking for beginning of value", "expected a value"},
	{"max depth", "it is nested too deeply"},
}

func expectation(data []byte, at int, said string) string {
	expected := "expected JSON"
	for _, e := range expectations {
		if strings.Contains(said, e.said) {
			expected = e.expected
			break
		}
	}
	if at < len(data) && data[at] == '\'' {
		expected += " (JSON takes double quotes, not single ones)"
	}
	return expected
}

// String returns the text of a string that Check has passed. It is false for any other value.
func String(raw json.RawMessage) (string, bool) {
	quoted := bytes.TrimSpace(raw)
	if len(quoted) < 2 || quoted[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), true
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return "", false
	}
	return text, true
}

// Number returns the spelling of a number.
func Number(raw json.RawMessage) (string, bool) {
	text := string(bytes.TrimSpace(raw))
	if Kind(raw) != "a number" {
		return "", false
	}
	return text, true
}

// Bool returns a boolean.
func Bool(raw json.RawMessage) (value, ok bool) {
	text := string(bytes.TrimSpace(raw))
	return text == "true", text == "true" || text == "false"
}

// IsNull says whether the value is null, or not there at all.
func IsNull(raw json.RawMessage) bool {
	text := bytes.TrimSpace(raw)
	return len(text) == 0 || string(text) == "null"
}

// Kind names the type of a value for a message: "a string", "an object".
func Kind(raw json.RawMessage) string {
	switch kindByte(raw) {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 0, 'n':
		return "null"
	}
	return "a number"
}

func kindByte(raw json.RawMessage) byte {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return 0
	}
	return text[0]
}
