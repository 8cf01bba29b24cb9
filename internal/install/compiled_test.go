package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
)

// A Go package is built by the real go command, from modules on disk.
func TestD2_PullGo(t *testing.T) {
	t.Parallel()
	tool(t, "go")
	proxy := t.TempDir()
	versions := filepath.Join(proxy, "example.com/srv/@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	mod := "module example.com/srv\n"
	programs(t, versions, map[string]string{"v1.2.0.info": `{"Version":"v1.2.0"}`, "v1.2.0.mod": mod, "list": "v1.2.0\n",
		"v1.2.0.zip": string(zipOf(t, map[string]string{
			"example.com/srv@v1.2.0/go.mod":           mod,
			"example.com/srv@v1.2.0/cmd/tool/main.go": "package main\nimport \"os\"\nfunc main() { os.Stdout.WriteString(\"go \" + os.Args[1] + \"\\n\"); os.Stdin.Read(make([]byte, 1)) }\n",
		}))})
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, "", "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "GOPROXY=file://"+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw",
		"GOCACHE="+strings.TrimSpace(string(cache)), "GOMODCACHE="+t.TempDir())
	l := catalog.Launch{Kind: catalog.Go, Package: "example.com/srv/cmd/tool", Version: "v1.2.0", Args: []string{"arg"}}
	r := f.pulled(t, l, StateInstalled)
	if r.Version != "v1.2.0" || len(r.Argv) != 1 || filepath.Base(r.Argv[0]) != "tool" {
		t.Errorf("%+v", r)
	}
	spec, err := f.offline(t, "/nowhere").prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.firstLine(t, spec); got != "go arg" {
		t.Errorf("it said %q", got)
	}
	l.Version = "v9.9.9"
	if got := mustFail(t, f.Installer, t.Context(), l); !strings.HasPrefix(got.Ran, "go install ") || !strings.HasSuffix(got.Ran, " example.com/srv/cmd/tool@v9.9.9") {
		t.Errorf("%v", got)
	}
}

// A crate is built with the versions that its author has locked.
func TestD2_PullCrate(t *testing.T) {
	dir := t.TempDir()
	programs(t, dir, map[string]string{"cargo": "#!/bin/sh\necho \"$*\" >>\"$LOG\"\nmkdir bin\necho >.crates.toml\nprintf '#!/bin/sh\\necho crate\\n' >bin/the-server\nchmod +x bin/the-server\n"})
	log := filepath.Join(dir, "log")
	f := newFixture(t, "", "PATH="+dir+":/usr/bin:/bin", "HOME="+t.TempDir(), "LOG="+log)
	l := catalog.Launch{Kind: catalog.Crate, Package: "the-crate", Version: "0.4.5"}
	r := f.pulled(t, l, StateInstalled)
	spec, err := f.prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.firstLine(t, spec); got != "crate" || r.Version != "0.4.5" {
		t.Errorf("it said %q, %+v", got, r)
	}
	l.Version = ""
	f.pulled(t, l, StateInstalled)
	want := []string{"install --locked --root . --version 0.4.5 the-crate", "install --locked --root . the-crate"}
	if got := strings.Split(read(t, log), "\n"); !slices.Equal(got, want) {
		t.Errorf("cargo ran %q, want %q", got, want)
	}
}
