package install

import (
	"os"
	"slices"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
)

// Entries of the other catalogue format, whose install is a list of commands.
func TestD2_StepsOfACommand(t *testing.T) {
	bin := t.TempDir()
	f := newFixture(t, "", "PATH="+bin+":/usr/bin:/bin", "HOME="+t.TempDir(), "BIN="+bin)
	write := []string{"/bin/sh", "-c", `echo run >>"$BIN/log"; printf '#!/bin/sh\necho hello\n' >"$BIN/notes-mcp"; chmod +x "$BIN/notes-mcp"`}
	l := catalog.Launch{Kind: catalog.Command, Command: "notes-mcp", Steps: [][]string{{"true"}, write}}

	t.Run("a start runs them when the program is missing", func(t *testing.T) {
		spec, err := f.prepare(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.firstLine(t, spec); got != "hello" {
			t.Errorf("it said %q", got)
		}
	})
	t.Run("a pull does not run them again", func(t *testing.T) {
		f.pulled(t, l, StatePresent)
		if got := read(t, bin, "log"); got != "run" {
			t.Errorf("they ran %q", got)
		}
	})
	t.Run("a pull runs them though the program is there", func(t *testing.T) {
		l := l
		l.Steps = [][]string{write}
		f.pulled(t, l, StateInstalled)
		if got := read(t, bin, "log"); got != "run\nrun" {
			t.Errorf("they ran %q", got)
		}
	})
	t.Run("a start with the program there does not", func(t *testing.T) {
		l := l
		l.Steps = [][]string{{"false"}}
		if _, err := f.prepare(t.Context(), l); err != nil {
			t.Error(err)
		}
	})
	t.Run("one that fails is told", func(t *testing.T) {
		l := l
		l.Command, l.Steps = "none", [][]string{{"/bin/sh", "-c", "echo no >&2; exit 3"}}
		got := mustFail(t, f.Installer, t.Context(), l)
		if got.Cause != fault.InstallFailed || got.Ended != "exit status 3" || !slices.Equal(got.Stderr, []string{"no"}) {
			t.Errorf("%v %q", got, got.Stderr)
		}
	})
	t.Run("steps that do not install it are told", func(t *testing.T) {
		l := l
		l.Command, l.Steps = "none", [][]string{{"true"}}
		if got := mustFail(t, f.Installer, t.Context(), l); got.Cause != fault.NotFound {
			t.Errorf("%v", got)
		}
	})
	t.Run("they come before a package", func(t *testing.T) {
		f := newFaked(t)
		l := npmServer("1.0.0")
		l.Steps = [][]string{{"/bin/sh", "-c", `echo step >>"$LOG"`}}
		f.pulled(t, l, StateInstalled)
		if got, want := f.installs(t), []string{"step", "install server@1.0.0"}; !slices.Equal(got, want) {
			t.Errorf("ran %q, want %q", got, want)
		}
	})
}

func TestPull_NothingToInstall(t *testing.T) {
	f := newFixture(t, "")
	for _, l := range []catalog.Launch{{Kind: catalog.Remote, URL: "https://example.com"}, {Kind: catalog.Shell, Run: "x"}, {Kind: catalog.Command, Command: "none"}} {
		f.pulled(t, l, StateNothing)
	}
	if _, err := f.Pull(t.Context(), Server{Name: "srv", Launch: catalog.Launch{Kind: catalog.None}}); err == nil {
		t.Error("a server that cannot be run was pulled")
	}
	if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
		t.Error("the servers' folder was made for nothing")
	}
}
