package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"mcp-gateway/internal/wire"
)

// exchange is one request by streamable HTTP, from its POST to its response. Its goroutine owns it.
type exchange struct {
	c      *streamable
	k      *call
	sink   Sink // the call's, which that may forget
	method string
	params []byte
	ctx    context.Context
	stop   context.CancelFunc
	sent   sending

	answered  bool // the response has come, here or elsewhere
	elsewhere bool // the response is to come on another stream
	again     bool // it was sent a second time already
}

// id is the request's; 0 for no exchange.
func (x *exchange) id() int64 {
	if x == nil {
		return 0
	}
	return x.k.id
}

// run sends the request and takes what comes back.
func (x *exchange) run() {
	defer x.stop()
	if err := x.do(); err != nil {
		x.fail(err)
	}
}

// fail ends the call, unless it is answered or cancelled.
func (x *exchange) fail(err error) {
	if x.answered || !x.k.forget() {
		return
	}
	if x.c.ctx.Err() != nil {
		err = x.c.lost(x.c.Err())
	}
	x.sink.Done(wire.Msg{}, err)
}

// do is nil where the call is answered, or will be.
func (x *exchange) do() error {
	h := x.c.headers(x.method, x.params)
	h["Content-Type"] = contentJSON
	if x.method != "tools/call" {
		// With the key, which nil keeps off the wire, net/http sends a request once more that met the
		// end of an idle connection. A call of a tool must not be made twice.
		h["X-Idempotency-Key"] = nil
	}
	response, err := x.c.r.do(x.ctx, x.c.client, outgoing{
		verb: http.MethodPost, rpc: x.method, to: x.c.url, header: h,
		body: wire.Request(x.k.id, x.method, x.params), s: &x.sent,
	})
	if err != nil {
		return x.notSent(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return x.refused(response)
	}
	if x.method == "initialize" || x.method == "server/discover" {
		x.open(response)
	}
	err = x.c.read(response, x)
	if err == nil && !x.answered && !x.elsewhere {
		err = x.c.r.noMessage("POST "+x.method, response, nil)
	}
	return err
}

// open takes from the answer to a handshake where further requests go, and in which session.
func (x *exchange) open(response *http.Response) {
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		x.c.session = []string{id}
	}
	if to := response.Request.URL; to != x.c.url { // after a redirect within the origin
		to.User = x.c.url.User
		x.c.url = to
	}
}

// notSent turns the error of a request that did not reach the server, where nothing else says that the
// connection is good, into the end of that: the next one begins with a handshake and tells more.
func (x *exchange) notSent(err error) error {
	var unsent *UnsentError
	if !errors.As(err, &unsent) || x.c.hello.Load() == nil || !x.k.alone() || x.c.getting.Load() {
		return err
	}
	x.c.end(err)
	return fmt.Errorf("%w: %w", ErrGone, err)
}

// refused takes an answer whose status is an error.
func (x *exchange) refused(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, int64(x.c.r.o.Limit)))
	if err != nil {
		return brokenOff(err)
	}
	status := response.StatusCode
	m, isMessage := messageIn(text, 0)
	isMessage = isMessage && m.Err != nil && string(m.ID) == fmt.Sprint(x.k.id)
	var refusal []byte // of this very request
	if isMessage {
		refusal = m.Err
	}
	if x.sessionOver(status, refusal) {
		x.c.sessionOver()
		return fmt.Errorf("%w: %w", ErrGone, errSessionOver)
	}
	if !isMessage && status != http.StatusUnauthorized {
		m, isMessage = messageIn(text, x.k.id)
		isMessage = isMessage && m.Err != nil
	}
	if !isMessage {
		return x.c.r.statusError("POST "+x.method, response, text[:min(len(text), maxErrorBody)])
	}
	if x.mismatch(m) {
		return x.do()
	}
	x.c.message(m, x, true)
	return nil
}

// sessionOver tells whether a refusal means that the session is not known. That is 404; servers with
// 400 for it refuse a ping too.
func (x *exchange) sessionOver(status int, refusal []byte) bool {
	if x.c.session == nil || x.c.hello.Load() == nil {
		return false
	}
	code := string(wire.Get(refusal, "code"))
	theCalls := refusal != nil && code != "-32000" && code != "-32001" // which SDKs' servers use for sessions
	return status == http.StatusNotFound || status == http.StatusBadRequest && !theCalls && !x.c.knowsSession(x.ctx)
}

// knowsSession asks a server that refuses something whether it knows the session.
func (c *streamable) knowsSession(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, oneWayLimit)
	defer cancel()
	h := c.headers("ping", nil)
	h["Content-Type"] = contentJSON
	response, err := c.r.do(ctx, c.client, outgoing{
		verb: http.MethodPost, rpc: "ping", to: c.url, header: h, body: []byte(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`),
	})
	if err != nil {
		return true // that is another trouble
	}
	response.Body.Close()
	return response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusBadRequest
}

// mismatch tells whether a call was refused since its headers do not fit its arguments; then the tools
// have been read again, and it is to be sent once more.
func (x *exchange) mismatch(m wire.Msg) bool {
	code := string(wire.Get(m.Err, "code"))
	if !x.c.modern || x.again || x.method != "tools/call" || code != fmt.Sprint(wire.CodeHeaderMismatch) {
		return false
	}
	x.again = true
	_, err := ListAll(x.ctx, x.c, "tools/list", "tools", ModernMeta(x.c.identity))
	return err == nil
}

// cancelled implements canceller. In 2026-07-28 the end of the request says it; before, and where the
// server has the request already, a notification.
func (x *exchange) cancelled(k *call, params []byte) {
	if !x.c.modern && x.method != "initialize" && x.sent.whole.Load() {
		x.c.farewell(x.c, k, params, func(ctx context.Context, note []byte) error {
			return x.c.oneWay(ctx, "notifications/cancelled", note)
		})
	} else {
		k.settle()
	}
	x.stop()
}

const (
	maxResumes = 5   // fruitless tries in a row to go on with a stream
	maxEmpty   = 100 // streams in a row that were gone on with and said nothing
)

// stream takes an event stream up to the response. One that ends before is gone on with where its
// events had ids: some servers end streams on purpose and want to be asked again.
func (x *exchange) stream(body io.Reader) error {
	var at cursor
	for empty := 0; ; {
		n, err := x.c.events(body, &at, x)
		switch {
		case x.answered || !x.k.live():
			return nil
		case x.ctx.Err() != nil:
			return x.ctx.Err()
		case x.c.modern || at.id == "" || empty >= maxEmpty:
			return brokenOff(err)
		case n > 0:
			empty = 0
		default:
			empty++
		}
		response, err := x.resume(&at, empty)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body = response.Body
	}
}

// resume asks for the rest of a stream.
func (x *exchange) resume(at *cursor, fruitless int) (*http.Response, error) {
	var last error
	for try := range maxResumes {
		if !sleep(x.ctx, at.delay(fruitless+try)) {
			return nil, x.ctx.Err()
		}
		response, err := x.c.get(x.ctx, at.id)
		var signIn *SignInRequiredError
		if errors.As(err, &signIn) {
			return nil, err
		}
		if err != nil {
			last = err
			continue
		}
		if response.StatusCode == http.StatusOK {
			return response, nil
		}
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		response.Body.Close()
		last = x.c.r.statusError("GET", response, text)
		if status := response.StatusCode; status/100 == 4 && status != http.StatusTooManyRequests {
			break
		}
	}
	return nil, fmt.Errorf("the answer broke off and cannot be gone on with: %w", last)
}
