// Package secret holds values that must not be read by people: a type that prints as stars, and a
// scrubber that takes known values out of text on its way to a log or an error.
package secret

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const mask = "***"

// Value is a string that prints as stars wherever it is formatted or logged. Reveal gives the text.
type Value string

// String masks the value.
func (Value) String() string { return mask }

// GoString masks the value under %#v.
func (Value) GoString() string { return mask }

// LogValue masks the value in log records.
func (Value) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalJSON masks the value in any JSON that is written for people or scripts.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }

// Reveal returns the text itself, for the one place that needs it.
func (v Value) Reveal() string { return string(v) }

// minLength is the shortest value that is scrubbed: shorter ones ("1", "true", "en") occur in ordinary text.
const minLength = 6

// Scrubber replaces known secret values in text by stars. The zero value knows none. It may be used by
// several goroutines at once.
type Scrubber struct {
	replacer atomic.Pointer[strings.Replacer]

	mu    sync.Mutex
	known map[string]bool
}

// NewScrubber makes a scrubber for the values; those under 6 bytes are left out, since they would
// hit ordinary text.
func NewScrubber(values []Value) *Scrubber {
	s := &Scrubber{}
	s.Add(values...)
	return s
}

// Add has further values replaced from now on, under the same rule.
func (s *Scrubber) Add(values ...Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.known)
	for _, v := range values {
		if len(v) < minLength {
			continue
		}
		if s.known == nil {
			s.known = map[string]bool{}
		}
		s.known[string(v)] = true
		s.known[inJSON(string(v))] = true
	}
	if len(s.known) == before {
		return
	}
	known := slices.Collect(maps.Keys(s.known))
	// The longest first, so that a value that contains another one is replaced whole.
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	var pairs []string
	for _, k := range known {
		pairs = append(pairs, k, mask)
	}
	s.replacer.Store(strings.NewReplacer(pairs...))
}

// inJSON is the text as it stands between the quotes of a JSON string.
func inJSON(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// Scrub returns text without the known values.
func (s *Scrubber) Scrub(text string) string {
	if s == nil {
		return text
	}
	replacer := s.replacer.Load()
	if replacer == nil {
		return text
	}
	return replacer.Replace(text)
}
