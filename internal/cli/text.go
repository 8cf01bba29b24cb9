package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcp-gateway/internal/process"
)

// escapeSequence matches what a terminal would take for a command: text of servers must not steer it.
var escapeSequence = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[@-_])")

// cleanText takes control characters out of text that may have several lines.
func cleanText(s string) string {
	s = escapeSequence.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
}

// cleanLine makes one line of any text.
func cleanLine(s string) string {
	return strings.Join(strings.Fields(cleanText(s)), " ")
}

const ellipsis = "…"

// clip cuts text to at most limit bytes, at a character's border, and shows that it did.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if limit < len(ellipsis) {
		return ""
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// clipLines cuts text after the last whole line within limit bytes, and shows that it did.
func clipLines(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const more = "  …\n"
	cut := strings.LastIndexByte(s[:limit-len(more)], '\n')
	return s[:cut+1] + more
}

// clipRunes cuts one line to at most width characters.
func clipRunes(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + ellipsis
}

// shellQuote writes words as a person would type them.
func shellQuote(words ...string) string { return process.Spec{Argv: words}.CommandLine() }

// orList writes names as in "a", "b" or "c".
func orList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}
