package downstream

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"mcp-gateway/internal/wire"
)

// ask is a request to the client that is not answered. All but answer is under the session's mu.
type ask struct {
	answer  func(m wire.Msg, err error)
	x       *Exchange // on which it was sent, nil for the session's own stream
	aside   bool      // it may be for another call than x, whose end is not its then
	message []byte
	on      *stream // that it was put on, nil while it is on its way
	number  int     // of the message there
	since   time.Time
}

const (
	maxAsks = 1000
	// askGrace is how long a request waits for a client to open its own stream.
	askGrace = 15 * time.Second
)

// Reasons for which a request to the client has no answer, beside those of an exchange.
var (
	errNoStream    = errors.New("the client has no stream open to be asked on")
	errTooManyAsks = errors.New("the client has too many requests to answer already")
)

// Ask sends a request to the client, on the exchange where one is given and goes on, else on the
// session's own stream. answer is called once, with the response or with an error. The id returned
// serves to withdraw the request; it is 0 where answer has been called already.
func (s *Session) Ask(x *Exchange, method string, params []byte, answer func(m wire.Msg, err error)) (id int64) {
	return s.ask(&ask{answer: answer, x: x}, method, params)
}

// AskAside is Ask for a request that may be for another of the session's calls than the one whose
// exchange takes it: where that is cancelled, the request goes on.
func (s *Session) AskAside(x *Exchange, method string, params []byte, answer func(m wire.Msg, err error)) (id int64) {
	return s.ask(&ask{answer: answer, x: x, aside: true}, method, params)
}

func (s *Session) ask(a *ask, method string, params []byte) (id int64) {
	x := a.x
	id, err := s.register(a, method, params)
	if err != nil {
		a.answer(wire.Msg{}, err)
		return 0
	}
	if x != nil {
		if on, number, ok := x.early(item{a: a.message, kind: important}); ok {
			s.mu.Lock()
			a.on, a.number = on, number
			s.mu.Unlock()
			if a.aside && x.reason() != nil {
				s.move(id, a)
			}
			return id
		}
	}
	// Who asks on an exchange that is over has been told so, where that ended without a response.
	if !s.place(id) {
		s.answer(id, wire.Msg{}, ErrGone)
		return 0
	}
	return id
}

func (s *Session) register(a *ask, method string, params []byte) (id int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return 0, errDeleted
	case len(s.asks) >= maxAsks:
		return 0, errTooManyAsks
	case s.asks == nil:
		s.asks = map[int64]*ask{}
	}
	s.nextAsk++
	a.since = time.Now()
	a.message = wire.Request(s.nextAsk, method, params)
	s.asks[s.nextAsk] = a
	return s.nextAsk, nil
}

// place puts a request on the session's own stream, if it is still to be asked.
func (s *Session) place(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asks[id]
	if a == nil {
		return false
	}
	number, ok, _ := s.own.put(item{a: a.message, kind: important})
	a.x, a.on, a.number = nil, &s.own, number
	return ok
}

// move puts a request whose exchange is over on the session's own stream, unless the client has it.
func (s *Session) move(id int64, a *ask) {
	if s.takeBack(a) && !s.place(id) {
		s.answer(id, wire.Msg{}, ErrGone)
	}
}

// takeBack takes a request from its stream, if the client has not got it.
func (s *Session) takeBack(a *ask) bool {
	s.mu.Lock()
	on, number := a.on, a.number
	s.mu.Unlock()
	return on != nil && on.withdraw(number)
}

// Withdraw forgets a request to the client and tells it so, if it has got it.
func (s *Session) Withdraw(id int64, params []byte) {
	if a := s.take(id); a != nil {
		s.retract(a, params)
	}
}

// retract tells the client that a request needs no answer any more.
func (s *Session) retract(a *ask, params []byte) {
	if s.takeBack(a) {
		return
	}
	note := wire.Notification("notifications/cancelled", params)
	if a.x == nil || !a.x.Send(note) {
		s.Send(note, false)
	}
}

func (s *Session) take(id int64) *ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asks[id]
	delete(s.asks, id)
	return a
}

// answer gives a response to the one who asked; false where nobody did.
func (s *Session) answer(id int64, m wire.Msg, err error) bool {
	a := s.take(id)
	if a == nil {
		return false
	}
	a.answer(m, err)
	return true
}

// answered takes a client's response. Some clients write our number as a string.
func (s *Session) answered(m wire.Msg) {
	if id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64); err == nil {
		s.answer(id, m, nil)
	}
}

// dropAsks gives up what was asked on an exchange that has ended without a response, but for what may
// be for another one.
func (s *Session) dropAsks(x *Exchange, reason error) {
	s.drop(reason, func(a *ask) bool { return a.x == x && !a.aside })
	aside := map[int64]*ask{}
	s.mu.Lock()
	for id, a := range s.asks {
		if a.x == x {
			aside[id] = a
		}
	}
	s.mu.Unlock()
	for id, a := range aside {
		s.move(id, a)
	}
}

// dropUnheard gives up what nobody has come to hear.
func (s *Session) dropUnheard(now time.Time) {
	if s.own.heard() {
		return
	}
	s.drop(errNoStream, func(a *ask) bool {
		return a.on == &s.own && now.Sub(a.since) > askGrace && s.own.withdraw(a.number)
	})
}

func (s *Session) drop(reason error, which func(*ask) bool) {
	var dropped []*ask
	s.mu.Lock()
	for id, a := range s.asks {
		if which(a) {
			delete(s.asks, id)
			dropped = append(dropped, a)
		}
	}
	s.mu.Unlock()
	for _, a := range dropped {
		a.answer(wire.Msg{}, reason)
	}
}
