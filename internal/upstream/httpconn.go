package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/wire"
)

// httpConn is what connections by HTTP have in common, whatever their transport.
type httpConn struct {
	r       *Remote
	handler Handler
	client  *http.Client
	agent   []string
	ctx     context.Context // ends with the connection
	stop    context.CancelFunc
	hello   atomic.Pointer[Hello]
	calls   calls
	done    chan struct{}
	slots   chan struct{} // of messages that have no answer

	mu     sync.Mutex
	err    error
	ended  bool           // done is closed
	closed bool           // no goroutine is started any more
	wait   sync.WaitGroup // of its goroutines
}

// maxOneWay bounds the messages without an answer that wait for a server.
const maxOneWay = 256

func (c *httpConn) init(ctx context.Context, r *Remote, h Handler, id Identity) {
	c.r, c.handler, c.client, c.agent = r, h, r.client(), agentOf(id)
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done = make(chan struct{})
	c.slots = make(chan struct{}, maxOneWay)
}

// Done implements Conn.
func (c *httpConn) Done() <-chan struct{} { return c.done }

// Err implements Conn.
func (c *httpConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Hello implements Conn.
func (c *httpConn) Hello() Hello {
	if h := c.hello.Load(); h != nil {
		return *h
	}
	return Hello{}
}

// InFlight implements Conn.
func (c *httpConn) InFlight() []Sink { return c.calls.sinks() }

// errClosedHere is how a connection ends that was not wanted any more.
var errClosedHere = errors.New("the connection was closed")

// end notes why the connection has ended, once. What is in flight goes on until it is closed.
func (c *httpConn) end(err error) {
	c.calls.refuse()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended, c.err = true, err
		close(c.done)
	}
}

// spawn starts a goroutine of the connection's; false where that is closed.
func (c *httpConn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wait.Go(f)
	return true
}

// shut ends every goroutine and fails every call that is left.
func (c *httpConn) shut() {
	c.end(errClosedHere)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.wait.Wait()
	for _, k := range c.calls.end() {
		k.sink.Done(wire.Msg{}, c.lost(c.Err()))
	}
	c.client.CloseIdleConnections()
}

// lost is the error of a call that the connection did not live to see answered.
func (c *httpConn) lost(err error) error {
	return c.calls.why(fmt.Errorf("the connection to server %q ended before it answered: %w", c.r.o.Server, err))
}

func (c *httpConn) because(reason error) { c.calls.because(reason) }

// background sends a message that has no answer, in a goroutine of its own.
func (c *httpConn) background(rpc string, send func(ctx context.Context) error) error {
	select {
	case c.slots <- struct{}{}:
	default:
		return fmt.Errorf("write to server %q: it takes no messages: %d wait for it already", c.r.o.Server, maxOneWay)
	}
	started := c.spawn(func() {
		defer func() { <-c.slots }()
		ctx, cancel := context.WithTimeoutCause(c.ctx, oneWayLimit, fmt.Errorf("no answer within %s", oneWayLimit))
		defer cancel()
		if err := send(ctx); err != nil && c.ctx.Err() == nil {
			c.r.o.Log.Debug("message to a server not taken", telemetry.KeyServer, c.r.o.Server, telemetry.KeyMethod, rpc, telemetry.KeyError, err)
		}
	})
	if !started {
		<-c.slots
		return ErrGone
	}
	return nil
}

// lingers tells whether a call is to linger where it is cancelled: not one of the handshake, and not the
// ping that tells when a cancellation was read.
func (c *httpConn) lingers(r Request) bool { return c.hello.Load() != nil && r.Method != "ping" }

// farewell tells a server that a call is cancelled. A ping behind that tells when the server has read it:
// until then, what it asks elsewhere than on the call's own stream may be for the call.
func (c *httpConn) farewell(conn Conn, k *call, params []byte, send func(ctx context.Context, note []byte) error) {
	note := wire.Notification("notifications/cancelled", k.cancellation(params))
	time.AfterFunc(lingerFor, k.settle)
	err := c.background("notifications/cancelled", func(ctx context.Context) error {
		if err := send(ctx, note); err != nil || !k.lingers {
			return err
		}
		defer k.heard()
		// A server that has no ping has read what came before it all the same.
		_, _ = Ask(ctx, conn, "ping", nil)
		return nil
	})
	if err != nil { // a server that is gone needs no cancellation
		k.settle()
	}
}

// oneWayLimit bounds the wait for the HTTP answer to a message that has none of its own.
const oneWayLimit = 30 * time.Second

