package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"mcp-gateway/internal/catalog"
)

// sight is what was seen of one entry. One line of the journal holds one.
type sight struct {
	Name      string  `json:"name"`
	Digest    string  `json:"digest"` // of the entry that was tried
	Kind      string  `json:"kind"`
	Level     string  `json:"level"` // catalog.Started, Installed or Untried
	Tools     int     `json:"tools"`
	Megabytes int     `json:"megabytes"` // of the install
	Date      string  `json:"date"`
	Install   float64 `json:"install_seconds"`
	Start     float64 `json:"start_seconds"`
	Reason    string  `json:"reason,omitempty"` // why it came no further
}

// String is the sight as the last part of a line.
func (s sight) String() string {
	text := fmt.Sprintf("%-9s %5.1f s %5.1f s", s.Level, s.Install, s.Start)
	if s.Level == catalog.Started {
		return fmt.Sprintf("%s  %d tools", text, s.Tools)
	}
	return text + "  " + s.Reason
}

// digest changes when there is something new to try about an entry.
func digest(e *catalog.Entry) string {
	copied := *e
	copied.Proven, copied.Note, copied.Title, copied.Description = catalog.Proven{}, "", "", ""
	text, _ := json.Marshal(copied) // an entry can always be encoded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// journal keeps what was seen between runs.
type journal struct {
	*os.File
	seen map[string]sight // of the entries as they are now
}

// openJournal reads the sights of entries that have not changed since. A last line that a crash has cut
// off is passed over.
func openJournal(path string, entries []*catalog.Entry) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{File: file, seen: map[string]sight{}}
	digests := map[string]string{}
	for _, e := range entries {
		digests[e.Name] = digest(e)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var s sight
		if json.Unmarshal(lines.Bytes(), &s) == nil && s.Digest == digests[s.Name] && s.Name != "" {
			j.seen[s.Name] = s
		}
	}
	if err := lines.Err(); err != nil {
		file.Close()
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return j, nil
}

// add writes one sight down.
func (j *journal) add(s sight) error {
	j.seen[s.Name] = s
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// The line begins with its own end of line, in case that a crash has cut off the last one.
	_, err = fmt.Fprintf(j.File, "\n%s", text)
	return err
}
