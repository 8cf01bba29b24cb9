package catalog

import (
	"fmt"
	"strings"
)

// Problem is one fault of a catalogue file, or of the properties given for an entry.
type Problem struct {
	Entry   string // the entry's name; empty for the file as a whole
	Field   string // the field or property, as in "env.TOKEN" or "paths[1]"; empty for the entry as a whole
	Message string // what is wrong and what is allowed
	Hint    string // what the reader can do next; may be empty
}

// String says the problem in one line.
func (p Problem) String() string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Entry != "" {
		text = fmt.Sprintf("entry %q: %s", p.Entry, text)
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Error is everything that is wrong with a catalogue file.
type Error struct{ Problems []Problem }

// maxToldProblems bounds the one line that Error makes.
const maxToldProblems = 8

// Error says the problems in one line.
func (e *Error) Error() string {
	var told []string
	for _, p := range e.Problems[:min(len(e.Problems), maxToldProblems)] {
		told = append(told, p.String())
	}
	if more := len(e.Problems) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return "catalogue: " + strings.Join(told, "; ")
}
