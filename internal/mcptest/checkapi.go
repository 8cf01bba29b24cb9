package mcptest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// apiLimit ends a check that hangs.
const apiLimit = 5 * time.Minute

// apiConfig is what the checks are to know of the API: a wait that is over is an error of class 5xx, and is
// described as one.
const apiConfig = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "412", "429", "5xx"]

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 504]
`

// ending are the operations after which others find nothing to answer about. They are checked last.
var ending = []string{"removeMcpGatewayServer", "stopMcpGateway", "stopProgram"}

// CheckAPI has schemathesis read the OpenAPI document at url/v1/openapi.json and send each operation what
// fits its description and what does not: every answer has to be as described, and none a fault of the
// server. The examples of the document name a local server "time" and a remote one "mail". Operations are
// left out by their operationId. It is the same run at every time.
func CheckAPI(t testing.TB, url, token string, without ...string) {
	t.Helper()
	program := filepath.Join(Root(t), ".cache", "schemathesis", "bin", "st")
	Need(t, program)
	dir := t.TempDir()
	config := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(config, []byte(apiConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after []string
	excluded := slices.Concat(ending, without)
	slices.Sort(excluded)
	for _, id := range slices.Compact(excluded) {
		before = append(before, "--exclude-operation-id", id)
	}
	for _, id := range ending {
		if !slices.Contains(without, id) {
			after = append(after, "--include-operation-id", id)
		}
	}
	for _, selection := range [][]string{before, after} {
		args := append([]string{"--config-file", config, "run", url + "/v1/openapi.json", "--header", "Authorization: Bearer " + token,
			"--phases", "examples,coverage,fuzzing", "--max-examples", "15", "--seed", "1", "--continue-on-failure",
			"--request-timeout", "60", "--warnings", "off", "--no-color"}, selection...)
		out, err := runWithin(t, apiLimit, dir, program, args...)
		if err != nil {
			t.Fatalf("schemathesis: %v\n%s", err, out)
		}
		t.Log(out)
	}
}

// runWithin runs a program in a folder and returns what it writes.
func runWithin(t testing.TB, limit time.Duration, dir, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.WaitDelay = dir, time.Second
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
