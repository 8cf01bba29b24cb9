package downstream

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"mcp-gateway/internal/wire"
)

// Reasons for which an exchange ends without the response that it waits for.
var (
	ErrCancelled = errors.New("the client cancelled the request")
	ErrGone      = errors.New("the client has gone away")
	// ErrParked means that the client's connection is lost, but it may come back for the rest of
	// the event stream: the request goes on. OnAbandon tells when nobody came.
	ErrParked   = errors.New("the client's connection is lost")
	errDeleted  = errors.New("the client has ended its session")
	errIdle     = errors.New("the session was idle for too long")
	errEvicted  = errors.New("too many sessions: the one that had been idle longest was ended")
	errShutdown = errors.New("the gateway is being stopped")
)

// Exchange is one request of a client: what is put on it is written in the goroutine of its HTTP
// request, in order. Send, Require and the methods that give a response may be called from any
// goroutine and never block.
type Exchange struct {
	stream
	Msg     wire.Msg
	Session *Session // nil for a request of 2026-07-28
	Version string   // the revision that the client speaks

	server  *Server
	reader  reader                       // of the POST; it belongs to its goroutine
	away    bool                         // somebody else than that goroutine sees to the end
	counted atomic.Pointer[atomic.Int64] // where it is counted as being in flight
	batch   *batch                       // that the request is part of
	reply   []byte                       // in a batch: the response

	// under the stream's mu
	abandon      func()
	cancelParams []byte
}

// exchange makes an exchange whose answer goes to w. The caller has it registered, if it is a
// session's, and hands it to serve.
func (s *Server) exchange(w http.ResponseWriter, m wire.Msg, session *Session, version string, f form) *Exchange {
	x := &Exchange{Msg: m, Session: session, Version: version, server: s}
	x.items = x.one[:0]
	x.wake = make(chan struct{}, 1)
	x.reader = reader{server: s, x: x, wake: x.wake, answer: answer{w: w, from: &x.stream, form: f, wrote: true}}
	return x
}

// Send puts a message before the response; false where it was dropped, since too many wait or the
// client takes none.
func (x *Exchange) Send(message []byte) bool {
	_, _, ok := x.early(item{a: message, kind: interim})
	return ok
}

// Require puts a message that may not be dropped, as a request; false where the exchange is over,
// where the client takes none, or where even so many wait that it cannot be taken.
func (x *Exchange) Require(message []byte) bool {
	_, _, ok := x.early(item{a: message, kind: important})
	return ok
}

// early puts a message before the response, and tells where it stands.
func (x *Exchange) early(i item) (on *stream, number int, ok bool) {
	to := x
	if x.batch != nil {
		to = x.batch.x
	}
	if to.reader.form == onlyJSON {
		return nil, 0, false
	}
	number, ok, _ = to.put(i)
	return &to.stream, number, ok
}

// Finish gives the response as a server's message whose id is replaced by the client's.
func (x *Exchange) Finish(m wire.Msg) {
	head, tail := m.Split()
	x.respond(item{a: head, b: x.Msg.ID, c: tail, borrows: true, kind: response}, m.Err)
}

// Result gives a result as the response, without copying it.
func (x *Exchange) Result(result []byte) {
	head := make([]byte, 0, 40+len(x.Msg.ID))
	head = append(append(append(head, `{"jsonrpc":"2.0","id":`...), x.Msg.ID...), `,"result":`...)
	x.respond(item{a: head, b: result, c: closing, kind: response}, nil)
}

var closing = []byte("}")

// Fail gives an error as the response.
func (x *Exchange) Fail(e *wire.Error) { x.FailRaw(e.Object()) }

// FailRaw gives an error object as the response.
func (x *Exchange) FailRaw(object []byte) {
	x.respond(item{a: wire.ErrorReply(x.Msg.ID, object), kind: response}, object)
}

// respond puts the response. Where nobody reads, nobody else will see that the exchange is over.
func (x *Exchange) respond(i item, failure []byte) {
	if failure != nil && x.Modern() {
		i.status = modernStatus(failure)
	}
	if _, ok, heard := x.put(i); ok && !heard {
		x.Session.done(x)
	}
}

// Modern tells a request of 2026-07-28.
func (x *Exchange) Modern() bool { return x.Version == V20260728 }

// OnAbandon sets what is called when the exchange is ended without a response by somebody else than
// the goroutine in Wait: that may be stuck in writing to a client which does not read, or be gone
// while the exchange is parked. Wait, where it is still there, returns the reason all the same.
func (x *Exchange) OnAbandon(f func()) {
	x.mu.Lock()
	x.abandon = f
	x.mu.Unlock()
}

// Cancel ends an exchange without a response, as its client has asked for with the params of
// notifications/cancelled.
func (x *Exchange) Cancel(params []byte) {
	x.mu.Lock()
	x.cancelParams = params
	x.mu.Unlock()
	x.quit(ErrCancelled)
}

// CancelParams are those of the client's notifications/cancelled, nil where it sent none.
func (x *Exchange) CancelParams() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cancelParams
}

// quit ends the exchange without a response of the handler's, from outside of its goroutine.
func (x *Exchange) quit(reason error) {
	if first, heard := x.end(reason); first {
		x.quitted(reason, heard)
	}
}

// quitted tells all who are concerned that the exchange has been ended.
func (x *Exchange) quitted(reason error, heard bool) {
	if !heard {
		x.Session.done(x)
	}
	x.mu.Lock()
	abandon := x.abandon
	x.mu.Unlock()
	if abandon != nil {
		abandon()
	}
	if x.Session != nil {
		x.Session.dropAsks(x, reason)
	}
}

// end stops the stream. A client that has cancelled expects no response, any other is told why.
func (x *Exchange) end(reason error) (first, heard bool) {
	if errors.Is(reason, ErrCancelled) || errors.Is(reason, ErrGone) || x.Msg.ID == nil {
		return x.stop(reason, nil)
	}
	e := &wire.Error{Code: codeClosed, Message: "no response: " + reason.Error()}
	return x.stop(reason, &item{a: wire.ErrorReply(x.Msg.ID, e.Object()), kind: response})
}

// codeClosed is the code of SDKs for a connection that was closed before the response.
const codeClosed = -32000

// Wait writes what is put until the response is written. It returns nil then, and else why there is
// nobody to answer any more; after ErrParked the exchange lives on.
func (x *Exchange) Wait(ctx context.Context) error {
	if x.batch != nil {
		return x.waitInBatch(ctx)
	}
	switch x.reader.run(ctx) {
	case finished:
		return x.reason()
	case replaced:
		x.away = true
		return ErrParked
	case lost:
		return x.lost()
	}
	x.reader.nothing()
	return x.reason()
}

// lost decides what the loss of the connection means: a client that has been given event ids may
// come back for the rest; from any other, nobody can take the response any more.
func (x *Exchange) lost() error {
	if x.reader.numbered() {
		switch x.detach(x.reader.wake) {
		case goesOn, replaced:
			x.away = true
			return ErrParked
		}
		return x.reason() // nil where the response is there: it is kept for the client
	}
	x.stop(ErrGone, nil)
	if err := x.reason(); err != nil {
		return err
	}
	return ErrGone
}
