package downstream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"mcp-gateway/internal/wire"
)

// Reasons for which an exchange ends without a response.
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
// request, in order. Send and Finish may be called from any goroutine and never block.
type Exchange struct {
	stream
	Msg     wire.Msg
	Session *Session // nil for a request of 2026-07-28
	Version string   // the revision that the client speaks

	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	started bool      // the event stream's headers are out
	reader  int       // which reader of the stream this goroutine is
	parent  *Exchange // of a batch
	// parentDone takes the response of a request in a batch.
	parentDone func(reply []byte)

	abandonMu    sync.Mutex
	abandon      func()
	cancelParams []byte
}

// Send puts a message before the response; false where it was dropped since too many wait.
func (x *Exchange) Send(message []byte) bool {
	return x.put(item{a: message, kind: interim})
}

// Require puts a message that may not be dropped, as a request; false where even so many wait that
// it cannot be taken, or the exchange is over.
func (x *Exchange) Require(message []byte) bool {
	return x.put(item{a: message, kind: important})
}

// Finish gives the response as a server's message whose id is replaced by the client's.
func (x *Exchange) Finish(m wire.Msg) {
	head, tail := m.Split()
	x.put(item{a: head, b: x.Msg.ID, c: tail, kind: response, failed: m.Err})
}

// Result gives a result as the response, without copying it.
func (x *Exchange) Result(result []byte) {
	head := make([]byte, 0, 40+len(x.Msg.ID))
	head = append(append(append(head, `{"jsonrpc":"2.0","id":`...), x.Msg.ID...), `,"result":`...)
	x.put(item{a: head, b: result, c: []byte("}"), kind: response})
}

// Fail gives an error as the response.
func (x *Exchange) Fail(e *wire.Error) { x.FailRaw(e.Object()) }

// FailRaw gives an error object as the response.
func (x *Exchange) FailRaw(object []byte) {
	x.put(item{a: wire.ErrorReply(x.Msg.ID, object), kind: response, failed: object})
}

// Modern tells a request of 2026-07-28.
func (x *Exchange) Modern() bool { return x.Version == V20260728 }

// OnAbandon sets what is called when a parked exchange is given up.
func (x *Exchange) OnAbandon(f func()) {
	x.abandonMu.Lock()
	x.abandon = f
	x.abandonMu.Unlock()
}

// CancelParams are those of the client's notifications/cancelled, nil where it sent none.
func (x *Exchange) CancelParams() []byte {
	x.abandonMu.Lock()
	defer x.abandonMu.Unlock()
	return x.cancelParams
}

func (x *Exchange) abandoned() {
	x.abandonMu.Lock()
	f := x.abandon
	x.abandonMu.Unlock()
	if f != nil {
		f()
	}
}

// Wait writes what is put until the response is written. It returns nil then, and else why there is
// nobody to answer any more; after ErrParked the exchange lives on.
func (x *Exchange) Wait(ctx context.Context) error {
	if x.parent != nil {
		return x.waitInBatch(ctx)
	}
	done := ctx.Done()
	for {
		beat := *x.server.beat.Load()
		select {
		case <-x.wake:
			if over, err := x.flush(); over {
				return err
			}
		case <-done:
			return x.gone()
		case <-beat:
			x.keepAlive()
		}
	}
}

// flush writes what waits.
func (x *Exchange) flush() (over bool, err error) {
	i, number, ok := x.next(x.reader)
	if !ok {
		if x.superseded(x.reader) {
			return true, ErrParked
		}
		if err := x.over(); err != nil {
			x.hangUp()
			return true, err
		}
		return false, nil
	}
	if i.kind == response && !x.started {
		x.plain(i)
		return true, nil
	}
	x.start()
	var out bytes.Buffer
	for ok {
		i.event(&out, x.stream.number, x.eventNumber(number))
		if i.kind == response {
			break
		}
		i, number, ok = x.next(x.reader)
	}
	if err := x.write(out.Bytes()); err != nil {
		return true, x.gone()
	}
	return i.kind == response, nil
}

// eventNumber is the number for an event id: none where no client could come back with it.
func (x *Exchange) eventNumber(number int) int {
	if x.resumable() {
		return number
	}
	return -1
}

func (x *Exchange) resumable() bool { return x.Session != nil && x.stream.number > 0 }

// plain writes the response as JSON.
func (x *Exchange) plain(i item) {
	h := x.w.Header()
	h["Content-Type"] = contentJSON
	h["Content-Length"] = []string{strconv.Itoa(i.size())}
	if x.Modern() {
		if status := modernStatus(i.failed); status != 0 {
			x.w.WriteHeader(status)
		}
	}
	for _, piece := range [...][]byte{i.a, i.b, i.c} {
		if len(piece) > 0 {
			x.w.Write(piece)
		}
	}
}

// start makes the answer an event stream.
func (x *Exchange) start() {
	if x.started {
		return
	}
	x.started = true
	startStream(x.w)
	if !x.resumable() {
		return
	}
	x.keep()
	x.Session.retain(x)
	if x.Version >= V20251125 {
		// An event without data gives the client an id to come back with (2025-11-25, transports).
		x.w.Write([]byte("id: " + strconv.Itoa(x.stream.number) + "--1\ndata: \n\n"))
	}
}

func startStream(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = contentSSE
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
}

func (x *Exchange) write(b []byte) error {
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return flushWriter(x.w)
}

func flushWriter(w http.ResponseWriter) error {
	if f, ok := w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	return nil
}

// keepAlive makes a silent exchange an event stream and writes a comment to it, so that no proxy
// takes it for dead.
func (x *Exchange) keepAlive() {
	x.start()
	// A failed write shows as the end of the request's context.
	_ = x.write(comment)
}

var comment = []byte(": keep-alive\n\n")

// hangUp ends the answer of an exchange that gets no response: an empty event stream.
func (x *Exchange) hangUp() {
	if !x.started {
		x.started = true
		startStream(x.w)
	}
}

// gone decides what the loss of the connection means: a client that has been given event ids may
// come back for the rest; from any other, nobody can take the response any more.
func (x *Exchange) gone() error {
	if err := x.over(); err != nil {
		return err
	}
	if x.started && x.resumable() {
		x.park()
		return ErrParked
	}
	x.stop(ErrGone)
	return ErrGone
}
