package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	mcpgateway "mcp-gateway"
	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/secret"
)

// extra has the kinds of properties that the embedded catalogue has not.
const extra = `{
	"typed": {"runs": "command", "command": "typed",
		"args": [["--port", "{{port}}"], ["--level={{level}}"], ["--key", "{{key}}"]],
		"properties": {"port": {"type": "integer"}, "level": {"type": "string", "enum": ["low", "high"]}, "key": {"type": "string", "secret": true}}},
	"owner": {"runs": "npm", "package": "owner", "env": {"U": "{{url}}", "C": "{{command}}"},
		"properties": {"url": {"type": "string"}, "command": {"type": "string"}, "env": {"type": "string"}, "disabled": {"type": "boolean"}}},
	"imageonly": {"runs": "none", "reason": "only a Docker image exists"}
}`

func known(t testing.TB) *catalog.Catalog {
	t.Helper()
	base, err := catalog.Open(mcpgateway.Catalog)
	if err != nil {
		t.Fatal(err)
	}
	over, err := catalog.Parse([]byte(extra))
	if err != nil {
		t.Fatal(err)
	}
	return base.Merge(over)
}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	config, err := Parse([]byte(text), known(t))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// one parses a configuration of one server.
func one(t *testing.T, text string) (Server, []string) {
	t.Helper()
	config := parse(t, text)
	if len(config.Servers) != 1 {
		t.Fatalf("%d servers, want 1", len(config.Servers))
	}
	return config.Servers[0], config.Warnings
}

// compared leaves out what has tests of its own, and lets empty and nil be equal.
var compared = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(catalog.Launch{}, "Secrets", "Needs", "Version"),
}

func env(pairs ...string) map[string]secret.Value {
	values := map[string]secret.Value{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = secret.Value(pairs[i+1])
	}
	return values
}

