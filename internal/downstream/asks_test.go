package downstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/wire"
)

// reply is what a request to the client came to.
type reply struct {
	result string
	err    error
}

func replies() (chan reply, func(wire.Msg, error)) {
	out := make(chan reply, 1)
	return out, func(m wire.Msg, err error) { out <- reply{string(m.Result) + string(m.Err), err} }
}

func TestAsk(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	other.session().Ask(nil, "roots/list", nil, func(m wire.Msg, err error) {
		if err == nil {
			t.Error("another session's request was answered")
		}
	})
	answer := c.async(call(1))
	x := <-calls
	out, f1 := replies()
	id := x.Session.Ask(x.Exchange, "sampling/createMessage", []byte(`{"n":12345678901234567890}`), f1)
	e := events(t, <-answer)
	e.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{"n":12345678901234567890}}`, id))
	for _, nobody := range []string{`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":"x","result":{}}`, `{"jsonrpc":"2.0","id":1.5,"result":{}}`} {
		expect(t, c.post(nobody), 202, "")
	}
	expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","error":{"code":-1,"message":"no"}}`, id)), 202, "") // as some write it
	if got := <-out; got.result != `{"code":-1,"message":"no"}` || got.err != nil {
		t.Errorf("got %+v", got)
	}
	expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)), 202, "") // twice

	out, f2 := replies()
	id = x.Session.Ask(x.Exchange, "roots/list", nil, f2)
	e.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
	x.Session.Withdraw(id, fmt.Appendf(nil, `{"requestId":%d}`, id))
	e.want(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	if len(out) != 0 {
		t.Error("a withdrawn request was answered")
	}

	// The call is answered before the client is: the client's answer still counts.
	id = x.Session.Ask(x.Exchange, "roots/list", nil, f2)
	echo(x.Exchange)
	e.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
	e.want(result(1))
	e.end()
	expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"r"}`, id)), 202, "")
	if got := <-out; got.result != `"r"` {
		t.Errorf("got %+v", got)
	}

	// On a call that is over, the session's own stream takes it.
	own := events(t, c.get())
	out, f3 := replies()
	id = x.Session.Ask(x.Exchange, "roots/list", nil, f3)
	own.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
	x.Session.Withdraw(id, nil)
	own.want(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	if len(out) != 0 {
		t.Error("a withdrawn request was answered")
	}
}

// Trap 6: a request never waits for what does not come. Without a stream to send it on it ends soon,
// over the bound at once.
func TestTrap6_AskIsAnsweredInAnyCase(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	session := c.session()
	t.Run("nobody comes to hear it", func(t *testing.T) {
		out, f := replies()
		session.Ask(nil, "roots/list", nil, f)
		s.sweep(time.Now().Add(askGrace / 2))
		if len(out) != 0 {
			t.Fatal("given up too early")
		}
		s.sweep(time.Now().Add(2 * askGrace))
		if got := <-out; !errors.Is(got.err, errNoStream) {
			t.Errorf("got %+v", got)
		}
		session.Send([]byte(`"next"`), true)
		r := c.get()
		events(t, r).want(`"next"`) // and not what nobody waits for
		leave(s, r, session)
	})
	t.Run("heard, and answered late", func(t *testing.T) {
		out, f := replies()
		id := session.Ask(nil, "roots/list", nil, f)
		r := c.get()
		events(t, r).want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
		leave(s, r, session)
		s.sweep(time.Now().Add(time.Hour / 4))
		expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"r"}`, id)), 202, "")
		if got := <-out; got.result != `"r"` {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("withdrawn before it is heard", func(t *testing.T) {
		_, f := replies()
		session.Withdraw(session.Ask(nil, "roots/list", nil, f), []byte("{}"))
		session.Send([]byte(`"next"`), true)
		events(t, c.get()).want(`"next"`)
	})
	t.Run("withdrawn before the client comes back for it", func(t *testing.T) {
		f, calls := holder()
		s := serve(t, f, Options{})
		c := s.initialize("2025-11-25")
		x, last := cut(t, c, calls, 1)
		_, answer := replies()
		x.Session.Withdraw(x.Session.Ask(x.Exchange, "roots/list", nil, answer), []byte("{}"))
		echo(x.Exchange)
		events(t, c.get("Last-Event-ID", last)).want(result(1))
	})
	t.Run("too many", func(t *testing.T) {
		refusal := error(nil)
		n := 0
		for n = 0; refusal == nil; n++ {
			if id := session.Ask(nil, "roots/list", nil, func(_ wire.Msg, err error) { refusal = err }); (id == 0) != (refusal != nil) {
				t.Fatal("an id for what is not asked")
			}
		}
		if !errors.Is(refusal, errTooManyAsks) || n != maxAsks+1 {
			t.Errorf("request %d: %v", n, refusal)
		}
	})
	t.Run("too much", func(t *testing.T) {
		c := s.initialize("2025-11-25")
		big := []byte(`"` + strings.Repeat("x", maxImportantSize) + `"`)
		c.session().Ask(nil, "roots/list", big, func(wire.Msg, error) {})
		out, f := replies()
		if id := c.session().Ask(nil, "roots/list", nil, f); id != 0 {
			t.Error("taken")
		}
		if got := <-out; !errors.Is(got.err, ErrGone) {
			t.Errorf("got %+v", got)
		}
	})
}

