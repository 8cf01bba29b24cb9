package catalog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	mcpgateway "mcp-gateway"
)

func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func validate(t *testing.T, s *jsonschema.Resolved, text string) error {
	t.Helper()
	var file any
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	return s.Validate(file)
}

func embedded(t *testing.T) *Catalog {
	t.Helper()
	c, err := Parse(mcpgateway.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmbeddedCatalogue_PassesTheSchema(t *testing.T) {
	if err := validate(t, schema(t), string(mcpgateway.Catalog)); err != nil {
		t.Error(err)
	}
}

func TestSchema_AgreesWithParse(t *testing.T) {
	s := schema(t)
	for text, want := range map[string]bool{
		`{"a": {"runs": "npm", "package": "p", "version": "1.0.0"}}`:                                                  true,
		`{"a": {"runs": "npm"}}`:                                                                                      false,
		`{"a": {"runs": "npm", "package": "p", "with": ["x"]}}`:                                                       false,
		`{"a": {"runs": "pypi", "package": "p", "with": ["mcp<2"]}}`:                                                  true,
		`{"a": {"runs": "go", "package": "example.com/x", "packge": "y"}}`:                                            false,
		`{"a": {"runs": "crate", "package": "p", "proven": {"level": "started", "tools": 3}}}`:                        true,
		`{"a": {"runs": "crate", "package": "p", "proven": {"level": "maybe"}}}`:                                      false,
		`{"a": {"runs": "git", "repository": "r", "commit": "` + commit + `", "run": ["node", "x.js"]}}`:              true,
		`{"a": {"runs": "git", "repository": "r", "commit": "` + commit + `"}}`:                                       false,
		`{"a": {"runs": "git", "repository": "r", "commit": "main", "bin": "x"}}`:                                     false,
		`{"a": {"runs": "git", "repository": "r", "commit": "` + commit + `", "run": ["x"], "with": ["y"]}}`:          false,
		`{"a": {"runs": "git", "repository": "r", "commit": "` + commit + `", "bin": "x", "with": ["y"]}}`:            true,
		`{"a": {"runs": "npm", "package": "p", "needs": ["node>=22.14.0", "ast-grep", "python==3.13"]}}`:              true,
		`{"a": {"runs": "npm", "package": "p", "needs": ["node 22"]}}`:                                                false,
		`{"a": {"runs": "remote", "url": "https://example.com/mcp", "transport": "sse"}}`:                             true,
		`{"a": {"runs": "remote", "url": "https://example.com/mcp", "args": [["x"]]}}`:                                false,
		`{"a": {"runs": "command", "command": "x", "env": {"A-B": "c"}}}`:                                             false,
		`{"a": {"runs": "none", "reason": "Only an image exists."}}`:                                                  true,
		`{"a": {"runs": "docker", "package": "x"}}`:                                                                   false,
		`{"a": {"runs": "npm", "package": "p", "properties": {"x": {"type": "array", "items": {"type": "string"}}}}}`: true,
		`{"a": {"runs": "npm", "package": "p", "properties": {"x": {"type": "object"}}}}`:                             false,
		`{"a": {"runs": "npm", "package": "p", "properties": {"gateway": {"type": "string"}}}}`:                       false,
		`{"a": {"command": [["uvx", "x"]], "install": [["uv", "tool", "install", "x"]]}}`:                             true,
		`{"a": {"command": []}}`:                   false,
		`{"a": {"description": "nothing to run"}}`: false,
	} {
		_, parseErr := Parse([]byte(text))
		schemaErr := validate(t, s, text)
		if (parseErr == nil) != want || (schemaErr == nil) != want {
			t.Errorf("%s\n want accepted %t\n Parse: %v\n schema: %v", text, want, parseErr, schemaErr)
		}
	}
}

func TestD1_TheSevenServers(t *testing.T) {
	c := embedded(t)
	for name, want := range map[string]struct {
		runs    Kind
		pkg     string
		props   string
		args    []string
		missing string
	}{
		"duckduckgo":         {runs: PyPI, pkg: "duckduckgo-mcp-server"},
		"arxiv":              {runs: PyPI, pkg: "arxiv-mcp-server", props: `{"storagePath": "/p"}`, args: []string{"--storage-path", "/p"}},
		"fetch":              {runs: PyPI, pkg: "mcp-server-fetch"},
		"time":               {runs: PyPI, pkg: "mcp-server-time"},
		"filesystem":         {runs: NPM, pkg: "@modelcontextprotocol/server-filesystem", props: `{"paths": ["/a", "/b c"]}`, args: []string{"/a", "/b c"}, missing: "is missing, must be a list of strings"},
		"memory":             {runs: NPM, pkg: "@modelcontextprotocol/server-memory"},
		"sequentialthinking": {runs: NPM, pkg: "@modelcontextprotocol/server-sequential-thinking"},
	} {
		t.Run(name, func(t *testing.T) {
			entry, ok := c.Lookup(name)
			if !ok {
				t.Fatal("not in the catalogue")
			}
			if entry.Description == "" || entry.Version == "" || entry.Proven.Level != Started {
				t.Errorf("entry is not complete: %+v", entry)
			}
			launch, problems := entry.Launch(props(t, want.props))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if launch.Kind != want.runs || launch.Package != want.pkg || launch.Version != entry.Version {
				t.Errorf("runs %s %s %s, want %s %s", launch.Kind, launch.Package, launch.Version, want.runs, want.pkg)
			}
			if diff := cmp.Diff(want.args, launch.Args); diff != "" {
				t.Error(diff)
			}
			_, problems = entry.Launch(nil)
			if got := messages(problems); want.missing == "" && got != "" || want.missing != "" && got != `entry "filesystem": paths: `+want.missing {
				t.Errorf("without properties: %q, want %q", got, want.missing)
			}
		})
	}
}

func TestG3_JSON(t *testing.T) {
	c := embedded(t)
	var list []map[string]any
	text, err := json.Marshal(c.Entries())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != len(c.Names()) {
		t.Fatalf("%d entries, want %d", len(list), len(c.Names()))
	}
	for i, entry := range list {
		if entry["name"] != c.Names()[i] {
			t.Errorf("entry %d is %v, want %s", i, entry["name"], c.Names()[i])
		}
		for _, field := range []string{"name", "description", "runs"} {
			if text, _ := entry[field].(string); text == "" {
				t.Errorf("%v: %s is %v, want a text", entry["name"], field, entry[field])
			}
		}
		if _, ok := entry["properties"].(map[string]any); !ok {
			t.Errorf("%v: properties is %v, want an object", entry["name"], entry["properties"])
		}
	}
	filesystem, _ := c.Lookup("filesystem")
	text, err = json.Marshal(filesystem.Properties)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"paths":{"type":"array","required":true,"description":"Directories the server may use."}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	if text, _ := json.Marshal((*Catalog)(nil).Entries()); string(text) != "[]" {
		t.Errorf("no entries: %s, want []", text)
	}
}

func TestC5_MergeReplacesEntryByEntry(t *testing.T) {
	over, err := Parse([]byte(`{
		"time": {"runs": "command", "command": "/opt/clock"},
		"notes": {"command": [["uvx", "notes-mcp"]]}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	base := embedded(t)
	merged := base.Merge(over)
	if entry, _ := merged.Lookup("time"); entry.Runs != Command || entry.Package != "" || len(entry.Needs) != 0 {
		t.Errorf("time was not replaced whole: %+v", entry)
	}
	if entry, ok := merged.Lookup("notes"); !ok || entry.Runs != PyPI {
		t.Errorf("notes was not added: %+v", entry)
	}
	if entry, ok := merged.Lookup("fetch"); !ok || entry.Package != "mcp-server-fetch" {
		t.Errorf("fetch did not stay: %+v", entry)
	}
	if entry, _ := base.Lookup("time"); entry.Runs != PyPI {
		t.Error("the catalogue below was changed")
	}
	if got := base.Merge(nil).Names(); len(got) != len(base.Names()) {
		t.Errorf("merged with nothing: %q", got)
	}
}
