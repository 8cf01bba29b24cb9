package install

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
)

// binaries makes a folder of programs that do nothing.
func binaries(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// onPath gives the server a PATH of its own, which is left as it is, so that nothing of this machine is found.
func onPath(l catalog.Launch, dir string) catalog.Launch {
	l.Env = map[string]secret.Value{"PATH": secret.Value(dir)}
	return l
}

func TestPrepare_Argv(t *testing.T) {
	for _, tt := range []struct {
		name   string
		launch catalog.Launch
		want   []string
	}{
		{"command", catalog.Launch{Kind: catalog.Command, Command: "npx", Args: []string{"a b"}}, []string{"npx", "a b"}},
		{"shell", catalog.Launch{Kind: catalog.Shell, Run: "no-such-program | cat"}, []string{"/bin/sh", "-c", "no-such-program | cat"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, "")
			l := tt.launch
			// The server's own PATH is left as it is, so nothing of this machine is found.
			l.Env = map[string]secret.Value{"PATH": secret.Value(binaries(t, "npx")), "KEY": "k"}
			l.Dir = "/tmp"
			spec, err := f.Prepare(t.Context(), Server{Name: "srv", Launch: l, User: "somebody"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(spec.Argv, tt.want) || spec.Name != "srv" || spec.Dir != "/tmp" || spec.User != "somebody" || !slices.Contains(spec.Env, "KEY=k") {
				t.Errorf("spec %+v, want %q", spec, tt.want)
			}
			if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
				t.Error("the servers' folder was made for nothing")
			}
		})
	}
}

func TestB71_MissingCommand(t *testing.T) {
	for _, tt := range []struct {
		launch catalog.Launch
		want   string
	}{
		{catalog.Launch{Kind: catalog.Command, Command: "my-server", Args: []string{"x", "s3cr3t-123"}}, `server "srv" [not_found]: my-server x ***: command "my-server" not found on PATH `},
		{catalog.Launch{Kind: catalog.Command, Command: "./my-server", Dir: "/tmp"}, `server "srv" [not_found]: ./my-server: command "./my-server" not found`},
	} {
		l := tt.launch
		l.Env = map[string]secret.Value{"PATH": secret.Value(binaries(t))}
		l.Secrets = []secret.Value{"s3cr3t-123"}
		f := newFixture(t, "")
		got := mustFail(t, f.Installer, t.Context(), l)
		if !strings.HasPrefix(got.Error(), tt.want) || !strings.Contains(got.Hint, "full path") {
			t.Errorf("%v (%s)", got, got.Hint)
		}
		if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
			t.Error("the servers' folder was made for nothing")
		}
	}
}

func TestPrepare_OtherKinds(t *testing.T) {
	if got := mustFail(t, newFixture(t, "").Installer, t.Context(), catalog.Launch{Kind: catalog.Remote}); got.Cause != fault.BadConfig {
		t.Errorf("%v", got)
	}
}

// What a server and its install command get beside its envs: no token, no question, what is needed to
// reach the network.
func TestA8_B27_Environment(t *testing.T) {
	base := []string{"PATH=/bin", "HOME=" + t.TempDir(), "https_proxy=http://proxy", "NODE_EXTRA_CA_CERTS=/ca", "GATEWAY_ACCESS_TOKEN=tok-123456", "GIT_TERMINAL_PROMPT=1", "SSH_ASKPASS=/ask",
		"PIP_NO_INPUT=0", "NODE_ENV=production", "npm_config_fetch_retry_mintimeout=7"}
	f := newFixture(t, "", base...)
	l := catalog.Launch{Kind: catalog.Shell, Run: "true", Env: map[string]secret.Value{"A": "1"}}
	spec, err := f.prepare(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"https_proxy=http://proxy", "NODE_EXTRA_CA_CERTS=/ca", "GIT_TERMINAL_PROMPT=0", "npm_config_yes=true", "A=1"} {
		if !slices.Contains(spec.Env, want) {
			t.Errorf("environment %q lacks %q", spec.Env, want)
		}
	}
	if strings.Contains(strings.Join(spec.Env, "\n"), "tok-123456") {
		t.Error("the token is in the environment")
	}
	j := f.job(Server{Name: "srv", Launch: l})
	for _, env := range [][]string{j.commandEnv(), j.buildEnv()} {
		for _, want := range []string{"GIT_ASKPASS=", "PIP_NO_INPUT=1", "DEBIAN_FRONTEND=noninteractive", "https_proxy=http://proxy", "A=1"} {
			if !slices.Contains(env, want) {
				t.Errorf("install environment lacks %q", want)
			}
		}
		for _, not := range []string{"SSH_ASKPASS=/ask", "PIP_NO_INPUT=0"} {
			if slices.Contains(env, not) {
				t.Errorf("%q is in the install environment", not)
			}
		}
	}
	if env := j.buildEnv(); slices.Contains(env, "NODE_ENV=production") || !slices.Contains(env, "npm_config_fetch_retry_mintimeout=7") {
		t.Errorf("%q", env)
	}
	l.Env["NODE_ENV"] = "production"
	if env := f.job(Server{Name: "srv", Launch: l}).buildEnv(); !slices.Contains(env, "NODE_ENV=production") {
		t.Error("what the entry itself sets is gone")
	}
}

// The state folder is made for servers that name it, whatever their name is, and only then.
func TestPrepare_StateFolder(t *testing.T) {
	c, err := catalog.Parse([]byte(`{"../../x": {"description": "X.", "runs": "command", "command": "true", "args": [["{{@state}}/db"]], "properties": {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := c.Lookup("../../x")
	l, problems := e.Launch(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	f := newFixture(t, "")
	spec, err := f.Prepare(t.Context(), Server{Name: e.Name, Launch: l})
	if err != nil {
		t.Fatal(err)
	}
	dir := StateDir(f.dir, e.Name)
	if spec.Argv[1] != dir+"/db" || filepath.Dir(dir) != filepath.Join(f.dir, "state") {
		t.Errorf("argv %q, folder %q", spec.Argv, dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if plain := StateDir("/s", "time"); plain != "/s/state/time" {
		t.Errorf("got %q", plain)
	}
	for a, b := range map[string]string{"a/b": "a_b", "a b": "a.b", ".": "..", "~": "-"} {
		if folderName(a) == folderName(b) || strings.Contains(folderName(a), "/") || strings.HasPrefix(folderName(a), ".") {
			t.Errorf("%q and %q: %q", a, b, folderName(a))
		}
	}
}
