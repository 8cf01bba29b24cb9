package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

// cut begins a call, lets it become an event stream with one message, and cuts the connection.
func cut(t *testing.T, c client, calls <-chan held, id int) (x held, last string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan *http.Response, 1)
	go func() {
		answers <- c.doCtx(ctx, "POST", call(id), headers{"Mcp-Session-Id", c.id})
	}()
	x = <-calls
	x.Send([]byte(progress(1)))
	last = events(t, <-answers).want(progress(1)).id
	cancel()
	if err := <-x.over; !errors.Is(err, ErrParked) {
		t.Fatalf("after the cut: %v", err)
	}
	return x, last
}

func TestResume_CutOffPOST(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	x, last := cut(t, c, calls, 1)
	if last != "1-0" {
		t.Errorf("event id %q", last)
	}
	refused(t, c.post(call(1)), 400, -32600, "1", "in flight already") // it goes on
	x.Send([]byte(progress(2)))
	e := events(t, c.get("Last-Event-ID", last))
	if prime, _ := e.next(); prime.id != "1-0" || prime.data != "" {
		t.Errorf("got %+v", prime)
	}
	e.want(progress(2)) // and not the first one again
	x.Send([]byte(progress(3)))
	if m := e.want(progress(3)); m.id != "1-2" {
		t.Errorf("event id %q", m.id)
	}
	echo(x.Exchange)
	if m := e.want(result(1)); m.id != "1-3" {
		t.Errorf("event id %q", m.id)
	}
	e.end()
	if n := s.InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}

	// Once more, for what the client has not got of it.
	e = events(t, c.get("Last-Event-ID", "1-1"))
	e.want(progress(3))
	e.want(result(1))
	e.end()
	// The whole stream again, from the event without data on.
	e = events(t, c.get("Last-Event-ID", "1--1"))
	e.want(progress(1))
	e.want(progress(2))
	// A client that has all of it is told to stop reconnecting.
	for _, id := range []string{"1-3", "1-4"} {
		expect(t, c.get("Last-Event-ID", id), 204, "")
	}
}

// A client comes back although its old connection is not known to be dead.
func TestResume_OldConnectionNotKnownToBeDead(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	x.Send([]byte(progress(1)))
	old := events(t, <-answer)
	last := old.want(progress(1)).id
	fresh := events(t, c.get("Last-Event-ID", last))
	old.end()
	if err := <-x.over; !errors.Is(err, ErrParked) {
		t.Errorf("Wait: %v", err)
	}
	x.Send([]byte(progress(2)))
	fresh.want(progress(2))
	// The call can still be cancelled by its id, and counts as in flight.
	if c.session().Find([]byte("1")) != x.Exchange || s.InFlight() != 1 {
		t.Error("the call is not in flight any more")
	}
	echo(x.Exchange)
	fresh.want(result(1))
	fresh.end()
	if c.session().Find([]byte("1")) != nil || s.InFlight() != 0 {
		t.Error("the call is still in flight")
	}
}

// The answer that comes while nobody reads is kept, and the call is over.
func TestResume_AnsweredWhileAway(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-06-18")
	x, last := cut(t, c, calls, 1)
	big := `"` + strings.Repeat("x", maxPastSize) + `"` // results are kept whatever their size
	x.Result([]byte(big))
	if s.InFlight() != 0 || c.session().isBusy() {
		t.Error("the call is still in flight")
	}
	e := events(t, c.get("Last-Event-ID", last))
	e.want(`{"jsonrpc":"2.0","id":1,"result":` + big + `}`)
	e.end()
	again := c.async(call(1))
	echo((<-calls).Exchange)
	expect(t, <-again, 200, result(1))
}

// Nobody comes back: the call is cancelled after a while, its session can idle.
func TestParkedCallExpires(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{SessionIdle: time.Hour})
	c := s.initialize("2025-11-25")
	x, last := cut(t, c, calls, 1)
	abandoned := make(chan struct{})
	x.OnAbandon(func() { close(abandoned) })
	asked := make(chan error, 1)
	x.Session.Ask(x.Exchange, "roots/list", nil, func(_ wire.Msg, err error) { asked <- err })
	s.sweep(time.Now().Add(keepFor / 2))
	if x.reason() != nil {
		t.Fatal("given up too early")
	}
	s.sweep(time.Now().Add(2 * keepFor))
	<-abandoned
	if err := <-asked; !errors.Is(err, ErrGone) {
		t.Errorf("what it had asked: %v", err)
	}
	if s.InFlight() != 0 || c.session().isBusy() {
		t.Error("the call is still in flight")
	}
	expect(t, c.get("Last-Event-ID", last), 204, "") // nothing is left of it
	s.sweep(time.Now().Add(4 * keepFor))
	refused(t, c.get("Last-Event-ID", last), 410, -32600, "null", "not kept any more")
}

