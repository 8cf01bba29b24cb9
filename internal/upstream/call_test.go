package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mcp-gateway/internal/wire"
)

func TestB47_Progress(t *testing.T) {
	for _, token := range []string{`"p-1"`, `7`, `-1`, `12345678901234567890`, `"7"`, `""`, `"\u0041"`, `"\u00007"`} {
		p := dial(t)
		r := p.begin("progress", `{"n":3}`, token)
		if got := r.text(); !strings.HasPrefix(got, "3 steps, token "+token) {
			t.Errorf("the server was given another token: %q", got)
		}
		if len(r.progress) != 3 {
			t.Fatalf("token %s: %d notifications before the result", token, len(r.progress))
		}
		for i, params := range r.progress {
			if want := fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":3,"message":"step %d"}`, token, i+1, i+1); params != want {
				t.Errorf("params %s, want %s", params, want)
			}
		}
	}
	t.Run("none without a token", func(t *testing.T) {
		p := dial(t)
		r := p.begin("progress", `{"n":3}`, "")
		if r.text(); len(r.progress) > 0 || len(p.notified) > 0 {
			t.Errorf("progress %v", r.progress)
		}
	})
	t.Run("equal tokens of several calls do not cross", func(t *testing.T) {
		p := dial(t)
		first := p.begin("cancellable", `{}`, `"same"`)
		<-first.first
		second := p.begin("progress", `{"n":2}`, `"same"`)
		if got := second.text(); strings.Contains(got, "same") {
			t.Errorf("the server was given one token twice: %s", got)
		}
		if len(first.progress) != 1 || len(second.progress) != 2 {
			t.Errorf("first %v, second %v", first.progress, second.progress)
		}
		for _, params := range second.progress {
			contains(t, params, `"progressToken":"same"`)
		}
		// Progress of a cancelled call may still be on its way, so its token stays taken.
		first.call.Cancel(nil)
		third := p.begin("progress", `{"n":1}`, `"same"`)
		if third.text(); len(third.progress) != 1 || len(first.progress) != 1 {
			t.Errorf("first %v, third %v", first.progress, third.progress)
		}
	})
}

