package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

// closed is what a machine without a network has: every way leads to a port that nobody listens on.
var closed = []string{"http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1",
	"npm_config_registry=http://127.0.0.1:1", "UV_DEFAULT_INDEX=http://127.0.0.1:1", "PIP_INDEX_URL=http://127.0.0.1:1"}

// pulled pulls one server and expects a state.
func (f *fixture) pulled(t *testing.T, l catalog.Launch, state string) Result {
	t.Helper()
	r, err := f.Pull(t.Context(), Server{Name: "srv", Launch: l})
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(f.lines, "\n"))
	}
	if r.State != state {
		t.Errorf("state %q, want %q", r.State, state)
	}
	return r
}

// packages is the folder of one server's installs.
func (f *fixture) packages(server string) string { return filepath.Join(f.dir, "packages", server) }

// offline is an installer for the same folder on a machine without a network, launchers and installers.
func (f *fixture) offline(t *testing.T, path string) *fixture {
	t.Helper()
	off := newFixture(t, "", append([]string{"PATH=" + path, "HOME=" + t.TempDir()}, closed...)...)
	off.opts.Dir = f.dir
	return off
}

const pythonServer = `import os, sys
def main():
    print("python", sys.argv[1:], os.environ.get("KEY"), flush=True)
    sys.stdin.read()
`