// onCall is a connection as the handler sees it with a message that came on a call's own stream: that
// call is the only one that the message can belong to.
type onCall struct {
	Conn
	sink Sink
}

// InFlight lists the call.
func (c onCall) InFlight() []Sink { return []Sink{c.sink} }

// Whole is the connection that a handler was given a view of, which has all its calls in flight.
func Whole(c Conn) Conn {
	if view, ok := c.(onCall); ok {
		return view.Conn
	}
	return c
}

// messageIn reads one message. An error without an id, which servers answer what they could not read
// with, becomes one to the request with this id, where that is not 0.
func messageIn(text []byte, id int64) (wire.Msg, bool) {
	m, err := wire.ParseServer(text)
	if err == nil && (m.ID != nil || m.Method != "") {
		return m, true
	}
	if object := wire.Get(text, "error"); id != 0 && wire.Kind(object) == '{' && wire.Get(object, "code") != nil {
		m, err = wire.ParseServer(wire.ErrorReply(strconv.AppendInt(nil, id, 10), object))
		return m, err == nil
	}
	return m, false
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// eachMessage takes the messages of a document: one, several in an array, or one after another. It is
// false where there is none.
func eachMessage(text []byte, id int64, take func(wire.Msg)) (some bool) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	if m, ok := messageIn(text, id); ok {
		take(m)
		return true
	}
	values := wire.Values(text)
	if wire.Kind(text) == '[' {
		values = wire.Elements(text)
	}
	for value := range values {
		if wire.Kind(value) != '{' || len(value) == len(text) {
			continue
		}
		if m, ok := messageIn(value, id); ok {
			take(m)
			some = true
		}
	}
	return some
}

// Kinds of an answer's body, by what it begins with: types lie.
const (
	bodyEmpty = iota
	bodyJSON
	bodyEvents
	bodyOther
)

// eventFields begin the lines of an event stream.
var eventFields = []string{"data:", "event:", "id:", "retry:", ":"}

// sniff reads the beginning of a body and tells its kind. What was read is returned.
func sniff(body io.Reader, contentType string) (first []byte, kind int, err error) {
	first = make([]byte, 0, 512)
	for {
		n, err := body.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		text := bytes.TrimLeft(bytes.TrimPrefix(first, byteOrderMark), " \t\r\n")
		over := err != nil || len(first) == cap(first)
		switch {
		case len(text) == 0 && err == nil:
			if over { // white space that keeps the connection alive
				first = first[:0]
			}
			continue
		case len(text) == 0 && err == io.EOF:
			return first, bodyEmpty, nil
		case err != nil && err != io.EOF && len(text) == 0:
			return first, bodyOther, err
		case len(text) > 0 && (text[0] == '{' || text[0] == '['):
			return first, bodyJSON, nil
		}
		for _, field := range eventFields {
			if bytes.HasPrefix(text, []byte(field)) {
				return first, bodyEvents, nil
			}
		}
		if len(text) >= len("retry:") || over {
			if isEventStream(contentType) {
				return first, bodyEvents, nil
			}
			return first, bodyOther, nil
		}
	}
}

func isEventStream(contentType string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), "text/event-stream")
}

// errTooLong means that a body is over the limit.
var errTooLong = errors.New("over the limit")

// readDocument reads a body to its end. size is its length where that is known.
func readDocument(first []byte, body io.Reader, size int64, limit int) ([]byte, error) {
	if size > int64(limit) {
		return first, errTooLong
	}
	text := append(make([]byte, 0, max(int(size)+1, 2*cap(first))), first...)
	for {
		if len(text) == cap(text) {
			grown := make([]byte, len(text), 2*cap(text)) // append grows large slices by less
			copy(grown, text)
			text = grown
		}
		n, err := body.Read(text[len(text):cap(text)])
		if text = text[:len(text)+n]; len(text) > limit {
			return text, errTooLong
		}
		switch {
		case err == io.EOF:
			return text, nil
		case err != nil:
			return text, err
		}
	}
}

// tooLong is the error of a call whose answer is over the limit.
func (c *httpConn) tooLong(size int64) error {
	limit := c.r.o.Limit
	c.r.o.Log.Warn("message over the limit dropped", telemetry.KeyServer, c.r.o.Server, telemetry.KeyBytes, size, telemetry.KeyLimit, limit)
	return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q answered with %d bytes, over the limit of %d bytes for one message", c.r.o.Server, size, limit)}
}

// sleep waits; false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
