package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-gateway/internal/wire"
)

// elements reads an array of responses in any order.
func elements(body string) []string {
	var out []string
	for e := range wire.Elements([]byte(body)) {
		out = append(out, string(e))
	}
	slices.Sort(out)
	return out
}

func sameElements(t *testing.T, body string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := elements(body); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestB61_BatchRefused(t *testing.T) {
	s := serve(t, &fake{serve: nil, notified: func(*Session, wire.Msg) { t.Error("part of a refused batch was taken") }}, Options{})
	note := `{"jsonrpc":"2.0","method":"notifications/x"}`
	batch := "[" + note + "," + call(1) + "]"
	old := s.initialize("2025-03-26")
	for _, test := range []struct {
		name, body   string
		h            headers
		status, code int
		says         string
	}{
		{"by the session", batch, headers{"Mcp-Session-Id", s.initialize("2025-06-18").id}, 400, -32600, "2025-06-18 has no batches"},
		{"by the session, newest", batch, headers{"Mcp-Session-Id", s.initialize("2025-11-25").id}, 400, -32600, "2025-11-25 has no batches"},
		{"by the session, oldest", batch, headers{"Mcp-Session-Id", s.initialize("2024-11-05").id}, 400, -32600, "2024-11-05 has no batches"},
		{"by the header", batch, headers{"Mcp-Protocol-Version", "2026-07-28"}, 400, -32600, "2026-07-28 has no batches"},
		{"no session", batch, nil, 400, -32600, "Mcp-Session-Id header is missing"},
		{"unknown session", batch, headers{"Mcp-Session-Id", "x"}, 404, -32001, "session not found"},
		{"empty", "[]", nil, 400, -32600, "an empty batch"},
		{"empty in a session", " [ ]\n", headers{"Mcp-Session-Id", old.id}, 400, -32600, "an empty batch"},
		{"broken", "[" + note, headers{"Mcp-Session-Id", old.id}, 400, -32700, "not valid JSON"},
		{"too many", "[" + strings.Repeat(note+",", maxBatch) + note + "]", headers{"Mcp-Session-Id", old.id}, 400, -32600, "more than 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused(t, s.do("POST", test.body, test.h), test.status, test.code, "null", test.says)
		})
	}
}

