package telemetry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLine    = 4 << 10  // bytes of a server's line that are kept
	maxRawLine = 64 << 10 // and that are looked at
)

// clean makes a server's line fit for a terminal and for the log. Secrets are looked for after each
// step, since a server may colour parts of one, and before the cut, which would leave half of one.
func (l *Log) clean(line string) string {
	scrub := l.scrub.Load()
	whole := len(line)
	line = scrub.Scrub(cut(line, maxRawLine))
	if !isPlain(line) {
		line = scrub.Scrub(withoutSequences(line))
		line = scrub.Scrub(printable(line))
	}
	kept := cut(line, maxLine)
	if len(kept) < len(line) || whole > maxRawLine {
		kept += fmt.Sprintf("… (%d bytes)", whole)
	}
	return kept
}

// cut shortens text to so many bytes without breaking a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// printable removes control characters and makes the text valid UTF-8.
func printable(text string) string {
	text = strings.Map(func(r rune) rune { // RuneError for a bad byte
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
	return strings.TrimRight(text, " ")
}

// withoutSequences removes terminal sequences.
func withoutSequences(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "\x1b")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = after[sequenceLength(after):]
	}
}

func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return false // control, or beyond ASCII: the slow way looks closer
		}
	}
	return true
}

// sequenceLength is the length of a terminal sequence behind its escape: CSI (colours, cursor) and OSC
// (titles, links) to their end, of others one byte.
func sequenceLength(text string) int {
	if text == "" || text[0] >= utf8.RuneSelf {
		return 0
	}
	switch text[0] {
	case '[':
		for i := 1; i < len(text); i++ {
			if c := text[i]; c >= 0x40 && c <= 0x7e {
				return i + 1
			}
		}
		return len(text)
	case ']':
		if i := strings.IndexAny(text, "\a\x1b"); i < 0 {
			return len(text)
		} else if text[i] == '\a' {
			return i + 1
		} else {
			return i // its end is a sequence itself
		}
	}
	return 1
}
