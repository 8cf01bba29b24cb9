package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

// Trap 19: DELETE cancels what is in flight at once, plain or streamed or parked, then ends the GET.
func TestTrap19_DELETE(t *testing.T) {
	f, calls := holder()
	closed := make(chan *Session, 1)
	f.closed = func(s *Session) { closed <- s }
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	session := c.session()
	own := events(t, c.get())
	plain, streamed := c.async(call(1)), (<-chan *http.Response)(nil)
	x := <-calls
	streamed = c.async(call(2))
	y := <-calls
	y.Send([]byte(progress(1)))
	e := events(t, <-streamed)
	e.want(progress(1))
	z, last := cut(t, c, calls, 3)
	abandoned := make(chan struct{})
	z.OnAbandon(func() { close(abandoned) })
	asked := make(chan error, 1)
	session.Ask(nil, "roots/list", nil, func(_ wire.Msg, err error) { asked <- err })
	own.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)

	expect(t, c.do("DELETE", "", headers{"Mcp-Session-Id", c.id}), 204, "")
	<-abandoned
	for _, h := range []held{x, y} {
		if err := <-h.over; !errors.Is(err, errDeleted) {
			t.Errorf("Wait: %v", err)
		}
	}
	if err := <-asked; !errors.Is(err, errDeleted) {
		t.Errorf("what was asked: %v", err)
	}
	// Whoever waits for a response is told why there is none.
	reason := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no response: the client has ended its session"}}`, id)
	}
	expect(t, <-plain, 200, reason(1))
	e.want(reason(2))
	e.end()
	own.end()
	if got := <-closed; got != session {
		t.Error("the handler was told of another session")
	}
	for _, r := range []*http.Response{c.post(call(4)), c.get(), c.get("Last-Event-ID", last), c.do("DELETE", "", headers{"Mcp-Session-Id", c.id})} {
		if r.StatusCode != 404 {
			t.Errorf("after the end: %d", r.StatusCode)
		}
	}
	if s.InFlight() != 0 {
		t.Errorf("%d in flight", s.InFlight())
	}
	// What comes for a session that has ended harms nobody.
	session.Send([]byte("{}"), true)
	session.Ask(nil, "roots/list", nil, func(_ wire.Msg, err error) { asked <- err })
	if err := <-asked; err == nil {
		t.Error("a request to a client that has gone was taken")
	}
	session.Withdraw(1, nil)
}

