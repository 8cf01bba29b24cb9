package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/secret"
)

func TestB76_A8_ServerEnv(t *testing.T) {
	base := []string{
		"PATH=/usr/bin", "HOME=" + t.TempDir(), "HTTPS_PROXY=http://proxy:3128", "SSL_CERT_FILE=/ca.pem", "A=old", "EMPTY=", "no value",
		"GATEWAY_ACCESS_TOKEN=the-token", "MCP_GATEWAY_ROOT=/root", markName + "=other/1/",
	}
	env := ServerEnv(base, map[string]secret.Value{"A": "new", "KEY": "pa$$word=1"})
	for name, want := range map[string]string{"HTTPS_PROXY": "http://proxy:3128", "SSL_CERT_FILE": "/ca.pem", "A": "new", "KEY": "pa$$word=1", "EMPTY": ""} {
		if got, ok := lookupEnv(env, name); !ok || got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	seen := map[string]bool{}
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || seen[name] || strings.HasPrefix(name, "MCP_GATEWAY_") || strings.Contains(entry, "the-token") {
			t.Errorf("%q is in the environment", entry)
		}
		seen[name] = true
	}
	t.Run("B76 as a server sees it", func(t *testing.T) {
		h := newHost(t, HostOptions{})
		p := start(t, h, Spec{Name: "s", Argv: []string{"cat", "/proc/self/environ"}, Env: env, Dir: "/tmp"})
		var got []byte
		buf := make([]byte, 4096)
		for {
			n, err := p.Stdout().Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
		}
		entries := strings.Split(strings.TrimRight(string(got), "\x00"), "\x00")
		want := append(slices.Clone(env), "PWD=/tmp", markName+"="+h.run+"/1/")
		if !slices.Equal(entries, want) {
			t.Errorf("got %q, want %q", entries, want)
		}
	})
}

func TestB71_PathIsCompleted(t *testing.T) {
	home := t.TempDir()
	for _, version := range []string{"v9.11.0", "v22.1.0", "v20.19.3"} {
		if err := os.MkdirAll(filepath.Join(home, ".nvm/versions/node", version, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base := []string{"PATH=/opt/own:/usr/bin", "HOME=" + home}
	path, _ := lookupEnv(ServerEnv(base, nil), "PATH")
	dirs := filepath.SplitList(path)
	if !slices.Equal(dirs[:2], []string{"/opt/own", "/usr/bin"}) {
		t.Errorf("PATH %q does not begin with the given one", path)
	}
	for _, want := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin", "/bin", home + "/.local/bin", home + "/.cargo/bin", home + "/.nvm/versions/node/v22.1.0/bin"} {
		if !slices.Contains(dirs, want) {
			t.Errorf("PATH %q lacks %q", path, want)
		}
	}
	slices.Sort(dirs)
	if len(slices.Compact(dirs)) != len(filepath.SplitList(path)) {
		t.Errorf("PATH %q has a directory twice", path)
	}
	if path, _ := lookupEnv(ServerEnv(nil, nil), "PATH"); !strings.HasPrefix(path, "/usr/local/sbin:") {
		t.Errorf("without a PATH it becomes %q", path)
	}
	if path, _ := lookupEnv(ServerEnv(base, map[string]secret.Value{"PATH": "/only"}), "PATH"); path != "/only" {
		t.Errorf("the server's own PATH became %q", path)
	}
}

func TestB71_NotFound(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, HostOptions{})
	for _, tt := range []struct {
		name, command, dir string
		path               string
		want               string
	}{
		{"nowhere", "uvx", "", "/usr/nothing:/bin/nothing", `command "uvx" not found on PATH "/usr/nothing:/bin/nothing"`},
		{"no PATH", "uvx", "", "", `command "uvx" not found on PATH ""`},
		{"not executable", "plain", "", dir, `command "plain" not found on PATH "` + dir + `" ("` + plain + `" is not executable)`},
		{"a folder", "folder", "", dir, `command "folder" not found on PATH "` + dir + `" ("` + dir + `/folder" is a directory)`},
		{"missing file", "/no/such/file", "", "/bin", `command "/no/such/file" not found`},
		{"file that is not executable", "./plain", dir, "/bin", `command "./plain" is not executable`},
		{"missing interpreter", script, "", "/bin", `command "` + script + `" cannot run: the interpreter of its first line, or its loader, does not exist`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := h.Start(Spec{Argv: []string{tt.command}, Dir: tt.dir, Env: []string{"PATH=" + tt.path}}, nil)
			if !errors.Is(err, ErrNotFound) || err.Error() != tt.want {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
	t.Run("a missing folder is another matter", func(t *testing.T) {
		_, err := h.Start(Spec{Argv: []string{"cat"}, Dir: "/no/such/folder", Env: os.Environ()}, nil)
		if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "/no/such/folder") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a path counts from the working directory", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\nexit 6\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		p := start(t, h, Spec{Argv: []string{"./run"}, Dir: dir, Env: os.Environ()})
		mustBeDone(t, p)
		if p.Exit().Code != 6 {
			t.Errorf("exit %v", p.Exit())
		}
	})
}

func TestB72_Home(t *testing.T) {
	temp := t.TempDir()
	file := filepath.Join(temp, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		base   []string
		kept   bool
		reason string
	}{
		{"good", []string{"HOME=" + temp}, true, ""},
		{"unset", nil, false, "HOME is not set"},
		{"empty", []string{"HOME="}, false, "HOME is not set"},
		{"root", []string{"HOME=/"}, false, `HOME is "/"`},
		{"missing", []string{"HOME=" + temp + "/none"}, false, `HOME "` + temp + `/none" is not a directory that can be written`},
		{"a file", []string{"HOME=" + file}, false, `HOME "` + file + `" is not a directory that can be written`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, reason := Home(tt.base)
			if reason != tt.reason || (home == temp) != tt.kept || !writable(home) || home == "/" {
				t.Errorf("home %q, reason %q", home, reason)
			}
			if got, _ := lookupEnv(ServerEnv(tt.base, nil), "HOME"); got != home {
				t.Errorf("HOME=%q in the environment, want %q", got, home)
			}
		})
	}
	t.Run("the server's own wins", func(t *testing.T) {
		if got, _ := lookupEnv(ServerEnv(nil, map[string]secret.Value{"HOME": "/mine"}), "HOME"); got != "/mine" {
			t.Errorf("HOME=%q", got)
		}
	})
	t.Run("another user's folder is not taken", func(t *testing.T) {
		if err := os.Symlink(temp, filepath.Join(temp, "link")); err != nil {
			t.Fatal(err)
		}
		open := filepath.Join(temp, "open")
		if err := os.Mkdir(open, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		if ownFolder(filepath.Join(temp, "link")) || ownFolder(open) || ownFolder(file) || !ownFolder(filepath.Join(temp, "fresh")) {
			t.Error("a link, an open folder or a file was taken, or a fresh one was not made")
		}
	})
}
