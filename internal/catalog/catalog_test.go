package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-gateway/internal/secret"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

func props(t *testing.T, text string) map[string]json.RawMessage {
	t.Helper()
	if text == "" {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func messages(problems []Problem) string {
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// revealed shows a map of secrets, which would otherwise compare as equal stars in a message.
func revealed(values map[string]secret.Value) map[string]string {
	texts := map[string]string{}
	for name, v := range values {
		texts[name] = v.Reveal()
	}
	return texts
}

// lookup parses a file and returns its entry "x".
func lookup(t *testing.T, text string) *Entry {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	entry, ok := c.Lookup("x")
	if !ok {
		t.Fatal("no entry x")
	}
	return entry
}

func TestParse_SaysEntryAndField(t *testing.T) {
	npm := func(more string) string { return `{"x": {"runs": "npm", "package": "p", ` + more + `}}` }
	for _, test := range []struct{ name, text, want string }{
		{"not JSON", `{"x": }`, `not valid JSON at line 1, column 7: expected a value`},
		{"not an object", `[]`, `must be an object of entries, is a list`},
		{"entry not an object", `{"x": []}`, `entry "x": must be an object, is a list`},
		{"entry twice", `{"x": {"runs": "npm", "package": "p"}, "x": {"runs": "npm", "package": "p"}}`, `entry "x": is there twice`},
		{"field twice", npm(`"bin": "a", "bin": "b"`), `entry "x": bin: is there twice`},
		{"misspelled kind", `{"x": {"runs": "crates"}}`, `entry "x": runs: must be one of command, crate, git, go, none, npm, pypi, remote (did you mean "crate"?)`},
		{"need with blanks", npm(`"needs": ["chromium", "node >= 18"]`), `entry "x": needs[1]: must be the name of a command, which >= or == and a version may follow without blanks`},
		{"misspelled field of a property", npm(`"properties": {"a": {"type": "string", "requried": true}}`), `entry "x": properties.a.requried: is not one of type, items, enum, default, required, secret, description (did you mean "required"?)`},
		{"property name", npm(`"properties": {"a?": {"type": "string"}}`), `entry "x": properties."a?": must be named with letters, digits, _, - and .`},
		{"reserved property name", npm(`"properties": {"envs": {"type": "string"}}`), `entry "x": properties.envs: is what every server of a configuration may have, whatever its entry says`},
		{"with for a program that is run", `{"x": {"runs": "git", "repository": "r", "commit": "` + commit + `", "run": ["a"], "with": ["b"]}}`, `entry "x": with: goes with bin, not with run`},
		{"url whose default does not count", `{"x": {"runs": "remote", "url": "https://example.com/{{a?}}", "properties": {"a": {"type": "string", "required": true, "default": "b"}}}}`, `entry "x": url: names the property "a", which may be unset`},
		{"neither format", `{"x": {"package": "p"}}`, `entry "x": runs: is missing, must be one of command, crate, git, go, none, npm, pypi, remote`},
		{"unknown kind", `{"x": {"runs": "docker"}}`, `entry "x": runs: must be one of command, crate, git, go, none, npm, pypi, remote`},
		{"missing field", `{"x": {"runs": "npm"}}`, `entry "x": package: is missing`},
		{"wrong type", npm(`"bin": 1`), `entry "x": bin: must be a string, is a number`},
		{"empty", npm(`"bin": ""`), `entry "x": bin: must not be empty`},
		{"misspelled field", npm(`"verson": "1"`), `entry "x": verson: does not belong to an entry that runs npm (did you mean "version"?)`},
		{"field of another kind", npm(`"url": "https://example.com"`), `entry "x": url: does not belong to an entry that runs npm`},
		{"version range", npm(`"version": "^1.0"`), `entry "x": version: must be one exact version`},
		{"args not groups", npm(`"args": ["--x"]`), `entry "x": args[0]: must be a list of strings, is a string`},
		{"arg not a string", npm(`"args": [["--x", 1]]`), `entry "x": args[0][1]: must be a string, is a number`},
		{"undeclared property", npm(`"args": [["{{dir}}"]]`), `entry "x": args[0][0]: names the property "dir", which is not declared`},
		{"half a placeholder", npm(`"env": {"A": "{{dir}"}`), `entry "x": env.A: holds {{ without a placeholder such as {{name}}`},
		{"env name", npm(`"env": {"A-B": "c"}`), `entry "x": env.A-B: is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{"property type", npm(`"properties": {"a": {"type": "object"}}`), `entry "x": properties.a.type: must be one of string, integer, number, boolean, array`},
		{"default of another type", npm(`"properties": {"a": {"type": "integer", "default": "1"}}`), `entry "x": properties.a.default: must be an integer, is a string`},
		{"unknown field of a property", npm(`"properties": {"a": {"type": "string", "minLength": 1}}`), `entry "x": properties.a.minLength: is not one of type, items, enum, default, required, secret, description`},
		{"items not strings", npm(`"properties": {"a": {"type": "array", "items": {"type": "number"}}}`), `entry "x": properties.a.items: must be {"type": "string"}`},
		{"commit", `{"x": {"runs": "git", "repository": "r", "commit": "main", "bin": "b"}}`, `entry "x": commit: must be 40 hex digits`},
		{"git without a program", `{"x": {"runs": "git", "repository": "r", "commit": "` + commit + `"}}`, `entry "x": run: must be there, or bin, and not both`},
		{"url that may be incomplete", `{"x": {"runs": "remote", "url": "https://example.com/{{a}}", "properties": {"a": {"type": "string"}}}}`, `entry "x": url: names the property "a", which may be unset`},
		{"header", `{"x": {"runs": "remote", "url": "https://example.com", "headers": {"a b": "c"}}}`, `entry "x": headers."a b": is not a name for an HTTP header`},
		{"cube without a program", `{"x": {"command": [["{{a}}"]]}}`, `entry "x": command[0][0]: must be the program`},
		{"cube with a bad group", `{"x": {"command": ["uvx"]}}`, `entry "x": command[0]: must be a list of strings, is a string`},
		{"all at once", `{"x": {"runs": "npm"}, "y": 1}`, `entry "x": package: is missing; entry "y": must be an object, is a number`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse([]byte(test.text))
			if err == nil {
				t.Fatal("it was accepted")
			}
			if diff := cmp.Diff("catalogue: "+test.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse_BoundsItsError(t *testing.T) {
	var entries []string
	for i := range 100 {
		entries = append(entries, fmt.Sprintf(`"e%02d": 1`, i))
	}
	_, err := Parse([]byte("{" + strings.Join(entries, ",") + "}"))
	if err == nil || len(err.Error()) > 1100 || !strings.HasSuffix(err.Error(), "; and 78 more") {
		t.Errorf("got %v", err)
	}
}

const notes = `{"x": {"description": "Notes in a folder.",
	"command": [["uvx", "notes-mcp"], ["--dir", "{{dir}}"], ["{{tags}}"]],
	"install": [["uv", "tool", "install", "notes-mcp"]],
	"env": {"NOTES_LANG": "{{lang}}"},
	"properties": {"dir": {"type": "string"}, "tags": {"type": "array"}, "lang": {"type": "string", "default": "en"}}}}`

func TestC5_TheOtherFormat(t *testing.T) {
	entry := lookup(t, notes)
	t.Run("all properties", func(t *testing.T) {
		launch, problems := entry.Launch(props(t, `{"dir": "/n", "tags": ["a", "b"]}`))
		want := Launch{Kind: PyPI, Package: "notes-mcp", Args: []string{"--dir", "/n", "a", "b"}}
		if len(problems) > 0 || launch.Kind != want.Kind || launch.Package != want.Package || !slices.Equal(launch.Args, want.Args) {
			t.Errorf("got %+v, %v", launch, problems)
		}
		if diff := cmp.Diff(map[string]string{"NOTES_LANG": "en"}, revealed(launch.Env)); diff != "" {
			t.Error(diff)
		}
		if len(launch.Steps) != 0 {
			t.Errorf("installing the package again: %q", launch.Steps)
		}
	})
	t.Run("none", func(t *testing.T) {
		launch, problems := entry.Launch(nil)
		if len(problems) > 0 || len(launch.Args) != 0 {
			t.Errorf("got %+v, %v", launch, problems)
		}
	})
	for _, test := range []struct {
		name, command, install string
		runs                   Kind
		program, version       string
		args                   []string
		steps                  [][]string
	}{
		{"npx", `[["npx", "-y", "@a/b"], ["{{p}}"]]`, `[["npm", "cache", "add", "@a/b"]]`, NPM, "@a/b", "", nil, nil},
		{"npx with a version and arguments", `[["npx", "--yes", "@a/b@1.2.3", "stdio"]]`, `[]`, NPM, "@a/b", "1.2.3", []string{"stdio"}, nil},
		{"npx, the newest", `[["npx", "-y", "b@latest"]]`, `[]`, NPM, "b", "", nil, nil},
		{"npx with a range stays", `[["npx", "-y", "b@^1"]]`, `[]`, Command, "npx", "", []string{"-y", "b@^1"}, nil},
		{"uvx with a version", `[["uvx", "b==1.2"]]`, `[["apt-get", "install", "-y", "x"], ["uv", "tool", "install", "b==1.2"]]`, PyPI, "b", "1.2", nil, [][]string{{"apt-get", "install", "-y", "x"}}},
		{"uvx with options stays", `[["uvx", "--from", "a", "b"]]`, `[]`, Command, "uvx", "", []string{"--from", "a", "b"}, nil},
		{"uvx alone stays", `[["uvx"]]`, `[]`, Command, "uvx", "", nil, nil},
		{"another program", `[["/opt/x", "--a={{p}}", "{{p}}"], ["-v"]]`, `[["make"]]`, Command, "/opt/x", "", []string{"-v"}, [][]string{{"make"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			launch, problems := lookup(t, `{"x": {"command": `+test.command+`, "install": `+test.install+`, "author": "passed over"}}`).Launch(nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			program := launch.Package + launch.Command
			if launch.Kind != test.runs || program != test.program || launch.Version != test.version {
				t.Errorf("%s %q %q, want %s %q %q", launch.Kind, program, launch.Version, test.runs, test.program, test.version)
			}
			if diff := cmp.Diff(test.args, launch.Args); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.steps, launch.Steps); diff != "" && len(test.steps)+len(launch.Steps) > 0 {
				t.Error(diff)
			}
		})
	}
}

func TestLaunch_FillsPlaceholders(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "command", "command": "run",
		"args": [["--port={{port}}"], ["--pair", "{{a}}", "{{b}}"], ["{{list}}", "end"], ["--all={{list}}"], ["--flag", "{{flag}}"], ["fixed"]],
		"env": {"BOTH": "{{a}}-{{b}}", "RATE": "{{rate}}", "JSON": "{\"k\": \"{{a}}\"}", "LIST": "{{list}}", "FIXED": "$HOME"},
		"cwd": "{{a}}",
		"properties": {"port": {"type": "integer"}, "a": {"type": "string"}, "b": {"type": "string"},
			"list": {"type": "array"}, "flag": {"type": "boolean"}, "rate": {"type": "number", "default": 0.10}}}}`)
	for _, test := range []struct {
		name, props, dir string
		args             []string
		env              map[string]string
	}{
		{"nothing", `{}`, "", []string{"fixed"}, map[string]string{"RATE": "0.10", "FIXED": "$HOME"}},
		{"null is unset", `{"port": null, "list": null}`, "", []string{"fixed"}, map[string]string{"RATE": "0.10", "FIXED": "$HOME"}},
		{"an empty list is unset", `{"list": []}`, "", []string{"fixed"}, map[string]string{"RATE": "0.10", "FIXED": "$HOME"}},
		{"an empty string is set", `{"a": ""}`, "", []string{"fixed"}, map[string]string{"RATE": "0.10", "FIXED": "$HOME", "JSON": `{"k": ""}`}},
		{"C1 twenty digits", `{"port": 12345678901234567890, "rate": 1.50e+400}`, "", []string{"--port=12345678901234567890", "fixed"}, map[string]string{"RATE": "1.50e+400", "FIXED": "$HOME"}},
		{"half a group", `{"a": "x"}`, "x", []string{"fixed"}, map[string]string{"RATE": "0.10", "FIXED": "$HOME", "JSON": `{"k": "x"}`}},
		{"all", `{"a": "{{b}}", "b": "y z", "list": ["1", "", "$3"], "flag": false}`, "{{b}}",
			[]string{"--pair", "{{b}}", "y z", "1", "", "$3", "end", "--all=1,,$3", "--flag", "false", "fixed"},
			map[string]string{"RATE": "0.10", "FIXED": "$HOME", "BOTH": "{{b}}-y z", "JSON": `{"k": "{{b}}"}`, "LIST": "1,,$3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			launch, problems := entry.Launch(props(t, test.props))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if launch.Command != "run" || launch.Dir != test.dir {
				t.Errorf("command %q in %q", launch.Command, launch.Dir)
			}
			if diff := cmp.Diff(test.args, launch.Args); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.env, revealed(launch.Env)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLaunch_ADefaultThatDoesNotCount(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "npm", "package": "p", "args": [["--a={{a?}}"], ["{{l?}}"], ["{{l}}"]],
		"env": {"A": "{{a?}}/f", "B": "{{a}}", "N": "{{needed?}}"},
		"properties": {"a": {"type": "string", "required": true, "default": "d"}, "l": {"type": "array", "default": ["1", "2"]}, "needed": {"type": "string", "required": true}}}}`)
	for _, test := range []struct {
		props string
		args  []string
		env   map[string]string
	}{
		{`{"needed": "n"}`, []string{"1", "2"}, map[string]string{"B": "d", "N": "n"}},
		{`{"needed": "n", "a": null, "l": null}`, []string{"1", "2"}, map[string]string{"B": "d", "N": "n"}},
		{`{"needed": "n", "a": "d", "l": ["x", "y"]}`, []string{"--a=d", "x", "y", "x", "y"}, map[string]string{"A": "d/f", "B": "d", "N": "n"}},
	} {
		launch, problems := entry.Launch(props(t, test.props))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if diff := cmp.Diff(test.args, launch.Args); diff != "" {
			t.Errorf("%s: %s", test.props, diff)
		}
		if diff := cmp.Diff(test.env, revealed(launch.Env)); diff != "" {
			t.Errorf("%s: %s", test.props, diff)
		}
	}
}

func TestC1_PropertyTypes(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "npm", "package": "p", "properties": {
		"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
		"l": {"type": "array"}, "e": {"type": "string", "enum": ["one", "two"]},
		"needed": {"type": "string", "required": true}, "given": {"type": "string", "required": true, "default": "d"}}}}`)
	for _, test := range []struct{ props, want string }{
		{`{"needed": ""}`, ""},
		{`{}`, `entry "x": needed: is missing, must be a string`},
		{`{"needed": null}`, `entry "x": needed: is missing, must be a string`},
		{`{"needed": "", "s": 1}`, `entry "x": s: must be a string, is a number (put it in quotes)`},
		{`{"needed": "", "s": {}}`, `entry "x": s: must be a string, is an object`},
		{`{"needed": "", "s": "a\u0000b"}`, `entry "x": s: must not hold a NUL character`},
		{`{"needed": "", "i": "5432"}`, `entry "x": i: must be an integer, is a string (write it without quotes)`},
		{`{"needed": "", "i": 1.0}`, `entry "x": i: must be an integer, is a number with a fraction or an exponent`},
		{`{"needed": "", "i": -7, "n": -0.5, "b": true, "e": "two", "unknown": {}}`, ""},
		{`{"needed": "", "n": true}`, `entry "x": n: must be a number, is a boolean`},
		{`{"needed": "", "b": "true"}`, `entry "x": b: must be a boolean, is a string (write it without quotes)`},
		{`{"needed": "", "l": "a"}`, `entry "x": l: must be a list of strings, is a string (put it in brackets: ["..."])`},
		{`{"needed": "", "l": ["a", 1]}`, `entry "x": l[1]: must be a string, is a number (put it in quotes)`},
		{`{"needed": "", "e": "hunter2"}`, `entry "x": e: must be one of "one", "two"`},
		{`{"s": 1, "i": ""}`, `entry "x": i: must be an integer, is a string (write it without quotes); entry "x": needed: is missing, must be a string; entry "x": s: must be a string, is a number (put it in quotes)`},
	} {
		launch, problems := entry.Launch(props(t, test.props))
		if got := messages(problems); got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.props, got, test.want)
		}
		if (test.want == "") != (launch.Kind == NPM) {
			t.Errorf("%s: the plan is %+v", test.props, launch)
		}
	}
}

func TestLaunch_Remote(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "remote", "url": "https://example.com/{{org}}/mcp?tools={{tools}}", "transport": "sse",
		"headers": {"Authorization": "Bearer {{key}}", "X-Team": "{{team}}"},
		"properties": {"org": {"type": "string", "required": true}, "tools": {"type": "array", "required": true},
			"key": {"type": "string", "required": true, "secret": true}, "team": {"type": "string"}}}}`)
	launch, problems := entry.Launch(props(t, `{"org": "a/b", "tools": ["x", "y&z"], "key": "k-123456"}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if want := "https://example.com/a%2Fb/mcp?tools=x%2Cy%26z"; launch.URL != want || launch.Transport != "sse" {
		t.Errorf("URL %s, want %s", launch.URL, want)
	}
	if diff := cmp.Diff(map[string]string{"Authorization": "Bearer k-123456"}, revealed(launch.Headers)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]secret.Value{"k-123456"}, launch.Secrets); diff != "" {
		t.Error(diff)
	}
	_, problems = entry.Launch(props(t, `{"org": "a", "tools": ["x"], "key": "k\nEvil: 1"}`))
	if got, want := messages(problems), `entry "x": headers.Authorization: must not hold line breaks or other control characters`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	whole := lookup(t, `{"x": {"runs": "remote", "url": "{{u}}", "transport": "streamable-http", "properties": {"u": {"type": "string", "required": true}}}}`)
	if launch, problems := whole.Launch(props(t, `{"u": "http://h/p?q=1"}`)); len(problems) > 0 || launch.URL != "http://h/p?q=1" || launch.Transport != "" {
		t.Errorf("got %q, %v", launch.URL, problems)
	}
	_, problems = whole.Launch(props(t, `{"u": "file:///etc/passwd"}`))
	if got, want := messages(problems), `entry "x": url: must be an absolute URL with http or https`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLaunch_SecretsAreListedWhereverTheyGo(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "go", "package": "example.com/x", "args": [["--key", "{{key}}"]], "env": {"K": "pre-{{key}}", "R": "{{region}}"},
		"properties": {"key": {"type": "string", "secret": true}, "keys": {"type": "array", "secret": true}, "region": {"type": "string"}}}}`)
	launch, _ := entry.Launch(props(t, `{"key": "s3cr3t-1", "keys": ["s3cr3t-2", "s3cr3t-3"], "region": "eu-west-1"}`))
	if diff := cmp.Diff([]secret.Value{"s3cr3t-1", "s3cr3t-2", "s3cr3t-3"}, launch.Secrets); diff != "" {
		t.Error(diff)
	}
	if text := fmt.Sprintf("%v", launch.Env["K"]); text != "***" {
		t.Errorf("the variable prints as %s", text)
	}
}

func TestLaunch_NoWayToRun(t *testing.T) {
	_, problems := lookup(t, `{"x": {"runs": "none", "reason": "only a Docker image exists"}}`).Launch(nil)
	if got, want := messages(problems), `entry "x": cannot be run here: only a Docker image exists`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLaunch_WithState(t *testing.T) {
	entry := lookup(t, `{"x": {"runs": "npm", "package": "p", "args": [["--db", "{{@state}}/db"], ["{{p}}"]], "env": {"F": "{{@state}}/f"}, "cwd": "{{@state}}",
		"properties": {"p": {"type": "string"}}}}`)
	launch, _ := entry.Launch(props(t, `{"p": "{{@state}}"}`))
	if !launch.NeedsState() || !strings.ContainsRune(launch.Args[1], 0) {
		t.Errorf("a plan without its state folder could be run: %q", launch.Args)
	}
	filled := launch.WithState("/s")
	if diff := cmp.Diff([]string{"--db", "/s/db", "{{@state}}"}, filled.Args); diff != "" {
		t.Error(diff)
	}
	if filled.Dir != "/s" || filled.Env["F"].Reveal() != "/s/f" || filled.NeedsState() || !launch.NeedsState() {
		t.Errorf("got %+v", filled)
	}
	if plain, _ := lookup(t, `{"x": {"runs": "npm", "package": "p"}}`).Launch(nil); plain.NeedsState() {
		t.Error("a plan without placeholders asks for a folder")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"arxiv", "duckduckgo", "fetch", "filesystem", "github", "githubOfficial", "memory", "sequentialthinking", "time"}
	for name, want := range map[string][]string{
		"tiem":                     {"time"},
		"Time":                     {"time"},
		"fecth":                    {"fetch"},
		"file-system":              {"filesystem"},
		"sequential":               {"sequentialthinking"},
		"githb":                    {"github"},
		"github":                   {"github", "githubOfficial"},
		"zzzz":                     nil,
		"":                         nil,
		strings.Repeat("time", 20): nil,
	} {
		if diff := cmp.Diff(want, Nearest(name, names)); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
	if got := Nearest("aaa1", []string{"aaa2", "aaa3", "aaa4", "aaa5"}); len(got) != 3 {
		t.Errorf("got %q, want three", got)
	}
}
