package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/upstream"
)

// remoteFlags choose the gateway that the tools commands speak to.
type remoteFlags struct{ url string }

func (r *remoteFlags) bind(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&r.url, "url", "", "speak to the MCP endpoint at `URL` instead of the gateway here")
	fromEnvironment(cmd.PersistentFlags(), "url", "MCP_GATEWAY_URL")
}

// mcpClient is a session with a gateway. The SDK speaks the protocol; results are taken from the wire,
// since its types would change them.
type mcpClient struct {
	session  *mcp.ClientSession
	wire     *wireTap
	progress bool // ask tools for their progress
}

// tool is what the commands read of a tool; raw is the whole definition as the server sent it.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	raw         json.RawMessage
}

// rpcError is the error that a server answered a request with.
type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (JSON-RPC error %d)", e.Message, e.Code) }

// connect opens a session with the gateway that the flags name.
func connect(ctx context.Context, a *app, r remoteFlags) (*mcpClient, error) {
	wire, endpoint, err := endpointOf(a, r)
	if err != nil {
		return nil, err
	}
	features := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if a.errIsTerminal() {
		features.ProgressNotificationHandler = a.showProgress
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mcp-gateway-cli", Version: readVersion().Version}, features)
	options := &mcp.ClientSessionOptions{}
	if r.url == "" {
		// For a client of 2026-07-28 the gateway adds what that revision wants to the results of older
		// servers, which are most; here they are to be seen as they were sent.
		options.ProtocolVersion = upstream.Legacy
	}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             endpoint,
		HTTPClient:           &http.Client{Transport: wire},
		DisableStandaloneSSE: true, // commands read answers only
		MaxEventSize:         -1,   // a result may be of any size
	}, options)
	if err != nil {
		wire.next.CloseIdleConnections()
		return nil, fmt.Errorf("connect to %s: %w", wire.name, wire.explain(ctx, err))
	}
	return &mcpClient{session: session, wire: wire, progress: a.errIsTerminal()}, nil
}

// endpointOf returns the way to the gateway and its URL.
func endpointOf(a *app, r remoteFlags) (*wireTap, string, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if r.url == "" {
		socket := a.paths().Socket()
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return control.Dial(ctx, socket)
		}
		return &wireTap{next: transport, name: "the gateway"}, "http://localhost/mcp", nil
	}
	endpoint, err := url.Parse(r.url)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, "", usage(fmt.Errorf("--url %q: a URL with http or https is needed", r.url))
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/mcp"
	}
	token := a.env.get(clientTokenVariable)
	if token == "" {
		token = a.env.get(tokenVariable)
	}
	return &wireTap{next: transport, name: endpoint.Redacted(), origin: endpoint.Scheme + "://" + endpoint.Host,
		token: secret.Value(token)}, endpoint.String(), nil
}

// Close ends the session.
func (c *mcpClient) Close() {
	c.session.Close()
	c.wire.next.CloseIdleConnections()
}

// tools lists all tools, through all pages.
func (c *mcpClient) tools(ctx context.Context) ([]tool, error) {
	list := []tool{}
	seen := map[string]bool{}
	for cursor := ""; ; {
		raw, err := c.result(ctx, "tools/list", func() error {
			_, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list the tools: %w", err)
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("list the tools: read the answer: %w", err)
		}
		for _, raw := range page.Tools {
			t := tool{raw: raw}
			if json.Unmarshal(raw, &t) == nil && t.Name != "" {
				list = append(list, t)
			}
		}
		cursor = page.NextCursor
		if cursor == "" || seen[cursor] {
			return list, nil
		}
		seen[cursor] = true
	}
}

// call calls a tool and returns the result object as the server sent it.
func (c *mcpClient) call(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	return c.result(ctx, "tools/call", func() error {
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		if c.progress {
			params.SetProgressToken(1)
		}
		_, err := c.session.CallTool(ctx, params)
		return err
	})
}

// result runs one request of the SDK and returns what came over the wire for it. What the SDK makes of
// the answer counts only when none was seen.
func (c *mcpClient) result(ctx context.Context, method string, request func() error) (json.RawMessage, error) {
	c.wire.begin(method)
	err := request()
	answer, seen := c.wire.answer()
	switch {
	case seen && answer.Error != nil:
		return nil, answer.Error
	case seen:
		return answer.Result, nil
	case err == nil:
		return nil, errors.New("the answer was not seen on the wire")
	}
	return nil, c.wire.explain(ctx, err)
}

// refusedToken says whether there was a token to refuse.
func (t *wireTap) refusedToken() string {
	if t.token == "" {
		return "not authorized, no token is set"
	}
	return "not authorized, the token was refused"
}

// explain turns a failure of the transport into what it means: not allowed, not there, interrupted.
func (t *wireTap) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	status, failed := t.trouble()
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &statedError{verdict: verdict{exit: exitUnauthorized, code: "not_authorized",
			hint: "set " + clientTokenVariable + " to the endpoint's token; a gateway keeps its own in /etc/mcp-gateway/.token"},
			err: fmt.Errorf("%s: HTTP status %d", t.refusedToken(), status)}
	case status == http.StatusNotFound:
		return &statedError{verdict: verdict{exit: exitNotRunning, code: "unreachable", hint: "the path of a gateway's MCP endpoint is /mcp"},
			err: fmt.Errorf("no MCP endpoint: HTTP status %d", status)}
	case status == http.StatusServiceUnavailable:
		return &statedError{verdict: verdict{exit: exitNotRunning, code: "not_ready"}, err: errors.New("gateway is not ready")}
	case errors.Is(failed, control.ErrNotRunning):
		return control.ErrNotRunning
	case errors.Is(failed, fs.ErrPermission):
		return failed
	case failed != nil:
		return &statedError{verdict: verdict{exit: exitNotRunning, code: "unreachable", hint: "are host and port right, and does a server run there?"}, err: failed}
	}
	var answered *jsonrpc.Error
	if errors.As(err, &answered) {
		return &rpcError{Code: answered.Code, Message: answered.Message, Data: answered.Data}
	}
	return err
}
