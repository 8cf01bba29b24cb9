package document

import (
	"bytes"
	"encoding/json"
)

// What Check has passed is valid JSON, so that taking it apart only means finding where each value
// ends. The decoder of encoding/json would read every level of a catalogue anew, twice.

// Object returns the members of an object that Check has passed, in their order. It is false for
// any other value.
func Object(raw json.RawMessage) ([]Member, bool) {
	s := splitter{raw: raw}
	if !s.take('{') {
		return nil, false
	}
	members := []Member{}
	if s.take('}') {
		return members, true
	}
	seen := map[string]bool{}
	for {
		name, ok := String(s.value())
		if !ok || !s.take(':') {
			return nil, false
		}
		members = append(members, Member{Name: name, Value: s.value(), Repeated: seen[name]})
		seen[name] = true
		if !s.take(',') {
			return members, s.take('}')
		}
	}
}

// List returns the elements of an array that Check has passed. It is false for any other value.
func List(raw json.RawMessage) ([]json.RawMessage, bool) {
	s := splitter{raw: raw}
	if !s.take('[') {
		return nil, false
	}
	elements := []json.RawMessage{}
	if s.take(']') {
		return elements, true
	}
	for {
		elements = append(elements, s.value())
		if !s.take(',') {
			return elements, s.take(']')
		}
	}
}

// splitter goes through one level of a valid JSON value.
type splitter struct {
	raw []byte
	at  int
}

func (s *splitter) passSpace() {
	for s.at < len(s.raw) && isSpace(s.raw[s.at]) {
		s.at++
	}
}

// take passes over white space, and over b if that comes next.
func (s *splitter) take(b byte) bool {
	s.passSpace()
	if s.at < len(s.raw) && s.raw[s.at] == b {
		s.at++
		return true
	}
	return false
}

// value passes over the next value and returns it, without the white space around it.
func (s *splitter) value() json.RawMessage {
	s.passSpace()
	start, depth := s.at, 0
	for s.at < len(s.raw) {
		switch b := s.raw[s.at]; b {
		case '"':
			s.passString()
			if depth == 0 {
				return s.raw[start:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']', ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return s.raw[start:s.at]
			}
			if b == '}' || b == ']' {
				depth--
				if depth == 0 {
					s.at++
					return s.raw[start:s.at]
				}
			}
		}
		s.at++
	}
	return s.raw[start:s.at]
}

// passString passes over a string: up to the next quote that no backslash escapes.
func (s *splitter) passString() {
	s.at++
	for s.at < len(s.raw) {
		quote := bytes.IndexByte(s.raw[s.at:], '"')
		if quote < 0 {
			s.at = len(s.raw)
			return
		}
		text := s.raw[s.at : s.at+quote]
		s.at += quote + 1
		if backslashes := len(text) - len(bytes.TrimRight(text, `\`)); backslashes%2 == 0 {
			return
		}
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }
