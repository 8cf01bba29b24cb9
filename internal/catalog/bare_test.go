package catalog

import "testing"

// D2: what is pulled has no properties yet, and needs the constants of its environment all the same.
func TestD2_BarePlanOfAnEntry(t *testing.T) {
	c, err := Parse([]byte(`{"a": {"description": "A.", "runs": "npm", "package": "a", "version": "1.0.0",
		"args": [["--dir", "{{dir}}"], ["--fast"]],
		"env": {"SKIP_DOWNLOAD": "true", "KEY": "{{key}}", "LEVEL": "{{level}}", "FILE": "{{@state}}/f"},
		"properties": {"dir": {"type": "string", "required": true}, "key": {"type": "string", "required": true, "secret": true},
			"level": {"type": "string", "default": "info"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := c.Lookup("a")
	l := e.Bare().WithState("/state")
	if len(l.Args) != 1 || l.Args[0] != "--fast" || l.Package != "a" || l.Version != "1.0.0" || l.Kind != NPM {
		t.Errorf("%+v", l)
	}
	if len(l.Env) != 3 || l.Env["SKIP_DOWNLOAD"].Reveal() != "true" || l.Env["LEVEL"].Reveal() != "info" || l.Env["FILE"].Reveal() != "/state/f" {
		t.Errorf("env has %d, %q", len(l.Env), l.Env["FILE"].Reveal())
	}
}
