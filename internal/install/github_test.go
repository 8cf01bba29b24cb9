package install

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
)

const server = "#!/bin/sh\necho \"$(cat built) $KEY $(pwd)\"\ncat\n"

func repo(install, run string) catalog.Launch {
	return catalog.Launch{Kind: catalog.GitHub, Owner: "an-owner", Repo: "a.repo", Install: install, Run: run, Env: map[string]secret.Value{"KEY": "s3cr3t-123"}}
}

func TestC2_CloneInstallRun(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	f := newFixture(t, s.URL)
	l := repo(`echo "installing with $KEY"; cat; echo run >>runs; echo "built-$KEY" >built`, "./server.sh")
	clone := filepath.Join(f.dir, "github/an-owner/a.repo/clone")

	spec, err := f.prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Dir != clone || spec.Name != "srv" || !slices.Equal(spec.Argv, []string{"/bin/sh", "-c", "./server.sh"}) {
		t.Errorf("spec %+v", spec)
	}
	if got, want := f.firstLine(t, spec), "built-s3cr3t-123 s3cr3t-123 "+clone; got != want {
		t.Errorf("the server said %q, want %q", got, want)
	}
	if want := []string{"srv: cloning " + s.URL + "/an-owner/a.repo", "srv: running its installCmd", "srv: installing with ***"}; !slices.Equal(f.lines, want) {
		t.Errorf("progress %q, want %q", f.lines, want)
	}
	t.Run("shallow, one branch, no tags", func(t *testing.T) {
		if read(t, clone, ".git/shallow") == "" {
			t.Error("the whole history was cloned")
		}
		for _, ref := range []string{"refs/tags/v1", "refs/remotes/origin/other"} {
			if _, err := os.Stat(filepath.Join(clone, ".git", ref)); err == nil {
				t.Errorf("%s was cloned", ref)
			}
		}
	})
	t.Run("a clone that is there needs no network, and no second install", func(t *testing.T) {
		s.Close()
		if _, err := f.prepare(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if got := read(t, clone, "runs"); got != "run" {
			t.Errorf("install ran %q", got)
		}
	})
	t.Run("nor a folder that can be written", func(t *testing.T) {
		lock := filepath.Join(filepath.Dir(clone), lockName)
		if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o755)); err != nil { // for root, who may write anywhere
			t.Fatal(err)
		}
		if _, err := f.prepare(t.Context(), l); err != nil {
			t.Error(err)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("another install command is run in it", func(t *testing.T) {
		if _, err := f.prepare(t.Context(), repo("echo other >>runs", "./server.sh")); err != nil {
			t.Fatal(err)
		}
		if got := read(t, clone, "runs"); got != "run\nother" {
			t.Errorf("install ran %q", got)
		}
	})
	t.Run("no file holds a secret or the configuration", func(t *testing.T) {
		_ = filepath.WalkDir(filepath.Dir(clone), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Base(path) != "built" {
				if text := read(t, path); strings.Contains(text, "s3cr3t") || strings.Contains(text, "echo other") {
					t.Errorf("%s holds it", path)
				}
			}
			return nil
		})
	})
}

func TestC2_WithoutInstall(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": "#!/bin/sh\necho hello\n"})
	t.Setenv("HOME", "") // go-git looks there for its configuration
	f := newFixture(t, s.URL+"/", "PATH=/nowhere")
	spec, err := f.prepare(t.Context(), repo(" ", "./server.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.firstLine(t, spec); got != "hello" {
		t.Errorf("the server said %q", got)
	}
}

func TestC2_HalfCloneOfACrashIsNotTaken(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	f := newFixture(t, s.URL)
	half := filepath.Join(f.dir, "github/an-owner/a.repo", freshName+"123")
	if err := os.MkdirAll(filepath.Join(half, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec, err := f.prepare(t.Context(), repo("", "./server.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if read(t, spec.Dir, "server.sh") == "" {
		t.Error("no clone")
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("the half clone is there: %v", err)
	}
}

func TestC2_StartsOfOneRepositoryDoNotRace(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	f := newFixture(t, s.URL)
	f.opts.Progress = func(string, string) {}
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			_, err := f.prepare(t.Context(), repo("echo run >>runs", "./server.sh"))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(f.dir, "github/an-owner/a.repo")
	if got := read(t, folder, "clone/runs"); got != "run" {
		t.Errorf("install ran %q", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{cloneName, sourceName, stampName, lockName}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	t.Run("waiting for another ends with the context", func(t *testing.T) {
		unlock, err := lock(t.Context(), filepath.Join(folder, lockName))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("start-up budget of 55 s ended"))
		got := mustFail(t, f.Installer, ctx, repo("other", "./server.sh"))
		if got.Cause != fault.CloneFailed || !strings.Contains(got.Error(), "start-up budget") {
			t.Errorf("%v", got)
		}
	})
}

func TestB27_CloneNeverAsks(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	for _, tt := range []struct{ owner, want string }{
		{"nobody", "repository not found or private"},
		{"private", "repository not found or private"},
		{"forbidden", "repository not found or private"},
		{"broken", `the host answered "502 Bad Gateway"`},
	} {
		t.Run(tt.owner, func(t *testing.T) {
			f := newFixture(t, s.URL)
			l := repo("", "true")
			l.Owner = tt.owner
			got := mustFail(t, f.Installer, soon(t), l)
			if got.Cause != fault.CloneFailed || !strings.HasPrefix(got.Err.Error(), tt.want) || got.Ran != "clone "+s.URL+"/"+tt.owner+"/a.repo" {
				t.Errorf("%v", got)
			}
			if entries, _ := filepath.Glob(filepath.Join(f.dir, "github", tt.owner, "a.repo", "*")); len(entries) != 1 {
				t.Errorf("left: %q", entries)
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		f := newFixture(t, "http://127.0.0.1:1")
		if got := mustFail(t, f.Installer, soon(t), repo("", "true")); got.Cause != fault.CloneFailed || !strings.Contains(got.Error(), "connection refused") {
			t.Errorf("%v", got)
		}
	})
	t.Run("a host that never answers", func(t *testing.T) {
		f := newFixture(t, s.URL)
		ctx, cancel := context.WithCancelCause(t.Context())
		f.opts.Progress = func(string, string) { cancel(errors.New("start-up budget of 55 s ended")) }
		l := repo("", "true")
		l.Owner = "stuck"
		got := mustFail(t, f.Installer, ctx, l)
		if got.Cause != fault.CloneFailed || got.Ended != "still running" || got.Err.Error() != "start-up budget of 55 s ended" {
			t.Errorf("%v", got)
		}
	})
	t.Run("an empty repository", func(t *testing.T) {
		s.git(t, s.root, "init", "-q", "--bare", "empty/a.repo.git")
		l := repo("", "true")
		l.Owner = "empty"
		if got := mustFail(t, newFixture(t, s.URL).Installer, soon(t), l); got.Err.Error() != "repository is empty" {
			t.Errorf("%v", got)
		}
	})
}

func TestB27_InstallCommandNeverAsks(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	f := newFixture(t, s.URL, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "GIT_ASKPASS=/bin/echo", "SSH_ASKPASS=/bin/echo")
	got := mustFail(t, f.Installer, soon(t), repo("git clone "+s.URL+"/private/x.git", "./server.sh"))
	if got.Cause != fault.InstallFailed || !strings.Contains(strings.Join(got.Stderr, "\n"), "could not read Username") {
		t.Errorf("%v %q", got, got.Stderr)
	}
	t.Run("but a program for it that the server's envs name is kept", func(t *testing.T) {
		l := repo(`test "$GIT_ASKPASS" = /own`, "./server.sh")
		l.Env["GIT_ASKPASS"] = "/own"
		if _, err := f.prepare(soon(t), l); err != nil {
			t.Error(err)
		}
	})
}

func TestC2_InstallFails(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).Start)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	f := newFixture(t, s.URL)
	got := mustFail(t, f.Installer, t.Context(), repo(`echo one; echo "two $KEY" >&2; exit 3 # s3cr3t-123`, "./server.sh"))
	if got.Cause != fault.InstallFailed || got.Ended != "exit status 3" || got.After <= 0 || !slices.Equal(got.Stderr, []string{"one", "two ***"}) || strings.Contains(got.Ran, "s3cr3t") {
		t.Errorf("%v %q", got, got.Stderr)
	}
	t.Run("it is tried again, in the clone that is there", func(t *testing.T) {
		before := s.requests.Load()
		if _, err := f.prepare(t.Context(), repo(`true`, "./server.sh")); err != nil {
			t.Error(err)
		}
		if s.requests.Load() != before {
			t.Error("it was cloned again")
		}
	})
	t.Run("with the context, its whole tree ends", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		f.opts.Output = func(_, line string) {
			if line == "ready" {
				cancel(errors.New("start-up budget of 55 s ended"))
			}
		}
		got := mustFail(t, f.Installer, ctx, repo(`(setsid sh -c 'echo ready; sleep 3600' &); sleep 3600`, "./server.sh"))
		if got.Cause != fault.InstallFailed || got.Ended != "still running" || got.Err.Error() != "start-up budget of 55 s ended" || got.After <= 0 {
			t.Errorf("%v", got)
		}
		if left := running(t, f.dir); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// running lists the processes that work in a folder.
func running(t *testing.T, folder string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(links, func(link string) bool {
		dir, _ := os.Readlink(link)
		return !strings.HasPrefix(dir, folder)
	})
}

func TestC4_NoPathLeavesTheFolder(t *testing.T) {
	f := newFixture(t, "http://127.0.0.1:1")
	for _, part := range []string{"", ".", "..", "../x", "a/b", "a\x00b", "a b", "-\n"} {
		for _, l := range []catalog.Launch{{Kind: catalog.GitHub, Owner: part, Repo: "r", Run: "true"}, {Kind: catalog.GitHub, Owner: "o", Repo: part, Run: "true"}} {
			if got := mustFail(t, f.Installer, t.Context(), l); got.Cause != fault.BadConfig {
				t.Errorf("%q: %v", part, got)
			}
		}
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Errorf("a folder was made: %v", err)
	}
}

// A certificate that only the environment names is trusted for the clone.
func TestA8_CertificatesReachTheClone(t *testing.T) {
	s := newGitServer(t, (*httptest.Server).StartTLS)
	s.add(t, "an-owner/a.repo", map[string]string{"server.sh": server})
	if got := mustFail(t, newFixture(t, s.URL).Installer, t.Context(), repo("", "true")); !strings.Contains(got.Error(), "certificate") {
		t.Errorf("%v", got)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newFixture(t, s.URL, "GIT_SSL_CAINFO="+file).prepare(t.Context(), repo("", "true")); err != nil {
		t.Error(err)
	}
	if got := mustFail(t, newFixture(t, s.URL, "GIT_SSL_CAINFO="+file+".none").Installer, t.Context(), repo("", "true")); !strings.Contains(got.Error(), "read GIT_SSL_CAINFO") {
		t.Errorf("%v", got)
	}
}
