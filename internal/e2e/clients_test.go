// Package e2e_test runs the gateway as its users do: started by a shell as an SDK does it, with
// the official clients of every line as programs, and with servers of the catalogue.
package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
)

// capabilities are what each client is asked to show.
var capabilities = []string{
	"connect", "list", "call", "error", "progress", "cancel", "prompts", "resources", "templates", "completion",
	"subscription", "logging", "sampling", "elicitation", "roots", "list_changed",
}

// clientLimit ends a client that hangs.
const clientLimit = 5 * time.Minute

// client is one line of an official SDK: run gives one outcome for each capability.
type client struct {
	name string
	run  func(t *testing.T, url, token string, capabilities []string) []outcome
}

func clients() []client {
	return []client{
		{"py1", script(".cache/py1/bin/python", "py1/client.py")},
		{"py2", script(".cache/py2/bin/python", "py2/client.py")},
		{"ts1", script("node", "ts1/client.cjs")},
		{"ts2", script("node", "ts2/client.cjs")},
		{"go", inGo("")},
		{"go-legacy", inGo("2025-11-25")},
	}
}

func inGo(version string) func(*testing.T, string, string, []string) []outcome {
	return func(t *testing.T, url, token string, capabilities []string) []outcome {
		ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
		defer cancel()
		return runGoClient(ctx, url, token, version, capabilities)
	}
}

// script runs a client of testdata/clients with the packages that make deps has installed.
func script(interpreter, file string) func(*testing.T, string, string, []string) []outcome {
	return func(t *testing.T, url, token string, capabilities []string) []outcome {
		t.Helper()
		root := mcptest.Root(t)
		if filepath.Base(interpreter) != interpreter {
			interpreter = filepath.Join(root, interpreter)
		}
		modules := filepath.Join(root, ".cache", "npm", "node_modules")
		need(t, interpreter)
		if interpreter == "node" {
			need(t, modules)
		}
		ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
		defer cancel()
		args := append([]string{filepath.Join("testdata", "clients", file), url, token}, capabilities...)
		c := exec.CommandContext(ctx, interpreter, args...)
		c.Env = append(os.Environ(), "NODE_PATH="+modules, "PYTHONWARNINGS=ignore")
		c.WaitDelay = time.Second
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		err := c.Run()
		var outcomes []outcome
		for lines := bufio.NewScanner(&stdout); lines.Scan(); {
			var o outcome
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				t.Fatalf("%s printed %q: %v", file, lines.Text(), err)
			}
			outcomes = append(outcomes, o)
		}
		if err != nil {
			t.Errorf("%s ended with %v\n%s", file, err, stderr.Bytes())
		}
		return outcomes
	}
}

// need skips the test, or fails it in CI, unless a program or folder is there.
func need(t *testing.T, what string) {
	t.Helper()
	_, err := exec.LookPath(what)
	if err != nil {
		_, err = os.Stat(what)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing: make deps installs it", what)
	default:
		t.Skipf("%s is missing: make deps installs it", what)
	}
}

// passed fails the test unless every capability that the client has an API for works, and returns
// the details.
func passed(t *testing.T, name string, got []outcome, capabilities []string) map[string]string {
	t.Helper()
	details := map[string]string{}
	for _, o := range got {
		switch {
		case o.OK == nil:
			t.Logf("%s %s: no API", name, o.Capability)
		case !*o.OK:
			t.Errorf("%s %s: %s", name, o.Capability, o.Detail)
		}
		details[o.Capability] = o.Detail
	}
	if len(got) != len(capabilities) {
		t.Errorf("%s reported %d of %d capabilities", name, len(got), len(capabilities))
	}
	return details
}

// TestClientsThemselves proves that the clients are right, with the reference server instead of a
// gateway.
func TestClientsThemselves(t *testing.T) {
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := passed(t, c.name, c.run(t, reference(t, "secret"), "secret", capabilities), capabilities)
			t.Logf("%v", d)
		})
	}
}
