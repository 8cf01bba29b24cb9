package wire

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors of scanning. Parse wraps them with what was wrong.
var (
	ErrSyntax = errors.New("not valid JSON")
	ErrObject = errors.New("not a JSON object")
)

// scanner is a pooled decoder over bytes that it does not copy.
type scanner struct {
	buf bytes.Buffer
	dec *jsontext.Decoder
}

var scanners = sync.Pool{New: func() any {
	s := new(scanner)
	s.dec = jsontext.NewDecoder(&s.buf)
	return s
}}

// Options for the two kinds of peer. Duplicate keys deep inside are the peers' business; those that
// routing depends on are refused in Parse. Clients must send valid UTF-8, since what they send goes
// to a process that others share.
var (
	strict = jsontext.AllowDuplicateNames(true)
	loose  = jsontext.AllowInvalidUTF8(true)
)

func scan(b []byte, lenient bool) *scanner {
	s := scanners.Get().(*scanner)
	s.buf = *bytes.NewBuffer(b)
	if lenient {
		s.dec.Reset(&s.buf, strict, loose)
	} else {
		s.dec.Reset(&s.buf, strict)
	}
	return s
}

// release gives the scanner back without keeping the bytes alive.
func (s *scanner) release() {
	s.buf = bytes.Buffer{}
	s.dec.Reset(&s.buf)
	scanners.Put(s)
}

// span is a half-open range of the scanned bytes.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to:s.to] }

// value reads the next value and says where it lies.
func (s *scanner) value() (span, error) {
	v, err := s.dec.ReadValue()
	if err != nil {
		return span{}, err
	}
	end := int(s.dec.InputOffset())
	return span{end - len(v), end}, nil
}

// end checks that nothing but white space follows.
func (s *scanner) end() error {
	if _, err := s.dec.ReadToken(); err != io.EOF {
		return ErrSyntax
	}
	return nil
}

// open reads the opening delimiter of the kind '{' or '['.
func (s *scanner) open(kind jsontext.Kind) bool {
	if s.dec.PeekKind() != kind {
		return false
	}
	_, err := s.dec.ReadToken()
	return err == nil
}

// Kind returns the first byte of a value's kind: '{', '[', '"', '0' (a number), 't', 'f', 'n', or 0
// where there is none.
func Kind(v []byte) byte {
	for _, c := range v {
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '-' || c >= '0' && c <= '9':
			return '0'
		default:
			return c
		}
	}
	return 0
}

// String decodes a JSON string; ok is false where v is none.
func String(v []byte) (s string, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	out, err := jsontext.AppendUnquote(nil, v)
	// Invalid UTF-8 and lone surrogates are replaced and reported; the text is usable all the same.
	return string(out), err == nil || len(out) > 0
}

// AppendQuote appends a string as JSON.
func AppendQuote(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return append(out, Quote(s)...)
		}
	}
	return append(append(append(out, '"'), s...), '"')
}

// Quote encodes a string as JSON.
func Quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil { // invalid UTF-8 has been replaced in out
		out, _ = jsontext.AppendQuote(nil, bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
	}
	return out
}

// same tells whether the key as written (with its quotes) is the name once decoded.
func same(key []byte, name string) bool {
	if len(key) == len(name)+2 && string(key[1:len(key)-1]) == name {
		return true
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return false
	}
	s, _ := String(key)
	return s == name
}

// Get returns the value of a member of the object, the first where the key occurs twice, nil where
// there is none or v is no object.
func Get(object []byte, name string) []byte {
	for key, value := range members(object) {
		if same(key, name) {
			return value
		}
	}
	return nil
}

// GetString is Get for a string member; ok is false where it is absent or no string.
func GetString(object []byte, name string) (s string, ok bool) { return String(Get(object, name)) }

// Members ranges over an object's members: decoded key and raw value. It ends early on bad JSON.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key, value := range members(object) {
			name, _ := String(key)
			if !yield(name, value) {
				return
			}
		}
	}
}

func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if len(object) == 0 {
			return
		}
		s := scan(object, true)
		defer s.release()
		if !s.open('{') {
			return
		}
		for s.dec.PeekKind() == '"' {
			key, err := s.value()
			if err != nil {
				return
			}
			value, err := s.value()
			if err != nil || !yield(key.of(object), value.of(object)) {
				return
			}
		}
	}
}

// Elements ranges over an array's elements; nothing where v is no array. It ends early on bad JSON.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(array) == 0 {
			return
		}
		s := scan(array, true)
		defer s.release()
		if !s.open('[') {
			return
		}
		for kind := s.dec.PeekKind(); kind != ']' && kind != 0; kind = s.dec.PeekKind() {
			value, err := s.value()
			if err != nil || !yield(value.of(array)) {
				return
			}
		}
	}
}

// Values ranges over several JSON values that stand one after another, as some servers write two
// messages on one line. It ends at the first thing that is no JSON.
func Values(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s := scan(b, true)
		defer s.release()
		for {
			value, err := s.value()
			if err != nil || !yield(value.of(b)) {
				return
			}
		}
	}
}

// Valid tells whether b is one JSON value.
func Valid(b []byte) bool {
	s := scan(b, true)
	defer s.release()
	_, err := s.value()
	return err == nil && s.end() == nil
}