func TestB61_BatchOf20250326(t *testing.T) {
	f, calls := holder()
	notes := make(chan string, 10)
	f.notified = func(s *Session, m wire.Msg) {
		if m.Method == "notifications/cancelled" {
			s.Find(wire.Get(m.Params, "requestId")).Cancel(m.Params)
			return
		}
		notes <- m.Method
	}
	s := serve(t, f, Options{})
	c := s.initialize("2025-03-26")

	t.Run("notifications and responses only", func(t *testing.T) {
		out, f := replies()
		id := c.session().Ask(nil, "roots/list", nil, f)
		expect(t, c.post(fmt.Sprintf(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":%d,"result":7},{"jsonrpc":"2.0","method":"b"}]`, id)), 202, "")
		if <-notes != "a" || <-notes != "b" {
			t.Error("not in order")
		}
		if got := <-out; got.result != "7" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("everything at once", func(t *testing.T) {
		answer := c.async("[" + strings.Join([]string{
			call(1), `{"jsonrpc":"2.0","method":"a"}`, call(`"1"`), `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `7`, call(1),
			`{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`, call(2),
		}, ", ") + "]")
		for range 3 {
			x := <-calls
			if string(x.Msg.ID) == "2" {
				x.Fail(&wire.Error{Code: -5, Message: "no"})
			} else {
				echo(x.Exchange)
			}
		}
		r := <-answer
		if r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		sameElements(t, read(t, r), result(1), result(`"1"`), `{"jsonrpc":"2.0","id":2,"error":{"code":-5,"message":"no"}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: an id is a string or a number, not null"}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a message is a JSON object"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a request with the id 1 is in flight already in this session"}}`,
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"invalid request: initialize cannot be part of a batch"}}`)
		<-notes
		if s.InFlight() != 0 || c.session().isBusy() {
			t.Error("something is in flight")
		}
	})
	t.Run("nothing but errors", func(t *testing.T) {
		sameElements(t, read(t, c.post("[1]")), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request: a message is a JSON object"}}`)
	})
	t.Run("something comes before", func(t *testing.T) {
		answer := c.async("[" + call(1) + "," + call(2) + "]")
		x, y := <-calls, <-calls
		x.Send([]byte(progress(1)))
		e := events(t, <-answer)
		if m := e.want(progress(1)); m.id != "" {
			t.Errorf("an event id, but nobody can come back for a batch: %q", m.id)
		}
		out, f := replies()
		id := c.session().Ask(y.Exchange, "roots/list", nil, f)
		e.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
		expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":7}`, id)), 202, "")
		<-out
		echo(x.Exchange)
		y.Send([]byte(progress(2)))
		echo(y.Exchange)
		e.want(progress(2))
		sameElements(t, e.message().data, result(1), result(2))
		e.end()
	})
	t.Run("silence", func(t *testing.T) {
		answer := c.async("[" + call(1) + "]")
		x := <-calls
		s.beats(answer)
		e := events(t, <-answer)
		echo(x.Exchange)
		e.want("[" + result(1) + "]")
	})
	t.Run("one is cancelled", func(t *testing.T) {
		answer := c.async(`[` + call(1) + `,` + call(2) + `,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`)
		for range 2 {
			x := <-calls
			if string(x.Msg.ID) == "2" {
				echo(x.Exchange)
			} else if err := <-x.over; !errors.Is(err, ErrCancelled) {
				t.Errorf("Wait: %v", err)
			}
		}
		expect(t, <-answer, 200, "["+result(2)+"]")
	})
	t.Run("all are cancelled", func(t *testing.T) {
		answer := c.async("[" + call(1) + "]")
		x := <-calls
		x.Cancel(nil)
		events(t, <-answer).end()
	})
	t.Run("the client goes away", func(t *testing.T) {
		conn := s.dial()
		body := "[" + call(1) + "," + call(2) + "]"
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", c.id, len(body), body)
		x, y := <-calls, <-calls
		conn.Close()
		for _, h := range []held{x, y} {
			if err := <-h.over; !errors.Is(err, ErrGone) {
				t.Errorf("Wait: %v", err)
			}
		}
	})
	t.Run("the session ends", func(t *testing.T) {
		c := s.initialize("2025-03-26")
		answer := c.async("[" + call(1) + "," + call(2) + "]")
		x, y := <-calls, <-calls
		echo(x.Exchange)
		<-x.over
		expect(t, c.do("DELETE", "", headers{"Mcp-Session-Id", c.id}), 204, "")
		if err := <-y.over; !errors.Is(err, errDeleted) {
			t.Errorf("Wait: %v", err)
		}
		second := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no response: the client has ended its session"}}`, y.Msg.ID)
		sameElements(t, read(t, <-answer), result(string(x.Msg.ID)), second)
	})
}

// A batch's HTTP request ends after all that it has begun.
func TestB61_BatchWaitsForItsRequests(t *testing.T) {
	var returned atomic.Int64
	s := New(&fake{serve: func(ctx context.Context, x *Exchange) {
		_ = x.Wait(ctx)
		for range 1000 {
			runtime.Gosched()
		}
		returned.Add(1)
	}}, Options{})
	session := newSession(s, V20250326, &wire.Msg{})
	s.open(session)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the client has gone
	r := httptest.NewRequestWithContext(ctx, "POST", "/mcp", strings.NewReader("["+call(1)+","+call(2)+"]"))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session.ID}}
	s.ServeHTTP(httptest.NewRecorder(), r)
	if n := returned.Load(); n != 2 || s.InFlight() != 0 || session.isBusy() {
		t.Errorf("%d have returned, %d are in flight", n, s.InFlight())
	}
}
