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

func TestPrepare_Argv(t *testing.T) {
	all := []string{"uvx", "npx", "node"}
	for _, tt := range []struct {
		name   string
		have   []string
		launch catalog.Launch
		want   []string
	}{
		{"pypi", all, catalog.Launch{Kind: catalog.PyPI, Package: "mcp-server-time"}, []string{"uvx", "mcp-server-time"}},
		{"pypi, all of it", all, catalog.Launch{Kind: catalog.PyPI, Package: "pkg", Version: "1.2", Bin: "prog", With: []string{"mcp<2", "x"}, Args: []string{"--a", "b c"}},
			[]string{"uvx", "--with", "mcp<2", "--with", "x", "--from", "pkg==1.2", "prog", "--a", "b c"}},
		{"pypi, version", all, catalog.Launch{Kind: catalog.PyPI, Package: "pkg", Version: "1.2"}, []string{"uvx", "pkg==1.2"}},
		{"pypi, uv alone", []string{"uv"}, catalog.Launch{Kind: catalog.PyPI, Package: "pkg", Args: []string{"-v"}}, []string{"uv", "tool", "run", "pkg", "-v"}},
		{"npm", all, catalog.Launch{Kind: catalog.NPM, Package: "@scope/server", Args: []string{"/tmp"}}, []string{"npx", "-y", "@scope/server", "/tmp"}},
		{"npm, all of it", all, catalog.Launch{Kind: catalog.NPM, Package: "@scope/server", Version: "1.2.3", Bin: "prog", Args: []string{"--x"}},
			[]string{"npx", "-y", "--package=@scope/server@1.2.3", "--", "prog", "--x"}},
		{"command", all, catalog.Launch{Kind: catalog.Command, Command: "npx", Args: []string{"a b"}}, []string{"npx", "a b"}},
		{"shell", nil, catalog.Launch{Kind: catalog.Shell, Run: "no-such-program | cat"}, []string{"/bin/sh", "-c", "no-such-program | cat"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, "")
			l := tt.launch
			// The server's own PATH is left as it is, so nothing of this machine is found.
			l.Env = map[string]secret.Value{"PATH": secret.Value(binaries(t, tt.have...)), "KEY": "k"}
			l.Dir = "/tmp"
			spec, err := f.Prepare(t.Context(), "srv", l)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(spec.Argv, tt.want) || spec.Name != "srv" || spec.Dir != "/tmp" || !slices.Contains(spec.Env, "KEY=k") {
				t.Errorf("spec %+v, want %q", spec, tt.want)
			}
			if _, err := os.Stat(f.dir); !os.IsNotExist(err) {
				t.Error("the servers' folder was made for nothing")
			}
		})
	}
}

func TestB71_MissingLauncher(t *testing.T) {
	for _, tt := range []struct {
		name   string
		have   []string
		launch catalog.Launch
		want   string
		hint   string
	}{
		{"uv", nil, catalog.Launch{Kind: catalog.PyPI, Package: "pkg", Version: "1", Args: []string{"a b", "s3cr3t-123"}}, `server "srv" [not_found]: uvx pkg==1 'a b' ***: command "uvx" not found on PATH `, "pip install uv"},
		{"npm", []string{"node"}, catalog.Launch{Kind: catalog.NPM, Package: "pkg"}, `server "srv" [not_found]: npx -y pkg: command "npx" not found on PATH `, "Node.js"},
		{"node", []string{"npx"}, catalog.Launch{Kind: catalog.NPM, Package: "pkg"}, `server "srv" [not_found]: npx -y pkg: command "node" not found on PATH `, "Node.js"},
		{"command", nil, catalog.Launch{Kind: catalog.Command, Command: "my-server", Args: []string{"x"}}, `server "srv" [not_found]: my-server x: command "my-server" not found on PATH `, "full path"},
		{"file", nil, catalog.Launch{Kind: catalog.Command, Command: "./my-server", Dir: "/tmp"}, `server "srv" [not_found]: ./my-server: command "./my-server" not found`, "full path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.launch
			dir := binaries(t, tt.have...)
			l.Env = map[string]secret.Value{"PATH": secret.Value(dir)}
			l.Secrets = []secret.Value{"s3cr3t-123"}
			got := mustFail(t, newFixture(t, "").Installer, t.Context(), l)
			if !strings.HasPrefix(got.Error(), tt.want) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("%v (%s)", got, got.Hint)
			}
		})
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
	base := []string{"PATH=/bin", "HOME=" + t.TempDir(), "https_proxy=http://proxy", "NODE_EXTRA_CA_CERTS=/ca", "GATEWAY_ACCESS_TOKEN=tok-123456", "GIT_TERMINAL_PROMPT=1", "SSH_ASKPASS=/ask"}
	f := newFixture(t, "", base...)
	l := catalog.Launch{Kind: catalog.Shell, Run: "true", Env: map[string]secret.Value{"A": "1"}}
	spec, err := f.Prepare(t.Context(), "srv", l)
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
	j := &job{Installer: f.Installer, launch: l, env: spec.Env}
	for _, want := range []string{"GIT_ASKPASS=", "PIP_NO_INPUT=1", "DEBIAN_FRONTEND=noninteractive"} {
		if !slices.Contains(j.installEnv(), want) {
			t.Errorf("install environment lacks %q", want)
		}
	}
	if slices.Contains(j.installEnv(), "SSH_ASKPASS=/ask") {
		t.Error("SSH_ASKPASS is in the install environment")
	}
}
