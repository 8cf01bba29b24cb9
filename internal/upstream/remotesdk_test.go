package upstream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

// withSession are the kinds of servers that know their clients.
var withSession = []string{mcptest.RemoteSessions, mcptest.RemoteDocuments, mcptest.RemoteResumable, mcptest.RemoteSSE}

func dialSDK(t *testing.T, kind string) (*mcptest.RemoteServer, *remotePeer) {
	t.Helper()
	s := mcptest.StartRemote(t, kind)
	return s, dialRemote(t, s.URL)
}

func wait(t *testing.T, what string, c <-chan bool) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

// The Go SDK's servers of every transport.
func TestRemote_SDKServers(t *testing.T) {
	for _, kind := range append(withSession, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			_, p := dialSDK(t, kind)
			hello := p.conn.Hello()
			version, stateless := Legacy, false
			switch kind {
			case mcptest.RemoteStateless:
				version, stateless = Modern, true
			}
			if hello.Version != version || hello.Stateless != stateless || !hello.Can("tools") || hello.Instructions != "Far away." {
				t.Errorf("hello %+v", hello)
			}
			if _, old := p.conn.(*sse); old != (kind == mcptest.RemoteSSE) {
				t.Errorf("%T", p.conn)
			}
			var meta []byte
			withMeta := func(params string) []byte { return []byte(params) }
			if stateless {
				meta = ModernMeta(p.dialer.Identity)
				withMeta = func(params string) []byte {
					own := wire.Edit(meta, wire.Change{Key: "progressToken", Value: []byte(`"t"`)})
					return wire.Edit([]byte(params), wire.Change{Key: "_meta", Value: own})
				}
			}
			tools, err := ListAll(t.Context(), p.conn, "tools/list", "tools", meta)
			if err != nil || len(tools) != 7 {
				t.Fatalf("%d tools, %v", len(tools), err)
			}
			call := func(tool, args string) *reply {
				t.Helper()
				r := &reply{t: t, done: make(chan struct{}), first: make(chan struct{})}
				var err error
				r.call, err = p.conn.Begin(Request{Method: "tools/call", Token: []byte(`"t"`), Params: withMeta(fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"progressToken":"t"}}`, tool, args))}, r)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			args := `{"n":12345678901234567890, "a":"<&>"}`
			if got := call("echo", args).text(); got != args {
				t.Errorf("got %s", got)
			}
			if r := call("no such tool", "{}").wait(); r.m.Err == nil {
				t.Errorf("%s, %v", r.m.Raw, r.err)
			}
			if r := call("progress", "{}"); r.text() != "done" || len(r.told()) != 3 && kind != mcptest.RemoteDocuments {
				t.Errorf("progress %v", r.told())
			}
		})
	}
}

func TestRemote_SDKServersAsk(t *testing.T) {
	for _, kind := range withSession {
		t.Run(kind, func(t *testing.T) {
			s, p := dialSDK(t, kind)
			r := p.begin("ask", `{"question":"how?"}`, "")
			m := receive(t, p.asked)
			if m.Method != "sampling/createMessage" || !strings.Contains(string(m.Params), `"how?"`) {
				t.Errorf("asked %s", m.Raw)
			}
			if err := p.conn.Answer(wire.Reply(m.ID, []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"so"}}`))); err != nil {
				t.Fatal(err)
			}
			if got := r.text(); got != "so" {
				t.Errorf("got %q", got)
			}
			t.Run("and are cancelled", func(t *testing.T) {
				r := p.begin("wait", "{}", "")
				wait(t, "the call", s.Waiting)
				r.call.Cancel(nil)
				wait(t, "the cancellation", s.Cancelled)
			})
			t.Run("and say that their lists changed", func(t *testing.T) {
				p.call("add_tool", "{}")
				if m := receive(t, p.notified); m.Method != "notifications/tools/list_changed" {
					t.Errorf("notified %s", m.Raw)
				}
			})
			if s.Sessions() != 1 {
				t.Errorf("%d sessions", s.Sessions())
			}
			p.conn.Close(context.Background())
			for s.Sessions() != 0 {
				time.Sleep(time.Millisecond) // the stream's end is noticed by itself
			}
		})
	}
}

func TestModern_SDKServerIsCancelled(t *testing.T) {
	s, p := dialSDK(t, mcptest.RemoteStateless)
	r := &reply{t: t, done: make(chan struct{}), first: make(chan struct{})}
	params := wire.Edit([]byte(`{"name":"wait","arguments":{}}`), wire.Change{Key: "_meta", Value: ModernMeta(p.dialer.Identity)})
	call, err := p.conn.Begin(Request{Method: "tools/call", Params: params}, r)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the call", s.Waiting)
	call.Cancel(nil)
	wait(t, "the cancellation", s.Cancelled)
}

func TestRemote_SDKServerIsStartedAgain(t *testing.T) {
	for _, kind := range withSession {
		t.Run(kind, func(t *testing.T) {
			s, p := dialSDK(t, kind)
			if got := p.call("echo", "{}"); got != "{}" {
				t.Fatal(got)
			}
			s.Restart()
			p.ended()
			again := &remotePeer{peer: p.peer, remote: p.remote, dialer: p.dialer}
			again.connect()
			if got := again.call("echo", "{}"); got != "{}" {
				t.Error(got)
			}
		})
	}
}
