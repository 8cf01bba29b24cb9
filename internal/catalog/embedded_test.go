package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcpgateway "mcp-gateway"
	"mcp-gateway/internal/secret"
)

// e2bProperty is what E2B's spec says about a property.
type e2bProperty struct {
	Type     string          `json:"type"`
	Required bool            `json:"required"`
	Secret   bool            `json:"secret"`
	Enum     []string        `json:"enum"`
	Default  json.RawMessage `json:"default"`
}

// TestEmbeddedCatalogue_HasE2BsServersAndProperties compares with E2B's spec, frozen before anything
// was corrected.
func TestEmbeddedCatalogue_HasE2BsServersAndProperties(t *testing.T) {
	data, err := os.ReadFile("testdata/e2b-properties.json")
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]map[string]e2bProperty
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec) != 265 {
		t.Fatalf("the spec has %d servers, want 265", len(spec))
	}
	// D1: the contract's one exception.
	storagePath := spec["arxiv"]["storagePath"]
	storagePath.Required = false
	spec["arxiv"]["storagePath"] = storagePath

	c := embedded(t)
	if diff := cmp.Diff(sortedKeys(spec), c.Names()); diff != "" {
		t.Errorf("names (-E2B +catalogue):\n%s", diff)
	}
	for _, entry := range c.Entries() {
		got := map[string]e2bProperty{}
		for name, p := range entry.Properties {
			got[name] = e2bProperty{p.Type, p.Required, p.Secret, p.Enum, p.Default}
		}
		if diff := cmp.Diff(spec[entry.Name], got); diff != "" {
			t.Errorf("%s (-E2B +catalogue):\n%s", entry.Name, diff)
		}
	}
}

func TestEmbeddedCatalogue_EntriesAreComplete(t *testing.T) {
	date := regexp.MustCompile(`^20\d\d-\d\d-\d\d$`)
	runs, levels := map[Kind]int{}, map[string]int{}
	for _, e := range embedded(t).Entries() {
		runs[e.Runs]++
		levels[e.Proven.Level]++
		problem := func(format string, args ...any) { t.Errorf(e.Name+": "+format, args...) }
		if e.Title == "" || !strings.HasSuffix(e.Description, ".") || strings.Contains(e.Description, "\n") {
			problem("title %q, description %q", e.Title, e.Description)
		}
		if e.Note != "" && !strings.HasSuffix(e.Note, ".") {
			problem("note %q", e.Note)
		}
		if (e.Package != "") != (e.Version != "") {
			problem("package %q in version %q", e.Package, e.Version)
		}
		if e.Runs == Git && !strings.HasPrefix(e.Repository, "https://") {
			problem("repository %q", e.Repository)
		}
		if e.Runs == Remote && !slices.Contains(e.Needs, "network") {
			problem("needs %q, and not the network", e.Needs)
		}
		switch p := e.Proven; {
		case p.Level == Started && (p.Tools == 0 || !date.MatchString(p.Date)),
			p.Level == Installed && !date.MatchString(p.Date),
			p.Level != Started && p.Tools != 0,
			p.Level == Untried && p.Date != "",
			e.Runs == None && p.Level != Untried:
			problem("proven %+v", p)
		}
		for name, p := range e.Properties {
			if p.Description == "" {
				problem("property %q has no description", name)
			}
		}
	}
	want := map[Kind]int{NPM: 69, PyPI: 77, Go: 12, Crate: 2, Git: 69, Remote: 28, None: 8}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Error(diff)
	}
	if levels[Started] < 100 {
		t.Errorf("%d servers have been seen to start, which were over a hundred once", levels[Started])
	}
}

// unusedProperties have a meaning in E2B's Docker images only, most of them as mounts.
var unusedProperties = map[string]string{
	"aks": "containerUser", "awsDiagram": "outputDir", "desktopCommander": "paths", "git": "paths", "hoverfly": "data",
	"markdownify": "paths", "markitdown": "paths", "openapiSchema": "SchemaPath", "playwright": "data",
}

