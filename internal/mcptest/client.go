package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

// Revisions of the protocol that a Client speaks; those before 2025-11-25 by their dates too.
const (
	Legacy = "2025-11-25"
	Modern = "2026-07-28"
)

// Patience is how long a Client waits for anything before it gives up. No test measures it.
const Patience = 30 * time.Second

// ClientOptions say what a Client is.
type ClientOptions struct {
	Version      string // "" means Legacy; Modern makes every request a single one, without a session
	Token        string
	Capabilities string // raw JSON, "" means {}
	Name         string // of the client; "" means "test"
	// Answer answers what a server asks, in a goroutine of its own: with a result, an error object, or
	// neither to keep silent. nil refuses everything with -32601.
	Answer func(ask Message) (result, failure string)
	// Notified gets every notification, beside those who await it. It must not block.
	Notified func(Message)
}

// Client is an MCP client over streamable HTTP that shows the bytes of everything. Its methods may be
// called from many goroutines; those without an error in their results fail the test.
type Client struct {
	// Hello is the result of initialize; nil with Modern.
	Hello json.RawMessage

	t       testing.TB
	o       ClientOptions
	url     string
	http    *http.Client
	ctx     context.Context
	stop    context.CancelFunc
	ids     atomic.Int64
	wait    sync.WaitGroup
	session string
	inbox   inbox // of the GET stream
}

// Connect opens a session, or with Modern only remembers the URL. The client is closed with the test.
func Connect(t testing.TB, url string, o ClientOptions) *Client {
	t.Helper()
	c, err := Dial(url, o)
	if err != nil {
		t.Fatal(err)
	}
	c.t = t
	t.Cleanup(c.Close)
	return c
}

