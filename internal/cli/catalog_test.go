package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	mcpgateway "mcp-gateway"
	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
)

// The table of all servers fits a terminal: one line each, none wider than it.
func TestCatalogTable_FitsTheTerminal(t *testing.T) {
	c, err := catalog.Open(mcpgateway.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := catalogTable(c.Entries()).write(&out, 80); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(out.String()))
	if len(lines) != 1+265 {
		t.Errorf("%d lines, want a header and 265 servers", len(lines))
	}
	for _, line := range lines {
		if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 80 {
			t.Errorf("%d columns: %s", width, line)
		}
	}
}

// Every server's example can be pasted: it passes the check of a configuration as it is.
func TestCatalogShow_ExamplesPass(t *testing.T) {
	c, err := catalog.Open(mcpgateway.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range c.Entries() {
		if entry.Runs == catalog.None {
			continue
		}
		example := exampleConfig(entry)
		checked, err := config.Parse([]byte(example), c)
		if err != nil {
			t.Errorf("%s: %v", entry.Name, err)
			continue
		}
		if len(checked.Servers) != 1 || len(checked.Warnings) > 0 {
			t.Errorf("%s gives %d servers and warns %q", example, len(checked.Servers), checked.Warnings)
		}
		if text := entryText(entry); !strings.Contains(text, "\nexample:\n  mcp-gateway --config "+shellQuote(example)+"\n") {
			t.Errorf("%s: the example is not shown:\n%s", entry.Name, text)
		}
	}
}

func TestCatalogShow_TellsWhatCountsAsGiven(t *testing.T) {
	c, err := catalog.Parse([]byte(`{"x": {"runs": "git", "repository": "https://example.com/x", "commit": "0123456789abcdef0123456789abcdef01234567", "bin": "x",
		"description": "Does it.", "env": {"A": "{{apiKey}}", "B": "{{myURLHost}}", "D": "{{done}}", "L": "{{level}}", "P": "{{dataPath}}"}, "needs": ["chromium"],
		"properties": {
			"apiKey": {"type": "string", "required": true, "secret": true, "description": "The key."},
			"dataPath": {"type": "array", "items": {"type": "string"}, "required": true},
			"done": {"type": "boolean", "required": true},
			"level": {"type": "string", "enum": ["low", "high"], "required": true},
			"myURLHost": {"type": "string", "default": "h", "required": true}},
		"proven": {"level": "started", "tools": 1, "megabytes": 12, "date": "2026-11-29"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := c.Lookup("x")
	want := `x
Does it.

runs:       git https://example.com/x@0123456789abcdef0123456789abcdef01234567
needs:      chromium
proven:     started with 1 tool on 2026-11-29, takes 12 MB

properties:
  apiKey: a string, required, secret. The key.
  dataPath: a list of strings, required
  done: a boolean, required
  level: one of "low", "high", required
  myURLHost: a string, default "h"

example:
  mcp-gateway --config '{"x":{"apiKey":"API_KEY","dataPath":["/tmp"],"done":true,"level":"low"}}'
`
	if got := entryText(entry); got != want {
		t.Errorf("got\n%s", got)
	}
	whole, err := json.Marshal(entry)
	if err != nil || !strings.Contains(string(whole), `"myURLHost":{"type":"string","required":true,"default":"h"}`) {
		t.Errorf("JSON says it otherwise than E2B's spec: %s, %v", whole, err)
	}
}
