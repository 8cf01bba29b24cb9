package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// server is an entry of a catalogue for samples.
type server struct {
	line  string // for a shell
	tools int    // that its "proven" tells
	size  int
	needs string
}

// sampleFile writes a catalogue whose servers are proven to start, whether they do or not.
func sampleFile(t *testing.T, servers map[string]server) string {
	t.Helper()
	entries := map[string]any{}
	for name, s := range servers {
		entry := map[string]any{"description": "Is a test.", "runs": "command", "command": "sh", "args": [][]string{{"-c", s.line}}, "properties": map[string]any{},
			"proven": map[string]any{"level": "started", "tools": s.tools, "megabytes": s.size, "date": "2026-01-02"}}
		if s.needs != "" {
			entry["needs"] = []string{s.needs}
		}
		entries[name] = entry
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSample(t *testing.T) {
	good := "exec " + mcptest.Gateway(t) + " demo-server"
	once := filepath.Join(t.TempDir(), "once")
	for _, tt := range []struct {
		name    string
		servers map[string]server
		code    int
		want    []string
		lacks   string
	}{
		{"all start", map[string]server{"a": {line: good, tools: 4, size: 1}, "b": {line: good, tools: 3, size: 150}}, 0,
			[]string{"a sample of 2 of the 2 light entries", `chosen by "c0ffee"`, "  a  ", "4 tools", "had 3 tools on 2026-01-02", "all 2 started"}, "had 4"},
		{"one does not", map[string]server{"a": {line: good, tools: 4, size: 1}, "b": {line: "echo no luck >&2; exit 3", tools: 1, size: 1}}, 1,
			[]string{"exit status 3", "no luck", "FAIL: 1 of 2 entries that catalog.json says have started do not: b"}, "all 2"},
		{"one does at the second try", map[string]server{"a": {line: good, tools: 4, size: 1},
			"b": {line: "if [ -e " + once + " ]; then " + good + "; fi; touch " + once + "; exit 5", tools: 4, size: 1}}, 0,
			[]string{"has started at the second try; the first: ", "exit status 5", "all 2 started"}, "FAIL"},
		{"one lacks its runtime", map[string]server{"a": {line: good, tools: 4, size: 1}, "b": {line: good, tools: 4, size: 1}, "c": {line: good, tools: 4, size: 1, needs: "java>=999"}}, 0,
			[]string{"light entries", "is left out: this machine has not what it runs on", "all 2 started"}, "FAIL"},
		{"too few are light enough", map[string]server{"a": {line: good, tools: 4, size: 1}, "b": {line: good, tools: 4, size: 151}, "c": {line: good, tools: 4, size: 1, needs: "network"}}, 1,
			[]string{"of the 1 light entries", "FAIL: there are 1 entries too few for a sample of 2"}, "  b  "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, work := sampleFile(t, tt.servers), t.TempDir()
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			code, out := checked(t, path, work, "-sample", "2", "-seed", "c0ffee")
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if code != tt.code || strings.Contains(out, tt.lacks) {
				t.Errorf("exit %d, or %q is in", code, tt.lacks)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the catalogue was changed: %v", err)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// Two commits start different servers, and the same one the same.
func TestSampleOrder(t *testing.T) {
	servers := map[string]server{}
	for i := range 30 {
		servers[fmt.Sprint("s", i)] = server{tools: 1, size: 1}
	}
	path := sampleFile(t, servers)
	order := func(seed string) string {
		c, err := newCheck(&options{catalog: path, work: t.TempDir(), seed: seed, heaviest: 150}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.journal.Close()
		names := []string{}
		for _, e := range c.order() {
			names = append(names, e.Name)
		}
		return strings.Join(names, " ")
	}
	if first := order("one"); first != order("one") || first == order("two") || len(strings.Fields(first)) != 30 {
		t.Errorf("the order is %q, then %q, and for another seed %q", first, order("one"), order("two"))
	}
}
