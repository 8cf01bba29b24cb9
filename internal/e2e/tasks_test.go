package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// TestTasksOfTheReferenceServer has two sessions of the TypeScript SDK run tasks at two reference servers at
// once, each of which asks its client for something on the way.
func TestTasksOfTheReferenceServer(t *testing.T) {
	root := mcptest.Root(t)
	node, modules := filepath.Join(root, suiteNode), filepath.Join(root, ".cache", "npm", "node_modules")
	server := filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js")
	need(t, node)
	need(t, server)
	g := newPlace(t).start(t, fmt.Sprintf(`{"a":{"command":%q,"args":[%q]},"b":{"command":%q,"args":[%q],"gateway":{"prefix":"b_"}}}`, node, server, node, server))
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	const tool = "simulate-research-query"
	c := exec.CommandContext(ctx, node, filepath.Join("testdata", "clients", "tasks", "client.cjs"), g.url, testToken, tool, "b_"+tool)
	c.Env = append(os.Environ(), "NODE_PATH="+modules)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("the client ended with %v\n%s", err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 4 {
		t.Errorf("%d tasks", len(lines))
	}
	for _, line := range lines {
		var task struct {
			Who, Tool, ID, Text string
			States              []struct {
				Who    string
				Listed bool
				Got    any
			}
		}
		if err := json.Unmarshal([]byte(line), &task); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		topic := fmt.Sprintf("topic of %s at %s (as %s says)", task.Who, task.Tool, task.Who)
		if task.ID == "" || !strings.Contains(task.Text, topic) {
			t.Errorf("the task of %s at %s gave %s", task.Who, task.Tool, line)
		}
		for _, s := range task.States {
			mine := s.Who == task.Who
			if s.Listed != mine || mine && s.Got != "completed" || !mine && s.Got != float64(-32602) {
				t.Errorf("%s sees of the task of %s: %+v", s.Who, task.Who, s)
			}
		}
	}
}
