// Package upstream speaks with one MCP server: it connects, shakes hands, keeps the calls in flight
// apart, and starts the server again when it has ended. It knows nothing of clients: what comes
// back on a call goes to the call's Sink, what a server says by itself to a Handler.
package upstream

import (
	"context"
	"errors"
	"fmt"

	"mcp-gateway/internal/wire"
)

// Protocol revisions (https://modelcontextprotocol.io/specification/versioning).
const (
	Legacy = "2025-11-25" // the newest revision that opens with initialize
	Modern = "2026-07-28" // stateless: server/discover, no initialize
)

// Request is what is sent to a server.
type Request struct {
	Method string
	Params []byte // raw JSON, nil for none
	// Token is the progress token inside Params, raw, nil for none. Where a call in flight has
	// the same one, the server is given another, and notifications come back with this one.
	Token []byte
	// Task tells that the answer may be a task, for which progress comes after it too, until the call is
	// cancelled. Then that sends nothing.
	Task bool
}

// Sink receives what comes back on one call. Both are called in the connection's reading goroutine,
// in the order of the server's messages, and must not block. By HTTP a server may send progress on
// another stream than the response: then it can come at any time.
type Sink interface {
	Progress(m wire.Msg)
	// Done is called once: with the response, or with an error where none can come any more.
	Done(m wire.Msg, err error)
}

// Handler receives what a server says by itself. It is called in a reading goroutine of the connection,
// of which there may be several by HTTP, and must not block. Where a message came on a call's own stream,
// the InFlight of the connection given lists that call alone; Whole gives the connection itself.
type Handler interface {
	// Notified gets every notification but progress.
	Notified(c Conn, m wire.Msg)
	// Asked gets every request but ping; it is answered by Conn.Answer, now or later.
	Asked(c Conn, m wire.Msg)
}

// Conn is one connection to a server, by a process or by HTTP.
type Conn interface {
	// Begin sends a request. ErrGone means that nothing was sent since the connection has ended;
	// the sink is then not called.
	Begin(r Request, sink Sink) (Call, error)
	Notify(method string, params []byte) error
	// Answer sends a response to a request of the server's: a message made by wire.Reply or
	// wire.ErrorReply.
	Answer(response []byte) error
	// Hello is what the server said of itself.
	Hello() Hello
	// InFlight lists the sinks of the calls that are not done.
	InFlight() []Sink
	// Done is closed when the connection has ended; Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection, the process included; it returns when that is gone.
	Close(ctx context.Context)
}

// Call is a request in flight.
type Call interface {
	// Cancel tells the server that nobody waits any more (notifications/cancelled with the
	// params given, in which requestId is replaced) and forgets the call: its sink is not called
	// again. Where the call is done it does nothing.
	Cancel(params []byte)
}

// Hello is a server's answer to initialize or server/discover.
type Hello struct {
	Version      string // the protocol revision spoken
	Capabilities []byte // raw JSON object
	ServerInfo   []byte
	Instructions string
	Raw          []byte // the whole result
	// Stateless tells that the server keeps nothing of one request for the next, so that clients can
	// share the connection.
	Stateless bool
}

// Can tells whether the server has declared a capability.
func (h *Hello) Can(name string) bool {
	kind := wire.Kind(wire.Get(h.Capabilities, name))
	return kind != 0 && kind != 'n' && kind != 'f'
}

// ErrGone means that the connection had ended before anything was sent.
var ErrGone = errors.New("the connection has ended")

// waiter is the sink of Ask.
type waiter chan answer

type answer struct {
	m   wire.Msg
	err error
}

func (w waiter) Progress(wire.Msg)          {}
func (w waiter) Done(m wire.Msg, err error) { w <- answer{m, err} }

// Ask sends a request and waits for its result. A JSON-RPC error comes as *ResponseError. When ctx
// ends, the call is cancelled.
func Ask(ctx context.Context, c Conn, method string, params []byte) ([]byte, error) {
	w := make(waiter, 1)
	call, err := c.Begin(Request{Method: method, Params: params}, w)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-w:
		switch {
		case a.err != nil:
			return nil, a.err
		case a.m.Err != nil:
			return nil, &ResponseError{Method: method, Object: a.m.Err}
		}
		return a.m.Result, nil
	case <-ctx.Done():
		call.Cancel(nil)
		return nil, &UnansweredError{Method: method, Err: context.Cause(ctx)}
	}
}

// UnansweredError means that a server did not answer a request of the gateway's own in time.
type UnansweredError struct {
	Method string
	Err    error // what ended the wait
}

// Error names the request and the limit.
func (e *UnansweredError) Error() string { return "no answer to " + e.Method + ": " + e.Err.Error() }

// Unwrap returns what ended the wait.
func (e *UnansweredError) Unwrap() error { return e.Err }

// ResponseError is a server's JSON-RPC error.
type ResponseError struct {
	Method string
	Object []byte // as the server wrote it
}

// Error gives method, code and message, bounded.
func (e *ResponseError) Error() string {
	message, _ := wire.GetString(e.Object, "message")
	if len(message) > 400 {
		message = message[:400] + "…"
	}
	return e.Method + ": the server answered with error " + string(wire.Get(e.Object, "code")) + ": " + message
}

// Code is the error's code as written.
func (e *ResponseError) Code() string { return string(wire.Get(e.Object, "code")) }

// ListAll follows a list to its last page and returns the raw elements, in the server's order. A cursor
// that came before ends the list: its server goes round in circles.
func ListAll(ctx context.Context, c Conn, method, member string, meta []byte) ([][]byte, error) {
	var all [][]byte
	var cursor []byte
	seen := map[string]bool{}
	size := 0
	for range maxPages {
		var params []byte
		if cursor != nil {
			params = wire.Edit(nil, wire.Change{Key: "cursor", Value: cursor})
		}
		if meta != nil {
			params = wire.Edit(params, wire.Change{Key: "_meta", Value: meta})
		}
		result, err := Ask(ctx, c, method, params)
		if err != nil {
			return nil, err
		}
		if size += len(result); size > maxList && cursor != nil {
			return nil, fmt.Errorf("%s: the list is over %d MiB", method, maxList>>20)
		}
		for element := range wire.Elements(wire.Get(result, member)) {
			all = append(all, element)
		}
		next := wire.Get(result, "nextCursor")
		if wire.Kind(next) != '"' || string(next) == `""` || seen[string(next)] {
			return all, nil
		}
		seen[string(next)] = true
		cursor = next
	}
	return nil, fmt.Errorf("%s: the list does not end after %d pages", method, maxPages)
}

// These bound a list whose cursors never end: its pages, and the bytes of several of them.
const (
	maxPages = 10_000
	maxList  = 256 << 20
)
