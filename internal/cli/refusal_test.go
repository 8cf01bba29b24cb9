package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// C4, and C1's refusals: the first line of standard error says it all, the exit code is 2, and nothing
// was started or written.
func TestC4_Refusals(t *testing.T) {
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`"s%d":{"runCmd":"x"}`, i))
	}
	long := strings.Repeat("x", 129)
	for _, test := range []struct{ config, first string }{
		{`[]`, `configuration: must be an object of servers, is a list`},
		{`null`, `configuration: must be an object of servers, is null`},
		{``, `configuration: not valid JSON at line 1, column 1: it is empty, expected an object`},
		{`{"a":5}`, `server "a": must be an object, is a number`},
		{`{"a":null}`, `server "a": is not in the catalogue (see mcp-gateway catalog, or give runCmd, command or url)`},
		{`{"filesystem":null}`, `server "filesystem": paths: is missing, must be a list of strings`},
		{`{"timee":{}}`, `server "timee": is not in the catalogue (did you mean "time"? see mcp-gateway catalog)`},
		{`{"filesystem":{"paths":"/tmp"}}`, `server "filesystem": paths: must be a list of strings, is a string (put it in brackets: ["..."])`},
		{`{"github/x":{"runCmd":"x"}}`, `server "github/x": is not of the form github/<owner>/<repo>, each part of letters, digits, _, . and -`},
		{`{"github/a/..":{"runCmd":"x"}}`, `server "github/a/..": is not of the form github/<owner>/<repo>, each part of letters, digits, _, . and -`},
		{`{"github/a/b":{}}`, `server "github/a/b": runCmd: is missing, must be the command that starts the server in the clone`},
		{`{"github/a/b":{"runCmd":""}}`, `server "github/a/b": runCmd: must not be empty`},
		{`{"a":{"runCmd":"x","envs":{"1x":"a"}}}`, `server "a": envs.1x: is not a name for an environment variable: letters, digits and _ are allowed, not beginning with a digit`},
		{`{"a":{"runCmd":"x","envs":{"X":1}}}`, `server "a": envs.X: must be a string, is a number (put it in quotes)`},
		{"{" + strings.Join(many, ",") + "}", `configuration: holds 65 servers, at most 64 are allowed`},
		{`{"":{"runCmd":"x"}}`, `configuration: has a server with an empty name`},
		{`{"` + long + `":{"runCmd":"x"}}`, `server "` + long[:61] + `...": has a name of more than 128 characters`},
		{`{"a\u0007":{"runCmd":"x"}}`, `server "a\a": has a name with control characters`},
	} {
		root := t.TempDir()
		code, stdout, stderr := run(t, nil, "--root", root, "--config", test.config)
		first, _, _ := strings.Cut(stderr, "\n")
		if code != exitUsage || first != test.first || stdout != "" {
			t.Errorf("%.60s: exit %d, stdout %q, first line\n%s\nwant\n%s", test.config, code, stdout, first, test.first)
		}
		if files, _ := os.ReadDir(root); len(files) > 0 {
			t.Errorf("%.60s: left %v behind", test.config, files)
		}
	}
}

// A9: a configuration that is too large for an argument is told how it can be passed.
func TestA9_TooLongForAnArgument(t *testing.T) {
	cut := `{"a":{"runCmd":"` + strings.Repeat("x", 110<<10)
	code, _, stderr := run(t, nil, "--root", t.TempDir(), "--config", cut)
	if first, _, _ := strings.Cut(stderr, "\n"); code != exitUsage || !strings.Contains(first, "--config-file FILE, or with -") {
		t.Errorf("exit %d, first line %s", code, first)
	}
	_, stdout, _ := run(t, nil, "--help")
	if !strings.Contains(stdout, "no argument over 128 KiB") {
		t.Error("the help does not say it")
	}
}

// A file's name where the configuration itself is expected is a usual mistake.
func TestConfigIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, nil, "config", "check", "--config", path)
	if code != exitUsage || !strings.Contains(stderr, "give it with --config-file") {
		t.Errorf("exit %d, stderr %s", code, stderr)
	}
}

// C5: an override that cannot be read is named, and nothing starts.
func TestC5_BrokenCatalogueFile(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "etc/mcp-gateway/catalog.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"mine": {"runs": "nonsense"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, nil, "--root", root, "--config", `{"time":{}}`)
	if first, _, _ := strings.Cut(stderr, "\n"); code != exitUsage || !strings.HasPrefix(first, fmt.Sprintf("read catalogue %q: ", path)) {
		t.Errorf("exit %d, first line %s", code, first)
	}
	own := `{"mine": {"description": "Mine.", "runs": "command", "command": "mine", "properties": {}}}`
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, nil, "--root", root, "catalog")
	if code != exitDone || !strings.Contains(stdout, "mine\tcommand\tMine.\n") || !strings.Contains(stdout, "time\t") {
		t.Errorf("exit %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}
