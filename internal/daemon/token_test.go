package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/secret"
)

func TestA3_TokenFile(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	const token = secret.Value("6f9619ff-8b86-d011-b42d-00c04fc964ff")
	check := func(t *testing.T) {
		t.Helper()
		if err := daemon.WriteToken(p, token); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(p.Token())
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("mode %v, want -rw-------", info.Mode())
		}
		if got, err := os.ReadFile(p.Token()); err != nil || string(got) != token.Reveal() {
			t.Errorf("content %q, %v; want the token alone", got, err)
		}
		if got, err := daemon.ReadToken(p); err != nil || got != token {
			t.Errorf("read back %q, %v", got.Reveal(), err)
		}
		entries, err := os.ReadDir(filepath.Dir(p.Token()))
		if err != nil || len(entries) != 1 {
			t.Errorf("beside the token: %v, %v", entries, err)
		}
	}
	t.Run("first", check)
	t.Run("over a file that all can read", func(t *testing.T) {
		if err := errors.Join(os.WriteFile(p.Token(), []byte("a longer text than the token, surely"), 0),
			os.Chmod(p.Token(), 0o644)); err != nil {
			t.Fatal(err)
		}
		check(t)
	})
	t.Run("over a link", func(t *testing.T) {
		target := filepath.Join(p.Root, "target")
		if err := errors.Join(os.WriteFile(target, []byte("mine"), 0o644), os.Remove(p.Token()),
			os.Symlink(target, p.Token())); err != nil {
			t.Fatal(err)
		}
		check(t)
		if got, err := os.ReadFile(target); err != nil || string(got) != "mine" {
			t.Errorf("the link's target was written: %q, %v", got, err)
		}
	})
}

func TestA3_NewToken(t *testing.T) {
	a, b := daemon.NewToken(), daemon.NewToken()
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(a.Reveal()) || a == b {
		t.Errorf("tokens %q and %q", a.Reveal(), b.Reveal())
	}
}

func TestReadToken(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	if _, err := daemon.ReadToken(p); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := daemon.WriteToken(p, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.ReadToken(p); err == nil {
		t.Error("an empty token was read")
	}
	if err := daemon.WriteToken(p, " by-hand\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := daemon.ReadToken(p); err != nil || got.Reveal() != "by-hand" {
		t.Errorf("written by hand: %q, %v", got.Reveal(), err)
	}
}