// TestEmbeddedCatalogue_EveryEntryGivesAPlan fills every entry, once with all its properties and once
// with the required ones only.
func TestEmbeddedCatalogue_EveryEntryGivesAPlan(t *testing.T) {
	for _, e := range embedded(t).Entries() {
		for _, all := range []bool{true, false} {
			values := map[string]string{}
			props := map[string]json.RawMessage{}
			for name, p := range e.Properties {
				if all || p.Required && len(p.Default) == 0 {
					values[name], props[name] = dummy(name, p)
				}
			}
			launch, problems := e.Launch(props)
			if e.Runs == None {
				if want := fmt.Sprintf("entry %q: cannot be run here: %s", e.Name, e.Reason); messages(problems) != want {
					t.Errorf("%s: %s, want %s", e.Name, messages(problems), want)
				}
				continue
			}
			if len(problems) > 0 {
				t.Errorf("%s: %s", e.Name, messages(problems))
				continue
			}
			checkPlan(t, e, launch.WithState("/state"), values, all)
		}
	}
}

// dummy is a value that a property takes, and its text.
func dummy(name string, p Property) (string, json.RawMessage) {
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0], json.RawMessage(fmt.Sprintf("%q", p.Enum[0]))
	case p.Type == "array":
		return "/dummy/" + name, json.RawMessage(fmt.Sprintf(`["/dummy/%s", "/dummy/2"]`, name))
	case p.Type == "boolean":
		return "true", json.RawMessage("true")
	case p.Type == "string":
		return "dummy-" + name + ".", json.RawMessage(fmt.Sprintf(`"dummy-%s."`, name))
	}
	return "40960", json.RawMessage("40960")
}

func checkPlan(t *testing.T, e *Entry, l Launch, values map[string]string, all bool) {
	t.Helper()
	program := map[Kind]string{
		NPM: l.Package, PyPI: l.Package, Go: l.Package, Crate: l.Package, Git: l.Bin + strings.Join(l.Program, ""), Remote: l.URL,
	}[l.Kind]
	if program == "" || slices.Contains(l.Program, "") {
		t.Errorf("%s: nothing to run in %+v", e.Name, l)
	}
	env := revealed(l.Env)
	maps.Copy(env, revealed(l.Headers))
	whole := slices.Concat(l.Args, l.Program, []string{l.Dir, l.URL}, slices.Collect(maps.Values(env)))
	for _, text := range append(whole, slices.Concat(l.Steps...)...) {
		if strings.Contains(text, "{{") || strings.ContainsRune(text, 0) {
			t.Errorf("%s: a placeholder is left in %q", e.Name, text)
		}
	}
	for name, value := range values {
		used := slices.ContainsFunc(whole, func(text string) bool { return strings.Contains(text, value) })
		if all && used == (unusedProperties[e.Name] == name) {
			t.Errorf("%s: property %q is used: %t", e.Name, name, used)
		}
		if !e.Properties[name].Secret {
			continue
		}
		if !slices.Contains(l.Secrets, secret.Value(value)) {
			t.Errorf("%s: secret %q is not known as one", e.Name, name)
		}
		holds := func(text string) bool { return strings.Contains(text, value) }
		inEnv := slices.ContainsFunc(slices.Collect(maps.Values(env)), holds)
		if holds(l.URL) || slices.ContainsFunc(l.Args, holds) && (inEnv || e.Name != "neon") {
			t.Errorf("%s: secret %q stands in the arguments or the URL", e.Name, name)
		}
	}
}

func TestOpen_ReadsWhatParseReads(t *testing.T) {
	opened, err := Open(mcpgateway.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	parsed := embedded(t)
	if diff := cmp.Diff(parsed.Entries(), opened.Entries()); diff != "" {
		t.Errorf("(-Parse +Open):\n%s", diff)
	}
	if _, ok := opened.Lookup("nobody"); ok {
		t.Error("an entry that nobody wrote is there")
	}
	if entry, _ := opened.Lookup("time"); entry != nil {
		if again, _ := opened.Merge(nil).Lookup("time"); again != entry {
			t.Error("the entry was read twice")
		}
	}
	if _, err := Open([]byte(`[]`)); err == nil {
		t.Error("a list was opened")
	}
	faulty, err := Open([]byte(`{"x": {"runs": "npm"}, "y": {"runs": "npm", "package": "p"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if entries := faulty.Entries(); len(entries) != 1 || entries[0].Name != "y" {
		t.Errorf("a faulty entry is there: %+v", entries)
	}
}