func TestB46_Cancel(t *testing.T) {
	f, calls := holder()
	f.notified = func(s *Session, m wire.Msg) {
		if x := s.Find(wire.Get(m.Params, "requestId")); x != nil {
			x.Cancel(m.Params)
		}
	}
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	cancel := func(id string) {
		t.Helper()
		expect(t, c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`), 202, "")
	}
	over := func(x held) {
		t.Helper()
		if err := <-x.over; !errors.Is(err, ErrCancelled) {
			t.Errorf("Wait: %v", err)
		}
		if got := string(x.CancelParams()); got != fmt.Sprintf(`{"requestId":%s}`, x.Msg.ID) {
			t.Errorf("params %s", got)
		}
		x.Result([]byte("1")) // too late
		if n := s.InFlight(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	}
	t.Run("plain", func(t *testing.T) {
		answer := c.async(call(`"a"`))
		x := <-calls
		cancel(`"b"`) // another one
		cancel(`"a"`)
		expect(t, <-answer, 200, "") // an empty event stream
		over(x)
		if n := len(c.session().past); n > 0 {
			t.Error("something is kept, but there is nothing to come back for")
		}
	})
	t.Run("streamed", func(t *testing.T) {
		answer := c.async(call(2))
		x := <-calls
		x.Send([]byte(progress(1)))
		e := events(t, <-answer)
		last := e.want(progress(1)).id
		cancel("2")
		e.end()
		over(x)
		expect(t, c.get("Last-Event-ID", last), 204, "")
	})
	t.Run("only JSON", func(t *testing.T) {
		answer := c.async(call(3), "Accept", "application/json")
		x := <-calls
		cancel("3")
		expect(t, <-answer, 202, "")
		over(x)
	})
	t.Run("parked", func(t *testing.T) {
		x, last := cut(t, c, calls, 4)
		abandoned := make(chan string, 1)
		x.OnAbandon(func() { abandoned <- string(x.CancelParams()) })
		cancel("4")
		if got := <-abandoned; got != `{"requestId":4}` {
			t.Errorf("params %s", got)
		}
		expect(t, c.get("Last-Event-ID", last), 204, "")
		if c.session().isBusy() {
			t.Error("still in flight")
		}
	})
	t.Run("fetched by another connection", func(t *testing.T) {
		x, last := cut(t, c, calls, 5)
		e := events(t, c.get("Last-Event-ID", last))
		cancel("5")
		e.end()
		if c.session().isBusy() || !errors.Is(x.reason(), ErrCancelled) {
			t.Error("still in flight")
		}
	})
}

func TestB64_SessionsAreBounded(t *testing.T) {
	closed := 0
	s := serve(t, &fake{closed: func(*Session) { closed++ }}, Options{MaxSessions: 200})
	open := func(n int) {
		for range n {
			c := s.initialize("2025-11-25")
			c.session().Send([]byte(progress(1)), true) // something to be kept
		}
	}
	size := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	open(1000)
	before, goroutines := size(), runtime.NumGoroutine()
	open(4000)
	if n := len(s.sessions); n != 200 {
		t.Errorf("%d sessions", n)
	}
	if closed != 4800 {
		t.Errorf("the handler was told of %d ends", closed)
	}
	// The test's own clean-ups grow too: an answer for each session.
	if grown := size() - before; grown > 4000*4096 {
		t.Errorf("%d bytes more after 4,000 more sessions", grown)
	}
	if n := runtime.NumGoroutine(); n > goroutines+5 {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}

// The session that has been idle longest makes room, not the one that was used least.
func TestB64_TheIdlestMakesRoom(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{MaxSessions: 3})
	a, b := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	expect(t, a.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), 202, "")
	c := s.initialize("2025-11-25") // the newest, and never used
	s.initialize("2025-11-25")
	for name, want := range map[string]struct {
		client
		there bool
	}{"a": {a, true}, "b": {b, false}, "c": {c, true}} {
		if (want.session() != nil) != want.there {
			t.Errorf("%s is there: %v", name, !want.there)
		}
	}
	// Busy ones stay, however idle: a call in flight, or a stream that is read.
	answer := a.async(call(1))
	x := <-calls
	c.get()
	for range 3 {
		s.initialize("2025-11-25")
	}
	if a.session() == nil || c.session() == nil {
		t.Fatal("a busy session was ended")
	}
	var last client
	for last = range s.all() {
		if last.id != a.id && last.id != c.id {
			break
		}
	}
	last.get()
	r := s.do("POST", `{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, nil)
	if r.Header.Get("Retry-After") == "" || r.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("headers %v", r.Header)
	}
	refused(t, r, 503, -32603, "9", "3 are open and all are busy")
	echo(x.Exchange)
	read(t, <-answer)
}

func (s *site) all() map[client]bool {
	out := map[client]bool{}
	s.Sessions(func(session *Session) { out[client{s, session.ID}] = true })
	return out
}

func TestIdleSessionsEnd(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{SessionIdle: time.Hour})
	idle, listening, calling, used := s.initialize("2025-11-25"), s.initialize("2025-11-25"), s.initialize("2025-11-25"), s.initialize("2025-11-25")
	listening.get()
	answer := calling.async(call(1))
	x := <-calls
	s.sweep(time.Now().Add(59 * time.Minute))
	if len(s.sessions) != 4 {
		t.Fatalf("%d sessions", len(s.sessions))
	}
	used.session().used.Add(int64(time.Hour))
	s.sweep(time.Now().Add(61 * time.Minute))
	for _, c := range []client{listening, calling, used} {
		if c.session() == nil {
			t.Error("a session that is in use was ended")
		}
	}
	refused(t, idle.post(call(1)), 404, -32001, "1", "session not found")
	echo(x.Exchange)
	expect(t, <-answer, 200, result(1))
}

// While the gateway is being stopped, what is in flight goes on, and nothing new is begun.
func TestDrain(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c, batches := s.initialize("2025-11-25"), s.initialize("2025-03-26")
	running := c.async(call(1))
	x := <-calls
	s.Drain()
	for range 2 {
		refused(t, c.post(call(2)), 503, -32000, "2", "being stopped")
	}
	refused(t, <-s.modern(call(3)), 503, -32000, "3", "being stopped")
	refused(t, s.do("POST", `{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, nil), 503, -32000, "4", "being stopped")
	expect(t, batches.post("["+call(5)+"]"), 200, `[{"jsonrpc":"2.0","id":5,"error":{"code":-32000,"message":"the gateway is being stopped"}}]`)
	answered := make(chan string, 1)
	x.Session.Ask(x.Exchange, "roots/list", nil, func(m wire.Msg, err error) { answered <- string(m.Result) })
	expect(t, c.post(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`), 202, "")
	if got := <-answered; got != `{"roots":[]}` {
		t.Errorf("answer %s", got)
	}
	echo(x.Exchange)
	stream := events(t, <-running)
	stream.message()
	stream.want(result(1))
	stream.end()
}

