package document

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxName bounds how much of a document's name gets into a message.
const maxName = 64

// Quote quotes a name of the document for a message, and bounds it.
func Quote(name string) string { return strconv.Quote(Cut(name, maxName)) }

var plain = regexp.MustCompile(`^[A-Za-z0-9_@.-]{1,64}$`)

// Field names a member of a field: "env.TOKEN", or `env."odd name"`. A name that holds = is told up
// to there, because somebody wrote NAME=value where a name belongs. An empty parent is the document.
func Field(parent, name string) string {
	if !plain.MatchString(name) {
		if before, _, found := strings.Cut(name, "="); found {
			name = before + "=..."
		}
		name = Quote(name)
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// Cut bounds a text without parting a character.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// The bounds of what is told about one document: an SDK shows its user the whole of it.
const (
	maxText = 480
	maxLine = 1024
)

// Line joins what is said about a document into one line of at most 1 KiB.
func Line(texts []string) string {
	const reserve = len("; and 1000000 more")
	var line strings.Builder
	for i, text := range texts {
		text = Cut(text, maxText)
		if i > 0 {
			text = "; " + text
		}
		if line.Len()+len(text) > maxLine-reserve {
			fmt.Fprintf(&line, "; and %d more", len(texts)-i)
			break
		}
		line.WriteString(text)
	}
	return line.String()
}
