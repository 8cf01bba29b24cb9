package mcptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"mcp-gateway/internal/wire"
)

// RequestOption changes one request.
type RequestOption func(*Exchange)

// WithID gives the request's id as raw JSON.
func WithID(raw string) RequestOption { return func(x *Exchange) { x.id = raw } }

// WithToken asks for progress under this token, raw JSON.
func WithToken(raw string) RequestOption { return WithMeta("progressToken", raw) }

// WithMeta sets a member of the request's _meta to raw JSON.
func WithMeta(key, raw string) RequestOption {
	return func(x *Exchange) { x.meta = append(x.meta, wire.Change{Key: key, Value: []byte(raw)}) }
}

// Reply is how a request was answered.
type Reply struct {
	Message
	Status  int
	Header  http.Header
	Interim []Message // what came before it on the same stream
}

// Text is the text of a tool result's first content block.
func (r Reply) Text() string {
	var result struct{ Content []struct{ Text string } }
	if json.Unmarshal(r.Result, &result) != nil || len(result.Content) == 0 {
		return ""
	}
	return result.Content[0].Text
}

// Exchange is a request that is on its way.
type Exchange struct {
	c      *Client
	id     string
	meta   []wire.Change
	header http.Header
	hangUp context.CancelFunc
	inbox  inbox
	done   chan struct{}
	reply  Reply
	err    error
}

// Begin sends a request and does not wait. params is raw JSON, "" for none.
func (c *Client) Begin(method, params string, options ...RequestOption) *Exchange {
	x := &Exchange{c: c, id: fmt.Sprint(c.ids.Add(1)), header: http.Header{}, done: make(chan struct{})}
	x.inbox.init()
	for _, option := range options {
		option(x)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	x.hangUp = cancel
	body := x.body(method, params)
	c.wait.Go(func() {
		defer close(x.done)
		defer cancel()
		x.reply, x.err = x.run(ctx, body)
		x.inbox.end()
	})
	return x
}

// body is the request, with the headers that repeat parts of it.
func (x *Exchange) body(method, params string) string {
	if x.c.o.Version == Modern {
		x.meta = append([]wire.Change{
			{Key: "io.modelcontextprotocol/protocolVersion", Value: wire.Quote(Modern)},
			{Key: "io.modelcontextprotocol/clientInfo", Value: []byte(x.c.info())},
			{Key: "io.modelcontextprotocol/clientCapabilities", Value: []byte(x.c.o.Capabilities)},
		}, x.meta...)
		x.modernHeaders(method, params)
	}
	if len(x.meta) > 0 {
		meta := wire.Edit(wire.Get([]byte(params), "_meta"), x.meta...)
		params = string(wire.Edit([]byte(params), wire.Change{Key: "_meta", Value: meta}))
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%s`, x.id, wire.Quote(method))
	if params != "" {
		body += `,"params":` + params
	}
	return body + "}"
}

func (x *Exchange) modernHeaders(method, params string) {
	set := func(name, value string) {
		if x.header.Get(name) != "" {
			return
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			value = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
		}
		x.header.Set(name, value)
	}
	set("Mcp-Method", method)
	switch method {
	case "tools/call", "prompts/get":
		name, _ := wire.GetString([]byte(params), "name")
		set("Mcp-Name", name)
	case "resources/read":
		uri, _ := wire.GetString([]byte(params), "uri")
		set("Mcp-Name", uri)
	case "tasks/get", "tasks/update", "tasks/cancel":
		id, _ := wire.GetString([]byte(params), "taskId")
		set("Mcp-Name", id)
	}
}

// run posts the request and reads to its response.
func (x *Exchange) run(ctx context.Context, body string) (Reply, error) {
	var reply Reply
	response, err := x.c.roundTrip(ctx, http.MethodPost, []byte(body), x.header)
	if err != nil {
		return reply, err
	}
	defer response.Body.Close()
	reply.Status, reply.Header = response.StatusCode, response.Header
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return reply, err
		}
		reply.Message, err = parseMessage(text)
		return reply, err
	}
	for m, err := range events(response.Body) {
		switch {
		case err != nil:
			return reply, err
		case m.Method == "":
			reply.Message = m
			return reply, expectEnd(response.Body)
		}
		reply.Interim = append(reply.Interim, m)
		x.c.arrived(m)
		x.inbox.put(m)
	}
	return reply, ErrNoResponse
}

// expectEnd makes sure that nothing follows a response: a client that waits for the end of the body
// would hang (B65).
func expectEnd(body io.Reader) error {
	rest, err := io.ReadAll(body)
	if len(bytes.TrimSpace(rest)) > 0 {
		return fmt.Errorf("the event stream goes on after the response: %.200q", rest)
	}
	return err
}

// ErrNoResponse tells that an event stream ended without the response, as that of a cancelled request.
var ErrNoResponse = errors.New("the event stream ended without a response")

// Wait waits for the response.
func (x *Exchange) Wait() (Reply, error) {
	select {
	case <-x.done:
		return x.reply, x.err
	case <-time.After(Patience):
		return Reply{}, errors.New("no response")
	}
}

// Must is Wait that fails the test where there is no response.
func (x *Exchange) Must() Reply {
	x.c.t.Helper()
	r, err := x.Wait()
	x.c.fatal(err)
	return r
}

// Await returns the next message before the response that fits, and forgets it and all before it.
func (x *Exchange) Await(fits func(Message) bool) Message {
	x.c.t.Helper()
	m, err := x.inbox.await(fits)
	x.c.fatal(err)
	return m
}

// Expect is Await for other goroutines than the test's own.
func (x *Exchange) Expect(fits func(Message) bool) (Message, error) { return x.inbox.await(fits) }

// HangUp drops the request's connection.
func (x *Exchange) HangUp() {
	x.hangUp()
	<-x.done
}

// Cancel sends notifications/cancelled for the request.
func (x *Exchange) Cancel(reason string) {
	x.c.t.Helper()
	x.c.Notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":%q}`, x.id, reason))
}

// Batch sends an array of requests, which only 2025-03-26 has. It returns the responses, and what came
// before them.
func (c *Client) Batch(body string) (responses, before []Message, err error) {
	r, err := c.roundTrip(c.ctx, http.MethodPost, []byte(body), nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	last, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		for _, data := range dataLines(last) {
			if last = data; data[0] == '[' {
				continue
			}
			m, err := parseMessage(data)
			if err != nil {
				return nil, nil, err
			}
			before = append(before, m)
			c.arrived(m)
		}
	}
	for element := range wire.Elements(last) {
		m, err := parseMessage(element)
		if err != nil {
			return nil, nil, err
		}
		responses = append(responses, m)
	}
	if responses == nil {
		err = fmt.Errorf("a batch is answered with status %d: %.300s", r.StatusCode, last)
	}
	return responses, before, err
}
