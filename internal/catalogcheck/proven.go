package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"mcp-gateway/internal/catalog"
)

var ranks = []string{catalog.Untried, catalog.Installed, catalog.Started}

// rank orders the levels of proof.
func rank(level string) int { return slices.Index(ranks, level) }

// writeProven writes into the catalogue what was seen, and changes nothing else in the file. Somebody
// has seen more of an entry than this machine can show: proof is added and renewed, never taken back.
func writeProven(path string, seen map[string]sight) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, err := catalog.Parse(text)
	if err != nil {
		return err
	}
	changed := string(text)
	for _, e := range before.Entries() {
		s, ok := seen[e.Name]
		if !ok || s.Level == catalog.Untried || rank(s.Level) < rank(e.Proven.Level) {
			continue
		}
		if changed, err = replaceProven(changed, e.Name, s); err != nil {
			return err
		}
	}
	if changed == string(text) {
		return nil
	}
	if err := onlyProvenDiffers(before, changed); err != nil {
		return err
	}
	return renameio.WriteFile(path, []byte(changed), 0o644)
}

// replaceProven replaces the line "proven" of one entry; the file has one field or more in a line.
func replaceProven(text, name string, s sight) (string, error) {
	head := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(string(quoted(name))) + `: \{`)
	at := head.FindStringIndex(text)
	if at == nil {
		return "", fmt.Errorf("find entry %q", name)
	}
	end := strings.Index(text[at[1]:], "\n  }")
	if end < 0 {
		return "", fmt.Errorf("find the end of entry %q", name)
	}
	end += at[1]
	field := regexp.MustCompile(`"proven": \{[^{}]*\}`)
	place := field.FindStringIndex(text[at[1]:end])
	if place == nil {
		return "", fmt.Errorf("find \"proven\" in entry %q", name)
	}
	proven := fmt.Sprintf(`"proven": {"level": %q`, s.Level)
	if s.Level == catalog.Started {
		proven += fmt.Sprintf(`, "tools": %d`, s.Tools)
	}
	if s.Megabytes > 0 {
		proven += fmt.Sprintf(`, "megabytes": %d`, s.Megabytes)
	}
	proven += fmt.Sprintf(`, "date": %q}`, s.Date)
	return text[:at[1]+place[0]] + proven + text[at[1]+place[1]:], nil
}

func quoted(text string) []byte {
	out, _ := json.Marshal(text) // a string can always be encoded
	return out
}

// onlyProvenDiffers makes sure that the edit of the text has hit nothing else.
func onlyProvenDiffers(before *catalog.Catalog, text string) error {
	after, err := catalog.Parse([]byte(text))
	if err != nil {
		return fmt.Errorf("read the changed catalogue: %w", err)
	}
	a, b := before.Entries(), after.Entries()
	for i := range a {
		a[i].Proven = catalog.Proven{}
	}
	for i := range b {
		b[i].Proven = catalog.Proven{}
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("writing \"proven\" would change something else")
	}
	return nil
}

// summary tells the figures of the catalogue as it stands now, and what the journal says of entries
// that came no further.
func (c *check) summary(out io.Writer) error {
	text, err := os.ReadFile(c.catalog)
	if err != nil {
		return err
	}
	cat, err := catalog.Parse(text)
	if err != nil {
		return err
	}
	listed, installed, started := 0, 0, 0
	var behind []string
	for _, e := range cat.Entries() {
		listed++
		seen, known := c.journal.seen[e.Name]
		level := e.Proven.Level
		if known && rank(seen.Level) > rank(level) {
			level = seen.Level
		}
		if rank(level) >= rank(catalog.Installed) {
			installed++
		}
		if level == catalog.Started {
			started++
		}
		if known && rank(seen.Level) < rank(level) {
			behind = append(behind, fmt.Sprintf("%s was %s once, and is %s here: %s", e.Name, level, seen.Level, seen.Reason))
		}
	}
	for _, line := range behind {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "listed %d, installed %d, started %d\n", listed, installed, started)
	return nil
}
