//lint:file-ignore SA1019 Sampling, roots and logging are deprecated, and are what the clients are asked to show.

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient is the Go SDK's client.
type goClient struct {
	s       *mcp.ClientSession
	version string // "" or the revision to open with

	progress  chan float64
	logged    chan any
	updated   chan string
	toolsSeen chan struct{}
}

// runGoClient does what the scripts of the other clients do.
func runGoClient(ctx context.Context, url, token, version string, capabilities []string) []outcome {
	c := &goClient{
		version: version, progress: make(chan float64, 100), logged: make(chan any, 100),
		updated: make(chan string, 100), toolsSeen: make(chan struct{}, 100),
	}
	detail, err := c.connect(ctx, url, token)
	if err != nil {
		return runSteps(ctx, capabilities, func(string) map[string]action { return broken(capabilities, err) })
	}
	defer c.s.Close()
	return runSteps(ctx, capabilities, func(argument string) map[string]action {
		return map[string]action{
			"connect": func(context.Context) (string, error) { return detail, nil },
			"list":    c.list, "call": c.call, "error": c.errors, "progress": c.progresses, "cancel": c.cancel,
			"prompts": c.prompts, "resources": c.resources, "templates": c.templates, "completion": c.completion,
			"subscription": c.subscription, "logging": c.logging, "list_changed": c.listChanged,
			"sampling": c.ask("ask_sampling", "hi from the client"), "elicitation": c.ask("ask_elicitation", "Ada"),
			"roots":        c.ask("ask_roots", "file:///client"),
			"prompt_names": c.promptNames, "uris": c.uris, "template_uris": c.templateURIs,
			"tool": func(ctx context.Context) (string, error) { return c.tool(ctx, argument, map[string]any{}) },
			"get":  func(ctx context.Context) (string, error) { return c.get(ctx, argument, nil) },
			"read": func(ctx context.Context) (string, error) { return c.read(ctx, argument) },
		}
	})
}

// bearer adds the token to each request.
type bearer struct{ token string }

// RoundTrip sends the request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

func (c *goClient) connect(ctx context.Context, url, token string) (string, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: "hi from the client"}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.toolsSeen <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updated <- r.Params.URI },
		LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { c.logged <- r.Params.Data },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.progress <- r.Params.Progress
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///client", Name: "client"})
	var err error
	c.s, err = client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{token}}, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: c.version})
	if err != nil {
		return "", err
	}
	return c.s.InitializeResult().ProtocolVersion, nil
}

func (c *goClient) list(ctx context.Context) (string, error) {
	names, err := c.names(ctx)
	return sorted(names, err)
}

func (c *goClient) names(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range c.s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names, nil
}

// tool calls a tool and returns its first text.
func (c *goClient) tool(ctx context.Context, name string, args any) (string, error) {
	r, err := c.s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("content is %T", r.Content[0])
	}
	if r.IsError {
		return "", errors.New("isError: " + text.Text)
	}
	return text.Text, nil
}

func (c *goClient) call(ctx context.Context) (string, error) {
	text, err := c.tool(ctx, "echo", map[string]any{"text": "≤ hi"})
	if err == nil && text != `{"text":"≤ hi"}` {
		err = fmt.Errorf("echo returned %q", text)
	}
	return text, err
}

func (c *goClient) errors(ctx context.Context) (string, error) {
	_, err := c.tool(ctx, "error", map[string]any{})
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc.Code != -32050 {
		return "", fmt.Errorf("tool error gave %v", err)
	}
	_, err = c.tool(ctx, "fail", map[string]any{})
	if err == nil || err.Error() != "isError: it did not work" {
		return "", fmt.Errorf("tool fail gave %v", err)
	}
	return fmt.Sprint(rpc.Code), nil
}

func (c *goClient) progresses(ctx context.Context) (string, error) {
	p := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{"n": 3}}
	p.SetProgressToken("p-1")
	if _, err := c.s.CallTool(ctx, p); err != nil {
		return "", err
	}
	for want := 1.0; want <= 3; want++ {
		if got, err := receive(ctx, c.progress); err != nil || got != want {
			return "", fmt.Errorf("step %v: got %v, %w", want, got, err)
		}
	}
	return "1,2,3", nil
}

// receive waits for a value of a handler.
func receive[T any](ctx context.Context, ch <-chan T) (T, error) {
	select {
	case v := <-ch:
		return v, nil
	case <-ctx.Done():
		var none T
		return none, errors.New("nothing arrived")
	}
}

func (c *goClient) cancel(ctx context.Context) (string, error) {
	before, err := c.cancellations(ctx, 0)
	if err != nil {
		return "", err
	}
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &mcp.CallToolParams{Name: "cancellable", Arguments: map[string]any{}}
	p.SetProgressToken("c-1")
	ended := make(chan error, 1)
	go func() {
		_, err := c.s.CallTool(cctx, p)
		ended <- err
	}()
	if _, err := receive(ctx, c.progress); err != nil {
		return "", fmt.Errorf("the call has not started: %w", err)
	}
	cancel()
	if err := <-ended; err == nil {
		return "", errors.New("the cancelled call gave a result")
	}
	after, err := c.cancellations(ctx, len(before)+1)
	return fmt.Sprint(len(after) - len(before)), err
}

