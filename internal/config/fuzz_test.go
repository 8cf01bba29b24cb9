package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"mcp-gateway/internal/catalog"
)

// planted stands in for every string value of a document: none of them may be told to anybody.
const planted = "pl4nted-secret"

// plant replaces all string values, and leaves names and everything else alone.
func plant(v any) any {
	switch v := v.(type) {
	case string:
		return planted
	case []any:
		for i := range v {
			v[i] = plant(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plant(v[name])
		}
	}
	return v
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"time": {}, "filesystem": {"paths": ["/tmp"]}, "github/o/r": {"runCmd": "x", "installCmd": "y", "envs": {"A": "b"}}}`,
		`{"mcpServers": {"a": {"command": "b", "args": ["c"], "env": {"D": "e"}, "cwd": "/", "disabled": false}}}`,
		`{"x": {"url": "https://u:p@h/?key=v", "headers": {"Authorization": "Bearer t"}, "type": "sse"}}`,
		`{"x": {"runCmd": "y", "gateway": {"tools": {"allow": ["a*"], "deny": []}, "callTimeout": "1s", "startTimeout": 2.5, "isolated": true, "prefix": "p", "protocol": "both", "user": "u"}}}`,
		`{"typed": {"port": 12345678901234567890, "level": "low", "key": "k", "levle": "x"}}`,
		`{"owner": {"url": "u", "command": "c", "env": "e"}, "owner": null, "": [], "tiem": {"env": {"A=b": "\u0000"}}}`,
		"{\"a\": 'b'}", `[`, "\ufeff{}", `{"\ud800": {}}`,
	} {
		f.Add([]byte(seed))
	}
	cat := known(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		check(t, data, cat)
		var doc any
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if decoder.Decode(&doc) != nil || bytes.Contains(data, []byte(planted)) {
			return
		}
		text, err := json.Marshal(plant(doc))
		if err != nil {
			return
		}
		for _, cut := range []int{len(text), len(text) - 1, len(text) / 2} {
			for _, said := range check(t, text[:cut], cat) {
				if strings.Contains(said, planted) {
					t.Errorf("a value is told: %s", said)
				}
			}
		}
	})
}

// check parses data, checks what must hold of every answer, and returns all that was said.
func check(t *testing.T, data []byte, cat *catalog.Catalog) []string {
	config, err := Parse(data, cat)
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) || len(refused.Problems) == 0 {
			t.Fatalf("refused without a problem: %v", err)
		}
		line := err.Error()
		if len(line) > 1024 || strings.ContainsFunc(line, unicode.IsControl) || !utf8.ValidString(line) || line == "" {
			t.Errorf("not one clean line: %q", line)
		}
		return []string{line}
	}
	for i, server := range config.Servers {
		if server.Name == "" || utf8.RuneCountInString(server.Name) > 128 || strings.ContainsFunc(server.Name, unicode.IsControl) {
			t.Errorf("name %q", server.Name)
		}
		if i > 0 && config.Servers[i-1].Name >= server.Name {
			t.Errorf("%q does not sort after %q", server.Name, config.Servers[i-1].Name)
		}
		checkLaunch(t, server.Launch.WithState("/state"))
	}
	if len(config.Servers) > MaxServers {
		t.Errorf("%d servers", len(config.Servers))
	}
	for _, warning := range config.Warnings {
		if strings.ContainsFunc(warning, unicode.IsControl) {
			t.Errorf("not one clean line: %q", warning)
		}
	}
	return config.Warnings
}

// checkLaunch checks that exec and HTTP can take the plan.
func checkLaunch(t *testing.T, l catalog.Launch) {
	for name, value := range l.Env {
		if catalog.CheckEnvName(name) != "" || strings.ContainsRune(value.Reveal(), 0) {
			t.Errorf("variable %q", name)
		}
	}
	for name, value := range l.Headers {
		if catalog.CheckHeader(name, value.Reveal()) != "" {
			t.Errorf("header %q", name)
		}
	}
	texts := append(slices.Clone(l.Args), l.Command, l.Run, l.Install, l.Dir, l.URL)
	if slices.ContainsFunc(texts, holdsNUL) {
		t.Errorf("a NUL character in %q", texts)
	}
	started := map[catalog.Kind]string{
		catalog.NPM: l.Package, catalog.PyPI: l.Package, catalog.Command: l.Command,
		catalog.Shell: l.Run, catalog.GitHub: l.Run, catalog.Remote: l.URL,
	}
	if started[l.Kind] == "" {
		t.Errorf("a plan of kind %q with nothing to start: %+v", l.Kind, l)
	}
}
