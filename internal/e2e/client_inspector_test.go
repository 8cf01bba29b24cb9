package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// inspectorClients is where the MCP Inspector keeps its command lines.
const inspectorClients = ".cache/npm/node_modules/@modelcontextprotocol/inspector/clients"

// inspector is a command line of the MCP Inspector: "--cli" makes one request and ends, "mcpdo" has a
// daemon that keeps the connection between two commands.
type inspector struct {
	node, program string
	before        []string // the arguments before the method
	env           []string
}

// inspectorFailure is what the Inspector says of itself.
type inspectorFailure struct {
	Code, Message string
	result        json.RawMessage
}

// Error is the Inspector's message.
func (f *inspectorFailure) Error() string { return f.Code + ": " + f.Message }

// newInspector prepares a home, which holds the entry of the server to talk to.
func newInspector(t *testing.T, program, url, token string) *inspector {
	t.Helper()
	root := mcptest.Root(t)
	i := &inspector{node: filepath.Join(root, suiteNode), program: filepath.Join(root, inspectorClients, program)}
	need(t, i.node)
	need(t, i.program)
	home, err := os.MkdirTemp("", "inspector-") // short: the daemon's socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"gateway": map[string]any{
		"type": "streamable-http", "url": url, "headers": map[string]string{"Authorization": "Bearer " + token},
		"roots": []map[string]string{{"uri": "file:///client", "name": "client"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "mcp.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	i.env = append(os.Environ(), "HOME="+home, "MCP_INSPECTOR_SECRET_STORE=memory",
		"MCP_INSPECTOR_DAEMON_DIR="+home, "MCP_INSPECTOR_DAEMON_TOKEN="+strings.Repeat("k", 43))
	i.before = []string{"--format", "json", "--config", filepath.Join(home, "mcp.json")}
	return i
}

func (i *inspector) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, i.node, append([]string{i.program}, args...)...)
	c.Env = i.env
	return c
}

// run runs a whole command and returns what it prints.
func (i *inspector) run(ctx context.Context, args ...string) (json.RawMessage, error) {
	c := i.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if err == nil {
		return stdout.Bytes(), nil
	}
	// Notes may come before the failure, which is the last line.
	text := bytes.TrimSpace(stderr.Bytes())
	f := struct{ Error inspectorFailure }{}
	if json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &f) != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	f.Error.result = stdout.Bytes()
	return nil, &f.Error
}

// request makes one request and decodes the result.
func (i *inspector) request(ctx context.Context, result any, method string, flags ...string) error {
	text, err := i.run(ctx, slices.Concat(i.before, []string{method}, flags)...)
	if err != nil {
		return err
	}
	return unwrap(text, result)
}

// unwrap decodes a result, which --cli prints as the member of an object.
func unwrap(text json.RawMessage, result any) error {
	var wrapped struct{ Result json.RawMessage }
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return fmt.Errorf("decode %q: %w", text, err)
	}
	if wrapped.Result != nil {
		text = wrapped.Result
	}
	return json.Unmarshal(text, result)
}

// inspected is what the steps want of any result.
type inspected struct {
	ProtocolVersion   string
	Tools, Prompts    []struct{ Name string }
	Resources         []struct{ URI string }
	ResourceTemplates []struct{ URITemplate string }
	Content, Contents []struct{ Text string }
	Messages          []struct{ Content struct{ Text string } }
	Values            []string
	IsError           bool
	Pending           struct{ ElicitationID string } `json:"elicitationPending"`
}

// runInspector drives "mcp-inspector --cli". It opens with the revision before 2026-07-28 by default.
func runInspector(t *testing.T, url, token string, capabilities []string) []outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	i := newInspector(t, "launcher/build/index.js", url, token)
	i.before = slices.Concat([]string{"--cli"}, i.before, []string{"--server", "gateway", "--quiet", "--method"})
	return runSteps(ctx, capabilities, func(argument string) map[string]action {
		steps := i.steps(argument)
		steps["connect"] = func(ctx context.Context) (string, error) {
			var got inspected
			err := i.request(ctx, &got, "initialize")
			return got.ProtocolVersion, err
		}
		// It shows no log messages.
		steps["logging"] = func(ctx context.Context) (string, error) {
			return "set", i.request(ctx, &inspected{}, "logging/setLevel", "--log-level", "info")
		}
		return steps
	})
}

