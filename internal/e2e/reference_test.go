//lint:file-ignore SA1019 Sampling, roots and logging are deprecated, and are what the clients are asked to show.

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modernVersion is the first revision without sessions.
const modernVersion = "2026-07-28"

// reference serves, without a gateway in between, the tools that the clients ask the fake server
// for. A client that fails here is at fault itself.
func reference(t *testing.T, token string) string {
	t.Helper()
	r := &referenceServer{}
	r.cond = sync.NewCond(&r.mu)
	s := r.build()
	stateful := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	stateless := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Header.Get("Authorization") != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "no token", http.StatusUnauthorized)
		case req.Header.Get("Mcp-Protocol-Version") >= modernVersion:
			stateless.ServeHTTP(w, req)
		default:
			stateful.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

type referenceServer struct {
	s *mcp.Server

	mu        sync.Mutex
	cond      *sync.Cond
	cancelled []string
}

func (r *referenceServer) build() *mcp.Server {
	r.s = mcp.NewServer(&mcp.Implementation{Name: "reference", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler:  completeReference,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		Capabilities:       &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}},
	})
	for name, h := range map[string]mcp.ToolHandler{
		"echo": func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult(string(q.Params.Arguments)), nil
		},
		"error": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: -32050, Message: "always", Data: json.RawMessage(`{"a":1}`)}
		},
		"fail": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res := textResult("it did not work")
			res.IsError = true
			return res, nil
		},
		"progress":    progressReference,
		"cancellable": r.cancellable,
		"cancelled":   r.listCancelled,
		"log": func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult("sent"), q.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "fake", Data: "a log line"})
		},
		"touch": func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult("sent"), r.s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "fake://text/1"})
		},
		"add_tool": func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a struct{ Name string }
			_ = json.Unmarshal(q.Params.Arguments, &a)
			r.s.AddTool(&mcp.Tool{Name: a.Name, InputSchema: anyObject()}, nil)
			return textResult("added"), nil
		},
		"ask_sampling": askReference(&mcp.CreateMessageWithToolsParams{MaxTokens: 10, Messages: []*mcp.SamplingMessageV2{
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "say hi"}}}}}),
		"ask_elicitation": askReference(&mcp.ElicitParams{Message: "what is your name?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}),
		"ask_roots": askReference(&mcp.ListRootsParams{}),
	} {
		r.s.AddTool(&mcp.Tool{Name: name, InputSchema: anyObject()}, h)
	}
	r.s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name"}}}, func(_ context.Context, q *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Greet " + q.Params.Arguments["name"] + "."}}}}, nil
	})
	read := func(_ context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text := "fake: " + strings.TrimPrefix(q.Params.URI, "fake://")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: q.Params.URI, Text: text}}}, nil
	}
	r.s.AddResource(&mcp.Resource{URI: "fake://text/1", Name: "text_1"}, read)
	r.s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "fake://item/{id}", Name: "item"}, read)
	return r.s
}

func anyObject() map[string]any { return map[string]any{"type": "object"} }

func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func progressReference(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i := 1.0; i <= 3; i++ {
		err := q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: i, Total: 3})
		if err != nil {
			return nil, err
		}
	}
	return textResult("3 steps"), nil
}

func (r *referenceServer) cancellable(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	err := q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: 1, Total: 1})
	if err != nil {
		return nil, err
	}
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = append(r.cancelled, fmt.Sprintf(`{"reason":%q}`, context.Cause(ctx)))
	r.cond.Broadcast()
	return nil, ctx.Err()
}

func (r *referenceServer) listCancelled(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct{ Wait int }
	_ = json.Unmarshal(q.Params.Arguments, &a)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.cancelled) < a.Wait {
		r.cond.Wait()
	}
	return textResult("[" + strings.Join(r.cancelled, ",") + "]"), nil
}

func completeReference(_ context.Context, q *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	var found []string
	for _, v := range []string{"alan", "alice", "bob"} {
		if strings.HasPrefix(v, q.Params.Argument.Value) {
			found = append(found, v)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: found, Total: len(found)}}, nil
}

// askReference is a tool that wants one answer of the client and returns it.
func askReference(p mcp.InputRequest) mcp.ToolHandler {
	return func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := q.Params.InputResponses["ask"]
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"ask": p}, RequestState: "asked"}, nil
		}
		text, err := json.Marshal(answer)
		return textResult(string(text)), err
	}
}
