package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-gateway/internal/catalog"
)

func TestNodeArgv(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name, text string
		want       []string // FILE is the file
	}{
		{"a.js", "#!/usr/bin/env node\nx", []string{"node", "FILE"}},
		{"b", "#!/usr/bin/env node\r\nx", []string{"node", "FILE"}},
		{"c", "#!/usr/local/bin/node --no-warnings", []string{"node", "--no-warnings", "FILE"}},
		{"d", "#!/usr/bin/env -S node --enable-source-maps --x\n", []string{"node", "--enable-source-maps", "--x", "FILE"}},
		{"e.mjs", "import 'x'\n", []string{"node", "FILE"}},
		{"f.cjs", "", []string{"node", "FILE"}},
		{"g", "#!/usr/bin/env bun\n", []string{"FILE"}},
		{"h", "#!/bin/sh\nexec node x\n", []string{"FILE"}},
		{"i", "\x7fELF\x00\x01", []string{"FILE"}},
		{"j.js", "#!/usr/bin/env\n", []string{"FILE"}},
		{"k.js", strings.Repeat("x", 5000), []string{"node", "FILE"}},
	} {
		file := filepath.Join(dir, tt.name)
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := nodeArgv(file)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], file, "FILE")
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestReadManifest(t *testing.T) {
	for _, tt := range []struct {
		text string
		want map[string]string
	}{
		{`{"name": "@s/x", "bin": "cli.js"}`, map[string]string{"x": "cli.js"}},
		{`{"name": "x", "bin": {"a": "1.js", "@s/b": "2.js"}}`, map[string]string{"a": "1.js", "b": "2.js"}},
		{`{"name": "x", "directories": {"bin": "bin"}}`, map[string]string{"tool": "bin/tool"}},
		{`{"name": "x"}`, map[string]string{}},
		{`{"name": "x", "bin": null}`, map[string]string{}},
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		programs(t, dir, map[string]string{"package.json": tt.text, "bin/tool": ""})
		got, err := readManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.bins); diff != "" {
			t.Errorf("%s: %s", tt.text, diff)
		}
	}
	if _, err := readManifest(t.TempDir()); err == nil {
		t.Error("a folder without a manifest is a package")
	}
}

func TestPick(t *testing.T) {
	for _, tt := range []struct {
		pkg, bin string
		have     []string
		want     string
	}{
		{"@scope/server", "", []string{"other", "server"}, "server"},
		{"github.com/a/b/cmd/tool", "", []string{"tool"}, "tool"},
		{"github.com/a/tool/v2", "", []string{"tool", "x"}, "tool"},
		{"v2", "", []string{"v2", "x"}, "v2"},
		{"pkg", "", []string{"only"}, "only"},
		{"pkg", "x", []string{"pkg", "x"}, "x"},
		{"pkg", "y", []string{"pkg", "x"}, `it has no executable "y", but pkg, x`},
		{"pkg", "", []string{"a", "b"}, `it has no executable "pkg", but a, b`},
		{"pkg", "", nil, "it has no executable"},
	} {
		j := &job{launch: catalog.Launch{Kind: catalog.NPM, Package: tt.pkg, Bin: tt.bin}}
		got, err := j.pick(tt.have)
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), "from npm: ")
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestNeed(t *testing.T) {
	for _, tt := range []struct {
		need, version string
		want          bool
	}{
		{"node>=18", "v18.0.0", true}, {"node>=18", "17.9.9", false}, {"node>=22.14.0", "22.14", false}, {"node>=22.14.0", "22.14.0", true},
		{"python==3.13", "3.13.7", true}, {"python==3.13", "3.14.0", false}, {"python==3.13", "3.1", false}, {"python==3", "3.9", true},
		{"chromium", "1", true}, {"python>=3.10", "3.9.20", false},
	} {
		if got := parseNeed(tt.need).meets(numbers(tt.version)); got != tt.want {
			t.Errorf("%s meets %s: %t", tt.version, tt.need, got)
		}
	}
	for need, want := range map[string]string{"python>=3.10": ">=3.10", "python==3.13": "==3.13.*", "python": ""} {
		if got := parseNeed(need).specifier(); got != want {
			t.Errorf("%s: %q", need, got)
		}
	}
}

func TestScriptsOf(t *testing.T) {
	record := "../../../bin/my-server,sha256=x,3\n../../../bin/other,,\nmy_server/__init__.py,,\nmy_server/bin/x,,\n"
	if got, want := scriptsOf(record), []string{"my-server", "other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range []string{"My.Server", "my_server", "my--server", "MY-server"} {
		if got := normalPythonName(name); got != "my-server" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
