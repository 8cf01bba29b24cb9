package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/wire"
)

// streamable is a connection by streamable HTTP: every message is a POST, answered by a document or by
// an event stream. In the revisions before 2026-07-28 it may be a session, and what a server says by
// itself comes on the stream of a GET.
type streamable struct {
	httpConn
	identity Identity
	modern   bool // 2026-07-28
	url      *url.URL

	// Set by the handshake, before anybody else has the connection.
	session []string // Mcp-Session-Id, nil for none
	version []string // MCP-Protocol-Version

	mirrored mirrored
	getting  atomic.Bool // the stream of a GET is open
	gone     atomic.Bool // the server does not know the session any more
	closing  sync.Once
}

var _ Conn = (*streamable)(nil)

func newStreamable(ctx context.Context, r *Remote, modern bool, h Handler, id Identity) *streamable {
	c := &streamable{identity: id, modern: modern, url: r.url}
	c.init(ctx, r, h, id)
	if modern {
		c.version = []string{Modern}
	}
	return c
}

// errSessionOver is how a connection ends whose session the server does not know.
var errSessionOver = errors.New("the server does not know the session any more: it was started again, or has ended it")

// drainSession is how long the requests in flight of a session that is over get for their own answers.
const drainSession = 5 * time.Second

// Begin implements Conn.
func (c *streamable) Begin(r Request, sink Sink) (Call, error) {
	x := &exchange{c: c, sink: sink, method: r.Method, params: r.Params}
	k, err := c.calls.add(x, sink, r, false)
	if err != nil {
		return nil, err
	}
	x.k = k
	k.lingers = !c.modern && c.lingers(r)
	x.ctx, x.stop = context.WithCancel(c.ctx)
	if !c.spawn(x.run) {
		x.stop()
		if k.forget() {
			return nil, ErrGone
		}
	}
	return k, nil
}

// Notify implements Conn.
func (c *streamable) Notify(method string, params []byte) error {
	body := wire.Notification(method, params)
	return c.background(method, func(ctx context.Context) error { return c.oneWay(ctx, method, body) })
}

// Answer implements Conn.
func (c *streamable) Answer(response []byte) error {
	return c.background("response", func(ctx context.Context) error { return c.oneWay(ctx, "response", response) })
}

// oneWay posts a message that has no answer. What a server says all the same is taken.
func (c *streamable) oneWay(ctx context.Context, rpc string, body []byte) error {
	h := c.headers(rpc, nil)
	h["Content-Type"] = contentJSON
	response, err := c.r.do(ctx, c.client, outgoing{verb: http.MethodPost, rpc: rpc, to: c.url, header: h, body: body})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return c.read(response, nil)
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if response.StatusCode == http.StatusNotFound && c.session != nil {
		c.sessionOver()
	}
	return c.r.statusError("POST "+rpc, response, text)
}

// headers are those of a POST.
func (c *streamable) headers(rpc string, params []byte) http.Header {
	h := c.r.headers(c.agent)
	h["Accept"] = acceptBoth
	if c.session != nil {
		h["Mcp-Session-Id"] = c.session
	}
	if c.version != nil {
		h["Mcp-Protocol-Version"] = c.version
	}
	if c.modern {
		h["Mcp-Method"] = []string{rpc}
		if name, is := nameOf(rpc, params); is {
			h["Mcp-Name"] = []string{encodeHeader(name)}
			if rpc == "tools/call" {
				c.mirrored.set(h, name, params)
			}
		}
	}
	return h
}

// sessionOver ends a connection whose session is not known any more.
func (c *streamable) sessionOver() {
	c.gone.Store(true)
	c.end(errSessionOver)
}

// Close implements Conn.
func (c *streamable) Close(ctx context.Context) {
	c.closing.Do(func() {
		if c.gone.Load() {
			c.drain(ctx)
		}
		c.shut()
		if c.session != nil && !c.gone.Load() {
			c.delete(ctx)
		}
		c.client.CloseIdleConnections()
	})
}

// drain waits for the requests in flight: the server answers each by itself, if only that it does not
// know the session.
func (c *streamable) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainSession)
	defer cancel()
	for len(c.calls.sinks()) > 0 && sleep(ctx, 20*time.Millisecond) {
	}
}

// deleteLimit bounds the farewell, which servers may refuse.
const deleteLimit = 2 * time.Second

func (c *streamable) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deleteLimit)
	defer cancel()
	response, err := c.r.do(ctx, c.client, outgoing{verb: http.MethodDelete, to: c.url, header: c.headers("", nil)})
	if err != nil {
		c.r.o.Log.Debug("session not ended at the server", telemetry.KeyServer, c.r.o.Server, telemetry.KeyError, err)
		return
	}
	response.Body.Close()
}

// cursor is where a stream is to be gone on with.
type cursor struct {
	id    string // of the last event, "" where it had none
	retry time.Duration
}

// delay is the wait before another try, after so many that brought nothing.
func (u *cursor) delay(fruitless int) time.Duration {
	wait := min(max(u.retry, firstRetry)<<min(fruitless, 10), maxDelay)
	if u.retry > 0 && fruitless == 0 {
		wait = min(u.retry, maxDelay)
	}
	return wait + rand.N(wait/4+1) // those who lost a server together do not come back together
}

// firstRetry is the first wait where a server names none.
const firstRetry = 250 * time.Millisecond