// steps are what both command lines can do.
func (i *inspector) steps(argument string) map[string]action {
	return map[string]action{
		"list": i.list("tools/list"), "prompt_names": i.list("prompts/list"), "uris": i.list("resources/list"),
		"template_uris": i.list("resources/templates/list"),
		"tool":          func(ctx context.Context) (string, error) { return i.tool(ctx, argument, "{}") },
		"get":           func(ctx context.Context) (string, error) { return i.get(ctx, argument) },
		"read":          func(ctx context.Context) (string, error) { return i.read(ctx, argument) },
		"call": func(ctx context.Context) (string, error) {
			text, err := i.tool(ctx, "echo", `{"text":"≤ hi"}`)
			return want(text, `{"text":"≤ hi"}`, err)
		},
		"error": i.errors,
		"prompts": func(ctx context.Context) (string, error) {
			if err := listed(ctx, i.list("prompts/list"), "greet"); err != nil {
				return "", err
			}
			text, err := i.get(ctx, "greet", "--prompt-args", "name=Ada")
			return want(text, "Greet Ada.", err)
		},
		"resources": i.found("resources/list", "fake://text/1", "fake://text/1", "fake: text/1"),
		"templates": i.found("resources/templates/list", "fake://item/{id}", "fake://item/7", "fake: item/7"),
		"roots": func(ctx context.Context) (string, error) {
			text, err := i.tool(ctx, "ask_roots", "{}")
			if err == nil && !strings.Contains(text, "file:///client") {
				err = fmt.Errorf("our answer is not in %q", text)
			}
			return "answered", err
		},
	}
}

// list makes a list, whatever it is of.
func (i *inspector) list(method string) action {
	return func(ctx context.Context) (string, error) {
		var got inspected
		if err := i.request(ctx, &got, method); err != nil {
			return "", err
		}
		var names []string
		for _, named := range append(got.Tools, got.Prompts...) {
			names = append(names, named.Name)
		}
		for _, r := range got.Resources {
			names = append(names, r.URI)
		}
		for _, r := range got.ResourceTemplates {
			names = append(names, r.URITemplate)
		}
		return sorted(names, nil)
	}
}

// tool calls a tool and returns its first text.
func (i *inspector) tool(ctx context.Context, name, args string) (string, error) {
	var got inspected
	if err := i.request(ctx, &got, "tools/call", "--tool-name", name, "--tool-args-json", args); err != nil {
		return "", err
	}
	if len(got.Content) == 0 {
		return "", fmt.Errorf("%s gave %+v", name, got)
	}
	return got.Content[0].Text, nil
}

func (i *inspector) get(ctx context.Context, name string, flags ...string) (string, error) {
	var got inspected
	err := i.request(ctx, &got, "prompts/get", append([]string{"--prompt-name", name}, flags...)...)
	if err == nil && len(got.Messages) == 0 {
		err = errors.New("the prompt has no messages")
	}
	if err != nil {
		return "", err
	}
	return got.Messages[0].Content.Text, nil
}

func (i *inspector) read(ctx context.Context, uri string) (string, error) {
	var got inspected
	err := i.request(ctx, &got, "resources/read", "--uri", uri)
	if err == nil && len(got.Contents) == 0 {
		err = errors.New("the resource has no contents")
	}
	if err != nil {
		return "", err
	}
	return got.Contents[0].Text, nil
}

// found reads a resource whose URI or template a list must have.
func (i *inspector) found(method, entry, uri, text string) action {
	return func(ctx context.Context) (string, error) {
		if err := listed(ctx, i.list(method), entry); err != nil {
			return "", err
		}
		got, err := i.read(ctx, uri)
		return want(got, text, err)
	}
}

// errors wants both kinds of errors. Of a JSON-RPC error the Inspector shows the message alone.
func (i *inspector) errors(ctx context.Context) (string, error) {
	var f *inspectorFailure
	if _, err := i.tool(ctx, "error", "{}"); !errors.As(err, &f) || f.Code != "error" || !strings.Contains(f.Message, "always") {
		return "", fmt.Errorf("tool error gave %v", err)
	}
	if _, err := i.tool(ctx, "fail", "{}"); !errors.As(err, &f) || f.Code != "tool_is_error" {
		return "", fmt.Errorf("tool fail gave %v", err)
	}
	var got inspected
	if err := unwrap(f.result, &got); err != nil {
		return "", err
	}
	if !got.IsError || len(got.Content) == 0 || got.Content[0].Text != "it did not work" {
		return "", fmt.Errorf("tool fail gave %s", f.result)
	}
	return "message", nil
}
