package upstream

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"mcp-gateway/internal/wire"
)

// quietHandler takes everything and does nothing.
type quietHandler struct{}

func (quietHandler) Notified(Conn, wire.Msg) {}
func (quietHandler) Asked(Conn, wire.Msg)    {}

// countingSink fails a test in which a call ends twice.
type countingSink struct {
	t    *testing.T
	done int
}

func (s *countingSink) Progress(m wire.Msg) {
	if m.Method != "notifications/progress" {
		s.t.Errorf("progress %q", m.Raw)
	}
}

func (s *countingSink) Done(wire.Msg, error) {
	if s.done++; s.done > 1 {
		s.t.Error("a call ended twice")
	}
}

// FuzzServerLines reads arbitrary output of a server while calls are in flight: nothing panics, no call
// ends twice, and a call that a whole answer was written for ends with it.
func FuzzServerLines(f *testing.F) {
	for _, seed := range []string{
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", "[{\"id\":\"2\",\"result\":null},{\"id\":1}]\n", "hello\r\n\xef\xbb\xbf{\"id\":1.0,\"error\":{}}",
		"{\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\"}}\n{\"method\":\"ping\",\"id\":1}{}\n",
		"{\"id\":null,\"error\":1}\n{\"id\":{},\"result\":1}\n{\"id\":3,\"result\":\"" + strings.Repeat("x", 5000) + "\"}\n", "[[[[", "\x00{\"id\"",
	} {
		f.Add([]byte(seed))
	}
	in, out, err := os.Pipe()
	if err != nil {
		f.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	f.Fuzz(func(t *testing.T, output []byte) {
		c := &stdio{o: StdioOptions{Server: "fuzz", Handler: quietHandler{}, Log: slog.New(slog.DiscardHandler), Limit: 4096, Noise: func(string) {}},
			out: newWriter(out, 1<<10)}
		c.out.busy = true // answers are queued and never written
		var sinks []*countingSink
		for id := int64(1); id <= 3; id++ {
			s := &countingSink{t: t}
			sinks = append(sinks, s)
			if k, err := c.calls.add(c, s, Request{Token: []byte(`"t"`)}, true); err != nil || k.id != id {
				t.Fatal(k, err)
			}
		}
		text := string(output) + "\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n"
		lines := wire.NewLineReader(strings.NewReader(text), c.o.Limit)
		for {
			line, err := lines.Next()
			if err != nil {
				break
			}
			c.line(line)
		}
		if len(output) < 4096 && sinks[1].done != 1 {
			t.Errorf("a call with an answer did not end")
		}
	})
}

// FuzzRemoteAnswer reads arbitrary answers of a remote server: nothing panics, and the call ends once,
// unless its answer is to come on another stream.
func FuzzRemoteAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", `[{"id":"1","error":{}},{"id":1}]`,
		"id: 1\nretry: 1\ndata: {\"id\":null,\"error\":{\"code\":1}}", "event: endpoint\ndata: /\n\n", ": \n\n", "<html>", "  \r\n{}{}", `{"method":"ping","id":1}`,
		"data: {\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\"}}\n\ndata: {\"id\":1.0,\"result\":" + strings.Repeat("1", 5000) + "}\n\n",
	} {
		f.Add([]byte(seed), "text/event-stream", 200)
		f.Add([]byte(seed), "application/json", 400)
	}
	r := NewRemote(RemoteOptions{Server: "fuzz", URL: "http://127.0.0.1:1/", Limit: 4096, Log: slog.New(slog.DiscardHandler), Scrub: func(s string) string { return s }})
	f.Fuzz(func(t *testing.T, body []byte, contentType string, status int) {
		c := newStreamable(t.Context(), r, true, quietHandler{}, Identity{})
		c.slots = nil // answers are refused
		defer c.shut()
		sink := &countingSink{t: t}
		x := &exchange{c: c, sink: sink, method: "tools/call", again: true}
		x.k, _ = c.calls.add(x, sink, Request{Token: []byte(`"t"`)}, false)
		x.ctx, x.stop = context.WithCancel(c.ctx)
		response := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, ContentLength: -1,
			Body: io.NopCloser(bytes.NewReader(body)), Request: &http.Request{URL: r.url}}
		take := x.refused
		if status/100 == 2 {
			take = func(response *http.Response) error { return c.read(response, x) }
		}
		if err := take(response); err != nil {
			_ = err.Error()
			x.fail(err)
		}
		x.stop()
		if sink.done > 1 || sink.done == 0 && x.k.live() && x.answered {
			t.Errorf("the call ended %d times", sink.done)
		}
	})
}