// leave ends a GET and waits until the server knows.
func leave(s *site, r *http.Response, session *Session) {
	r.Body.Close()
	for session.own.heard() {
		s.pulse()
	}
}

// What was asked on a call that the client has cancelled has nobody to answer it.
func TestAsk_CallIsCancelled(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	x := <-calls
	out, f1 := replies()
	x.Session.Ask(x.Exchange, "roots/list", nil, f1)
	x.Cancel(nil)
	if got := <-out; !errors.Is(got.err, ErrCancelled) {
		t.Errorf("got %+v", got)
	}
	(<-answer).Body.Close()
}

// A request that may be for another call goes on: where the client has it, it can be answered; where it
// does not, it gets it on the session's own stream.
func TestAskAside_CallIsCancelled(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	t.Run("heard", func(t *testing.T) {
		answer := c.async(call(1))
		x := <-calls
		out, f := replies()
		id := x.Session.AskAside(x.Exchange, "roots/list", nil, f)
		e := events(t, <-answer)
		e.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
		x.Cancel(nil)
		e.end()
		expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"r"}`, id)), 202, "")
		if got := <-out; got.result != `"r"` {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("not heard", func(t *testing.T) {
		answer := c.async(call(2))
		x := <-calls
		x.Send([]byte(`"first"`))
		r := <-answer
		events(t, r).want(`"first"`)
		r.Body.Close() // the client may come back
		for x.heard() {
			s.pulse()
		}
		out, f := replies()
		id := x.Session.AskAside(x.Exchange, "roots/list", nil, f)
		x.Cancel(nil)
		own := events(t, c.get())
		own.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, id))
		expect(t, c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":"r"}`, id)), 202, "")
		if got := <-out; got.result != `"r"` {
			t.Errorf("got %+v", got)
		}
	})
}

// The same notification that matters waits once: sessions whose clients never listen do not grow.
func TestSend_Unheard(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	session := c.session()
	for range 10_000 {
		session.Send([]byte(`{"method":"notifications/tools/list_changed"}`), true)
		session.Send([]byte(`{"method":"notifications/prompts/list_changed"}`), true)
		session.Send([]byte(`{"method":"notifications/message"}`), false)
	}
	if n := len(session.own.items); n != maxUnheard {
		t.Errorf("%d messages wait", n)
	}
	e := events(t, c.get())
	tools, prompts := 0, 0
	for range maxUnheard {
		switch m := e.message(); {
		case strings.Contains(m.data, "tools"):
			tools++
		case strings.Contains(m.data, "prompts"):
			prompts++
		}
	}
	if tools != 1 || prompts != 1 {
		t.Errorf("list_changed came %d and %d times", tools, prompts)
	}
	session.Send([]byte(`{"method":"notifications/tools/list_changed"}`), true) // trap 13: a later one comes
	e.want(`{"method":"notifications/tools/list_changed"}`)
}
