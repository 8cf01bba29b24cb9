// Package e2e_test runs the gateway as its users do: started by a shell as an SDK does it, with
// the official clients of every line as programs, and with servers of the catalogue.
package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
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

// client is one that people have: run gives one outcome for each capability, and noAPI are those
// that it has no way to show. A program is not written on an SDK here, so there is little that could
// be wrong with it, and it takes long.
type client struct {
	name    string
	run     func(t *testing.T, url, token string, capabilities []string) []outcome
	noAPI   []string
	program bool
}

func clients() []client {
	return []client{
		{name: "py1", run: script(".cache/py1/bin/python", "py1/client.py")},
		{name: "py2", run: script(".cache/py2/bin/python", "py2/client.py")},
		{name: "ts1", run: script("node", "ts1/client.cjs")},
		{name: "ts2", run: script("node", "ts2/client.cjs")},
		{name: "go", run: inGo("")},
		{name: "go-legacy", run: inGo("2025-11-25")},
		{name: "fastmcp", run: script(".cache/fastmcp/bin/python", "fastmcp/client.py", "auto")},
		{name: "fastmcp-legacy", run: script(".cache/fastmcp/bin/python", "fastmcp/client.py", "legacy")},
		// One request, then it ends: it declares no capability but roots, and shows no notification.
		{name: "inspector", run: runInspector, program: true, noAPI: []string{
			"progress", "cancel", "completion", "subscription", "sampling", "elicitation", "list_changed"}},
		// An interrupted command ends alone, the daemon's call goes on; every list is made anew.
		{name: "mcpdo", run: runMcpdo, program: true, noAPI: []string{"progress", "cancel", "sampling", "list_changed"}},
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
func script(interpreter, file string, extra ...string) func(*testing.T, string, string, []string) []outcome {
	return func(t *testing.T, url, token string, capabilities []string) []outcome {
		t.Helper()
		root, interpreter := mcptest.Root(t), interpreter
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
		args := slices.Concat([]string{filepath.Join("testdata", "clients", file), url, token}, extra, capabilities)
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
	mcptest.Need(t, what)
}

// passed fails the test unless every capability works or is among those that the client has no API
// for, and returns the details.
func passed(t *testing.T, c client, got []outcome, capabilities []string) map[string]string {
	t.Helper()
	details := map[string]string{}
	for _, o := range got {
		if cell := c.cell(o); cell != "passed" && cell != "no API" {
			t.Errorf("%s %s: %s: %s", c.name, o.Capability, cell, o.Detail)
		}
		details[o.Capability] = o.Detail
	}
	if len(got) != len(capabilities) {
		t.Errorf("%s reported %d of %d capabilities", c.name, len(got), len(capabilities))
	}
	return details
}

// cell is what the table says of an outcome.
func (c client) cell(o outcome) string {
	switch known := slices.Contains(c.noAPI, o.Capability); {
	case o.OK == nil && known:
		return "no API"
	case o.OK == nil:
		return "LOST API"
	case known:
		return "NEW API"
	case !*o.OK:
		return "FAILED"
	}
	return "passed"
}

// writeTable shows client by capability in the log and in a file. A client that was left out has no
// cells.
func writeTable(t *testing.T, got [][]outcome) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\trevision\t"+strings.Join(capabilities[1:], "\t"))
	for i, c := range clients() {
		row := []string{c.name}
		for _, o := range got[i] {
			if o.Capability == "connect" && o.OK != nil && *o.OK {
				row = append(row, o.Detail)
			} else {
				row = append(row, c.cell(o))
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	t.Logf("\n%s", b.String())
	file := filepath.Join(mcptest.Root(t), ".cache", "test", "clients.txt")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}

// TestClientsThemselves proves that the clients are right, with the reference server instead of a
// gateway.
func TestClientsThemselves(t *testing.T) {
	for _, c := range clients() {
		if c.program {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := passed(t, c, c.run(t, reference(t, "secret"), "secret", capabilities), capabilities)
			t.Logf("%v", d)
		})
	}
}
