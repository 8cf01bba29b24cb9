// Package catalog reads catalogue files and turns one entry with its properties into a launch plan.
package catalog

import "encoding/json"

// Catalog is a set of entries by name. It never changes once made; a nil Catalog is empty.
type Catalog struct {
	entries map[string]*Entry
}

// Entry is one server of the catalogue. Its JSON is that of the contract's "catalog ls" and "show".
type Entry struct {
	Name        string
	Title       string
	Description string
	Source      string
	License     string
	Runs        Kind
	Package     string
	Version     string
	Properties  map[string]Property
}

// Property is one declared property of an entry.
type Property struct {
	Type        string          `json:"type"`
	Required    bool            `json:"required"`
	Description string          `json:"description,omitempty"`
	Secret      bool            `json:"secret,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

// Problem is one fault of a catalogue file or of the properties given for an entry.
type Problem struct {
	Entry   string // the entry's name
	Field   string // the field or property; empty for the entry as a whole
	Message string // what is wrong and what is allowed
	Hint    string // what the reader can do next; may be empty
}

// Error is everything that is wrong with a catalogue file.
type Error struct{ Problems []Problem }

// Error says all problems in one line.
func (e *Error) Error() string { return "not yet" }

// Parse reads a catalogue file. An error is an *Error.
func Parse(data []byte) (*Catalog, error) { return &Catalog{}, nil }

// Merge returns the entries of c, each replaced or joined by those of over.
func (c *Catalog) Merge(over *Catalog) *Catalog { return c }

// Lookup returns the entry of that name.
func (c *Catalog) Lookup(name string) (*Entry, bool) { return nil, false }

// Names returns all names, sorted.
func (c *Catalog) Names() []string { return nil }

// Entries returns all entries, sorted by name.
func (c *Catalog) Entries() []*Entry { return nil }

// Nearest returns up to three names that name may have been meant for, the nearest first.
func (c *Catalog) Nearest(name string) []string { return nil }

// Launch fills the entry's placeholders with the properties.
func (e *Entry) Launch(props map[string]json.RawMessage) (Launch, []Problem) { return Launch{}, nil }

// WithState returns the plan with the server's own state folder filled in wherever the entry names
// it. Every plan must pass here before it is run.
func (l Launch) WithState(dir string) Launch { return l }

// NeedsState says whether the plan names the server's own state folder.
func (l Launch) NeedsState() bool { return false }
