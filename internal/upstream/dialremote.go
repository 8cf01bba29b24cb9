package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/wire"
)

// RemoteDialer connects to a server by HTTP.
type RemoteDialer struct {
	Remote   *Remote
	Protocol string // "legacy", "modern", or "" to ask the server
	Handler  Handler
	Identity Identity
}

var _ Dialer = (*RemoteDialer)(nil)

// remoteConn is a connection by HTTP while it is made.
type remoteConn interface {
	Conn
	base() *httpConn
	oneWay(ctx context.Context, rpc string, body []byte) error
}

func (c *httpConn) base() *httpConn { return c }

// Dial implements Dialer: it finds the transport and the revision that the server speaks, shakes hands
// and makes the connection ready.
func (d *RemoteDialer) Dial(ctx context.Context, ready ReadyFunc) (Conn, error) {
	if d.Remote.err != nil {
		return nil, &fault.Fault{Server: d.Remote.o.Server, Cause: fault.BadConfig, Ran: d.Remote.name(), Err: d.Remote.err}
	}
	start := time.Now()
	c, err := d.open(ctx)
	if err == nil && ready != nil {
		if err = ready(ctx, c); err != nil {
			d.drop(ctx, c)
		}
	}
	if err != nil {
		return nil, d.fault(err, time.Since(start))
	}
	transport := "streamable HTTP"
	if _, old := c.(*sse); old {
		transport = "HTTP+SSE"
	}
	d.Remote.o.Log.Debug("remote server connected", telemetry.KeyServer, d.Remote.o.Server, telemetry.KeyTransport, transport, telemetry.KeyProtocol, c.Hello().Version)
	return c, nil
}

// drop closes a connection that came to nothing; whoever waits for the reason waits for this too.
func (d *RemoteDialer) drop(ctx context.Context, c Conn) {
	hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	c.Close(hurry)
}

// open tries what the server may speak, the newest first. What decides is the state of the transport and
// the codes of its answers.
func (d *RemoteDialer) open(ctx context.Context) (Conn, error) {
	if d.Remote.sse.Load() {
		old, err := openSSE(ctx, d.Remote, d.Handler, d.Identity)
		if err != nil {
			return nil, err
		}
		return d.initialize(ctx, old)
	}
	known := d.Protocol == "" && d.Remote.legacy.Load() // what was found once is the server's way, until it fails
	if d.Protocol != "legacy" && !known {
		c, err := d.discover(ctx)
		if err == nil || d.Protocol == "modern" || ctx.Err() != nil || conclusive(err) {
			return c, err
		}
	}
	c, err := d.initialize(ctx, newStreamable(ctx, d.Remote, false, d.Handler, d.Identity))
	d.Remote.legacy.Store(err == nil)
	if err == nil {
		c.(*streamable).awaitStream(ctx)
		return c, nil
	}
	if known && ctx.Err() == nil && !conclusive(err) {
		return d.open(ctx)
	}
	if !mayBeSSE(err) {
		return nil, err
	}
	old, oldErr := openSSE(ctx, d.Remote, d.Handler, d.Identity)
	switch {
	case errors.Is(oldErr, errEndpoint):
		return nil, oldErr
	case oldErr != nil:
		return nil, fmt.Errorf("%w; nor does it speak HTTP+SSE: %w", err, oldErr)
	}
	d.Remote.sse.Store(true)
	return d.initialize(ctx, old)
}

// probeLimit bounds the wait for an answer to server/discover, which a server of an older revision may
// not give.
const probeLimit = 10 * time.Second

// discover asks a server whether it speaks 2026-07-28.
func (d *RemoteDialer) discover(ctx context.Context) (Conn, error) {
	probe := ctx
	if d.Protocol != "modern" { // else there is nothing to be tried afterwards
		limit := probeLimit
		if at, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(at)/2)
		}
		var cancel context.CancelFunc
		probe, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit.Round(time.Second)))
		defer cancel()
	}
	c := newStreamable(ctx, d.Remote, true, d.Handler, d.Identity)
	hello, err := discover(probe, c, d.Identity)
	if err != nil {
		d.drop(ctx, c) // with the session that a server may have opened for it
		return nil, err
	}
	c.session = nil // 2026-07-28 has none
	hello.Stateless = true
	c.hello.Store(&hello)
	return c, nil
}

