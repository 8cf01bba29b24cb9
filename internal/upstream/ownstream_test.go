package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

// seenBy is a handler that keeps whose message it was.
type seenBy struct {
	messages chan ownMessage
}

type ownMessage struct {
	m     wire.Msg
	sinks []Sink
	c     Conn
}

func (s seenBy) Notified(c Conn, m wire.Msg) { s.messages <- ownMessage{m, c.InFlight(), c} }
func (s seenBy) Asked(c Conn, m wire.Msg)    { s.messages <- ownMessage{m, c.InFlight(), c} }

func (s seenBy) next(t *testing.T) ownMessage {
	t.Helper()
	select {
	case m := <-s.messages:
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
		return ownMessage{}
	}
}

// What comes on a call's own stream belongs to that call, whatever else is in flight.
func TestRemote_MessagesOnACallsOwnStream(t *testing.T) {
	s := newWebServer(t)
	answers := map[string]chan string{"1": make(chan string), "2": make(chan string)}
	s.on("POST", func(w http.ResponseWriter, _ *http.Request, q request) { // responses
		id, _ := wire.String(q.msg.ID)
		answers[id] <- string(q.msg.Result)
		w.WriteHeader(http.StatusAccepted)
	})
	var both sync.WaitGroup
	both.Add(2)
	s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
		number := strings.Trim(string(q.msg.Arguments), "[{}]n\":")
		both.Done()
		both.Wait()
		writeEvents(w,
			event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"same","progress":`+number+`}}`)),
			event([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of `+number+`"}}`)),
			event([]byte(`{"jsonrpc":"2.0","id":"`+number+`","method":"sampling/createMessage","params":{"of":`+number+`}}`)))
		answer := <-answers[number]
		writeEvents(w, event(wire.Reply(q.msg.ID, fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, answer))))
	})
	p := newRemotePeer(t, s.URL)
	seen := seenBy{make(chan ownMessage, 10)}
	p.dialer.Handler = seen
	p.connect()
	first, second := p.begin("echo", `{"n":1}`, `"same"`), p.begin("echo", `{"n":2}`, `"same"`)
	for range 4 {
		own := seen.next(t)
		want := first
		if strings.Contains(string(own.m.Params), "2") {
			want = second
		}
		if len(own.sinks) != 1 || own.sinks[0] != Sink(want) {
			t.Errorf("%s belongs to %v", own.m.Raw, own.sinks)
		}
		if own.m.ID != nil {
			if err := own.c.Answer(wire.Reply(own.m.ID, own.m.Params)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, r := range []*reply{first, second} {
		if got := r.text(); got != fmt.Sprintf(`{"of":%d}`, n+1) {
			t.Errorf("call %d got the answer %s", n+1, got)
		}
		if want := fmt.Sprintf(`[{"progressToken":"same","progress":%d}]`, n+1); fmt.Sprint(r.progress) != want {
			t.Errorf("call %d got progress %v", n+1, r.progress)
		}
	}
	for _, q := range s.got("tools/call") {
		if !strings.Contains(string(q.body), `"_meta":{"progressToken":"same"}`) {
			t.Errorf("the token was changed: %s", q.body)
		}
	}
}

func TestRemote_StreamOfTheGET(t *testing.T) {
	s := newWebServer(t)
	type connection struct {
		after string
		write chan string // an event, or "DROP"
	}
	opened := make(chan connection, 10)
	s.on("GET", func(w http.ResponseWriter, r *http.Request, q request) {
		c := connection{r.Header.Get("Last-Event-Id"), make(chan string)}
		writeEvents(w, ": hello\n\n")
		opened <- c
		for {
			select {
			case text := <-c.write:
				if text == "DROP" {
					panic(http.ErrAbortHandler)
				}
				writeEvents(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	pinged := make(chan wire.Msg, 1)
	s.on("POST", func(w http.ResponseWriter, _ *http.Request, q request) {
		pinged <- q.msg
		w.WriteHeader(http.StatusAccepted)
	})
	p := dialRemote(t, s.URL)
	c := <-opened
	c.write <- "id: 1\n" + event(wire.Notification("notifications/tools/list_changed", nil))
	if m := receive(t, p.notified); m.Method != "notifications/tools/list_changed" {
		t.Errorf("notified %s", m.Raw)
	}
	c.write <- event([]byte(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
	sameBytes(t, "the answer to a ping", receive(t, pinged).Raw, []byte(`{"jsonrpc":"2.0","id":"p","result":{}}`))
	c.write <- event([]byte(`{"jsonrpc":"2.0","id":9007199254740993,"method":"roots/list"}`))
	if m := receive(t, p.asked); string(m.ID) != "9007199254740993" {
		t.Errorf("asked %s", m.Raw)
	}
	t.Run("answers and progress that come there", func(t *testing.T) {
		s.on("tools/call", status(202, ""))
		r := p.begin("echo", "{}", `"t"`)
		var id string
		for id == "" {
			for _, q := range s.got("tools/call") {
				id = string(q.msg.ID)
			}
		}
		c.write <- event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`))
		c.write <- event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"u","progress":2}}`))
		c.write <- event(wire.Reply([]byte(id), []byte(`{"content":[{"type":"text","text":"there"}]}`)))
		if got := r.text(); got != "there" || len(r.told()) != 1 {
			t.Errorf("got %q after %v", got, r.told())
		}
		s.on("tools/call", nil)
	})
	t.Run("dropped, it is gone on with", func(t *testing.T) {
		c.write <- "DROP"
		if c = <-opened; c.after != "1" {
			t.Errorf("gone on after %q", c.after)
		}
		c.write <- event(wire.Notification("notifications/again", nil))
		if m := receive(t, p.notified); m.Method != "notifications/again" {
			t.Errorf("notified %s", m.Raw)
		}
		p.call("echo", "{}")
	})
	t.Run("an event that the server has forgotten", func(t *testing.T) {
		var once sync.Once
		serve := s.answers["GET"]
		s.on("GET", func(w http.ResponseWriter, r *http.Request, q request) {
			forgot := false
			once.Do(func() { forgot = true })
			if forgot {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			serve(w, r, q)
		})
		c.write <- "DROP"
		if c = <-opened; c.after != "" {
			t.Errorf("gone on after %q", c.after)
		}
	})
	p.conn.Close(context.Background()) // ends the stream
}

func TestRemote_ServerWithoutStreamOfItsOwn(t *testing.T) {
	for _, code := range []int{405, 400, 404, 501, 401, 200} {
		s := newWebServer(t)
		s.stateless = true
		asked := make(chan bool, 100)
		s.on("GET", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.WriteHeader(code)
			asked <- true
		})
		p := dialRemote(t, s.URL)
		<-asked
		p.call("echo", "{}")
		if p.conn.Close(context.Background()); code != 200 && len(s.got("GET")) != 1 {
			t.Errorf("%d: asked %d times", code, len(s.got("GET")))
		}
	}
}

func TestRemote_Cancel(t *testing.T) {
	t.Run("with a notification, up to 2025-11-25", func(t *testing.T) {
		s := newWebServer(t)
		given := make(chan bool, 1)
		s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			writeEvents(w, event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`)))
			<-r.Context().Done()
			given <- true
		})
		told := make(chan request, 1)
		s.on("notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, q request) {
			w.WriteHeader(http.StatusAccepted)
			told <- q
		})
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", `"t"`)
		<-r.first
		r.call.Cancel([]byte(`{"requestId":"the client's","reason":"not wanted"}`))
		r.call.Cancel(nil) // a second time does nothing
		q := <-told
		sameBytes(t, "the notification", q.msg.Params, []byte(`{"requestId":2,"reason":"not wanted"}`))
		<-given
		s.on("tools/call", nil)
		p.call("echo", "{}")
		select {
		case <-r.done:
			t.Errorf("a cancelled call ended with %s %v", r.m.Raw, r.err)
		default:
		}
		if n := len(s.got("notifications/cancelled")); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
	t.Run("by the end of the request, since 2026-07-28", func(t *testing.T) {
		s := newModernServer(t)
		given := make(chan bool, 1)
		s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			writeEvents(w, event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`)))
			<-r.Context().Done()
			given <- true
		})
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", `"t"`)
		<-r.first
		r.call.Cancel([]byte(`{"reason":"not wanted"}`))
		<-given
		p.conn.Close(context.Background())
		if order := s.order(); order != "server/discover tools/call" {
			t.Errorf("requests: %s", order)
		}
	})
	t.Run("a server that hangs", func(t *testing.T) {
		s := newWebServer(t)
		given := make(chan bool, 1)
		s.on("tools/call", func(_ http.ResponseWriter, r *http.Request, _ request) {
			<-r.Context().Done()
			given <- true
		})
		s.on("notifications/cancelled", hang)
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", "")
		for len(s.got("tools/call")) == 0 {
			time.Sleep(time.Millisecond)
		}
		r.call.Cancel(nil)
		<-given
	})
}

func TestRemote_Close(t *testing.T) {
	t.Run("with calls in flight", func(t *testing.T) {
		s := newWebServer(t)
		s.on("tools/call", hang)
		s.on("GET", func(w http.ResponseWriter, r *http.Request, q request) {
			writeEvents(w, ": hello\n\n")
			<-r.Context().Done()
		})
		p := dialRemote(t, s.URL)
		r := p.begin("echo", "{}", "")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { p.conn.Close(context.Background()) })
		}
		all.Wait()
		contains(t, r.failure().Error(), `the connection to server "far" ended before it answered: the connection was closed`)
		if len(s.got("DELETE")) != 1 {
			t.Errorf("requests: %s", s.order())
		}
		if err := p.conn.Notify("x", nil); !errors.Is(err, ErrGone) {
			t.Errorf("a notification after the end: %v", err)
		}
	})
	t.Run("the server is gone", func(t *testing.T) {
		s := newWebServer(t)
		p := dialRemote(t, s.URL)
		s.CloseClientConnections()
		s.Close()
		p.conn.Close(context.Background())
	})
	t.Run("the server refuses the farewell", func(t *testing.T) {
		s := newWebServer(t)
		s.on("DELETE", status(405, ""))
		dialRemote(t, s.URL).conn.Close(context.Background())
	})
}

func TestRemote_ServerThatTakesNoMessages(t *testing.T) {
	s := newWebServer(t)
	p := dialRemote(t, s.URL)
	s.on("notifications/x", hang)
	var err error
	for range maxOneWay + 1 {
		if err = p.conn.Notify("notifications/x", nil); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("all were taken")
	}
	contains(t, err.Error(), `server "far"`, "takes no messages")
	p.call("echo", "{}")
}

func TestRemote_ManyCallsAtOnce(t *testing.T) {
	s := newWebServer(t)
	s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
		if strings.Contains(string(q.msg.Arguments), "0}") {
			writeEvents(w, ": first\n\n", event(echoReply(q.msg)))
			return
		}
		writeJSON(w, echoReply(q.msg))
	})
	p := dialRemote(t, s.URL)
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			args := fmt.Sprintf(`{"n":%d}`, n)
			r, err := p.try("echo", args, "")
			if err != nil {
				t.Error(err)
				return
			}
			if r.text() != args {
				t.Errorf("call %d got another one's answer", n)
			}
		})
	}
	all.Wait()
}
