package catalog

import "mcp-gateway/internal/catalog/document"

// Problem is one fault of a catalogue file, or of the properties given for an entry.
type Problem struct {
	Entry   string `json:"entry,omitempty"` // the entry's name; empty for the file as a whole
	Field   string `json:"field,omitempty"` // the field or property, as in "env.TOKEN" or "paths[1]"; empty for the entry as a whole
	Message string `json:"message"`         // what is wrong and what is allowed
	Hint    string `json:"hint,omitempty"`  // what the reader can do next; may be empty
}

// String says the problem in one line.
func (p Problem) String() string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Entry != "" {
		text = "entry " + document.Quote(p.Entry) + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Error is everything that is wrong with a catalogue file.
type Error struct{ Problems []Problem }

// Error says the problems in one line of at most 1 KiB.
func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return "catalogue: " + document.Line(texts)
}