// A client that comes back in time keeps its call.
func TestParkedCallThatIsFetchedLives(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{SessionIdle: time.Hour})
	c := s.initialize("2025-11-25")
	x, last := cut(t, c, calls, 1)
	e := events(t, c.get("Last-Event-ID", last))
	s.sweep(time.Now().Add(2 * keepFor))
	echo(x.Exchange)
	e.want(result(1))
}

// A call that was fetched, and whose second connection is lost too.
func TestParkedCallIsLostAgain(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	for _, fetched := range []bool{true, false} {
		x, _ := cut(t, c, calls, 1)
		id := fmt.Sprintf("%d-0", x.number)
		r := c.get("Last-Event-ID", id)
		x.Send([]byte(progress(2)))
		events(t, r).want(progress(2))
		r.Body.Close()
		for x.heard() {
			s.pulse()
		}
		if fetched {
			e := events(t, c.get("Last-Event-ID", id))
			e.want(progress(2))
			echo(x.Exchange)
			e.want(result(1))
			e.end()
			continue
		}
		abandoned := make(chan struct{})
		x.OnAbandon(func() { close(abandoned) })
		s.sweep(time.Now().Add(2 * keepFor))
		<-abandoned
	}
	if s.InFlight() != 0 || c.session().isBusy() {
		t.Error("something is in flight")
	}
}

