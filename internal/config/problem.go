package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one reason why a configuration is refused.
type Problem struct {
	Server  string `json:"server,omitempty"` // the entry's name; empty for the configuration as a whole
	Field   string `json:"field,omitempty"`  // the field in the entry, as in "envs.TOKEN" or "args[1]"; empty for the entry as a whole
	Message string `json:"message"`          // what is wrong and what is allowed
	Hint    string `json:"hint,omitempty"`   // what the reader can do next
}

// The bounds of what is told: an SDK shows its user the whole of it.
const (
	maxName    = 64
	maxProblem = 480
	maxError   = 1024
)

// String says the problem in one line.
func (p Problem) String() string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Server == "" {
		text = "configuration: " + text
	} else {
		text = "server " + shown(p.Server) + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return cut(text, maxProblem)
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

// Error says the problems in one line of at most 1 KiB.
func (e *Error) Error() string {
	const reserve = len("; and 1000000 more")
	var line strings.Builder
	for i, p := range e.Problems {
		text := p.String()
		if i > 0 {
			text = "; " + text
		}
		if line.Len()+len(text) > maxError-reserve {
			fmt.Fprintf(&line, "; and %d more", len(e.Problems)-i)
			break
		}
		line.WriteString(text)
	}
	return line.String()
}

// shown quotes a name of the document and bounds it.
func shown(name string) string { return strconv.Quote(cut(name, maxName)) }

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// below names a member of a field. A name that holds = is told up to there: somebody wrote
// NAME=value where a name belongs.
func below(field, name string) string {
	if plain.MatchString(name) {
		return field + "." + name
	}
	if before, _, found := strings.Cut(name, "="); found {
		name = before + "=..."
	}
	return field + "." + shown(name)
}

// cut bounds a text without parting a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
