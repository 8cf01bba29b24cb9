package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/wire"
)

// Trap 5: one goroutine writes, all others put, and what was put before the response comes before it.
func TestTrap5_ProgressBeforeResult(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	const producers, each = 8, 50
	var wait sync.WaitGroup
	for p := range producers {
		wait.Go(func() {
			for n := range each {
				x.Send(fmt.Appendf(nil, `{"producer":%d,"n":%d}`, p, n))
			}
		})
	}
	wait.Wait()
	x.Result([]byte(`"done"`))
	if x.Send([]byte("{}")) || x.Require([]byte("{}")) {
		t.Error("something is taken after the response")
	}
	x.Result([]byte(`"again"`)) // of two responses the first counts
	e := events(t, <-answer)
	next := map[int]int{}
	for range producers * each {
		var m struct{ Producer, N int }
		if err := json.Unmarshal([]byte(e.message().data), &m); err != nil {
			t.Fatal(err)
		}
		if m.N != next[m.Producer] {
			t.Fatalf("producer %d: %d comes in the place of %d", m.Producer, m.N, next[m.Producer])
		}
		next[m.Producer]++
	}
	e.want(`{"jsonrpc":"2.0","id":1,"result":"done"}`)
	e.end() // B65: the stream ends after the answer
	if err := <-x.over; err != nil {
		t.Error(err)
	}
}

func TestB65_EndOfBody(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		c := s.initialize(version)
		plain := c.async(call(1))
		echo((<-calls).Exchange)
		r := <-plain
		if r.Header.Get("Content-Length") == "" {
			t.Error("plain JSON without its length")
		}
		expect(t, r, 200, result(1))
		streamed := c.async(call(2))
		x := <-calls
		x.Send([]byte(progress(1)))
		echo(x.Exchange)
		if body := read(t, <-streamed); !strings.HasSuffix(body, "data: "+result(2)+"\n\n") {
			t.Errorf("got %q", body)
		}
	}
}

// The event without data that gives an id to come back with is for those who know it.
func TestPrimeEvent(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	for version, want := range map[string]string{
		"2025-11-25": "id: 1--1\ndata: \n\nevent: message\nid: 1-0\ndata: {}\n\nevent: message\nid: 1-1\ndata: " + result(1) + "\n\n",
		"2025-06-18": "event: message\nid: 1-0\ndata: {}\n\nevent: message\nid: 1-1\ndata: " + result(1) + "\n\n",
	} {
		c := s.initialize(version)
		answer := c.async(call(1))
		x := <-calls
		x.Send([]byte("{}"))
		echo(x.Exchange)
		if got := read(t, <-answer); got != want {
			t.Errorf("%s: got %q", version, got)
		}
	}
}

