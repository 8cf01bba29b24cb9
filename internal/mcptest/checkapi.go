package mcptest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// apiLimit ends a check that hangs.
const apiLimit = 5 * time.Minute

// apiConfig is what the checks are to know of the API: a wait that is over is an error of class 5xx, and is
// described as one.
const apiConfig = `
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]
`

// CheckAPI has schemathesis read the OpenAPI document at url/v1/openapi.json and send each operation what
// fits its description and what does not: every answer has to be as described, and none a fault of the
// server. Further flags are those of "st run", as --exclude-path. It is the same run at every time.
func CheckAPI(t testing.TB, url, token string, flags ...string) {
	t.Helper()
	program := filepath.Join(Root(t), ".cache", "schemathesis", "bin", "st")
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: make deps installs it", program)
		}
		t.Skipf("%s is missing: make deps installs it", program)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(config, []byte(apiConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), apiLimit)
	defer cancel()
	args := append([]string{"--config-file", config, "run", url + "/v1/openapi.json", "--header", "Authorization: Bearer " + token,
		"--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--continue-on-failure",
		"--request-timeout", "60", "--warnings", "off", "--no-color"}, flags...)
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.WaitDelay = dir, time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("schemathesis: %v\n%s", err, &out)
	}
	t.Log(strings.TrimSpace(out.String()))
}