// conclusive tells an error of server/discover after which initialize would fare no better.
func conclusive(err error) bool {
	var status *StatusError
	var unsent *UnsentError
	var refused *ResponseError
	var signIn *SignInRequiredError
	switch {
	case errors.As(err, &unsent), errors.As(err, &signIn):
		return true
	case errors.As(err, &status):
		return status.Status == http.StatusUnauthorized || status.Status == http.StatusTooManyRequests
	case errors.As(err, &refused):
		// Only a server of 2026-07-28 knows these.
		return slices.Contains([]string{fmt.Sprint(wire.CodeHeaderMismatch), fmt.Sprint(wire.CodeMissingCapability)}, refused.Code())
	}
	return false
}

// initialize opens a session of an older revision.
func (d *RemoteDialer) initialize(ctx context.Context, c remoteConn) (Conn, error) {
	hello, err := greet(ctx, c, d.Identity)
	if err != nil {
		d.drop(ctx, c)
		return nil, err
	}
	if s, ok := c.(*streamable); ok {
		hello.Stateless = s.session == nil
		if hello.Version >= "2025-06-18" { // the header is none of the revisions before
			s.version = []string{hello.Version}
		}
	}
	c.base().hello.Store(&hello)
	err = c.oneWay(ctx, "notifications/initialized", wire.Notification("notifications/initialized", nil))
	var status *StatusError
	if err != nil && (!errors.As(err, &status) || status.SignIn()) { // other refusals show at the next request
		d.drop(ctx, c)
		return nil, err
	}
	return c, nil
}

// mayBeSSE tells whether a refusal of initialize may come from a server of the HTTP+SSE transport, which
// has no POST at its URL.
func mayBeSSE(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Status/100 == 4 && !status.SignIn() && status.Status != http.StatusTooManyRequests
}

// fault says how a connection could not be made.
func (d *RemoteDialer) fault(err error, after time.Duration) *fault.Fault {
	f := &fault.Fault{Server: d.Remote.o.Server, Ran: d.Remote.name(), After: after, Err: err}
	var status *StatusError
	var unanswered *UnansweredError
	var asked *AskError
	var signIn *SignInRequiredError
	switch {
	case errors.As(err, &signIn):
		f.Cause, f.Hint = fault.SignInRequired, fmt.Sprintf("begin with: mcp-gateway servers signin %s", d.Remote.o.Server)
	case errors.As(err, &status) && status.SignIn():
		f.Cause, f.Hint = fault.SignInRequired, d.signInHint(status)
	case errors.As(err, &status):
		f.Cause, f.Hint = fault.Unreachable, statusHint(status)
	case errors.Is(err, errNoMessage) || errors.Is(err, errEndpoint):
		f.Cause, f.Hint = fault.HandshakeInvalid, "is it the URL of an MCP endpoint? many end in /mcp or /sse"
	case errors.As(err, &unanswered):
		f.Cause = fault.HandshakeTimeout
		f.Hint = "raise its limit with \"gateway\": {\"startTimeout\": \"…\"} and --startup-timeout"
	case errors.As(err, &asked) || errors.Is(err, ErrGone):
		f.Cause, f.Hint = fault.Unreachable, netHint(err)
	default:
		f.Cause, f.Hint = fault.HandshakeInvalid, "is it an MCP server?"
	}
	return f
}

func (d *RemoteDialer) signInHint(status *StatusError) string {
	if d.Remote.header.Get("Authorization") != "" {
		return "it does not take the credentials in the entry's headers"
	}
	return `give it credentials, as "headers": {"Authorization": "Bearer …"} in its entry`
}

func statusHint(status *StatusError) string {
	switch {
	case status.Location != "":
		return "redirects to another origin are not followed; give that URL if it is the right one"
	case status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed:
		return "is it the URL of an MCP endpoint? many end in /mcp or /sse"
	case status.Status/100 == 5:
		return "the server, or a proxy before it, is in trouble; try again later"
	}
	return ""
}

func netHint(err error) string {
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is of an authority that is not trusted here; SSL_CERT_FILE names a file of those that are"
	case errors.As(err, &record):
		return "it does not speak TLS there; is it http instead of https?"
	}
	return "is it running, and can it be reached from here?"
}
