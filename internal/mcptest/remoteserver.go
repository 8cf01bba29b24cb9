package mcptest

//lint:file-ignore SA1019 The revisions before 2026-07-28 have sampling and logging, and these are tested.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Kinds of a RemoteServer.
const (
	RemoteSessions  = "sessions"  // streamable HTTP up to 2025-11-25, with sessions
	RemoteDocuments = "documents" // the same, answering with documents where it can
	RemoteResumable = "resumable" // the same, with event ids
	RemoteStateless = "stateless" // streamable HTTP of 2026-07-28, and of older revisions without sessions
	RemoteSSE       = "sse"       // the HTTP+SSE transport of 2024-11-05
)

// RemoteServer is an MCP server that is reached by HTTP: the Go SDK's, so that it is a peer that somebody
// else wrote. Its tools are echo, progress, ask (sampling), elicit, wait, log and add_tool.
type RemoteServer struct {
	URL string
	// Waiting gets a value when the tool "wait" runs, Cancelled when that was cancelled.
	Waiting, Cancelled chan bool

	over     chan bool // closed with the test
	kind     string
	mu       sync.Mutex
	handler  http.Handler
	mcp      *mcp.Server
	requests []*http.Request // without their bodies
	http     *httptest.Server
}

// StartRemote starts a server; it ends with the test.
func StartRemote(t testing.TB, kind string) *RemoteServer {
	t.Helper()
	s := &RemoteServer{kind: kind, Waiting: make(chan bool, 100), Cancelled: make(chan bool, 100), over: make(chan bool)}
	s.Forget()
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL + "/mcp"
	t.Cleanup(func() {
		close(s.over)
		s.end()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// ServeHTTP implements http.Handler: the server behind a front of the test's own.
func (s *RemoteServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, &http.Request{Method: r.Method, Header: r.Header.Clone(), Host: r.Host, RemoteAddr: r.RemoteAddr})
	handler := s.handler
	s.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// Requests lists the HTTP requests that the server got.
func (s *RemoteServer) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

// Sessions counts the sessions that are open at the server.
func (s *RemoteServer) Sessions() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.mcp.Sessions() {
		n++
	}
	return n
}

func (s *RemoteServer) end() {
	s.mu.Lock()
	old := s.mcp
	s.mu.Unlock()
	if old != nil {
		for session := range old.Sessions() {
			go session.Close() // it waits for calls, which end with their connections
		}
	}
}

// Restart makes the server forget everything and drops its connections, as if its process had been
// started again at its address.
func (s *RemoteServer) Restart() {
	s.Forget()
	s.http.CloseClientConnections()
}

// Forget makes the server forget everything.
func (s *RemoteServer) Forget() {
	s.end()
	server := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, &mcp.ServerOptions{Instructions: "Far away."})
	s.addTools(server)
	get := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler
	switch s.kind {
	case RemoteSSE:
		handler = mcp.NewSSEHandler(get, nil)
	case RemoteResumable:
		handler = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	default:
		handler = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			Stateless: s.kind == RemoteStateless, JSONResponse: s.kind == RemoteDocuments, PropagateRequestCancellation: true,
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mcp, s.handler = server, handler
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func (s *RemoteServer) addTools(server *mcp.Server) {
	add := func(name string, f mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, f)
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", r.Params.Arguments), nil
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for n := 1; n <= 3; n++ {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n), Total: 3}); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("ask", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var question string
		if err := json.Unmarshal(r.Params.Arguments, &struct{ Question *string }{&question}); err != nil {
			return nil, err
		}
		answer, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: question}}}})
		if err != nil {
			return nil, err
		}
		return text("%s", answer.Content.(*mcp.TextContent).Text), nil
	})
	// The SDK turns the input that is wanted into a request, for clients before 2026-07-28.
	add("elicit", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["answer"].(*mcp.ElicitResult); ok {
			return text("%s %v, %s", answer.Action, answer.Content["name"], r.Params.RequestState), nil
		}
		schema := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)
		return &mcp.CallToolResult{RequestState: "state", InputRequests: mcp.InputRequestMap{"answer": &mcp.ElicitParams{Message: "well?", RequestedSchema: schema}}}, nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.Waiting <- true
		select {
		case <-ctx.Done():
		case <-s.over:
		}
		s.Cancelled <- true
		return nil, ctx.Err()
	})
	add("log", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("logged"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "of " + string(r.Params.Arguments)})
	})
	add("add_tool", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		add("added", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("new"), nil })
		return text("added"), nil
	})
}
