package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// get asks for an event stream: what the server says by itself, or with an event's id the rest of the
// stream that this was on.
func (c *streamable) get(ctx context.Context, after string) (*http.Response, error) {
	h := c.headers("", nil)
	h["Accept"], h["Accept-Encoding"] = acceptEvents, noCompress
	if after != "" {
		h["Last-Event-Id"] = []string{after}
	}
	return c.r.do(ctx, c.client, outgoing{verb: http.MethodGet, to: c.url, header: h})
}

// openedLimit bounds the wait for the stream of the GET. Servers that answer calls with documents say all
// else there, and what they say before it is open is lost; but some give no headers before they have
// something to say.
const openedLimit = time.Second

// awaitStream opens the stream of the GET, and waits until the server has taken the request.
func (c *streamable) awaitStream(ctx context.Context) {
	opened := make(chan struct{})
	c.spawn(func() { c.listen(opened) })
	if c.r.mute.Load() {
		return
	}
	timer := time.NewTimer(openedLimit)
	defer timer.Stop()
	select {
	case <-opened:
	case <-ctx.Done():
	case <-timer.C:
		c.r.mute.Store(true)
	}
}

const (
	steady    = 10 * time.Second // a stream this long was a good one
	maxSilent = 5                // tries in a row that brought nothing, until the server counts as gone
)

// listen keeps the stream of a GET open, on which the server says what belongs to no request. Servers
// may refuse to have one.
func (c *streamable) listen(opened chan<- struct{}) {
	first := sync.OnceFunc(func() { close(opened) })
	var at cursor
	for fruitless := 0; ; {
		began := time.Now()
		n, outcome := c.listenOnce(&at, first)
		first()
		if n > 0 || time.Since(began) > steady {
			fruitless = 0
		}
		switch outcome {
		case listenNever:
			return
		case listenUnsent:
			if fruitless >= maxSilent && len(c.calls.sinks()) == 0 {
				c.end(fmt.Errorf("%d tries in a row to open its stream did not reach the server", fruitless))
				return
			}
		case listenEnded:
			if c.session == nil && fruitless >= maxSilent {
				return // a server without sessions that has nothing to say
			}
		}
		if !sleep(c.ctx, at.delay(fruitless)) {
			return
		}
		fruitless++
	}
}

// What became of a stream.
const (
	listenEnded  = iota // to be opened again
	listenUnsent        // the server was not reached
	listenNever         // the server has none
)

// listenOnce calls opened when the server has taken the request.
func (c *streamable) listenOnce(at *cursor, opened func()) (n, outcome int) {
	response, err := c.get(c.ctx, at.id)
	if err != nil {
		var unsent *UnsentError
		var signIn *SignInRequiredError
		switch {
		case errors.As(err, &unsent):
			return 0, listenUnsent
		case errors.As(err, &signIn):
			return 0, listenNever // until then, nothing else comes through either
		}
		return 0, listenEnded
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status == http.StatusOK:
		c.getting.Store(true)
		defer c.getting.Store(false)
		opened()
		n, _ = c.events(response.Body, at, nil)
		return n, listenEnded
	case status == http.StatusNotFound && c.session != nil:
		c.sessionOver()
		return 0, listenNever
	case status == http.StatusConflict || status == http.StatusTooManyRequests || status/100 == 5 && status != http.StatusNotImplemented:
		return 0, listenEnded // another stream counts as open still, or the server is busy
	case status == http.StatusBadRequest && c.session != nil && !c.knowsSession(c.ctx):
		c.sessionOver()
		return 0, listenNever
	case status == http.StatusBadRequest && at.id != "":
		at.id = "" // it does not remember the event
		return 0, listenEnded
	}
	return 0, listenNever
}
