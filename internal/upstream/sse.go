package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/wire"
)

// sse is a connection by the HTTP+SSE transport of 2024-11-05: everything that the server says comes on
// the stream of one GET, whose first event names the URL for the POSTs. The stream is the connection:
// with its end all is lost.
type sse struct {
	httpConn
	endpoint *url.URL
	closing  sync.Once
}

var _ Conn = (*sse)(nil)

// errStreamOver is how a connection ends whose stream did.
var errStreamOver = errors.New("its event stream has ended")

// errEndpoint is an event stream that names a URL for messages which cannot be used.
var errEndpoint = errors.New("the endpoint that its event stream names")

// openSSE opens the stream and waits for the URL for messages.
func openSSE(ctx context.Context, r *Remote, h Handler, id Identity) (*sse, error) {
	c := &sse{}
	c.init(ctx, r, h, id)
	release := context.AfterFunc(ctx, c.stop)
	header := r.headers(c.agent)
	header["Accept"], header["Accept-Encoding"] = acceptEvents, noCompress
	response, err := r.do(c.ctx, c.client, outgoing{verb: http.MethodGet, to: r.url, header: header})
	if err == nil {
		err = c.begin(response)
	}
	if !release() && ctx.Err() != nil { // it may have been stopped meanwhile
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		c.shut()
		return nil, err
	}
	return c, nil
}

// begin starts to read the stream; it returns when the URL for messages has come.
func (c *sse) begin(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		return c.r.statusError("GET", response, text)
	}
	first, kind, err := sniff(response.Body, response.Header.Get("Content-Type"))
	if err != nil || kind != bodyEvents {
		response.Body.Close()
		if err != nil {
			return &AskError{Asked: "GET", Err: brokenOff(err)}
		}
		return c.r.noMessage("GET", response, first)
	}
	named := make(chan error, 1)
	c.spawn(func() {
		defer response.Body.Close()
		c.read(io.MultiReader(newPrefix(first), response.Body), response.Request.URL, named)
	})
	return <-named
}

// read takes the stream to its end. What came of the first event goes to named.
func (c *sse) read(body io.Reader, base *url.URL, named chan<- error) {
	events := wire.NewEventReader(body, c.r.o.Limit)
	for {
		ev, err := events.Next()
		if err != nil {
			if c.endpoint == nil {
				named <- &AskError{Asked: "GET", Err: fmt.Errorf("%w: the event stream named no endpoint: %w", errNoMessage, brokenOff(err))}
			}
			if err != io.EOF {
				err = fmt.Errorf("%w: %w", errStreamOver, withoutURL(err))
			} else {
				err = errStreamOver
			}
			c.over(err)
			return
		}
		switch {
		case ev.Name == "endpoint" && c.endpoint == nil:
			at, err := c.resolve(base, string(ev.Data))
			if err != nil {
				named <- &AskError{Asked: "GET", Err: err}
				return
			}
			c.endpoint = at
			named <- nil
		case ev.Cut:
			if k := c.calls.take(cutID(wire.Line{Text: ev.Data, End: ev.End})); k != nil {
				k.sink.Done(wire.Msg{}, c.tooLong(int64(ev.Size)))
			}
		case len(ev.Data) > 0 && c.endpoint != nil:
			eachMessage(ev.Data, 0, c.message)
		}
	}
}

// over ends the connection with its stream, and fails what is in flight.
func (c *sse) over(err error) {
	c.end(err)
	for _, k := range c.calls.end() {
		k.sink.Done(wire.Msg{}, c.lost(c.Err()))
	}
}

// resolve reads the URL for messages, which must be of the server's own origin: it gets the entry's
// headers.
func (c *sse) resolve(base *url.URL, text string) (*url.URL, error) {
	at, err := base.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w is not a URL", errEndpoint)
	}
	if Origin(at) != Origin(base) {
		return nil, fmt.Errorf("%w is elsewhere, at %s", errEndpoint, c.r.o.Scrub(cleanURL(at)))
	}
	at.User = base.User
	return at, nil
}