// The gateway ends: calls are answered, streams end, nothing new is taken.
func TestClose(t *testing.T) {
	f, calls := holder()
	closed := 0
	f.closed = func(*Session) { closed++ }
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	own := events(t, c.get())
	legacy := c.async(call(1))
	x := <-calls
	modern := s.modern(call(2))
	y := <-calls
	listen := s.modern(`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen"}`)
	z := <-calls
	z.Require([]byte(`"ack"`))
	stream := events(t, <-listen)
	stream.want(`"ack"`)
	if n := s.InFlight(); n != 2 {
		t.Errorf("%d in flight", n)
	}
	s.Close()
	reason := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no response: the gateway is being stopped"}}`, id)
	}
	expect(t, <-legacy, 200, reason(1))
	expect(t, <-modern, 200, reason(2))
	stream.want(reason(3))
	stream.end()
	own.end()
	for _, h := range []held{x, y, z} {
		if err := <-h.over; !errors.Is(err, errShutdown) {
			t.Errorf("Wait: %v", err)
		}
	}
	if closed != 1 {
		t.Errorf("the handler was told of %d ends", closed)
	}
	r := c.post(call(4))
	if r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	refused(t, r, 503, -32000, "null", "being stopped")
	s.Close() // again
}

// Under the race detector: sessions that end while requests begin, are cancelled, answered, cut off,
// fetched again and asked for something.
func TestConcurrency(t *testing.T) {
	var s *site
	f := &fake{}
	f.notified = func(session *Session, m wire.Msg) {
		if x := session.Find(wire.Get(m.Params, "requestId")); x != nil {
			x.Cancel(m.Params)
		}
	}
	f.serve = func(ctx context.Context, x *Exchange) {
		var wait sync.WaitGroup
		defer wait.Wait()
		x.OnAbandon(func() {})
		wait.Go(func() {
			x.Send([]byte(progress(1)))
			if x.Session != nil {
				id := x.Session.Ask(x, "roots/list", nil, func(wire.Msg, error) {})
				x.Session.Withdraw(id, []byte("{}"))
				x.Session.Ask(x, "roots/list", nil, func(wire.Msg, error) {})
				id = x.Session.AskAside(x, "roots/list", nil, func(wire.Msg, error) {})
				defer x.Session.Withdraw(id, nil)
			}
			echo(x)
		})
		if err := x.Wait(ctx); errors.Is(err, ErrParked) {
			wait.Go(func() { x.Cancel(nil) })
		}
	}
	s = serve(t, f, Options{MaxSessions: 4, SessionIdle: time.Hour})
	stop := make(chan struct{})
	var background, workers sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.pulse()
				s.sweep(time.Now().Add(2 * keepFor))
				runtime.Gosched()
			}
		}
	})
	for worker := range 6 {
		workers.Go(func() {
			for round := range 15 {
				c := s.initialize([]string{"2025-11-25", "2025-03-26"}[worker%2])
				var wait sync.WaitGroup
				for n := range 4 {
					wait.Go(func() {
						switch n {
						case 0:
							drop(c.post(call(n)))
						case 1:
							ctx, cancel := context.WithCancel(context.Background())
							r, err := c.try(ctx, call(n))
							cancel()
							if err == nil {
								drop(r)
							}
						case 2:
							drop(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, round%2)))
							drop(c.post(fmt.Sprintf(`[%s,%s,{"jsonrpc":"2.0","id":1,"result":{}}]`, call(7), call(8))))
						case 3:
							r := c.get("Last-Event-ID", fmt.Sprintf("%d--1", round%3))
							drop(c.post(`{"jsonrpc":"2.0","id":1,"result":{}}`))
							drop(r)
						}
					})
				}
				if round%3 == 0 {
					drop(c.do("DELETE", "", headers{"Mcp-Session-Id", c.id}))
				}
				wait.Wait()
				drop(c.do("DELETE", "", headers{"Mcp-Session-Id", c.id}))
			}
		})
	}
	workers.Wait()
	close(stop)
	background.Wait()
	s.Close()
	s.http.Close() // all requests are over
	if n := s.InFlight(); n != 0 || s.listening.Load() != 0 || len(s.sessions) != 0 {
		t.Errorf("%d in flight, %d sessions", n, len(s.sessions))
	}
}

// drop closes an answer without reading it.
func drop(r *http.Response) { r.Body.Close() }

func (c client) try(ctx context.Context, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.http.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {c.id}}
	return c.http.Client().Do(r)
}