// What is kept of an answered call does not keep its request, which may be large.
func TestPastDoesNotHoldTheRequest(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	x.Send([]byte(progress(1)))
	m, err := wire.ParseServer([]byte(`{"id":7,"result":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	x.Finish(m)
	read(t, <-answer)
	kept := c.session().past[0].items
	if last := kept[len(kept)-1]; string(last.b) != "1" || &last.b[0] == &x.Msg.ID[0] {
		t.Errorf("got %s", last.b)
	}
}

// failing is an answer whose connection turns out to be dead when it is written to.
type failing struct{ *httptest.ResponseRecorder }

func (failing) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// What a reader took and could not write is there for the next one, even without an event id.
func TestGET_WhatCouldNotBeWrittenComesAgain(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2024-11-05")
	session := c.session()
	session.Send([]byte("1"), true)
	session.Send([]byte("2"), true)
	r := httptest.NewRequest("GET", "/mcp", nil)
	r.Header = http.Header{"Mcp-Session-Id": {c.id}}
	s.ServeHTTP(failing{httptest.NewRecorder()}, r)
	e := events(t, c.get())
	e.want("1")
	e.want("2")
}

// From a client without event ids nobody can take the response any more: of a plain answer, and in
// 2026-07-28.
func TestB46_DisconnectCancels(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	for name, h := range map[string]headers{
		"session": {"Mcp-Session-Id", c.id},
		"modern":  {"Mcp-Protocol-Version", V20260728, "Mcp-Method", "tools/call", "Mcp-Name", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := s.dial()
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
			fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
			for i := 0; i < len(h); i += 2 {
				fmt.Fprintf(conn, "%s: %s\r\n", h[i], h[i+1])
			}
			fmt.Fprintf(conn, "\r\n%s", body)
			x := <-calls
			conn.Close()
			if err := <-x.over; !errors.Is(err, ErrGone) {
				t.Errorf("Wait: %v", err)
			}
			x.Result([]byte("1")) // harms nobody
		})
	}
}

// An older SDK comes back after an error that it has got as an event; there is nothing for it.
func TestResume_AfterAnErrorEvent(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	x.Send([]byte(progress(1)))
	x.Fail(&wire.Error{Code: -1, Message: "m"})
	e := events(t, <-answer)
	e.want(progress(1))
	last := e.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`).id
	e.end()
	expect(t, c.get("Last-Event-ID", last), 204, "")
}

func TestResume_BoundedPast(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	for n := range maxPast + 5 {
		answer := c.async(call(n))
		x := <-calls
		x.Send([]byte(progress(1)))
		echo(x.Exchange)
		read(t, <-answer)
	}
	if n := len(c.session().past); n != maxPast {
		t.Errorf("%d streams are kept", n)
	}
	refused(t, c.get("Last-Event-ID", "5-0"), 410, -32600, "null", "event stream 5")
	events(t, c.get("Last-Event-ID", "6-0")).want(result(5))
	for n := range 3 { // large ones
		answer := c.async(call(n))
		x := <-calls
		x.Send([]byte(progress(1)))
		x.Result([]byte(`"` + strings.Repeat("x", maxPastSize/2) + `"`))
		read(t, <-answer)
	}
	size := 0
	for _, p := range c.session().past {
		size += p.size
	}
	if size > maxPastSize || size < maxPastSize/2 {
		t.Errorf("%d bytes are kept", size)
	}
	s.sweep(time.Now().Add(2 * keepFor))
	if n := len(c.session().past); n != 0 {
		t.Errorf("%d streams are kept for ever", n)
	}
}

// A GET without Last-Event-ID goes on where the last one stopped; with it, what came later is replayed.
func TestGET_NoReplayWithoutLastEventID(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	session := c.session()
	session.Send([]byte(progress(0)), true) // waits for the client to open the stream
	first := events(t, c.get())
	if prime, _ := first.next(); prime.id != "0--1" {
		t.Errorf("got %+v", prime)
	}
	first.want(progress(0))
	session.Send([]byte(progress(1)), false)
	if id := first.want(progress(1)).id; id != "0-1" {
		t.Errorf("event id %q", id)
	}
	second := events(t, c.get())
	first.end() // the newer one has taken over
	session.Send([]byte(progress(2)), false)
	second.want(progress(2))

	third := events(t, c.get("Last-Event-ID", "0-0"))
	second.end()
	third.want(progress(1))
	third.want(progress(2))
	session.Send([]byte(progress(3)), false)
	third.want(progress(3))

	for n := 4; n < maxKept+10; n++ {
		session.Send([]byte(progress(n)), false)
		third.want(progress(n))
	}
	// Where the event is gone, the stream goes on with the oldest that is kept.
	fourth := events(t, c.get("Last-Event-ID", "0-0"))
	fourth.want(progress(10))
	// An id from the future is that of a gateway before: nothing is replayed.
	fifth := events(t, c.get("Last-Event-ID", "0-100000"))
	session.Send([]byte(progress(maxKept+10)), false)
	if m := fifth.message(); m.data == progress(10) {
		t.Errorf("got %+v", m)
	}
}

// What a client has got of its own stream is kept for a while, what it has not got for as long as the
// session lives.
func TestOwnStreamForgets(t *testing.T) {
	s := serve(t, &fake{}, Options{SessionIdle: time.Hour})
	c := s.initialize("2025-11-25")
	session := c.session()
	for n := range 3 {
		session.Send([]byte(progress(n)), true)
	}
	r := c.get()
	e := events(t, r)
	for n := range 3 {
		e.want(progress(n))
	}
	leave(s, r, session)
	session.Send([]byte(progress(3)), true)
	now := time.Now()
	s.sweep(now)
	s.sweep(now.Add(keepFor / 2))
	if len(session.own.items) != 4 {
		t.Fatalf("%d messages are kept", len(session.own.items))
	}
	s.sweep(now.Add(2 * keepFor))
	s.sweep(now.Add(4 * keepFor))
	if len(session.own.items) != 1 || session.own.held != 0 {
		t.Errorf("%d messages are kept", len(session.own.items))
	}
	events(t, c.get("Last-Event-ID", "0-0")).want(progress(3))
}

// Trap 18: whoever leaves and whoever comes, the newest reader gets what is sent.
func TestTrap18_Takeover(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	session := c.session()
	for round := range 30 {
		var came, gone sync.WaitGroup
		came.Add(4)
		for n := range 4 {
			gone.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				r := c.doCtx(ctx, "GET", "", headers{"Mcp-Session-Id", c.id, "Accept", "text/event-stream"})
				came.Done()
				session.Send([]byte(`"noise"`), false)
				if n%2 == 0 {
					cancel() // it leaves by itself, while others take over
				}
				for e := events(t, r); ; {
					if _, ok := e.next(); !ok {
						return
					}
				}
			})
		}
		came.Wait()
		last := events(t, c.get())
		gone.Wait() // all others have ended
		mark := fmt.Sprintf(`"round %d"`, round)
		session.Send([]byte(mark), true)
		for last.message().data != mark {
		}
	}
}