// Begin implements Conn.
func (c *sse) Begin(r Request, sink Sink) (Call, error) {
	p := &posting{c: c, method: r.Method}
	k, err := c.calls.add(p, sink, r, true)
	if err != nil {
		return nil, err
	}
	k.lingers = c.lingers(r)
	p.ctx, p.stop = context.WithCancel(c.ctx)
	body := wire.Request(k.id, r.Method, k.params(r.Params))
	started := c.spawn(func() {
		defer p.stop()
		err := c.post(p.ctx, r.Method, body, k.id, &p.sent)
		if err == nil || !k.forget() {
			return
		}
		if c.ctx.Err() != nil {
			err = c.lost(c.Err())
		}
		sink.Done(wire.Msg{}, err)
	})
	if !started {
		p.stop()
		if k.forget() {
			return nil, ErrGone
		}
	}
	return k, nil
}

// posting is a request on its way.
type posting struct {
	c      *sse
	method string
	ctx    context.Context
	stop   context.CancelFunc
	sent   sending
}

// cancelled implements canceller.
func (p *posting) cancelled(k *call, params []byte) {
	if p.method != "initialize" && p.sent.whole.Load() {
		p.c.farewell(p.c, k, params, func(ctx context.Context, note []byte) error {
			return p.c.oneWay(ctx, "notifications/cancelled", note)
		})
	} else {
		k.settle()
	}
	p.stop()
}

// post sends a message. The answer to it comes on the stream; a server that gives it here is taken at
// its word.
func (c *sse) post(ctx context.Context, rpc string, body []byte, id int64, s *sending) error {
	h := c.r.headers(c.agent)
	h["Accept"], h["Content-Type"] = acceptBoth, contentJSON
	response, err := c.r.do(ctx, c.client, outgoing{verb: http.MethodPost, rpc: rpc, to: c.endpoint, header: h, body: body, s: s})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := readDocument(nil, response.Body, response.ContentLength, c.r.o.Limit)
	switch {
	case errors.Is(err, errTooLong):
		return c.tooLong(max(response.ContentLength, int64(len(text))))
	case wire.Kind(text) == '{' && response.StatusCode != http.StatusUnauthorized && eachMessage(text, id, c.message):
		return nil
	case response.StatusCode/100 != 2:
		return c.r.statusError("POST "+rpc, response, text[:min(len(text), maxErrorBody)])
	}
	return nil
}

// Notify implements Conn.
func (c *sse) Notify(method string, params []byte) error {
	body := wire.Notification(method, params)
	return c.background(method, func(ctx context.Context) error { return c.oneWay(ctx, method, body) })
}

// Answer implements Conn.
func (c *sse) Answer(response []byte) error {
	return c.background("response", func(ctx context.Context) error { return c.oneWay(ctx, "response", response) })
}

func (c *sse) oneWay(ctx context.Context, rpc string, body []byte) error {
	return c.post(ctx, rpc, body, 0, nil)
}

func (c *sse) message(m wire.Msg) {
	switch {
	case m.IsResponse():
		if k := c.calls.take(m.ID); k != nil { // else it is late, or to nothing we asked
			k.sink.Done(m, nil)
		}
	case m.Method == "ping" && m.ID != nil:
		if err := c.Answer(wire.Reply(m.ID, []byte("{}"))); err != nil {
			c.r.o.Log.Debug("answer to a server not written", telemetry.KeyServer, c.r.o.Server, telemetry.KeyError, err)
		}
	case m.ID != nil:
		c.handler.Asked(c, m)
	case m.Method == "notifications/progress":
		c.calls.progress(m)
	default:
		c.handler.Notified(c, m)
	}
}

// Close implements Conn.
func (c *sse) Close(context.Context) { c.closing.Do(c.shut) }
