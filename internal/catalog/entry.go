package catalog

import "encoding/json"

// Entry is one server of a catalogue; the package comment tells what its fields mean. Its JSON is
// what scripts read from "catalog ls" and "catalog show".
type Entry struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	Source      string `json:"source,omitempty"`
	License     string `json:"license,omitempty"`
	Runs        Kind   `json:"runs"`

	Package    string            `json:"package,omitempty"`
	Version    string            `json:"version,omitempty"`
	Bin        string            `json:"bin,omitempty"`
	With       []string          `json:"with,omitempty"`
	Repository string            `json:"repository,omitempty"`
	Commit     string            `json:"commit,omitempty"`
	Subdir     string            `json:"subdir,omitempty"`
	Run        []string          `json:"run,omitempty"`
	Command    string            `json:"command,omitempty"`
	Install    [][]string        `json:"install,omitempty"`
	URL        string            `json:"url,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Transport  string            `json:"transport,omitempty"`
	Reason     string            `json:"reason,omitempty"`

	Args       [][]string          `json:"args,omitempty"`
	Env        map[string]string   `json:"env,omitempty"`
	Cwd        string              `json:"cwd,omitempty"`
	Properties map[string]Property `json:"properties"` // never nil
	Needs      []string            `json:"needs,omitempty"`
	Proven     Proven              `json:"proven"`
	Note       string              `json:"note,omitempty"`
}

// Property is one declared property of an entry.
type Property struct {
	Type        string          `json:"type"` // string, integer, number, boolean, or array (of strings)
	Required    bool            `json:"required"`
	Secret      bool            `json:"secret,omitempty"`
	Description string          `json:"description,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

// Proven says how far somebody saw an entry work.
type Proven struct {
	Level     string `json:"level"` // Started, Installed or Untried
	Tools     int    `json:"tools,omitempty"`
	Megabytes int    `json:"megabytes,omitempty"` // that its install takes, with all its dependencies
	Date      string `json:"date,omitempty"`
}

// The levels of Proven.
const (
	Started   = "started"   // it listed its tools
	Installed = "installed" // it could be installed
	Untried   = "untried"   // written after its documentation
)