// Trap 2: a raw CR or LF is white space in JSON, but would end the data line.
func TestTrap2_LineEndsInEvents(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	big := strings.Repeat("x", 2*gather)
	for _, raw := range []string{"{\"result\":{\r},\r\"id\":9}", "{\"result\"\n:{\r\n},\"id\":9}", "{\"result\":{},\"id\":9\r}", "{\r\"result\":\"" + big + "\",\n\"id\":9}"} {
		m, err := wire.ParseServer([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		answer := c.async(call(1), "Accept", "text/event-stream")
		x := <-calls
		x.Send([]byte("{\r\"a\":\n1}"))
		x.Finish(m)
		e := events(t, <-answer)
		e.want(`{ "a": 1}`)
		e.want(strings.NewReplacer("\r", " ", "\n", " ", ":9", ":1").Replace(raw))
		e.end()
		if string(m.Raw) != raw {
			t.Error("the server's bytes were changed in place: others may read them")
		}
	}
}

// B57: a client that takes no event stream gets its response; what comes before goes elsewhere.
func TestB57_OnlyJSON(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	own := events(t, c.get())
	answer := c.async(call(1), "Accept", "application/json")
	x := <-calls
	if x.Send([]byte("{}")) || x.Require([]byte("{}")) {
		t.Error("the exchange took a message that the client cannot get")
	}
	replies := make(chan string, 1)
	x.Session.Ask(x.Exchange, "roots/list", nil, func(m wire.Msg, err error) { replies <- string(m.Result) })
	own.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	expect(t, c.post(`{"jsonrpc":"2.0","id":1,"result":"r"}`), 202, "")
	if got := <-replies; got != `"r"` {
		t.Errorf("got %q", got)
	}
	echo(x.Exchange)
	expect(t, <-answer, 200, result(1))
}

func TestB60_KeepAliveOnPOST(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	t.Run("events", func(t *testing.T) {
		c := s.initialize("2025-11-25")
		answer := c.async(call(1))
		x := <-calls
		s.beats(answer)
		e := events(t, <-answer) // headers are there at once
		if prime, _ := e.next(); prime.id != "1--1" {
			t.Errorf("got %+v", prime)
		}
		for range 3 { // three minutes of silence would be as many as wanted
			if comment := e.comment(s.Server); comment != "keep-alive" {
				t.Errorf("got %q", comment)
			}
		}
		echo(x.Exchange)
		e.want(result(1))
		e.end()
	})
	t.Run("modern", func(t *testing.T) {
		answer := s.modern(call(1))
		x := <-calls
		s.beats(answer)
		e := events(t, <-answer)
		if comment, _ := e.next(); comment.comment != "keep-alive" {
			t.Errorf("got %+v", comment)
		}
		// Trap 10: by now the HTTP status is out, a late error can only be an event.
		x.Fail(&wire.Error{Code: wire.CodeMethodNotFound, Message: "late"})
		if m := e.message(); m.data != `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"late"}}` || m.id != "" {
			t.Errorf("got %+v", m)
		}
		e.end()
	})
	t.Run("only JSON", func(t *testing.T) {
		c := s.initialize("2025-11-25")
		answer := c.async(call(1), "Accept", "application/json")
		x := <-calls
		s.beats(answer)
		r := <-answer
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
		space := make([]byte, 1)
		if _, err := io.ReadFull(r.Body, space); err != nil || space[0] != ' ' {
			t.Errorf("got %q, %v", space, err)
		}
		echo(x.Exchange)
		if body := read(t, r); strings.TrimSpace(body) != result(1) {
			t.Errorf("got %q", body)
		}
	})
}

// Trap 9: one beat serves all streams.
func TestTrap9_B60_KeepAliveOnGET(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	var streams []*sse
	for range 20 {
		c := s.initialize("2025-06-18")
		streams = append(streams, events(t, c.get())) // headers at once, though nothing has happened
	}
	for range 3 {
		for _, e := range streams {
			if comment := e.comment(s.Server); comment != "keep-alive" {
				t.Errorf("got %q", comment)
			}
		}
	}
	s.Sessions(func(session *Session) { session.Send([]byte("{}"), true) })
	for _, e := range streams {
		e.want("{}")
	}
}

// A call that is answered quickly stays plain JSON, whenever the beat falls.
func TestOneBeatIsNoSilence(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	s.pulse()
	echo(x.Exchange)
	expect(t, <-answer, 200, result(1))
}

// beats beats until the answer's headers are there.
func (s *site) beats(answer <-chan *http.Response) {
	out := make(chan struct{})
	go func() {
		defer close(out)
		for len(answer) == 0 {
			s.pulse()
		}
	}()
	<-out
}

// comment beats until the next comment comes.
func (s *sse) comment(server *Server) string {
	s.t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				server.pulse()
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatal("the event stream has ended")
		}
		if e.comment != "" {
			return e.comment
		}
	}
}

func (s *site) modern(body string, more ...string) <-chan *http.Response {
	out := make(chan *http.Response, 1)
	go func() { out <- s.postModern(body, more...) }()
	return out
}

