package downstream

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/wire"
)

// Session is one client of a revision before 2026-07-28, from initialize to DELETE or idleness.
type Session struct {
	ID           string
	Version      string
	Capabilities []byte // of the client, raw JSON object
	ClientInfo   []byte

	// Data is the handler's.
	Data any

	server *Server
	own    stream       // what belongs to no exchange, for GET
	used   atomic.Int64 // when it was used last, by the server's clock

	mu       sync.Mutex
	ended    bool
	inFlight map[string]*Exchange // by the id as written
	asks     map[int64]*ask       // our requests to the client
	past     []past               // event streams that have ended, the oldest first
	numbers  int
	nextAsk  int64
	aged     time.Time // when the own stream was
}

// past is what is kept of an exchange's event stream after its end, for a client that has not got all
// of it.
type past struct {
	number int
	first  int // the number of items[0]
	items  []item
	size   int
	since  time.Time
}

// Bounds of what is kept of event streams.
const (
	maxPast     = 64      // streams of a session
	maxPastSize = 2 << 20 // bytes of a session; the latest stream is kept whatever its size
	keepFor     = time.Minute
)

func newSession(server *Server, version string, m *wire.Msg) *Session {
	s := &Session{
		ID: rand.Text(), Version: version, server: server,
		Capabilities: bytes.Clone(wire.Get(m.Params, "capabilities")),
		ClientInfo:   bytes.Clone(wire.Get(m.Params, "clientInfo")),
	}
	s.own.keeps = true
	s.touch()
	return s
}

// touch notes a use, by the monotonic clock: a sandbox that was paused has not been idle.
func (s *Session) touch() { s.used.Store(int64(time.Since(s.server.started))) }

func (s *Session) idle(now time.Time) time.Duration {
	return now.Sub(s.server.started) - time.Duration(s.used.Load())
}

// busy tells whether the session has a request in flight or a reader. The caller holds mu.
func (s *Session) busy() bool { return len(s.inFlight) > 0 || s.own.heard() }

func (s *Session) isBusy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy()
}

// begin registers a new exchange. It returns what is wrong, and the HTTP status for it.
func (s *Session) begin(x *Exchange) (*wire.Error, int) {
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(x.Msg.ID)
	switch {
	case s.ended:
		return noSession, http.StatusNotFound
	case s.inFlight[key] != nil:
		return invalid("a request with the id %.80s is in flight already in this session", x.Msg.ID), http.StatusBadRequest
	case s.inFlight == nil:
		s.inFlight = map[string]*Exchange{}
	}
	s.inFlight[key] = x
	if x.batch != nil {
		return nil, 0
	}
	s.numbers++
	x.number = s.numbers
	x.keeps = true
	x.reader.numbers = x.reader.form != onlyJSON
	x.reader.prime = s.primed()
	return nil, 0
}

// primed tells whether the client knows an event without data, which gives it an id to come back with
// (2025-11-25, transports).
func (s *Session) primed() bool { return s.Version >= V20251125 }

// done takes an exchange out that is over, and keeps what a client may come back for.
func (s *Session) done(x *Exchange) {
	s.touch()
	x.release()
	rest, some := x.rest()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[string(x.Msg.ID)] != x {
		return // the session has ended
	}
	delete(s.inFlight, string(x.Msg.ID))
	if some {
		s.past = append(s.past, rest)
		s.trim(time.Time{})
	}
}

// rest is what an exchange leaves behind: nothing where its client has no event id.
func (x *Exchange) rest() (past, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.given {
		return past{}, false
	}
	p := past{number: x.number, first: x.first, since: time.Now()}
	if n := len(x.items); n == 0 || x.items[n-1].kind != response {
		return p, true // it was cancelled: nobody wants what came before
	}
	p.items = make([]item, len(x.items))
	for n, i := range x.items {
		if i.borrows {
			i.b = bytes.Clone(i.b) // it would keep the request's whole body
		}
		p.items[n] = i
		p.size += i.size()
	}
	return p, true
}

// trim forgets what is too much or too old of the past. The caller holds mu.
func (s *Session) trim(before time.Time) {
	size := 0
	for _, p := range s.past {
		size += p.size
	}
	for len(s.past) > 0 {
		old := s.past[0].since.Before(before)
		if !old && (len(s.past) == 1 || len(s.past) <= maxPast && size <= maxPastSize) {
			return
		}
		size -= s.past[0].size
		s.past[0] = past{}
		s.past = s.past[1:]
	}
	s.past = nil
}

// find returns the exchange of an event stream where that goes on, else what is left of it.
func (s *Session) find(number int) (live *Exchange, rest past, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.inFlight {
		if x.number == number {
			return x, past{}, true
		}
	}
	for _, p := range s.past {
		if p.number == number {
			return nil, p, true
		}
	}
	return nil, past{}, false
}

// sweep forgets what nobody has come back for, and gives up exchanges and requests to the client for
// which it has not.
func (s *Session) sweep(now time.Time) {
	late := now.Add(-keepFor)
	var gone []*Exchange
	s.mu.Lock()
	s.trim(late)
	for _, x := range s.inFlight {
		if x.expire(late) {
			gone = append(gone, x)
		}
	}
	if s.aged.Before(late) {
		s.own.age()
		s.aged = now
	}
	s.mu.Unlock()
	for _, x := range gone {
		x.quitted(ErrGone, false)
	}
	s.dropUnheard(now)
}

// Find returns the exchange in flight with the id as written, nil where there is none.
func (s *Session) Find(id []byte) *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight[string(id)]
}

// Send puts a notification on the session's own stream. One that matters waits for the client to open
// the stream, once where the same waits already; others are dropped where too many wait.
func (s *Session) Send(message []byte, matters bool) bool {
	if !matters {
		_, ok, _ := s.own.put(item{a: message, kind: interim})
		return ok
	}
	if s.own.has(message) {
		return true
	}
	_, ok, _ := s.own.put(item{a: message, kind: important})
	return ok
}

// close cancels everything that the session has in flight; where it must be idle, only if it is.
func (s *Session) close(reason error, idle bool) bool {
	s.mu.Lock()
	if s.ended || idle && s.busy() {
		s.mu.Unlock()
		return false
	}
	s.ended = true
	exchanges := s.inFlight
	asks := s.asks
	s.inFlight, s.asks, s.past = nil, nil, nil
	s.mu.Unlock()
	for _, x := range exchanges {
		x.quit(reason)
	}
	for _, a := range asks {
		a.answer(wire.Msg{}, reason)
	}
	s.own.stop(reason, nil)
	return true
}
