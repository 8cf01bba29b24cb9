package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ownGateway is the path of the gateway that the socket belongs to.
const ownGateway = "/v1/sandboxes/-/mcp-gateway"

func serverPath(server string) string { return ownGateway + "/servers/" + url.PathEscape(server) }

func signInPath(server string) string { return "/v1/" + AuthorizationName(server) }

// operation is one request.
type operation struct {
	method, path string
	body         any
}

// ask makes a request whose answer is a T. The deed is what an error kept from being done.
func ask[T any](ctx context.Context, c *Client, o operation, deed string) (T, error) {
	var got T
	err := c.call(ctx, o.method, o.path, o.body, &got)
	if err != nil && !errors.Is(err, ErrNotRunning) { // that no gateway runs needs no deed
		err = fmt.Errorf("%s: %w", deed, err)
	}
	return got, err
}

func about(deed, server string) string { return fmt.Sprintf("%s %q", deed, server) }

// Gateway reads the gateway.
func (c *Client) Gateway(ctx context.Context) (Gateway, error) {
	return ask[Gateway](ctx, c, operation{http.MethodGet, ownGateway, nil}, "read the gateway")
}

// StartGateway makes a gateway, or finds the one that there is.
func (c *Client) StartGateway(ctx context.Context, q StartRequest) (Gateway, error) {
	return ask[Gateway](ctx, c, operation{http.MethodPost, ownGateway + "/start", q}, "start the gateway")
}

// StopGateway ends all servers. The program goes on.
func (c *Client) StopGateway(ctx context.Context) error {
	_, err := ask[struct{}](ctx, c, operation{http.MethodPost, ownGateway + "/stop", nil}, "stop the gateway")
	return err
}

// Report tells what became of the servers that were asked for.
func (c *Client) Report(ctx context.Context) (ConfigurationReport, error) {
	return ask[ConfigurationReport](ctx, c, operation{http.MethodGet, ownGateway + "/report", nil}, "read the report")
}

// Servers lists the servers by name.
func (c *Client) Servers(ctx context.Context) ([]LiveServer, error) {
	list, err := ask[serverList](ctx, c, operation{http.MethodGet, ownGateway + "/servers", nil}, "list the servers")
	return list.Servers, err
}

// Server reads one server, with its definition.
func (c *Client) Server(ctx context.Context, name string) (LiveServer, error) {
	return ask[LiveServer](ctx, c, operation{http.MethodGet, serverPath(name), nil}, about("read server", name))
}

// AddServer adds a server and returns when it has become ready, waits for a sign-in, or has failed.
func (c *Client) AddServer(ctx context.Context, q AddRequest) (ServerRef, error) {
	got, err := ask[added](ctx, c, operation{http.MethodPost, ownGateway + "/servers", q}, about("add server", q.Server))
	return got.Server, err
}

// RemoveServer takes a server away.
func (c *Client) RemoveServer(ctx context.Context, name string) error {
	_, err := ask[struct{}](ctx, c, operation{http.MethodDelete, serverPath(name), nil}, about("remove server", name))
	return err
}

// RestartServer ends a server's process or connection, and returns when it is ready again.
func (c *Client) RestartServer(ctx context.Context, name string) (LiveServer, error) {
	return ask[LiveServer](ctx, c, operation{http.MethodPost, serverPath(name) + "/restart", nil}, about("restart server", name))
}

// Authorize begins a sign-in, or returns the one that there is.
func (c *Client) Authorize(ctx context.Context, server string, q AuthorizeRequest) (Authorization, error) {
	return ask[Authorization](ctx, c, operation{http.MethodPost, signInPath(server) + "/authorize", q}, about("sign in to server", server))
}

// Authorization reads the newest sign-in: at once, or with a time to wait when it is no longer pending, at
// the latest after that time.
func (c *Client) Authorization(ctx context.Context, server string, wait time.Duration) (Authorization, error) {
	path := signInPath(server)
	if wait > 0 {
		path += waitQuery(min(wait, MaxWait))
	}
	return ask[Authorization](ctx, c, operation{http.MethodGet, path, nil}, about("read the sign-in to server", server))
}

// SubmitCode finishes a sign-in with what the authorization server sent to the redirect address.
func (c *Client) SubmitCode(ctx context.Context, server string, q CodeRequest) (Authorization, error) {
	return ask[Authorization](ctx, c, operation{http.MethodPost, signInPath(server) + "/code", q}, about("finish the sign-in to server", server))
}