// postModern completes a request to one of 2026-07-28.
func (s *site) postModern(body string, more ...string) *http.Response {
	s.t.Helper()
	m, err := wire.Parse([]byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	meta := wire.Edit(m.Meta, wire.Change{Key: MetaVersion, Value: []byte(`"2026-07-28"`)}, wire.Change{Key: MetaCapabilities, Value: []byte(`{}`)})
	raw := wire.Edit([]byte(body), wire.Change{Key: "params", Value: wire.Edit(m.Params, wire.Change{Key: "_meta", Value: meta})})
	h := headers{"Mcp-Protocol-Version", V20260728, "Mcp-Method", m.Method}
	if name, ok := namedBy(&m); ok {
		h = append(h, "Mcp-Name", name)
	}
	return s.do("POST", string(raw), append(h, more...))
}

func TestRunEndsWithItsContext(t *testing.T) {
	s := New(&fake{}, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Run(ctx)
}

// Trap 5, trap 6: a client that does not read harms nobody else; what waits for it is bounded, and
// requests and results are not dropped.
func TestTrap6_SlowClient(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	slow, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	answer := slow.async(call(1)) // its body is not read for now
	x := <-calls
	note := []byte(`{"method":"notifications/progress","params":"` + strings.Repeat("x", 64<<10) + `"}`)
	for x.Send(note) { // until the connection's buffers and the queue are full
	}
	x.mu.Lock()
	waiting, held := x.waiting, x.held
	x.mu.Unlock()
	if waiting > maxWaitingSize+len(note) || held > maxKeptSize+len(note) {
		t.Errorf("%d bytes wait, %d are kept", waiting, held)
	}
	asked := make(chan string, 1)
	if id := x.Session.Ask(x.Exchange, "sampling/createMessage", nil, func(m wire.Msg, err error) { asked <- fmt.Sprintf("%s %v", m.Result, err) }); id == 0 {
		t.Error("a request was refused")
	}
	quick := other.async(call(1))
	y := <-calls
	echo(y.Exchange)
	expect(t, <-quick, 200, result(1))
	x.Result([]byte(`"done"`))

	e := events(t, <-answer)
	notes := 0
	for {
		m := e.message()
		if m.data == string(note) {
			notes++
			continue
		}
		if m.data != `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}` {
			t.Fatalf("got %.100s", m.data)
		}
		break
	}
	if notes == 0 {
		t.Error("all progress was dropped")
	}
	e.want(`{"jsonrpc":"2.0","id":1,"result":"done"}`)
	e.end()
	expect(t, slow.post(`{"jsonrpc":"2.0","id":1,"result":"late"}`), 202, "")
	if got := <-asked; got != `"late" <nil>` {
		t.Errorf("got %s", got)
	}
}

// A client that does not read holds nothing up when it cancels or ends its session.
func TestTrap19_StuckWriterIsCancelledAtOnce(t *testing.T) {
	for _, end := range []string{"cancel", "DELETE"} {
		t.Run(end, func(t *testing.T) {
			f, calls := holder()
			f.notified = func(s *Session, m wire.Msg) { s.Find(wire.Get(m.Params, "requestId")).Cancel(m.Params) }
			s := serve(t, f, Options{})
			c := s.initialize("2025-11-25")
			answer := c.async(call(1))
			x := <-calls
			abandoned := make(chan []byte, 1)
			x.OnAbandon(func() { abandoned <- x.CancelParams() })
			note := []byte(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`)
			for x.Send(note) {
			}
			if end == "cancel" {
				expect(t, c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`), 202, "")
			} else {
				expect(t, c.do("DELETE", "", headers{"Mcp-Session-Id", c.id}), 204, "")
			}
			if got := <-abandoned; (end == "cancel") != (string(got) == `{"requestId":1,"reason":"r"}`) {
				t.Errorf("got %s", got)
			}
			(<-answer).Body.Close()
			if err := <-x.over; err == nil {
				t.Error("Wait knows of no end")
			}
		})
	}
}

func TestBigResults(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	big := append(append([]byte(`"`), bytes.Repeat([]byte("0123456789"), 400_000)...), '"')
	for _, accept := range []string{acceptBoth, "text/event-stream"} {
		answer := c.async(call(1), "Accept", accept)
		x := <-calls
		x.Result(big)
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, big)
		if accept == acceptBoth {
			if read(t, <-answer) != want {
				t.Error("the result is another one")
			}
			continue
		}
		if m := events(t, <-answer).message(); m.data != want {
			t.Error("the result is another one")
		}
	}
}

func TestStream_Bounds(t *testing.T) {
	fill := func(s *stream, k kind, size int) (n int) {
		for {
			if _, ok, _ := s.put(item{a: make([]byte, size), kind: k}); !ok {
				return n
			}
			n++
		}
	}
	for _, test := range []struct {
		name  string
		heard bool
		kind  kind
		size  int
		want  int
	}{
		{"messages", true, interim, 1, maxWaiting},
		{"bytes", true, interim, 1 << 20, maxWaitingSize >> 20},
		{"unheard messages", false, interim, 1, maxUnheard},
		{"unheard bytes", false, interim, 1 << 10, maxUnheardSize >> 10},
		{"important messages", true, important, 1, 2 * maxWaiting},
		{"important bytes", false, important, 1 << 20, maxImportantSize >> 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &stream{}
			if test.heard {
				s.wake = make(chan struct{}, 1)
			}
			if n := fill(s, test.kind, test.size); n != test.want {
				t.Errorf("took %d", n)
			}
			if _, ok, _ := s.put(item{kind: response}); !ok {
				t.Error("a response was refused")
			}
		})
	}
	t.Run("what is read gives room, kept or not", func(t *testing.T) {
		for _, keeps := range []bool{false, true} {
			s := &stream{keeps: keeps, wake: make(chan struct{}, 1)}
			for n := range 20 {
				if _, ok, _ := s.put(item{a: make([]byte, 1<<20)}); !ok {
					t.Fatalf("message %d was refused though nothing waits", n)
				}
				if _, number, c := s.next(s.wake); number != n || c != goesOn {
					t.Fatalf("got %d, %d", number, c)
				}
			}
			if s.waiting != 0 || s.held > maxKeptSize {
				t.Errorf("waiting %d, held %d", s.waiting, s.held)
			}
		}
	})
}