func TestD2_PullPyPI(t *testing.T) {
	t.Parallel()
	tool(t, "uv")
	r := newRegistry(t)
	r.addPyPI(t, "my-server", "1.2.0", pythonServer, map[string]string{"my-server": "main", "other": "main"})
	r.addPyPI(t, "my-server", "1.3.0", pythonServer, map[string]string{"my-server": "main"})
	r.addPyPI(t, "helper", "2.0", "", nil)
	r.addPyPI(t, "helper", "1.0", "", nil)
	f := newFixture(t, "", r.env(t)...)
	l := catalog.Launch{Kind: catalog.PyPI, Package: "My.Server", Version: "1.2.0", With: []string{"helper==1.0"}, Args: []string{"--x", "a b"},
		Env: map[string]secret.Value{"KEY": "s3cr3t-123"}, Needs: []string{"python>=3.8", "chromium-none"}}
	l.Bin = "my-server" // the last part of the name is another one

	result := f.pulled(t, l, StateInstalled)
	if result.Version != "1.2.0" || !slices.Equal(result.Missing, []string{"chromium-none"}) || result.After <= 0 {
		t.Errorf("%+v", result)
	}
	venv := filepath.Dir(filepath.Dir(result.Argv[0]))
	if found, err := findDistribution(venv, "helper"); err != nil || found.version != "1.0" {
		t.Errorf("%+v, %v", found, err)
	}
	t.Run("byte code is compiled", func(t *testing.T) {
		if files, _ := filepath.Glob(filepath.Join(venv, "lib/*/site-packages/__pycache__/my_server.*.pyc")); len(files) != 1 {
			t.Errorf("%q", files)
		}
	})
	t.Run("a second pull does nothing", func(t *testing.T) {
		before := r.requests.Load()
		if again := f.pulled(t, l, StatePresent); again.Version != "1.2.0" || r.requests.Load() != before {
			t.Errorf("%+v, %d requests", again, r.requests.Load()-before)
		}
		if n := strings.Count(strings.Join(f.lines, "\n"), "compiling"); n != 1 {
			t.Errorf("byte code was compiled %d times", n)
		}
	})
	t.Run("B02 B22 a start needs neither network nor launcher", func(t *testing.T) {
		off := f.offline(t, "/nowhere")
		if missing := off.Check(t.Context(), []Server{{Name: "srv", Launch: l}}); len(missing) > 0 {
			t.Fatal(missing)
		}
		spec, err := off.prepare(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := off.firstLine(t, spec), "python ['--x', 'a b'] s3cr3t-123"; got != want {
			t.Errorf("it said %q, want %q", got, want)
		}
		if want := append(slices.Clone(result.Argv), l.Args...); !slices.Equal(spec.Argv, want) {
			t.Errorf("argv %q, want %q", spec.Argv, want)
		}
	})
	t.Run("no file names what the user set", func(t *testing.T) {
		records, _ := filepath.Glob(filepath.Join(f.dir, "packages/srv/*.json"))
		if len(records) != 1 || strings.Contains(read(t, records[0]), "s3cr3t") || strings.Contains(read(t, records[0]), "--x") {
			t.Errorf("%q: %s", records, read(t, records[0]))
		}
	})
	t.Run("another version is another install", func(t *testing.T) {
		l := l
		l.Version = "1.3.0"
		if other := f.pulled(t, l, StateInstalled); other.Version != "1.3.0" || other.Argv[0] == result.Argv[0] {
			t.Errorf("%+v", other)
		}
	})
	t.Run("without a version the newest is taken, and recorded", func(t *testing.T) {
		l := l
		l.Version = ""
		if other := f.pulled(t, l, StateInstalled); other.Version != "1.3.0" {
			t.Errorf("%+v", other)
		}
		r.addPyPI(t, "my-server", "1.4.0", pythonServer, map[string]string{"my-server": "main"})
		if other := f.pulled(t, l, StatePresent); other.Version != "1.3.0" {
			t.Errorf("%+v", other)
		}
	})
	t.Run("without an interpreter it is no install any more", func(t *testing.T) {
		if err := os.Remove(filepath.Join(venv, "bin/python")); err != nil {
			t.Fatal(err)
		}
		f.pulled(t, l, StateInstalled)
	})
	t.Run("a version that does not exist", func(t *testing.T) {
		l := l
		l.Version = "9.9"
		got := mustFail(t, f.Installer, t.Context(), l)
		if !strings.HasPrefix(got.Error(), `server "srv" [install_failed]: uv pip install --python venv My.Server==9.9 helper==1.0: exit status 1 after `) {
			t.Errorf("%v", got)
		}
	})
}

// On a machine without uv, Python's own venv and pip do.
func TestD2_PullPyPIWithoutUV(t *testing.T) {
	t.Parallel()
	tool(t, "python3")
	r := newRegistry(t)
	r.addPyPI(t, "my-server", "1.2.0", pythonServer, map[string]string{"the-only-one": "main"})
	const quick = "PYTHONDONTWRITEBYTECODE=1"
	f := newFixture(t, "", r.env(t, "PATH="+os.Getenv("PATH"), quick)...)
	l := catalog.Launch{Kind: catalog.PyPI, Package: "my-server", Version: "1.2.0"}
	if _, l := f.job(Server{Launch: l}).python(t.Context()); l != nil {
		t.Skip(l.err) // Debian has venv in a package of its own
	}
	if spec, err := f.prepare(t.Context(), l); err != nil || slices.Contains(spec.Env, quick) {
		t.Fatalf("%v, environment %q", err, spec.Env)
	}
	compiled := filepath.Join(f.packages("srv"), "*/venv/lib/*/site-packages/__pycache__/my_server.*.pyc")
	if files, _ := filepath.Glob(compiled); len(files) > 0 {
		t.Errorf("a start has compiled everything: %q", files)
	}
	result := f.pulled(t, l, StatePresent)
	if files, _ := filepath.Glob(compiled); len(files) != 1 {
		t.Errorf("the pull has not: %q", files)
	}
	if spec, err := f.prepare(t.Context(), l); err != nil || !slices.Contains(spec.Env, quick) {
		t.Errorf("%v, environment %q", err, spec.Env)
	}
	spec, err := f.offline(t, "/nowhere").prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.firstLine(t, spec); !strings.HasPrefix(got, "python [") || filepath.Base(result.Argv[0]) != "the-only-one" {
		t.Errorf("%q said %q", result.Argv, got)
	}
}

func TestD2_PullNPM(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	node := binaries(t)
	r := newRegistry(t)
	script := "#!/usr/bin/env node\nconsole.log('node', process.argv.slice(2), process.argv[1] === __filename, 'VERSION')\nprocess.stdin.resume()\n"
	r.addNPM(t, "@scope/server", map[string]string{"server": "dist/index.js", "other": "x.js"}, map[string]string{"dist/index.js": script}, "1.0.0", "1.1.0")
	f := newFixture(t, "", r.env(t)...)
	l := catalog.Launch{Kind: catalog.NPM, Package: "@scope/server", Version: "1.0.0", Args: []string{"/tmp"}}

	result := f.pulled(t, l, StateInstalled)
	if result.Version != "1.0.0" || len(result.Argv) != 2 || result.Argv[0] != "node" {
		t.Errorf("%+v", result)
	}
	path, err := process.LookPath("node", "", f.opts.BaseEnv)
	if err != nil || os.Symlink(path, filepath.Join(node, "node")) != nil {
		t.Fatal(err)
	}
	t.Run("B02 B22 a start needs neither network nor launcher, nor a notice of npm", func(t *testing.T) {
		r.Close()
		off := f.offline(t, node)
		spec, err := off.prepare(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := off.firstLine(t, spec), "node [ '/tmp' ] true 1.0.0"; got != want {
			t.Errorf("it said %q, want %q", got, want)
		}
	})
	t.Run("B71 without node it cannot start, though it is installed", func(t *testing.T) {
		off := f.offline(t, binaries(t))
		off.opts.BaseEnv = append(off.opts.BaseEnv, "x=y")
		l := l
		l.Env = map[string]secret.Value{"PATH": secret.Value(binaries(t))}
		missing := off.Check(t.Context(), []Server{{Name: "srv", Launch: l}})
		if len(missing) != 1 || !strings.HasPrefix(missing[0].Error(), `server "srv" [not_found]: needs node: command "node" not found on PATH `) {
			t.Errorf("%v", missing)
		}
	})
}

func TestD2_NPMWithoutVersionAndName(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	r := newRegistry(t)
	r.addNPM(t, "one-bin", "cli.mjs", map[string]string{"cli.mjs": "console.log('VERSION')\n"}, "1.0.0", "1.1.0")
	f := newFixture(t, "", r.env(t)...)
	if result := f.pulled(t, catalog.Launch{Kind: catalog.NPM, Package: "one-bin"}, StateInstalled); result.Version != "1.1.0" {
		t.Errorf("%+v", result)
	}
	got := mustFail(t, f.Installer, t.Context(), catalog.Launch{Kind: catalog.NPM, Package: "one-bin", Version: "1.0.0", Bin: "none"})
	if want := `server "srv" [install_failed]: one-bin@1.0.0 from npm: it has no executable "none", but one-bin`; got.Error() != want {
		t.Errorf("%v, want %s", got, want)
	}
	if left, _ := os.ReadDir(filepath.Join(f.dir, "packages/srv")); len(left) != 3 { // lock, and the other install with its record
		t.Errorf("left: %v", left)
	}
}