func TestB46_Cancel(t *testing.T) {
	for _, flags := range [][]string{nil, {"-answer-cancelled"}} {
		p := dial(t, flags...)
		r := p.begin("cancellable", "{}", `"t"`)
		<-r.first
		r.call.Cancel([]byte(`{"requestId":"the client's","reason":"not wanted"}`))
		r.call.Cancel(nil) // a second time does nothing
		// initialize was 1, the call 2.
		if got := p.call("cancelled", `{"wait":1}`); got != `[{"requestId":2,"reason":"not wanted"}]` {
			t.Errorf("the server saw %s", got)
		}
		select {
		case <-r.done:
			t.Errorf("a cancelled call ended with %s %v", r.m.Raw, r.err)
		default:
		}
	}
	t.Run("B52 not told", func(t *testing.T) {
		p := newPeer(t)
		p.dialer.NoCancel = true
		p.connect()
		r := p.begin("cancellable", "{}", `"t"`)
		<-r.first
		r.call.Cancel(nil)
		if got := p.call("cancelled", `{}`); got != `[]` {
			t.Errorf("the server saw %s", got)
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		p := dial(t)
		r := p.begin("whoami", "{}", "")
		r.text()
		r.call.Cancel(nil)
		if got := p.call("cancelled", `{}`); got != `[]` {
			t.Errorf("the server saw %s", got)
		}
	})
}

// A server may ask for a call until it has read that the call is cancelled: so long it is one of those
// that a question may be for (relay-facts, trap 14).
func TestTrap14_CancelledCallLingers(t *testing.T) {
	for flag, lingers := range map[string]bool{
		`-answer=ping={"jsonrpc":"2.0","method":"notifications/none"}`: true, // that answers no ping
		"-prompts=2":        false,
		"-answer-cancelled": false,
	} {
		p := dial(t, flag)
		r := p.begin("cancellable", "{}", `"t"`)
		<-r.first
		r.call.Cancel(nil)
		p.call("cancelled", `{"wait":1}`) // which is behind the ping
		if got := slices.Contains(p.conn.InFlight(), Sink(r)); got != lingers {
			t.Errorf("with %s: still in flight %v", flag, got)
		}
	}
}

func TestAskIsCancelledWithItsContext(t *testing.T) {
	p := dial(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := Ask(ctx, p.conn, "tools/call", []byte(`{"name":"cancellable"}`))
	if err == nil || err.Error() != "no answer to tools/call: enough" {
		t.Errorf("error %v", err)
	}
	contains(t, p.call("cancelled", `{"wait":1}`), `"requestId":2`)
}

func TestServerSpeaks(t *testing.T) {
	p := dial(t)
	t.Run("ping is answered here", func(t *testing.T) {
		if got := p.call("ask", `{"method":"ping"}`); got != `{"result":{}}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("requests go to the handler, with ids as they are", func(t *testing.T) {
		for _, id := range []string{`1`, `"1"`, `9007199254740993`, `"\u0041"`, `1.5`} {
			r := p.begin("ask", `{"method":"x/y","params":{"a":12345678901234567890},"id":`+quoteID(id)+`}`, "")
			m := receive(t, p.asked)
			if string(m.ID) != id || m.Method != "x/y" || string(m.Params) != `{"a":12345678901234567890}` {
				t.Errorf("asked %s", m.Raw)
			}
			if err := p.conn.Answer(wire.Reply(m.ID, []byte("{\n\"b\":1.0\r}"))); err != nil {
				t.Fatal(err)
			}
			if got := r.text(); got != `{"result":{ "b":1.0 }}` {
				t.Errorf("got %s", got)
			}
		}
	})
	t.Run("B53 notifications of unknown kinds", func(t *testing.T) {
		p.call("odd_notification", "{}")
		if m := receive(t, p.notified); m.Method != "window/logMessage" {
			t.Errorf("notified %s", m.Raw)
		}
	})
}

// quoteID writes an id as an argument of the tool "ask", which sends it raw.
func quoteID(id string) string { return id }

// The bytes of a call's params and of its result pass as they are.
func TestByteExactness(t *testing.T) {
	p := dial(t)
	for _, args := range []string{
		`{"z":12345678901234567890,"a":1.0,"m":-0.0,"e":1E+2,"\u0061":"b","deep":[[[{"k":null}]]]}`,
		`{ "white" : [ 1 , 2 ] }`,
		`{"emoji":"🎉 \ud83c\udf89 <>&","a":1,"a":2}`,
	} {
		r := p.begin("echo", args, "").wait()
		if r.err != nil {
			t.Fatal(r.err)
		}
		if got := string(wire.Get(r.m.Result, "structuredContent")); got != args {
			t.Errorf("structured content %s, want %s", got, args)
		}
		if got := r.text(); got != args {
			t.Errorf("the server was given %s, want %s", got, args)
		}
	}
	t.Run("trap 1 line ends in a client's JSON", func(t *testing.T) {
		if got := p.call("echo", "{\"a\":\r\n1,\n\"b\":\"\\n\"}"); got != `{"a":  1, "b":"\n"}` {
			t.Errorf("got %q", got)
		}
		if got := p.call("received", `{"method":"tools/call"}`); strings.Count(got, "\n") > 10 {
			t.Errorf("lines were injected:\n%s", got)
		}
	})
	t.Run("the line that is sent", func(t *testing.T) {
		var line string
		if line = p.call("line", `{"x":1}`); !json.Valid([]byte(line)) {
			t.Errorf("line %s", line)
		}
		contains(t, line, `{"jsonrpc":"2.0","id":`, `"method":"tools/call","params":{"name":"line","arguments":{"x":1}}}`)
	})
}

func TestTrap7_ServerThatDoesNotRead(t *testing.T) {
	p := dial(t)
	c := p.conn.(*stdio)
	c.out.limit = 4 << 20
	stopped := func(sig syscall.Signal) {
		if err := syscall.Kill(p.pid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	stopped(syscall.SIGSTOP)
	// Many callers at once; none waits, those beyond the limit fail.
	long := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	var calls []*reply
	var refused error
	for range 20 {
		r, err := p.try("whoami", long, "")
		if err != nil {
			refused = err
			continue
		}
		calls = append(calls, r)
	}
	if refused == nil || errors.Is(refused, ErrGone) {
		t.Fatalf("nothing failed for 20 MiB that wait: %v", refused)
	}
	contains(t, refused.Error(), `server "fake"`, "does not read its input")
	if len(calls) < 3 {
		t.Errorf("only %d calls were taken", len(calls))
	}
	calls[0].call.Cancel(nil) // does not wait either
	stopped(syscall.SIGCONT)
	for _, r := range calls[1:] {
		if got := r.text(); got != "fake" {
			t.Errorf("got %q", got)
		}
	}
	if got := p.call("whoami", "{}"); got != "fake" { // and small messages again
		t.Errorf("got %q", got)
	}
}

func TestWritesAreWholeLines(t *testing.T) {
	p := dial(t)
	// Longer than the pipe takes at once, so that most of them meet a flushing goroutine.
	want := strings.Repeat("y", 300<<10)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			args := fmt.Sprintf(`{"i":%d,"y":%q}`, i, want)
			r, err := p.try("echo", args, "")
			if err != nil {
				t.Error(err)
				return
			}
			if r.text() != args {
				t.Errorf("call %d came back changed", i)
			}
		})
	}
	all.Wait()
}
