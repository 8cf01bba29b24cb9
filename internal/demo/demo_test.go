package demo_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"mcp-gateway/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect runs the demo server and returns a session with it, and the steps of progress that
// arrive.
func connect(t *testing.T) (*mcp.ClientSession, chan float64) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- demo.Run(context.Background(), inR, outW) }()
	steps := make(chan float64, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Progress },
	})
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return session, steps
}

func call(t *testing.T, s *mcp.ClientSession, p *mcp.CallToolParams) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	out := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		out = "isError: " + out
	}
	return out
}

func TestTools(t *testing.T) {
	s, steps := connect(t)
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"echo", map[string]any{"text": "<hi> ≤"}, "<hi> ≤"},
		{"add", map[string]any{"a": 2, "b": 0.5}, "2.5"},
		{"count", map[string]any{"to": 1001}, "isError: to is 1001, allowed are 0 to 1000"},
		{"now", map[string]any{"timezone": "Nowhere/Land"}, "isError: unknown time zone Nowhere/Land"},
	} {
		if got := call(t, s, &mcp.CallToolParams{Name: c.tool, Arguments: c.args}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.tool, got, c.want)
		}
	}
	if _, err := time.Parse(time.RFC3339, call(t, s, &mcp.CallToolParams{Name: "now", Arguments: map[string]any{}})); err != nil {
		t.Errorf("now: %v", err)
	}
	p := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{"to": 3}}
	p.SetProgressToken("t")
	if got := call(t, s, p); got != "counted to 3" {
		t.Errorf("count: got %q", got)
	}
	for want := 1.0; want <= 3; want++ {
		if got := <-steps; got != want {
			t.Errorf("progress %v, want %v", got, want)
		}
	}
}

func TestPromptAndResource(t *testing.T) {
	s, _ := connect(t)
	p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Messages[0].Content.(*mcp.TextContent).Text; !strings.Contains(got, "Ada") {
		t.Errorf("prompt %q", got)
	}
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://about"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Contents[0].Text; !strings.Contains(got, "mcp-gateway") {
		t.Errorf("resource %q", got)
	}
}

func TestEndOfInputEndsTheServer(t *testing.T) {
	if err := demo.Run(t.Context(), strings.NewReader(""), io.Discard); err != nil {
		t.Fatal(err)
	}
}

func TestCancelEndsTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := io.Pipe()
	if err := demo.Run(ctx, r, io.Discard); err != nil {
		t.Fatal(err)
	}
}
