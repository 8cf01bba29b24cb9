package downstream

import (
	"crypto/rand"
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

	own     stream // what belongs to no exchange, for GET
	used    atomic.Int64
	started time.Time
	ended   atomic.Bool

	mu       sync.Mutex
	inFlight map[string]*Exchange // by the id as written
	asks     map[int64]*ask       // our requests to the client
	kept     map[int]*Exchange    // event streams that a client may come back for
	numbers  int
	nextAsk  int64
	reader   chan struct{} // closed to make the reader of the own stream leave
}

// ask is a request to the client that is not answered.
type ask struct {
	answer func(m wire.Msg, err error)
	x      *Exchange // on which it was sent, nil for the session's own stream
}

func newSession(version string) *Session {
	s := &Session{ID: rand.Text(), Version: version, started: time.Now()}
	s.own.init(0)
	s.own.kept = true
	s.touch()
	return s
}

// touch notes a use, as a monotonic duration: a sandbox that was paused has not been idle.
func (s *Session) touch() { s.used.Store(int64(time.Since(s.started))) }

func (s *Session) idle() time.Duration {
	return time.Since(s.started) - time.Duration(s.used.Load())
}

// busy tells whether the session has a request in flight or a reader.
func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inFlight) > 0 || s.reader != nil
}

// begin registers an exchange; false where its id is in flight already.
func (s *Session) begin(x *Exchange) bool {
	s.touch()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(x.Msg.ID)
	if s.inFlight[key] != nil || s.ended.Load() {
		return false
	}
	if s.inFlight == nil {
		s.inFlight = map[string]*Exchange{}
	}
	s.inFlight[key] = x
	s.numbers++
	x.stream.init(s.numbers)
	return true
}

// done takes an exchange out.
func (s *Session) done(x *Exchange) {
	s.touch()
	s.mu.Lock()
	delete(s.inFlight, string(x.Msg.ID))
	s.mu.Unlock()
}

// retain keeps an exchange's event stream for a client that comes back.
func (s *Session) retain(x *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[int]*Exchange{}
	}
	s.kept[x.stream.number] = x
}

// forget drops event streams that ended a while ago, and gives up exchanges whose client has not
// come back.
func (s *Session) forget(now time.Time) {
	var lost []*Exchange
	s.mu.Lock()
	for number, x := range s.kept {
		x.stream.mu.Lock()
		ended, parked := x.closed, x.parked
		x.stream.mu.Unlock()
		switch {
		case !ended.IsZero() && now.Sub(ended) > keepFor:
			delete(s.kept, number)
		case ended.IsZero() && !parked.IsZero() && now.Sub(parked) > keepFor:
			delete(s.kept, number)
			lost = append(lost, x)
		}
	}
	s.mu.Unlock()
	for _, x := range lost {
		x.stop(ErrGone)
		s.done(x)
		x.abandoned()
	}
}

// Find returns the exchange in flight with the id as written, nil where there is none.
func (s *Session) Find(id []byte) *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight[string(id)]
}

// Cancel ends an exchange without a response, as its client has asked for with the params of
// notifications/cancelled.
func (x *Exchange) Cancel(params []byte) {
	x.abandonMu.Lock()
	x.cancelParams = params
	x.abandonMu.Unlock()
	parked := x.isParked()
	x.stop(ErrCancelled)
	if parked {
		x.Session.done(x)
		x.abandoned()
	}
}

// Send puts a notification on the session's own stream. An important one waits for the client to
// open the stream, others are dropped where too many wait.
func (s *Session) Send(message []byte, matters bool) bool {
	k := interim
	if matters {
		k = important
	}
	return s.own.put(item{a: message, kind: k})
}

// Listening tells whether the client has the session's own stream open.
func (s *Session) Listening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil
}

// Ask sends a request to the client, on the exchange where one is given and goes on, else on the
// session's own stream. answer is called once, with the response or with an error; the id returned
// serves to withdraw the request.
func (s *Session) Ask(x *Exchange, method string, params []byte, answer func(m wire.Msg, err error)) (id int64) {
	s.mu.Lock()
	if s.ended.Load() {
		s.mu.Unlock()
		answer(wire.Msg{}, errDeleted)
		return 0
	}
	s.nextAsk++
	id = s.nextAsk
	if s.asks == nil {
		s.asks = map[int64]*ask{}
	}
	s.asks[id] = &ask{answer: answer, x: x}
	s.mu.Unlock()
	message := wire.Request(id, method, params)
	if x != nil && x.Require(message) {
		return id
	}
	if !s.Send(message, true) {
		s.answer(id, wire.Msg{}, ErrGone)
	}
	return id
}

// Withdraw forgets a request to the client and tells it so.
func (s *Session) Withdraw(id int64, params []byte) {
	s.mu.Lock()
	a := s.asks[id]
	delete(s.asks, id)
	s.mu.Unlock()
	if a == nil {
		return
	}
	note := wire.Notification("notifications/cancelled", params)
	if a.x == nil || !a.x.Send(note) {
		s.Send(note, false)
	}
}

// answer gives a response to the one who asked; false where nobody did.
func (s *Session) answer(id int64, m wire.Msg, err error) bool {
	s.mu.Lock()
	a := s.asks[id]
	delete(s.asks, id)
	s.mu.Unlock()
	if a == nil {
		return false
	}
	a.answer(m, err)
	return true
}

// close cancels everything that the session has in flight.
func (s *Session) close(reason error) {
	s.mu.Lock()
	s.ended.Store(true)
	exchanges := s.inFlight
	asks := s.asks
	kept := s.kept
	s.inFlight, s.asks, s.kept = nil, nil, nil
	if s.reader != nil {
		close(s.reader)
		s.reader = nil
	}
	s.mu.Unlock()
	s.own.stop(reason)
	for _, x := range exchanges {
		x.stop(reason)
	}
	for _, x := range kept {
		if !x.answered() {
			x.stop(reason)
			x.abandoned()
		}
	}
	for _, a := range asks {
		a.answer(wire.Msg{}, reason)
	}
}
