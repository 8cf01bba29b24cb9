package install

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
)

// commitOf gives the commit of a branch or tag in a bare repository of the git server.
func (s *gitServer) commitOf(t *testing.T, name, ref string) string {
	t.Helper()
	out, err := exec.Command("git", "-C", filepath.Join(s.root, name+".git"), "rev-parse", ref+"^{commit}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// commit adds a commit with other files to a branch, and tags it.
func (s *gitServer) commit(t *testing.T, name, branch, tag string, files map[string]string) {
	t.Helper()
	work := t.TempDir()
	s.git(t, work, "clone", "-q", "-b", branch, filepath.Join(s.root, name+".git"), "w")
	for file, text := range files {
		programs(t, filepath.Join(work, "w"), map[string]string{file: text})
	}
	for _, args := range [][]string{{"add", "."}, {"commit", "-q", "-m", "more"}, {"tag", tag}, {"push", "-q", "--tags", "origin", branch}} {
		s.git(t, filepath.Join(work, "w"), args...)
	}
}

// allow makes a repository give single commits, as public hosts do.
func (s *gitServer) allow(t *testing.T, name string) {
	s.git(t, filepath.Join(s.root, name+".git"), "config", "uploadpack.allowReachableSHA1InWant", "true")
}

func gitLaunch(repository, commit string) catalog.Launch {
	return catalog.Launch{Kind: catalog.Git, Repository: repository, Commit: commit, Subdir: "sub",
		Steps: [][]string{{"/bin/sh", "./build.sh"}}, Program: []string{"./server.sh", "first"}, Args: []string{"more"}}
}

var gitFiles = map[string]string{
	"build.sh":  "cp template server.sh; chmod 755 server.sh; echo built >>runs; git --version >/dev/null; test -d ../.git; cat",
	"template":  "#!/bin/sh\necho \"$* in $(pwd)\"\ncat\n",
	"helper.sh": "#!/bin/sh\n",
}

func TestD2_PinnedClone(t *testing.T) {
	for _, single := range []bool{true, false} { // whether the host gives single commits
		s := newGitServer(t, (*httptest.Server).Start)
		s.addIn(t, "an-owner/a.repo", "sub", gitFiles)
		pinned := s.commitOf(t, "an-owner/a.repo", "trunk")
		s.commit(t, "an-owner/a.repo", "trunk", "v2", map[string]string{"sub/build.sh": "false"})
		if single {
			s.allow(t, "an-owner/a.repo")
		}
		f := newFixture(t, s.URL)
		l := gitLaunch("https://github.com/an-owner/a.repo", pinned) // the other host stands in for this one

		if r := f.pulled(t, l, StateInstalled); r.Version != pinned {
			t.Errorf("%+v", r)
		}
		s.Close()
		spec, err := f.prepare(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.firstLine(t, spec), "first more in "+spec.Dir; got != want {
			t.Errorf("it said %q, want %q", got, want)
		}
		if filepath.Base(spec.Dir) != "sub" || read(t, spec.Dir, "runs") != "built" {
			t.Errorf("working directory %q", spec.Dir)
		}
		if info, err := os.Stat(filepath.Join(spec.Dir, "helper.sh")); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("the execute bit is gone: %v, %v", info, err)
		}
		if _, err := os.Stat(filepath.Join(spec.Dir, "../.git")); !os.IsNotExist(err) {
			t.Errorf("the history is left: %v", err)
		}
	}
}

func TestD2_PinnedCloneFails(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.addIn(t, "an-owner/a.repo", "sub", gitFiles)
	s.allow(t, "an-owner/a.repo")
	pinned := s.commitOf(t, "an-owner/a.repo", "trunk")
	url := s.URL + "/an-owner/a.repo"
	for _, tt := range []struct {
		name   string
		change func(*catalog.Launch)
		cause  fault.Cause
		want   string
	}{
		{"no such commit", func(l *catalog.Launch) { l.Commit = strings.Repeat("ab", 20) }, fault.CloneFailed, `clone ` + url + ` at ` + strings.Repeat("ab", 20) + ` after `},
		{"no commit at all", func(l *catalog.Launch) { l.Commit = "main" }, fault.InstallFailed, `at main: commit "main" or folder "sub" is none`},
		{"a folder outside", func(l *catalog.Launch) { l.Subdir = "../.." }, fault.InstallFailed, `or folder "../.." is none`},
		{"no such folder", func(l *catalog.Launch) { l.Subdir = "none" }, fault.InstallFailed, `/bin/sh ./build.sh: enter working directory: `},
		{"a step fails", func(l *catalog.Launch) { l.Steps = [][]string{{"/bin/sh", "-c", "exit 7"}} }, fault.InstallFailed, `exit status 7 after `},
		{"no program", func(l *catalog.Launch) { l.Program = []string{"./none"} }, fault.InstallFailed, `find its program: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, "")
			l := gitLaunch(url, pinned)
			tt.change(&l)
			got := mustFail(t, f.Installer, soon(t), l)
			if got.Cause != tt.cause || !strings.Contains(got.Error(), tt.want) {
				t.Errorf("%v, want %s", got, tt.want)
			}
			if left, _ := filepath.Glob(filepath.Join(f.dir, "packages/srv/*")); len(left) != 1 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A clone that is a Python project is installed as a package; its build needs nothing from elsewhere.
func TestD2_PinnedPythonProject(t *testing.T) {
	t.Parallel()
	tool(t, "uv")
	s := newGitServer(t, (*httptest.Server).Start)
	s.addIn(t, "an-owner/a.repo", "sub", map[string]string{
		"pyproject.toml": "[project]\nname = \"proj\"\nversion = \"1.0\"\n[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		"backend.py": `import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "proj-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as z:
        z.write("proj.py")
        z.writestr("proj-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: proj\nVersion: 1.0\n")
        z.writestr("proj-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("proj-1.0.dist-info/entry_points.txt", "[console_scripts]\nproj.server = proj:main\n")
        z.writestr("proj-1.0.dist-info/RECORD", "".join(n + ",,\n" for n in z.namelist()) + "proj-1.0.dist-info/RECORD,,\n")
    return name
`,
		"proj.py": pythonServer,
	})
	r := newRegistry(t)
	f := newFixture(t, s.URL, r.env(t)...)
	l := gitLaunch(s.URL+"/an-owner/a.repo", s.commitOf(t, "an-owner/a.repo", "trunk"))
	l.Steps, l.Program, l.Bin = nil, nil, "proj.server"
	result := f.pulled(t, l, StateInstalled)
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(result.Argv[0]), "../lib/*/site-packages/__pycache__/proj.*.pyc")); len(files) != 1 {
		t.Errorf("byte code: %q", files)
	}
	other := l
	other.Bin = "none"
	if got := mustFail(t, f.Installer, t.Context(), other); !strings.Contains(got.Error(), `no executable`) {
		t.Errorf("%v", got)
	}
	s.Close()
	spec, err := f.offline(t, "/nowhere").prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.firstLine(t, spec); got != "python ['more'] None" || filepath.Base(spec.Dir) != "sub" {
		t.Errorf("it said %q in %q", got, spec.Dir)
	}
}

// A clone that was pulled at a branch, tag or commit is what a start takes.
func TestD2_C2_PullAtRef(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": "#!/bin/sh\necho one\n"})
	first := s.commitOf(t, "an-owner/a.repo", "trunk")
	s.commit(t, "an-owner/a.repo", "trunk", "v2", map[string]string{"server.sh": "#!/bin/sh\necho two\n"})
	s.commit(t, "an-owner/a.repo", "other", "v3", map[string]string{"server.sh": "#!/bin/sh\necho three\n"})
	f := newFixture(t, s.URL)
	pull := func(ref string) (Result, error) {
		l := repo("", "./server.sh")
		return f.Pull(t.Context(), Server{Name: "srv", Launch: l, Ref: ref})
	}
	for _, tt := range []struct{ ref, state, says string }{
		{"v1", StateInstalled, "one"}, {"v1", StatePresent, "one"}, {"", StatePresent, "one"},
		{"other", StateInstalled, "three"}, {first, StateInstalled, "one"}, {"v2", StateInstalled, "two"},
	} {
		result, err := pull(tt.ref)
		if err != nil {
			t.Fatal(tt.ref, err)
		}
		spec, err := f.prepare(t.Context(), repo("", "./server.sh"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.firstLine(t, spec); got != tt.says || result.State != tt.state || !wholeCommit.MatchString(result.Version) {
			t.Errorf("%q: it says %q, %+v", tt.ref, got, result)
		}
	}
	t.Run("the ref is recorded", func(t *testing.T) {
		clones, err := New(Options{Dir: f.dir}).Clones()
		want := s.commitOf(t, "an-owner/a.repo", "v2")
		if err != nil || len(clones) != 1 || clones[0].Name != "github/an-owner/a.repo" || clones[0].Ref != "v2" || clones[0].Version != want {
			t.Errorf("%+v, %v", clones, err)
		}
	})
	t.Run("one that is not there leaves the old one", func(t *testing.T) {
		_, err := pull("none")
		if err == nil || !strings.Contains(err.Error(), `[clone_failed]: clone `+s.URL+`/an-owner/a.repo at none after `) || !strings.HasSuffix(err.Error(), `it has no branch, tag or commit "none"`) {
			t.Errorf("%v", err)
		}
		if result, err := pull("v2"); err != nil || result.State != StatePresent {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("what was installed in the old one is installed anew", func(t *testing.T) {
		l := repo("echo run >>runs", "./server.sh")
		if _, err := f.prepare(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if _, err := pull("v1"); err != nil {
			t.Fatal(err)
		}
		spec, err := f.prepare(t.Context(), l)
		if err != nil || read(t, spec.Dir, "runs") != "run" {
			t.Errorf("%v", err)
		}
	})
	t.Run("a start needs no network", func(t *testing.T) {
		s.Close()
		if _, err := f.prepare(t.Context(), repo("", "./server.sh")); err != nil {
			t.Error(err)
		}
	})
}

func TestPrune(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	for _, name := range []string{"an-owner/a.repo", "an-owner/other"} {
		s.add(t, name, map[string]string{"server.sh": "#!/bin/sh\n"})
	}
	f := newFaked(t)
	f.opts.GitHubURL = s.URL
	clone := func(name string) Server {
		return Server{Name: "github/an-owner/" + name, Launch: catalog.Launch{Kind: catalog.GitHub, Owner: "an-owner", Repo: name, Run: "x"}}
	}
	a, b, old := Server{Name: "a", Launch: npmServer("2.0.0")}, Server{Name: "b/c", Launch: npmServer("1.0.0")}, Server{Name: "a", Launch: npmServer("1.0.0")}
	all := []Server{a, b, old, clone("a.repo"), clone("other")}
	pullAll := func() {
		for _, s := range all {
			if _, err := f.Pull(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func() (found []string) {
		for i, s := range all {
			if _, ok := f.Lookup(s); ok {
				found = append(found, []string{"a", "b", "old", "a.repo", "other"}[i])
			}
		}
		return found
	}
	if err := os.MkdirAll(StateDir(f.dir, "b/c"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		keep    Keep
		want    []string
		removed int
	}{
		{"what is not named", Keep{Servers: []Server{a, clone("a.repo")}}, []string{"a", "a.repo"}, 3},
		{"but no clones", Keep{Servers: []Server{a, b}, Clones: true}, []string{"a", "b", "a.repo", "other"}, 1},
		{"what a running gateway uses stays in every version", Keep{Names: []string{"a", "github/an-owner/other", "../.."}}, []string{"a", "old", "other"}, 2},
		{"everything", Keep{}, nil, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pullAll()
			removed, err := f.Prune(t.Context(), tt.keep)
			if err != nil {
				t.Fatal(err)
			}
			if got := there(); !slices.Equal(got, tt.want) || len(removed) != tt.removed {
				t.Errorf("left %q, want %q, removed %q", got, tt.want, removed)
			}
			if _, err := os.Stat(StateDir(f.dir, "b/c")); err != nil {
				t.Error("what the server keeps is gone")
			}
		})
	}
	t.Run("what a crash has left goes too", func(t *testing.T) {
		pullAll()
		record := f.job(a).recordPath()
		if err := os.Remove(record); err != nil {
			t.Fatal(err)
		}
		removed, err := f.Prune(t.Context(), Keep{Servers: all})
		if err != nil || len(removed) != 1 || !strings.HasPrefix(removed[0], "packages/a/") {
			t.Errorf("%q, %v", removed, err)
		}
		if _, err := os.Stat(strings.TrimSuffix(record, recordSuffix)); !os.IsNotExist(err) {
			t.Errorf("the half install is left: %v", err)
		}
	})
	t.Run("not while it is being installed", func(t *testing.T) {
		unlock, err := lock(t.Context(), filepath.Join(f.dir, "packages/a", lockName))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Prune(ctx, Keep{}); err == nil {
			t.Error("a folder was removed under its lock")
		}
	})
	t.Run("one that waits for a removed lock makes a new one", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x", lockName)
		unlock, err := lock(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		again, err := lock(soon(t), path)
		if err != nil {
			t.Fatal(err)
		}
		defer again()
		unlock()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := lock(ctx, path); err == nil {
			t.Error("two hold it")
		}
	})
}
