package config

import "mcp-gateway/internal/catalog/document"

// Problem is one reason why a configuration is refused.
type Problem struct {
	Server  string `json:"server,omitempty"` // the entry's name; empty for the configuration as a whole
	Field   string `json:"field,omitempty"`  // the field in the entry, as in "envs.TOKEN" or "args[1]"; empty for the entry as a whole
	Message string `json:"message"`          // what is wrong and what is allowed
	Hint    string `json:"hint,omitempty"`   // what the reader can do next
}

// String says the problem in one line.
func (p Problem) String() string {
	text := p.Message
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Server == "" {
		text = "configuration: " + text
	} else {
		text = "server " + document.Quote(p.Server) + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

// Error says the problems in one line of at most 1 KiB.
func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return document.Line(texts)
}
