package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refusal parses a configuration that must be refused, and returns the one line that says why.
func refusal(t *testing.T, text string) string {
	t.Helper()
	config, err := Parse([]byte(text), known(t))
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Problems) == 0 || config != nil {
		t.Fatalf("Parse = %+v, %v, want an *Error", config, err)
	}
	line := err.Error()
	if strings.Contains(line, "\n") || len(line) > 1024 {
		t.Errorf("not one line of at most 1 KiB: %q", line)
	}
	return line
}

type refusalCase struct{ name, text, want string }

func checkRefusals(t *testing.T, cases []refusalCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, refusal(t, c.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestC4_Refusals(t *testing.T) {
	badKey := func(key string) refusalCase {
		return refusalCase{"github key " + key, `{"` + key + `": {"runCmd": "x"}}`,
			`server "` + key + `": is not of the form github/<owner>/<repo>, each part of letters, digits, _, . and -`}
	}
	var many []string
	for i := range MaxServers + 1 {
		many = append(many, fmt.Sprintf(`"s%d": {"runCmd": "x"}`, i))
	}
	checkRefusals(t, []refusalCase{
		{"a list", `[]`, `configuration: must be an object of servers, is a list`},
		{"a string", `"time"`, `configuration: must be an object of servers, is a string`},
		{"null", `null`, `configuration: must be an object of servers, is null`},
		{"nothing", ``, `configuration: not valid JSON at line 1, column 1: it is empty, expected an object`},
		{"an entry that is a list", `{"time": []}`, `server "time": must be an object, is a list`},
		{"an entry that is a string", `{"time": "yes"}`, `server "time": must be an object, is a string`},
		{"an entry that is a boolean", `{"time": true}`, `server "time": must be an object, is a boolean`},
		badKey("github/owner"),
		badKey("github/"),
		badKey("github//repo"),
		badKey("github/owner/"),
		badKey("github/owner/repo/more"),
		badKey("github/owner/.."),
		badKey("github/./repo"),
		badKey("github/own er/repo"),
		badKey("github/owner/repo@main"),
		badKey("github/ówner/repo"),
		{"github without runCmd", `{"github/o/r": {"installCmd": "make"}}`, `server "github/o/r": runCmd: is missing, must be the command that starts the server in the clone`},
		{"github with null", `{"github/o/r": null}`, `server "github/o/r": runCmd: is missing, must be the command that starts the server in the clone`},
		{"github with an empty runCmd", `{"github/o/r": {"runCmd": " "}}`, `server "github/o/r": runCmd: must not be empty`},
		{"env name", `{"time": {"envs": {"MY-VAR": "x"}}}`, `server "time": envs.MY-VAR: is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{"env name with a digit first", `{"time": {"envs": {"1A": "x"}}}`, `server "time": envs.1A: is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{"env name that is empty", `{"time": {"envs": {"": "x"}}}`, `server "time": envs."": is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{"env name with a value in it", `{"time": {"envs": {"TOKEN=hunter22": ""}}}`, `server "time": envs."TOKEN=...": is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{"env value that is a number", `{"time": {"envs": {"PORT": 8080}}}`, `server "time": envs.PORT: must be a string, is a number (put it in quotes)`},
		{"env value that is null", `{"time": {"envs": {"A": null}}}`, `server "time": envs.A: must be a string, is null`},
		{"env value that is an object", `{"x": {"runCmd": "y", "envs": {"A": {}}}}`, `server "x": envs.A: must be a string, is an object`},
		{"envs that are a list", `{"time": {"envs": ["A=b"]}}`, `server "time": envs: must be an object of strings, is a list`},
		{"65 servers", `{` + strings.Join(many, ",") + `}`, `configuration: holds 65 servers, at most 64 are allowed`},
		{"an empty name", `{"": {"runCmd": "x"}}`, `configuration: has a server with an empty name`},
		{"a name of 129 characters", `{"` + strings.Repeat("é", 129) + `": {"runCmd": "x"}}`, `server "` + strings.Repeat("é", 30) + `...": has a name of more than 128 characters`},
		{"a name with a line break", `{"a\nb": {"runCmd": "x"}}`, `server "a\nb": has a name with control characters`},
		{"a name with DEL", `{"a\u007fb": {"runCmd": "x"}}`, `server "a\x7fb": has a name with control characters`},
	})
}

func TestC4_AtTheEdge(t *testing.T) {
	var many []string
	for i := range MaxServers {
		many = append(many, fmt.Sprintf(`"s%d": {"runCmd": "x"}`, i))
	}
	for name, text := range map[string]string{
		"64 servers, and one disabled": `{"off": {"runCmd": "x", "disabled": true}, ` + strings.Join(many, ",") + `}`,
		"a name of 128 characters":     `{"` + strings.Repeat("é", 128) + `": {"runCmd": "x"}}`,
		"github names with dots":       `{"github/a.b-c_d/..e": {"runCmd": "x"}}`,
		"an empty env value":           `{"time": {"envs": {"_": ""}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(text), known(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestC1_Refusals(t *testing.T) {
	checkRefusals(t, []refusalCase{
		{"a missing property", `{"filesystem": {}}`, `server "filesystem": paths: is missing, must be a list of strings`},
		{"null counts as an empty entry", `{"filesystem": null}`, `server "filesystem": paths: is missing, must be a list of strings`},
		{"a wrong type", `{"filesystem": {"paths": "/tmp"}}`, `server "filesystem": paths: must be a list of strings, is a string (put it in brackets: ["..."])`},
		{"a wrong element", `{"filesystem": {"paths": ["/tmp", 1]}}`, `server "filesystem": paths[1]: must be a string, is a number (put it in quotes)`},
		{"a wrong choice", `{"typed": {"level": "loud"}}`, `server "typed": level: must be one of "low", "high"`},
		{"an integer in quotes", `{"typed": {"port": "80"}}`, `server "typed": port: must be an integer, is a string (write it without quotes)`},
		{"an unknown server", `{"tiem": {}}`, `server "tiem": is not in the catalogue (did you mean "time"? see mcp-gateway catalog)`},
		{"an unknown server like nothing", `{"qqqqqq": {"envs": {}}}`, `server "qqqqqq": is not in the catalogue (see mcp-gateway catalog, or give runCmd, command or url)`},
		{"a server that has no way to run", `{"imageonly": {}}`, `server "imageonly": cannot be run here: only a Docker image exists`},
		{"all problems at once", `{"filesystem": {"envs": {"A": 1}}, "tiem": {}, "typed": {"port": 1.5, "level": 1}}`,
			`server "filesystem": envs.A: must be a string, is a number (put it in quotes); ` +
				`server "filesystem": paths: is missing, must be a list of strings; ` +
				`server "tiem": is not in the catalogue (did you mean "time"? see mcp-gateway catalog); ` +
				`server "typed": level: must be one of "low", "high", is a number (put it in quotes); ` +
				`server "typed": port: must be an integer, is a number with a fraction or an exponent`},
	})
}

func TestC3_Refusals(t *testing.T) {
	checkRefusals(t, []refusalCase{
		{"an empty runCmd", `{"x": {"runCmd": ""}}`, `server "x": runCmd: must not be empty`},
		{"a runCmd that is a list", `{"x": {"runCmd": ["a", "b"]}}`, `server "x": runCmd: must be a string, is a list`},
		{"NUL in runCmd", `{"x": {"runCmd": "a\u0000b"}}`, `server "x": runCmd: must not hold a NUL character`},
		{"NUL in installCmd", `{"github/o/r": {"runCmd": "a", "installCmd": "\u0000"}}`, `server "github/o/r": installCmd: must not hold a NUL character`},
		{"NUL in a command", `{"x": {"command": "a\u0000"}}`, `server "x": command: must not hold a NUL character`},
		{"NUL in an argument", `{"x": {"command": "a", "args": ["b", "\u0000"]}}`, `server "x": args[1]: must not hold a NUL character`},
		{"NUL in a variable", `{"x": {"command": "a", "env": {"B": "\u0000"}}}`, `server "x": env.B: must not hold a NUL character`},
		{"NUL in a folder", `{"x": {"command": "a", "cwd": "\u0000"}}`, `server "x": cwd: must not hold a NUL character`},
		{"NUL in a property", `{"arxiv": {"storagePath": "\u0000"}}`, `server "arxiv": storagePath: must not hold a NUL character`},
		{"args that are a string", `{"x": {"command": "a", "args": "-v"}}`, `server "x": args: must be a list of strings, is a string`},
		{"two forms", `{"x": {"command": "a", "runCmd": "b"}}`, `server "x": has runCmd and command (give one of them)`},
		{"three forms", `{"x": {"command": "a", "runCmd": "b", "url": "http://h"}}`, `server "x": has runCmd and command and url (give one of them)`},
		{"a variable in envs and env", `{"x": {"command": "a", "envs": {"B": "1"}, "env": {"B": "2"}}}`, `server "x": env.B: is in envs as well`},
		{"a server twice", `{"time": {}, "time": {}}`, `server "time": is there twice`},
		{"a server twice, escaped", `{"time": {}, "\u0074ime": {}}`, `server "time": is there twice`},
		{"a field twice", `{"x": {"runCmd": "a", "runCmd": "b"}}`, `server "x": runCmd: is there twice`},
		{"a variable twice", `{"time": {"envs": {"A": "b", "A": "c"}}}`, `server "time": envs.A: is there twice`},
		{"a URL without a scheme", `{"x": {"url": "example.com/mcp"}}`, `server "x": url: must be an absolute URL with http or https`},
		{"a URL of another scheme", `{"x": {"url": "ftp://user:hunter22@example.com"}}`, `server "x": url: must be an absolute URL with http or https`},
		{"a header's name", `{"x": {"url": "https://h", "headers": {"A B": "c"}}}`, `server "x": headers."A B": is not a name for an HTTP header`},
		{"a header's value", `{"x": {"url": "https://h", "headers": {"A": "c\r\nEvil: d"}}}`, `server "x": headers.A: must not hold line breaks or other control characters`},
		{"B69 a variable that is not set", `{"x": {"url": "https://h", "headers": {"A": "Bearer ${TOKEN}"}}}`, `server "x": headers.A: names the variable "TOKEN", which is not in the entry's envs (give it as "envs": {"TOKEN": "…"}; the gateway's own environment is not looked at)`},
		{"B69 a variable of the gateway's own", `{"x": {"url": "https://h", "headers": {"A": "${HOME}"}, "envs": {"home": "b"}}}`, `server "x": headers.A: names the variable "HOME", which is not in the entry's envs (give it as "envs": {"HOME": "…"}; the gateway's own environment is not looked at)`},
		{"B69 a reference in another program's way", `{"x": {"url": "https://h", "headers": {"A": "${env:TOKEN}"}, "envs": {"TOKEN": "b"}}}`, `server "x": headers.A: holds ${…} around what is not the name of a variable (${NAME} stands for a variable of the entry's envs)`},
		{"a variable with a line break in a header", `{"x": {"url": "https://h", "headers": {"A": "${T}"}, "envs": {"T": "c\r\nEvil: d"}}}`, `server "x": headers.A: must not hold line breaks or other control characters`},
		{"a header twice", `{"x": {"url": "https://h", "headers": {"Accept": "a", "ACCEPT": "b"}}}`, `server "x": headers.ACCEPT: is there twice, since capitals do not count`},
		{"a header that is a number", `{"x": {"url": "https://h", "headers": {"A": 1}}}`, `server "x": headers.A: must be a string, is a number (put it in quotes)`},
		{"broken JSON", `{"x": {"runCmd": hunter22}}`, `configuration: not valid JSON at line 1, column 18: expected a value`},
		{"a shell took the quotes", `{time: {}}`, `configuration: not valid JSON at line 1, column 2: expected a name in double quotes`},
		{"mcpServers beside others", `{"mcpServers": {"a": {"command": "b"}}, "time": {}}`,
			`server "mcpServers": is not in the catalogue (an object of that name is a client's configuration, and must be the only key)`},
		{"an entry in mcpServers that is no object", `{"mcpServers": {"a": {"command": "b"}, "c": 1}}`, `server "c": must be an object, is a number`},
	})
}

func TestOptions_Refusals(t *testing.T) {
	in := func(options string) string { return `{"time": {"gateway": ` + options + `}}` }
	const names = "tools, callTimeout, startTimeout, isolated, noCancel, prefix, protocol, user, oauth"
	checkRefusals(t, []refusalCase{
		{"not an object", in(`true`), `server "time": gateway: must be an object, is a boolean`},
		{"unknown", in(`{"callTimout": 1}`), `server "time": gateway.callTimout: is no option, must be one of ` + names + ` (did you mean "callTimeout"?)`},
		{"unknown, like nothing", in(`{"zzz": 1}`), `server "time": gateway.zzz: is no option, must be one of ` + names},
		{"twice", in(`{"user": "a", "user": "b"}`), `server "time": gateway.user: is there twice`},
		{"tools", in(`{"tools": ["a"]}`), `server "time": gateway.tools: must be an object, is a list`},
		{"unknown filter", in(`{"tools": {"allowed": []}}`), `server "time": gateway.tools.allowed: is no option, must be one of allow, deny (did you mean "allow"?)`},
		{"allow", in(`{"tools": {"allow": "a"}}`), `server "time": gateway.tools.allow: must be a list of strings, is a string`},
		{"allow nothing", in(`{"tools": {"allow": []}}`), `server "time": gateway.tools.allow: must not be empty (leave it out to allow every tool, or deny "*")`},
		{"deny", in(`{"tools": {"deny": ["a", 1]}}`), `server "time": gateway.tools.deny[1]: must be a string, is a number (put it in quotes)`},
		{"empty pattern", in(`{"tools": {"deny": [""]}}`), `server "time": gateway.tools.deny[0]: is not a pattern (* stands for any characters, ? for one, [a-z] for one of a set)`},
		{"pattern", in(`{"tools": {"allow": ["[a"]}}`), `server "time": gateway.tools.allow[0]: is not a pattern (* stands for any characters, ? for one, [a-z] for one of a set)`},
		{"duration", in(`{"callTimeout": "soon"}`), `server "time": gateway.callTimeout: must be a duration such as "90s" or "1m30s", or a number of seconds`},
		{"negative duration", in(`{"startTimeout": -1}`), `server "time": gateway.startTimeout: must be a duration such as "90s" or "1m30s", or a number of seconds`},
		{"duration without end", in(`{"startTimeout": 1e400}`), `server "time": gateway.startTimeout: must be a duration such as "90s" or "1m30s", or a number of seconds`},
		{"isolated", in(`{"isolated": "yes"}`), `server "time": gateway.isolated: must be true or false, is a string`},
		{"noCancel", in(`{"noCancel": 1}`), `server "time": gateway.noCancel: must be true or false, is a number`},
		{"prefix", in(`{"prefix": "a/"}`), `server "time": gateway.prefix: must be up to 32 letters, digits, _, . and -`},
		{"long prefix", in(`{"prefix": "` + strings.Repeat("a", 33) + `"}`), `server "time": gateway.prefix: must be up to 32 letters, digits, _, . and -`},
		{"protocol", in(`{"protocol": "old"}`), `server "time": gateway.protocol: must be "legacy", "modern" or "both"`},
		{"protocol type", in(`{"protocol": 1}`), `server "time": gateway.protocol: must be "legacy", "modern" or "both", is a number`},
		{"user", in(`{"user": ""}`), `server "time": gateway.user: must be the name of a user`},
		{"oauth", in(`{"oauth": true}`), `server "time": gateway.oauth: must be an object, is a boolean`},
		{"oauth, unknown", in(`{"oauth": {"client": "a"}}`), `server "time": gateway.oauth.client: is no option, must be one of clientId, clientSecret, scopes, resource, authorizationServer (did you mean "clientId"?)`},
		{"oauth, empty client", in(`{"oauth": {"clientId": ""}}`), `server "time": gateway.oauth.clientId: must be a string that is not empty`},
		{"oauth, secret of nobody", in(`{"oauth": {"clientSecret": "s3cr3t"}}`), `server "time": gateway.oauth.clientId: is missing, must be the client that clientSecret is of`},
		{"oauth, secret from nowhere", in(`{"oauth": {"clientId": "a", "clientSecret": "${KEY}"}}`), `server "time": gateway.oauth.clientSecret: names the variable "KEY", which is not in the entry's envs (give it as "envs": {"KEY": "…"}; the gateway's own environment is not looked at)`},
		{"oauth, scopes in one", in(`{"oauth": {"scopes": ["read write"]}}`), `server "time": gateway.oauth.scopes: holds "read write", which is no scope (each scope is an element of its own, without spaces)`},
		{"oauth, scopes", in(`{"oauth": {"scopes": "read"}}`), `server "time": gateway.oauth.scopes: must be a list of strings, is a string`},
		{"oauth, resource", in(`{"oauth": {"resource": "mcp"}}`), `server "time": gateway.oauth.resource: must be a URL`},
		{"oauth, issuer", in(`{"oauth": {"authorizationServer": 1}}`), `server "time": gateway.oauth.authorizationServer: must be the URL of an issuer, is a number`},
	})
}

func TestError_StaysUnderOneKiB(t *testing.T) {
	var entries []string
	for i := range 1000 {
		entries = append(entries, fmt.Sprintf(`"%s%d": %d`, strings.Repeat("é", 100), i, i))
	}
	line := refusal(t, "{"+strings.Join(entries, ",")+"}")
	if !strings.HasPrefix(line, "configuration: holds 1000 servers, at most 64 are allowed; server ") || !strings.HasSuffix(line, " more") {
		t.Errorf("got %q", line)
	}
}