// read takes the messages of an answer, whatever its type says. x is the exchange whose answer it is,
// nil for none.
func (c *streamable) read(response *http.Response, x *exchange) error {
	first, kind, err := sniff(response.Body, response.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return brokenOff(err)
	case kind == bodyEvents:
		body := io.MultiReader(newPrefix(first), response.Body)
		if x != nil {
			return x.stream(body)
		}
		_, err := c.events(body, &cursor{}, nil)
		if err == io.EOF {
			err = nil
		}
		return err
	case kind == bodyJSON:
		return c.document(first, response, x)
	case x == nil:
		return nil
	case kind == bodyEmpty && c.getting.Load():
		x.elsewhere = true // the answer comes on the stream of the GET
		return nil
	}
	return c.r.noMessage("POST "+x.method, response, first)
}

// newPrefix gives back what was read of a body.
func newPrefix(first []byte) io.Reader { return strings.NewReader(string(first)) }

func brokenOff(err error) error {
	if err == io.EOF || err == nil {
		return errors.New("the answer broke off")
	}
	return fmt.Errorf("the answer broke off: %w", withoutURL(err))
}

// document takes the messages of a document.
func (c *streamable) document(first []byte, response *http.Response, x *exchange) error {
	text, err := readDocument(first, response.Body, response.ContentLength, c.r.o.Limit)
	switch {
	case errors.Is(err, errTooLong):
		return c.tooLong(max(response.ContentLength, int64(len(text))))
	case err != nil:
		return brokenOff(err)
	case !eachMessage(text, x.id(), func(m wire.Msg) { c.message(m, x, true) }) && x != nil:
		return c.r.noMessage("POST "+x.method, response, text)
	}
	return nil
}

// events takes the messages of an event stream to its end. It counts the events that had something to
// say; the error is io.EOF at an orderly end.
func (c *streamable) events(body io.Reader, at *cursor, x *exchange) (n int, err error) {
	var linger *time.Timer
	defer func() {
		if linger != nil {
			linger.Stop()
		}
	}()
	for events := wire.NewEventReader(body, c.r.o.Limit); ; {
		ev, err := events.Next()
		if err != nil {
			return n, err
		}
		n++
		if ev.ID != nil {
			at.id = string(ev.ID)
		}
		if ev.Retry > 0 {
			at.retry = ev.Retry
		}
		c.event(ev, x)
		if x != nil && x.answered && linger == nil {
			// Only a connection that is read to the end can be used again, but not every server ends it.
			linger = time.AfterFunc(lingerLimit, x.stop)
		}
	}
}

// lingerLimit is how long the end of a stream is waited for after the response.
const lingerLimit = time.Second

func (c *streamable) event(ev wire.Event, x *exchange) {
	switch {
	case ev.Cut:
		if k := c.owner(cutID(wire.Line{Text: ev.Data, End: ev.End}), x, false); k != nil {
			k.sink.Done(wire.Msg{}, c.tooLong(int64(ev.Size)))
		}
	case len(ev.Data) > 0:
		if !eachMessage(ev.Data, x.id(), func(m wire.Msg) { c.message(m, x, false) }) {
			c.r.o.Log.Debug("event is no message, skipped", telemetry.KeyServer, c.r.o.Server, telemetry.KeyBytes, len(ev.Data))
		}
	}
}

// owner takes out the call that a response is to. On a document of its own, an exchange takes whatever
// id the response has.
func (c *streamable) owner(id []byte, x *exchange, own bool) *call {
	k := c.calls.take(id)
	if k == nil && own && x != nil && x.k.forget() {
		k = x.k
	}
	switch {
	case k == nil:
	case x != nil && k == x.k:
		x.answered = true
	default: // on another stream than its own, which has nothing to say any more
		if other, ok := k.by.(*exchange); ok {
			other.stop()
		}
	}
	return k
}

// message takes one message. own tells that it came in a document that answers x.
func (c *streamable) message(m wire.Msg, x *exchange, own bool) {
	seen := Conn(c)
	if x != nil && !x.answered {
		seen = onCall{c, x.sink}
	}
	switch {
	case m.IsResponse():
		if k := c.owner(m.ID, x, own); k != nil {
			c.learn(k, m)
			k.sink.Done(m, nil)
		}
	case m.Method == "ping" && m.ID != nil:
		// A server that has just ended needs no answer.
		_ = c.Answer(wire.Reply(m.ID, []byte("{}")))
	case m.ID != nil:
		c.handler.Asked(seen, m)
	case m.Method == "notifications/progress":
		c.progress(m, x)
	default:
		c.handler.Notified(seen, m)
	}
}

// learn notes which arguments are to be repeated in headers.
func (c *streamable) learn(k *call, m wire.Msg) {
	if x, ok := k.by.(*exchange); ok && c.modern && x.method == "tools/list" {
		c.mirrored.learn(m.Result)
	}
}

// progress gives a notification to the call on whose stream it came. On the stream of a GET, it is the
// one call with its token.
func (c *streamable) progress(m wire.Msg, x *exchange) {
	if x != nil {
		if x.k.live() {
			x.sink.Progress(m)
		}
		return
	}
	if sink := c.calls.withToken(wire.Get(m.Params, "progressToken")); sink != nil {
		sink.Progress(m)
	}
}
