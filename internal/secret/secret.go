// Package secret holds values that must not be read by people: a type that prints as stars, and a
// scrubber that takes known values out of text on its way to a log or an error.
package secret

import (
	"encoding/json"
	"log/slog"
	"sort"
	"strings"
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

// Scrubber replaces known secret values in text by stars. The zero value scrubs nothing.
type Scrubber struct{ replacer *strings.Replacer }

// NewScrubber makes a scrubber for the values; those under 6 bytes are left out, since they would
// hit ordinary text.
func NewScrubber(values []Value) *Scrubber {
	var known []string
	for _, v := range values {
		if len(v) < minLength {
			continue
		}
		known = append(known, string(v))
		if escaped := inJSON(string(v)); escaped != string(v) {
			known = append(known, escaped)
		}
	}
	if len(known) == 0 {
		return &Scrubber{}
	}
	// The longest first, so that a value that contains another one is replaced whole.
	sort.Slice(known, func(i, j int) bool { return len(known[i]) > len(known[j]) })
	var pairs []string
	for _, k := range known {
		pairs = append(pairs, k, mask)
	}
	return &Scrubber{replacer: strings.NewReplacer(pairs...)}
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
	if s == nil || s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}
