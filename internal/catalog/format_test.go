package catalog

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcpgateway "mcp-gateway"
	"mcp-gateway/internal/catalog/document"
)

var update = flag.Bool("update", false, "lay out catalog.json anew")

// catalogFile is the embedded file in the source tree.
const catalogFile = "../../catalog.json"

// keyOrder is the order in which an entry's fields are written.
var keyOrder = []string{
	"title", "description", "source", "license", "runs",
	"package", "version", "repository", "commit", "subdir", "bin", "with", "install", "run",
	"command", "url", "transport", "headers", "reason",
	"args", "env", "cwd", "properties", "needs", "proven", "note",
}

// mostColumns is how wide a field may be before its members get a line each.
const mostColumns = 120

// TestEmbeddedCatalogue_IsLaidOut keeps the file readable and its diffs small: entries sorted, their
// fields in one order, a field on one line where it fits. With -update it writes the file so.
func TestEmbeddedCatalogue_IsLaidOut(t *testing.T) {
	data := mcpgateway.Catalog
	if *update {
		var err error
		if data, err = os.ReadFile(catalogFile); err != nil {
			t.Fatal(err)
		}
	}
	want := layout(t, data)
	if *update {
		if err := os.WriteFile(catalogFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("go test ./internal/catalog -run LaidOut -update lays it out (-want +got):\n%s", diff)
	}
}

func layout(t *testing.T, data []byte) string {
	t.Helper()
	entries := members(t, data)
	slices.SortFunc(entries, func(a, b document.Member) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	out.WriteString("{\n")
	for i, entry := range entries {
		fields := members(t, entry.Value)
		slices.SortStableFunc(fields, func(a, b document.Member) int {
			return slices.Index(keyOrder, a.Name) - slices.Index(keyOrder, b.Name)
		})
		out.WriteString("  " + compact(t, quoted(t, entry.Name)) + ": {\n")
		for j, field := range fields {
			out.WriteString(layoutField(t, field) + comma(j, len(fields)))
		}
		out.WriteString("  }" + comma(i, len(entries)))
	}
	return out.String() + "}\n"
}

// layoutField writes a field on one line, or an object's or list's members on one line each.
func layoutField(t *testing.T, field document.Member) string {
	name := "    " + compact(t, quoted(t, field.Name)) + ": "
	line := name + compact(t, field.Value)
	var lines []string
	open, shut := "{", "}"
	switch document.Kind(field.Value) {
	case "an object":
		inner := members(t, field.Value)
		for _, m := range inner {
			lines = append(lines, compact(t, quoted(t, m.Name))+": "+compact(t, m.Value))
		}
	case "a list":
		open, shut = "[", "]"
		elements, _ := document.List(field.Value)
		for _, element := range elements {
			lines = append(lines, compact(t, element))
		}
	}
	if len(lines) == 0 || len(line) <= mostColumns && field.Name != "properties" {
		return line
	}
	return name + open + "\n      " + strings.Join(lines, ",\n      ") + "\n    " + shut
}

func comma(i, n int) string {
	if i < n-1 {
		return ",\n"
	}
	return "\n"
}

func members(t *testing.T, raw json.RawMessage) []document.Member {
	t.Helper()
	members, ok := document.Object(raw)
	if !ok {
		t.Fatalf("not an object: %.60s", raw)
	}
	return members
}

func quoted(t *testing.T, text string) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// compact writes JSON on one line, with a blank after each comma and colon and strings as they are.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var dense bytes.Buffer
	if err := json.Compact(&dense, raw); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	inString := false
	for i := 0; i < dense.Len(); i++ {
		b := dense.Bytes()[i]
		out.WriteByte(b)
		switch {
		case inString && b == '\\':
			i++
			out.WriteByte(dense.Bytes()[i])
		case b == '"':
			inString = !inString
		case !inString && (b == ',' || b == ':'):
			out.WriteByte(' ')
		}
	}
	return out.String()
}
