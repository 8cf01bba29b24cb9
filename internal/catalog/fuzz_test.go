package catalog

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	mcpgateway "mcp-gateway"
)

func FuzzParse(f *testing.F) {
	f.Add(mcpgateway.Catalog, []byte(`{"paths": ["/tmp"], "storagePath": "/p"}`))
	f.Add([]byte(notes), []byte(`{"dir": "/n", "tags": ["a", "b"], "lang": null}`))
	f.Add([]byte(`{"x": {"runs": "git", "repository": "r", "commit": "`+commit+`", "install": [["make"]], "run": ["a"], "args": [["{{n}}"]], "cwd": "{{@state}}",
		"properties": {"n": {"type": "number", "default": 1e9}, "e": {"type": "string", "enum": ["a"], "secret": true}}}}`), []byte(`{"n": 12345678901234567890, "e": "a"}`))
	f.Add([]byte(`{"x": {"runs": "remote", "url": "https://h/{{a}}?b={{a}}", "headers": {"A": "{{a}}"}, "properties": {"a": {"type": "string", "required": true}}}}`), []byte(`{"a": "b\nc"}`))
	f.Add([]byte(`{"x": {"command": [["npx", "-y", "a@1.2.3"], ["{{b}}"]]}, "x": 1, "": {}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, file, given []byte) {
		c, err := Parse(file)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || len(refused.Problems) == 0 || c != nil {
				t.Fatalf("refused without a problem: %v", err)
			}
			if line := err.Error(); strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("not one clean line: %q", line)
			}
			return
		}
		var props map[string]json.RawMessage
		if json.Unmarshal(given, &props) != nil {
			return
		}
		for _, entry := range c.Entries() {
			launch, problems := entry.Launch(props)
			if len(problems) > 0 {
				continue
			}
			launch = launch.WithState("/state")
			if launch.Kind == Remote && CheckURL(launch.URL) != "" {
				t.Errorf("%q: URL %q", entry.Name, launch.URL)
			}
			for name, value := range launch.Env {
				if CheckEnvName(name) != "" || strings.ContainsRune(value.Reveal(), 0) {
					t.Errorf("%q: variable %q", entry.Name, name)
				}
			}
			if slices.ContainsFunc(append(launch.Args, launch.Command, launch.Dir), func(s string) bool { return strings.ContainsRune(s, 0) }) {
				t.Errorf("%q: a NUL character in %+v", entry.Name, launch)
			}
		}
	})
}