func TestParse_Forms(t *testing.T) {
	for _, test := range []struct {
		name, text, server string
		want               catalog.Launch
		warnings           []string
	}{
		{name: "C1 a catalogue name", text: `{"time": {}}`, server: "time",
			want: catalog.Launch{Kind: catalog.PyPI, Package: "mcp-server-time"}},
		{name: "C1 null", text: `{"time": null}`, server: "time",
			want: catalog.Launch{Kind: catalog.PyPI, Package: "mcp-server-time"}},
		{name: "C1 properties and envs", text: `{"filesystem": {"paths": ["/tmp", "/a b"], "envs": {"A": "b"}}}`, server: "filesystem",
			want: catalog.Launch{Kind: catalog.NPM, Package: "@modelcontextprotocol/server-filesystem", Bin: "mcp-server-filesystem", Args: []string{"/tmp", "/a b"}, Env: env("A", "b")}},
		{name: "C1 an integer of 20 digits", text: `{"typed": {"port": 12345678901234567890}}`, server: "typed",
			want: catalog.Launch{Kind: catalog.Command, Command: "typed", Args: []string{"--port", "12345678901234567890"}}},
		{name: "C1 an unknown property", text: `{"arxiv": {"storagepath": "/x", "zzz": 1}}`, server: "arxiv",
			want:     catalog.Launch{Kind: catalog.PyPI, Package: "arxiv-mcp-server"},
			warnings: []string{`server "arxiv": unknown property "storagepath" is ignored (did you mean "storagePath"?)`, `server "arxiv": unknown property "zzz" is ignored`}},
		{name: "C1 envs win over the entry's own", text: `{"memory": {"envs": {"MEMORY_FILE_PATH": "/m"}}}`, server: "memory",
			want: catalog.Launch{Kind: catalog.NPM, Package: "@modelcontextprotocol/server-memory", Bin: "mcp-server-memory", Env: env("MEMORY_FILE_PATH", "/m")}},
		{name: "C2 github", text: `{"github/o.w-n/r_1": {"runCmd": "node x.js", "installCmd": "npm ci", "envs": {"A": "b"}}}`, server: "github/o.w-n/r_1",
			want: catalog.Launch{Kind: catalog.GitHub, Owner: "o.w-n", Repo: "r_1", Run: "node x.js", Install: "npm ci", Env: env("A", "b")}},
		{name: "C2 github without installCmd", text: `{"github/o/r": {"runCmd": "x", "installCmd": null}}`, server: "github/o/r",
			want: catalog.Launch{Kind: catalog.GitHub, Owner: "o", Repo: "r", Run: "x"}},
		{name: "C3 runCmd", text: `{"mine": {"runCmd": "cd /x && ./run $A", "envs": {"A": "b"}}}`, server: "mine",
			want: catalog.Launch{Kind: catalog.Shell, Run: "cd /x && ./run $A", Env: env("A", "b")}},
		{name: "C3 runCmd under a catalogue's name", text: `{"time": {"runCmd": "./clock"}}`, server: "time",
			want: catalog.Launch{Kind: catalog.Shell, Run: "./clock"}},
		{name: "C3 command under a catalogue's name", text: `{"filesystem": {"command": "fs", "args": ["/"]}}`, server: "filesystem",
			want: catalog.Launch{Kind: catalog.Command, Command: "fs", Args: []string{"/"}}},
		{name: "C3 a declared property wins", text: `{"owner": {"url": "https://h", "command": "c"}}`, server: "owner",
			want: catalog.Launch{Kind: catalog.NPM, Package: "owner", Env: env("U", "https://h", "C", "c")}},
		{name: "C3 a declared property beside runCmd", text: `{"owner": {"url": "https://h", "runCmd": "r"}}`, server: "owner",
			want:     catalog.Launch{Kind: catalog.Shell, Run: "r"},
			warnings: []string{`server "owner": unknown field "url" is ignored (a server of your own needs a name that the catalogue does not have)`}},
		{name: "C3 url under a catalogue's name is no remote server", text: `{"time": {"url": "https://h"}}`, server: "time",
			want:     catalog.Launch{Kind: catalog.PyPI, Package: "mcp-server-time"},
			warnings: []string{`server "time": unknown property "url" is ignored (a server of your own needs a name that the catalogue does not have)`}},
		{name: "C3 command and url under a catalogue's name", text: `{"time": {"command": "c", "url": "https://h"}}`, server: "time",
			want:     catalog.Launch{Kind: catalog.Command, Command: "c"},
			warnings: []string{`server "time": unknown field "url" is ignored (a server of your own needs a name that the catalogue does not have)`}},
		{name: "command without a shell", text: `{"x": {"command": "node", "args": ["a b", "$C", ""], "env": {"D": "e"}, "cwd": "/f"}}`, server: "x",
			want: catalog.Launch{Kind: catalog.Command, Command: "node", Args: []string{"a b", "$C", ""}, Env: env("D", "e"), Dir: "/f"}},
		{name: "url", text: `{"x": {"url": "https://h/mcp?a=b", "headers": {"Authorization": "Bearer t"}}}`, server: "x",
			want: catalog.Launch{Kind: catalog.Remote, URL: "https://h/mcp?a=b", Headers: env("Authorization", "Bearer t")}},
		{name: "B69 url with variables in its headers", text: `{"x": {"url": "https://h", "headers": {"A": "${T}", "B": "Bearer ${T}-${U_2}$", "C": "$T pa$$word ${ {T} $"}, "envs": {"T": "a$b${U_2}", "U_2": ""}}}`, server: "x",
			want: catalog.Launch{Kind: catalog.Remote, URL: "https://h", Env: env("T", "a$b${U_2}", "U_2", ""),
				Headers: env("A", "a$b${U_2}", "B", "Bearer a$b${U_2}-$", "C", "$T pa$$word ${ {T} $")}},
		{name: "url with the old transport", text: `{"x": {"url": "https://h/sse", "type": "sse"}}`, server: "x",
			want: catalog.Launch{Kind: catalog.Remote, URL: "https://h/sse", Transport: "sse"}},
		{name: "url with variables", text: `{"x": {"url": "https://h", "env": {"A": "b"}, "gateway": {"user": "u"}}}`, server: "x",
			want:     catalog.Launch{Kind: catalog.Remote, URL: "https://h", Env: env("A", "b")},
			warnings: []string{`server "x": the variable "A" has no effect on a remote server, as no header names it`, `server "x": gateway.user has no effect on a remote server`}},
		{name: "a misspelled field", text: `{"github/o/r": {"runCmd": "x", "installcmd": "y"}}`, server: "github/o/r",
			want:     catalog.Launch{Kind: catalog.GitHub, Owner: "o", Repo: "r", Run: "x"},
			warnings: []string{`server "github/o/r": unknown field "installcmd" is ignored (did you mean "installCmd"?)`}},
		{name: "a byte order mark", text: "\ufeff{\"time\": {}}", server: "time",
			want: catalog.Launch{Kind: catalog.PyPI, Package: "mcp-server-time"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, warnings := one(t, test.text)
			if server.Name != test.server {
				t.Errorf("name %q, want %q", server.Name, test.server)
			}
			if diff := cmp.Diff(test.want, server.Launch, compared); diff != "" {
				t.Error(diff)
			}
			for name, v := range test.want.Env {
				if got := server.Launch.Env[name]; got.Reveal() != v.Reveal() {
					t.Errorf("%s=%q, want %q", name, got.Reveal(), v.Reveal())
				}
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestC3_AnEmptyConfigurationHasNoServers(t *testing.T) {
	for _, text := range []string{`{}`, ` {} `, `{"mcpServers": {}}`, `{"mcpServers": null}`} {
		if config := parse(t, text); config.Servers == nil || len(config.Servers)+len(config.Warnings) != 0 {
			t.Errorf("%s: %+v", text, config)
		}
	}
}

func TestA2_NamesAndProperties(t *testing.T) {
	config := parse(t, `{"time": {}, "fetch": {}, "memory": {}, "filesystem": {"paths": ["/tmp"]}, "github/o/r": {"runCmd": "x"}, "Z": {"runCmd": "y"}}`)
	var names []string
	for _, server := range config.Servers {
		names = append(names, server.Name)
		if server.Options.Protocol != "legacy" || server.Launch.Env == nil {
			t.Errorf("%s: %+v", server.Name, server)
		}
	}
	if diff := cmp.Diff([]string{"Z", "fetch", "filesystem", "github/o/r", "memory", "time"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestB69_DollarSignsStayLiteral(t *testing.T) {
	t.Setenv("B", "expanded")
	for name, text := range map[string]string{
		"runCmd":    `{"x": {"runCmd": "y", "envs": {"A": "${B}", "P": "pa$$word", "C": "$C", "D": "${D:-d}", "E": "{{@state}}"}}}`,
		"command":   `{"x": {"command": "y", "env": {"A": "${B}", "P": "pa$$word", "C": "$C", "D": "${D:-d}", "E": "{{@state}}"}}}`,
		"catalogue": `{"memory": {"envs": {"A": "${B}", "P": "pa$$word", "C": "$C", "D": "${D:-d}", "E": "{{@state}}"}}}`,
		"github":    `{"github/o/r": {"runCmd": "y", "envs": {"A": "${B}", "P": "pa$$word", "C": "$C", "D": "${D:-d}", "E": "{{@state}}"}}}`,
	} {
		t.Run("B69 "+name, func(t *testing.T) {
			server, _ := one(t, text)
			launch := server.Launch.WithState("/state")
			for name, want := range map[string]string{"A": "${B}", "P": "pa$$word", "C": "$C", "D": "${D:-d}", "E": "{{@state}}"} {
				if got := launch.Env[name].Reveal(); got != want {
					t.Errorf("%s=%q, want %q", name, got, want)
				}
			}
		})
	}
	server, _ := one(t, `{"filesystem": {"paths": ["$HOME", "${B}"]}}`)
	if diff := cmp.Diff([]string{"$HOME", "${B}"}, server.Launch.Args); diff != "" {
		t.Error(diff)
	}
}

func TestB70_AClientsFileWorksAsItIs(t *testing.T) {
	config := parse(t, `{"mcpServers": {
		"local": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "v"}, "autoApprove": ["a"], "disabled": false, "timeout": 60},
		"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "k"}, "alwaysAllow": [], "enabled": true},
		"off": {"command": "x", "disabled": true, "args": 1},
		"off2": {"url": "nonsense", "enabled": false},
		"time": {"disabled": true}
	}}`)
	var names []string
	for _, server := range config.Servers {
		names = append(names, server.Name+" "+string(server.Launch.Kind))
	}
	if diff := cmp.Diff([]string{"local command", "web remote"}, names); diff != "" {
		t.Error(diff)
	}
	want := []string{
		`server "local": unknown field "type" is ignored`,
		`server "local": unknown field "autoApprove" is ignored`,
		`server "local": unknown field "timeout" is ignored`,
		`server "web": unknown field "type" is ignored`,
		`server "web": unknown field "alwaysAllow" is ignored`,
		`server "off": is left out: "disabled" is true`,
		`server "off2": is left out: "enabled" is false`,
		`server "time": is left out: "disabled" is true`,
	}
	if diff := cmp.Diff(want, config.Warnings); diff != "" {
		t.Error(diff)
	}

	t.Run("B70 a server of that name", func(t *testing.T) {
		server, _ := one(t, `{"mcpServers": {"runCmd": "x"}}`)
		if server.Name != "mcpServers" || server.Launch.Run != "x" {
			t.Errorf("got %+v", server)
		}
	})
	t.Run("B70 servers named like fields", func(t *testing.T) {
		server, _ := one(t, `{"mcpServers": {"command": {"command": "x"}}}`)
		if server.Name != "command" || server.Launch.Command != "x" {
			t.Errorf("got %+v", server)
		}
	})
	t.Run("B70 a property named disabled", func(t *testing.T) {
		if server, warnings := one(t, `{"owner": {"disabled": true}}`); server.Name != "owner" || len(warnings) != 0 {
			t.Errorf("got %+v, %q", server, warnings)
		}
	})
}

func TestOptions(t *testing.T) {
	for text, want := range map[string]catalog.Options{
		`{"tools": {"allow": ["get_*", "x"], "deny": ["[a-c]?"]}, "callTimeout": "1m30s", "startTimeout": 2.5, "isolated": true, "noCancel": true, "prefix": "t.", "protocol": "both", "user": "nobody"}`: {
			Allow: []string{"get_*", "x"}, Deny: []string{"[a-c]?"}, CallTimeout: 90 * time.Second, StartTimeout: 2500 * time.Millisecond,
			Isolated: true, NoCancel: true, Prefix: "t.", Protocol: "both", User: "nobody"},
		`{"tools": {"allow": null, "deny": []}, "callTimeout": 0, "user": null, "prefix": ""}`: {Protocol: "legacy"},
		`null`: {Protocol: "legacy"},
	} {
		server, warnings := one(t, `{"time": {"gateway": `+text+`}}`)
		if diff := cmp.Diff(want, server.Options, cmpopts.EquateEmpty()); diff != "" || len(warnings) != 0 {
			t.Errorf("%s: %s %q", text, diff, warnings)
		}
	}
	if server, _ := one(t, `{"x": {"url": "https://h"}}`); server.Options.Protocol != "" {
		t.Errorf("a remote server is to be asked, got %q", server.Options.Protocol)
	}
}

func TestOptions_OAuth(t *testing.T) {
	server, warnings := one(t, `{"x": {"url": "https://h/mcp", "envs": {"KEY": "s3cr3t"}, "gateway": {"oauth": {
		"clientId": "me", "clientSecret": "a-${KEY}", "scopes": ["read", "write:all"], "resource": "https://h/mcp", "authorizationServer": "https://as/tenant"}}}}`)
	want := catalog.OAuth{ClientID: "me", ClientSecret: "a-s3cr3t", Scopes: []string{"read", "write:all"}, Resource: "https://h/mcp", AuthorizationServer: "https://as/tenant"}
	if diff := cmp.Diff(want, server.Options.OAuth); diff != "" || len(warnings) != 0 {
		t.Errorf("%s %q", diff, warnings)
	}
	if !slices.Contains(server.Launch.Secrets, secret.Value("a-s3cr3t")) {
		t.Error("the client secret is not known as one")
	}
	server, _ = one(t, `{"x": {"url": "https://h/mcp", "gateway": {"oauth": {"scopes": [], "clientId": null}}}}`)
	if scopes := server.Options.OAuth.Scopes; scopes == nil || len(scopes) != 0 {
		t.Errorf("no scopes at all were asked for, got %v", scopes)
	}
	for text, want := range map[string]string{
		`{"x": {"command": "y", "gateway": {"oauth": {"clientId": "me"}}}}`:                                           `server "x": gateway.oauth has no effect on a server that is no remote one`,
		`{"x": {"url": "https://h", "headers": {"authorization": "Bearer t"}, "gateway": {"oauth": {"scopes": []}}}}`: `server "x": gateway.oauth has no effect, as headers has an Authorization of its own`,
	} {
		if _, warnings := one(t, text); len(warnings) != 1 || warnings[0] != want {
			t.Errorf("%s: warnings %q", text, warnings)
		}
	}
}

func TestSecrets(t *testing.T) {
	config := parse(t, `{
		"typed": {"key": "prop-secret", "envs": {"TOKEN": "env-secret", "DSN": "postgres://u:p%40ssword@db/x?sslkey=file-key", "EMPTY": ""}},
		"shell": {"runCmd": "x", "env": {"PEM": "-----BEGIN KEY-----\nline-of-key\nxy\n"}},
		"web": {"url": "https://u:url-password@h/mcp?apiKey=url%2Dkey&tools=search", "headers": {"Authorization": "Bearer header-token", "Accept": "text/a, text/b", "X-Key": "${KEY}"}, "envs": {"KEY": "from-envs"}}
	}`)
	var got []string
	for _, v := range config.Secrets() {
		got = append(got, v.Reveal())
	}
	want := []string{
		"-----BEGIN KEY-----", "-----BEGIN KEY-----\nline-of-key\nxy\n", "Bearer header-token", "env-secret", "file-key", "from-envs", "header-token",
		"line-of-key", "p%40ssword", "p@ssword", "postgres://u:p%40ssword@db/x?sslkey=file-key", "prop-secret", "text/a, text/b",
		"url%2Dkey", "url-key", "url-password",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, config.Servers[0].Launch.Env); strings.Contains(text, "secret\"") || strings.Contains(text, "line-of-key") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestParse_WithoutACatalogue(t *testing.T) {
	if _, err := Parse([]byte(`{"x": {"runCmd": "y"}}`), nil); err != nil {
		t.Error(err)
	}
	_, err := Parse([]byte(`{"time": {}}`), nil)
	if want := `server "time": is not in the catalogue (see mcp-gateway catalog, or give runCmd, command or url)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