func (c *goClient) cancellations(ctx context.Context, wait int) (seen []json.RawMessage, err error) {
	text, err := c.tool(ctx, "cancelled", map[string]any{"wait": wait})
	if err != nil {
		return nil, err
	}
	return seen, json.Unmarshal([]byte(text), &seen)
}

func (c *goClient) promptNames(ctx context.Context) (string, error) {
	l, err := c.s.ListPrompts(ctx, nil)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range l.Prompts {
		names = append(names, p.Name)
	}
	return sorted(names, nil)
}

func (c *goClient) get(ctx context.Context, name string, args map[string]string) (string, error) {
	p, err := c.s.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	return p.Messages[0].Content.(*mcp.TextContent).Text, nil
}

func (c *goClient) prompts(ctx context.Context) (string, error) {
	if err := listed(ctx, c.promptNames, "greet"); err != nil {
		return "", err
	}
	text, err := c.get(ctx, "greet", map[string]string{"name": "Ada"})
	return want(text, "Greet Ada.", err)
}

func (c *goClient) uris(ctx context.Context) (string, error) {
	l, err := c.s.ListResources(ctx, nil)
	if err != nil {
		return "", err
	}
	var uris []string
	for _, r := range l.Resources {
		uris = append(uris, r.URI)
	}
	return sorted(uris, nil)
}

func (c *goClient) read(ctx context.Context, uri string) (string, error) {
	r, err := c.s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	return r.Contents[0].Text, nil
}

func (c *goClient) resources(ctx context.Context) (string, error) {
	if err := listed(ctx, c.uris, "fake://text/1"); err != nil {
		return "", err
	}
	text, err := c.read(ctx, "fake://text/1")
	return want(text, "fake: text/1", err)
}

func (c *goClient) templateURIs(ctx context.Context) (string, error) {
	l, err := c.s.ListResourceTemplates(ctx, nil)
	if err != nil {
		return "", err
	}
	var uris []string
	for _, r := range l.ResourceTemplates {
		uris = append(uris, r.URITemplate)
	}
	return sorted(uris, nil)
}

func (c *goClient) templates(ctx context.Context) (string, error) {
	if err := listed(ctx, c.templateURIs, "fake://item/{id}"); err != nil {
		return "", err
	}
	text, err := c.read(ctx, "fake://item/7")
	return want(text, "fake: item/7", err)
}

func (c *goClient) completion(ctx context.Context) (string, error) {
	r, err := c.s.Complete(ctx, &mcp.CompleteParams{
		Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteParamsArgument{Name: "name", Value: "al"}})
	if err != nil {
		return "", err
	}
	return want(strings.Join(r.Completion.Values, ","), "alan,alice", nil)
}

func (c *goClient) subscription(ctx context.Context) (string, error) {
	if err := c.s.Subscribe(ctx, &mcp.SubscribeParams{URI: "fake://text/1"}); err != nil {
		return "", err
	}
	if _, err := c.tool(ctx, "touch", map[string]any{"uri": "fake://text/1"}); err != nil {
		return "", err
	}
	return receive(ctx, c.updated)
}

func (c *goClient) logging(ctx context.Context) (string, error) {
	p := &mcp.CallToolParams{Name: "log", Arguments: map[string]any{}}
	if c.s.InitializeResult().ProtocolVersion < modernVersion {
		if err := c.s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			return "", err
		}
	} else {
		p.Meta = mcp.Meta{mcp.MetaKeyLogLevel: "info"}
	}
	if _, err := c.s.CallTool(ctx, p); err != nil {
		return "", err
	}
	data, err := receive(ctx, c.logged)
	return fmt.Sprint(data), err
}

func (c *goClient) listChanged(ctx context.Context) (string, error) {
	name := fmt.Sprintf("added_%d_%s", os.Getpid(), strings.ReplaceAll(c.version, "-", ""))
	if _, err := c.tool(ctx, "add_tool", map[string]any{"name": name}); err != nil {
		return "", err
	}
	if _, err := receive(ctx, c.toolsSeen); err != nil {
		return "", err
	}
	names, err := c.names(ctx)
	if err == nil && !slices.Contains(names, name) {
		err = errors.New("the new tool is not listed")
	}
	return "changed", err
}

// ask is a step that calls a tool which wants an answer of ours and returns it.
func (c *goClient) ask(tool, part string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := c.tool(ctx, tool, map[string]any{})
		if err == nil && !strings.Contains(text, part) {
			err = fmt.Errorf("our answer is not in %q", text)
		}
		return "answered", err
	}
}
