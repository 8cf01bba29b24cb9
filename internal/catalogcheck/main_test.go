package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
)

// file writes a catalogue whose good server is the gateway's own, and whose others fail in different ways.
func file(t *testing.T) string {
	t.Helper()
	text := fmt.Sprintf(`{
  "bad": {
    "description": "Ends at once.",
    "runs": "command",
    "command": "false",
    "properties": {},
    "proven": {"level": "started", "tools": 3, "date": "2026-01-02"}
  },
  "good": {
    "description": "Says \"proven\": {} in its text.", "runs": "command",
    "command": %q,
    "args": [["demo-server"]], "env": {"KEY": "{{key}}"},
    "properties": {"key": {"type": "string", "required": true}}, "proven": {"level": "untried"},
    "note": "Stays."
  },
  "never": {
    "description": "Cannot run.", "runs": "none", "reason": "It is no more.", "properties": {}, "proven": {"level": "untried"}
  }
}
`, mcptest.Gateway(t))
	path := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func checked(t *testing.T, path, work string, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args = append([]string{"-catalog", path, "-binary", mcptest.Gateway(t), "-work", work}, args...)
	code = run(t.Context(), args, os.Environ(), &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

func TestCheck(t *testing.T) {
	path, work := file(t), t.TempDir()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	code, out := checked(t, path, work)
	for _, want := range []string{"1/2  bad", `server "bad" [exited_before_ready]: false: exit status 1`, "2/2  good", "started", "4 tools",
		"bad was started once, and is untried here: ", "listed 3, installed 2, started 2\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in:\n%s", code, want, out)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	proven := fmt.Sprintf(`"proven": {"level": "started", "tools": 4, "date": %q}`, time.Now().Format(time.DateOnly))
	if want := strings.Replace(string(before), `"properties": {"key": {"type": "string", "required": true}}, "proven": {"level": "untried"}`,
		`"properties": {"key": {"type": "string", "required": true}}, `+proven, 1); string(after) != want {
		t.Errorf("the catalogue is\n%s", after)
	}
	if left, _ := filepath.Glob(filepath.Join(work, "root-*")); len(left) > 0 {
		t.Errorf("roots are left: %q", left)
	}

	t.Run("it goes on where it was", func(t *testing.T) {
		if _, out := checked(t, path, work); strings.Contains(out, "1/") || !strings.Contains(out, "started 2") {
			t.Errorf("it printed:\n%s", out)
		}
		if _, out := checked(t, path, work, "-again", "failed"); !strings.Contains(out, "1/1  bad") {
			t.Errorf("it printed:\n%s", out)
		}
		if _, out := checked(t, path, work, "-again", "all", "-only", "good"); !strings.Contains(out, "1/1  good") {
			t.Errorf("it printed:\n%s", out)
		}
	})
	t.Run("an entry that was changed is tried again, after a crash too", func(t *testing.T) {
		changed := strings.Replace(string(after), `"command": "false"`, `"command": "true"`, 1)
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		journal := filepath.Join(work, "journal.jsonl")
		text, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(journal, append(text, `{"name": "good", "lev`...), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, out := checked(t, path, work); !strings.Contains(out, "1/1  bad") {
			t.Errorf("it printed:\n%s", out)
		}
	})
}

// What an interrupt has cut off is not taken for a failure.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	work := t.TempDir()
	code := run(ctx, []string{"-catalog", file(t), "-binary", mcptest.Gateway(t), "-work", work}, os.Environ(), &out, &errOut)
	text, err := os.ReadFile(filepath.Join(work, "journal.jsonl"))
	if code != 1 || !strings.Contains(errOut.String(), "goes on from here") || err != nil || len(text) > 0 {
		t.Errorf("exit %d, %s, journal %q, %v", code, errOut.String(), text, err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-jobs", "0"}, {"-again", "never"}, {"-nope"}} {
		var out bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &out); code != 2 {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}

func TestMadeUpConfig(t *testing.T) {
	e := &catalog.Entry{Name: "a", Properties: map[string]catalog.Property{
		"apiKey": {Type: "string", Required: true}, "baseUrl": {Type: "string", Required: true}, "paths": {Type: "array", Required: true},
		"mode": {Type: "string", Required: true, Enum: []string{"read", "write"}}, "port": {Type: "integer", Required: true},
		"on": {Type: "boolean", Required: true}, "optional": {Type: "string"}, "given": {Type: "string", Required: true, Default: json.RawMessage(`"x"`)},
		"awsProfile": {Type: "string", Required: true}, "configPath": {Type: "string", Required: true, Description: "Path of the configuration file."},
	}}
	want := `{"a":{"apiKey":"0123456789abcdef0123456789abcdef","awsProfile":"0123456789abcdef0123456789abcdef","baseUrl":"https://example.com","configPath":"/data/file.json","mode":"read","on":true,"paths":["/data"],"port":1}}`
	if got := string(madeUpConfig(e, "/data", false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = strings.Replace(want, `"paths"`, `"optional":"0123456789abcdef0123456789abcdef","paths"`, 1)
	if got := string(madeUpConfig(e, "/data", true)); got != want {
		t.Errorf("with all: got  %s\nwant %s", got, want)
	}
}
