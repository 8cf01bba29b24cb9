// Package demo is a small MCP server that comes inside the binary: something to serve where no
// other server can be installed, and something to point a new client at.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	about    = "demo://about"
	maxSteps = 1000
)

// Run serves one client over the two streams, as newline-delimited JSON, until in ends or ctx is
// done. Where in is a closer, Run closes it, because nothing else ends a pending read.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	r, ok := in.(io.ReadCloser)
	if !ok {
		r = io.NopCloser(in)
	}
	err := newServer().Run(ctx, &mcp.IOTransport{Reader: r, Writer: unclosed{out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// unclosed keeps the transport from closing a stream that belongs to the caller.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "demo-server", Title: "Demo server", Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions: "A server to try out a client with. Its tools change nothing.",
	})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns the text.", Annotations: readOnly}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers.", Annotations: readOnly}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "now", Description: "Tells the time, in UTC or in a time zone.", Annotations: readOnly}, now)
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Counts to a number and reports progress at each step.", Annotations: readOnly}, count)
	s.AddPrompt(&mcp.Prompt{
		Name:        "greet",
		Description: "Asks for a greeting.",
		Arguments:   []*mcp.PromptArgument{{Name: "name", Description: "whom to greet", Required: true}},
	}, greet)
	s.AddResource(&mcp.Resource{URI: about, Name: "about", Description: "What this server is.", MIMEType: "text/plain"}, readAbout)
	return s
}

// text is a result of one text.
func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

type echoArgs struct {
	Text string `json:"text" jsonschema:"the text to return"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
	return text(a.Text), nil, nil
}

type addArgs struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, a addArgs) (*mcp.CallToolResult, sum, error) {
	return text(fmt.Sprint(a.A + a.B)), sum{a.A + a.B}, nil
}

type nowArgs struct {
	Timezone string `json:"timezone,omitempty" jsonschema:"an IANA time zone such as Asia/Shanghai; UTC without"`
}

func now(_ context.Context, _ *mcp.CallToolRequest, a nowArgs) (*mcp.CallToolResult, any, error) {
	zone, err := time.LoadLocation(a.Timezone)
	if err != nil {
		return nil, nil, err
	}
	return text(time.Now().In(zone).Format(time.RFC3339)), nil, nil
}

type countArgs struct {
	To int `json:"to" jsonschema:"the number to count to, at most 1000"`
}

func count(ctx context.Context, req *mcp.CallToolRequest, a countArgs) (*mcp.CallToolResult, any, error) {
	if a.To < 0 || a.To > maxSteps {
		return nil, nil, fmt.Errorf("to is %d, allowed are 0 to %d", a.To, maxSteps)
	}
	token := req.Params.GetProgressToken()
	for i := 1; token != nil && i <= a.To; i++ {
		p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Total: float64(a.To)}
		if err := req.Session.NotifyProgress(ctx, p); err != nil {
			return nil, nil, fmt.Errorf("report progress: %w", err)
		}
	}
	return text(fmt.Sprintf("counted to %d", a.To)), nil, nil
}

func greet(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	ask := fmt.Sprintf("Greet %s in one sentence.", req.Params.Arguments["name"])
	return &mcp.GetPromptResult{
		Description: "Asks for a greeting.",
		Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: ask}}},
	}, nil
}

func readAbout(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
		URI:      about,
		MIMEType: "text/plain",
		Text:     "This server is part of the mcp-gateway binary. It is there to try out a client with.",
	}}}, nil
}