// Dial is Connect outside of a test function; the caller closes the client.
func Dial(url string, o ClientOptions) (*Client, error) {
	if o.Version == "" {
		o.Version = Legacy
	}
	if o.Capabilities == "" {
		o.Capabilities = "{}"
	}
	if o.Name == "" {
		o.Name = "test"
	}
	c := &Client{o: o, url: url, http: &http.Client{Transport: &http.Transport{}}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.inbox.init()
	if o.Version == Modern {
		return c, nil
	}
	r, err := c.Do("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, o.Version, o.Capabilities, c.info()))
	if err == nil && r.Error != nil {
		err = fmt.Errorf("initialize: %s", r.Error)
	}
	if err == nil {
		c.Hello, c.session = r.Result, r.Header.Get("Mcp-Session-Id")
		err = c.send("notifications/initialized", "")
	}
	if err != nil {
		c.Vanish()
		return nil, err
	}
	return c, nil
}

func (c *Client) info() string { return fmt.Sprintf(`{"name":%q,"version":"1"}`, c.o.Name) }

// Close ends the session and waits for everything that the client has begun.
func (c *Client) Close() {
	if c.session != "" && c.ctx.Err() == nil {
		if r, err := c.roundTrip(c.ctx, http.MethodDelete, nil, nil); err == nil {
			r.Body.Close()
		}
	}
	c.Vanish()
}

// End ends the session; what is in flight is left to be ended by the server.
func (c *Client) End() error {
	r, err := c.roundTrip(c.ctx, http.MethodDelete, nil, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusNoContent {
		return fmt.Errorf("DELETE: status %d", r.StatusCode)
	}
	return nil
}

// Vanish drops every connection without ending the session, as a client does that is killed.
func (c *Client) Vanish() {
	c.stop()
	c.wait.Wait()
	c.http.CloseIdleConnections()
}

// SessionID is the session's id, "" with Modern.
func (c *Client) SessionID() string { return c.session }

func (c *Client) fatal(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// roundTrip sends one HTTP request with the headers of the revision.
func (c *Client) roundTrip(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if (c.session != "" && c.o.Version >= "2025-06-18") || c.o.Version == Modern {
		r.Header.Set("Mcp-Protocol-Version", c.o.Version)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	return c.http.Do(r)
}

// Notify sends a notification.
func (c *Client) Notify(method, params string) {
	c.t.Helper()
	c.fatal(c.send(method, params))
}

func (c *Client) send(method, params string) error {
	body := `{"jsonrpc":"2.0","method":` + string(wire.Quote(method))
	if params != "" {
		body += `,"params":` + params
	}
	return c.oneWay(body + "}")
}

// Post posts a notification or a response, given whole, from any goroutine.
func (c *Client) Post(body string) error { return c.oneWay(body) }

// oneWay posts a notification or a response.
func (c *Client) oneWay(body string) error {
	r, err := c.roundTrip(c.ctx, http.MethodPost, []byte(body), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusAccepted {
		return fmt.Errorf("post %.200s: status %d: %s", body, r.StatusCode, text)
	}
	return nil
}

// Listen opens the session's GET stream; it returns when the server has answered with its headers.
func (c *Client) Listen() {
	c.t.Helper()
	c.fatal(c.Attend())
}

// Attend is Listen for other goroutines than the test's own.
func (c *Client) Attend() error {
	r, err := c.roundTrip(c.ctx, http.MethodGet, nil, nil)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		return fmt.Errorf("GET: status %d: %s", r.StatusCode, text)
	}
	c.wait.Go(func() {
		defer r.Body.Close()
		for m, err := range events(r.Body) {
			if err != nil {
				return
			}
			c.arrived(m)
			c.inbox.put(m)
		}
	})
	return nil
}

// Await returns the next message of the GET stream that fits, and forgets it and all before it.
func (c *Client) Await(fits func(Message) bool) Message {
	c.t.Helper()
	m, err := c.inbox.await(fits)
	c.fatal(err)
	return m
}

// Seen lists what came on the GET stream and was not awaited.
func (c *Client) Seen() []Message { return c.inbox.all() }

// IsMethod fits messages of a method.
func IsMethod(method string) func(Message) bool {
	return func(m Message) bool { return m.Method == method }
}

// arrived tells of a notification and answers what a server asks.
func (c *Client) arrived(m Message) {
	if m.ID == nil && c.o.Notified != nil {
		c.o.Notified(m)
	}
	if m.Method == "" || m.ID == nil {
		return
	}
	c.wait.Go(func() {
		result, failure := "", `{"code":-32601,"message":"the test client answers nothing"}`
		if c.o.Answer != nil {
			result, failure = c.o.Answer(m)
		}
		switch {
		case result != "":
			_ = c.oneWay(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
		case failure != "":
			_ = c.oneWay(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, failure))
		}
	})
}

// Do sends a request and waits for its response.
func (c *Client) Do(method, params string, options ...RequestOption) (Reply, error) {
	return c.Begin(method, params, options...).Wait()
}

// Request is Do that fails the test where there is no response.
func (c *Client) Request(method, params string, options ...RequestOption) Reply {
	c.t.Helper()
	return c.Begin(method, params, options...).Must()
}

// Result is Request that wants a result.
func (c *Client) Result(method, params string, options ...RequestOption) json.RawMessage {
	c.t.Helper()
	r := c.Request(method, params, options...)
	if r.Error != nil {
		c.t.Fatalf("%s %s: %s", method, params, r.Error)
	}
	return r.Result
}

// CallParams are the params of tools/call; arguments is raw JSON, "" for none.
func CallParams(tool, arguments string) string {
	params := `{"name":` + string(wire.Quote(tool))
	if arguments != "" {
		params += `,"arguments":` + arguments
	}
	return params + "}"
}

// BeginCall begins a tools/call.
func (c *Client) BeginCall(tool, arguments string, options ...RequestOption) *Exchange {
	return c.Begin("tools/call", CallParams(tool, arguments), options...)
}

// Call calls a tool and wants a result.
func (c *Client) Call(tool, arguments string, options ...RequestOption) Reply {
	c.t.Helper()
	r := c.BeginCall(tool, arguments, options...).Must()
	if r.Error != nil {
		c.t.Fatalf("call %q: %s", tool, r.Error)
	}
	return r
}

// Complete sends a request of 2026-07-28 and, as long as the answer wants input, sends it again with
// what Answer gives.
func (c *Client) Complete(method, params string, options ...RequestOption) (Reply, error) {
	now := params
	for {
		r, err := c.Do(method, now, options...)
		if kind, _ := wire.GetString(r.Result, "resultType"); err != nil || kind != "input_required" {
			return r, err
		}
		responses := []byte("{}")
		for key, request := range wire.Members(wire.Get(r.Result, "inputRequests")) {
			ask := Message{Params: wire.Get(request, "params")}
			ask.Method, _ = wire.GetString(request, "method")
			if result, _ := c.o.Answer(ask); result != "" {
				responses = wire.Edit(responses, wire.Change{Key: key, Value: []byte(result)})
			}
		}
		now = string(wire.Edit([]byte(params), wire.Change{Key: "inputResponses", Value: responses},
			wire.Change{Key: "requestState", Value: wire.Get(r.Result, "requestState")}))
	}
}

// Names lists the names (or another member) of the elements of a list.
func (c *Client) Names(method, list, member string) []string {
	c.t.Helper()
	var names []string
	for element := range wire.Elements(wire.Get(c.Result(method, ""), list)) {
		name, _ := wire.GetString(element, member)
		names = append(names, name)
	}
	return names
}

// Tools lists the names of the tools.
func (c *Client) Tools() []string {
	c.t.Helper()
	return c.Names("tools/list", "tools", "name")
}
