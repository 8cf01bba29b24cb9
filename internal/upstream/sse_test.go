package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

// oldServer is a server of the HTTP+SSE transport that a test makes misbehave.
type oldServer struct {
	*httptest.Server
	t        *testing.T
	endpoint string // what the stream names
	post     func(w http.ResponseWriter, q request, say func(string)) bool

	mu       sync.Mutex
	requests []request
	say      map[string]func(string) // by the stream's number
	end      func()                  // of the latest stream
	streams  int
}

func newOldServer(t *testing.T) *oldServer {
	t.Helper()
	s := &oldServer{t: t, endpoint: "/messages?session=$S", say: map[string]func(string){}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", s.stream)
	mux.HandleFunc("POST /messages", s.messages)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *oldServer) stream(w http.ResponseWriter, r *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	var writing sync.Mutex
	say := func(text string) {
		writing.Lock()
		defer writing.Unlock()
		io.WriteString(w, text)
		w.(http.Flusher).Flush()
	}
	s.mu.Lock()
	s.requests = append(s.requests, request{verb: "GET", header: r.Header.Clone()})
	s.streams++
	number := fmt.Sprint(s.streams)
	s.say[number], s.end = say, end
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	say("event: endpoint\ndata: " + strings.ReplaceAll(s.endpoint, "$S", number) + "\n\n")
	<-ctx.Done()
	writing.Lock()
	defer writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say[number] = func(string) {}
}

func (s *oldServer) messages(w http.ResponseWriter, r *http.Request) {
	q := request{verb: "POST", header: r.Header.Clone()}
	q.body, _ = io.ReadAll(r.Body)
	m, err := wire.Parse(q.body)
	if err != nil {
		s.t.Errorf("the gateway sent %q: %v", q.body, err)
	}
	q.rpc, q.msg = m.Method, m
	s.mu.Lock()
	s.requests = append(s.requests, q)
	say := s.say[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if s.post != nil && s.post(w, q, say) {
		return
	}
	w.WriteHeader(http.StatusAccepted)
	switch {
	case q.rpc == "initialize":
		say(event(wire.Reply(m.ID, []byte(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`))))
	case m.ID != nil && q.rpc != "":
		say(event(echoReply(m)))
	}
}

func TestSSE(t *testing.T) {
	t.Run("found by itself, with its bytes as they are", func(t *testing.T) {
		s := newOldServer(t)
		p := dialRemote(t, s.URL+"/sse", withHeaders(map[string]secret.Value{"X-Key": "k"}))
		if hello := p.conn.Hello(); hello.Version != "2024-11-05" || hello.Stateless {
			t.Errorf("hello %+v", hello)
		}
		args := `{"z":12345678901234567890,"a":1.0, "<&>":"\u0041"}`
		r := p.begin("echo", args, "")
		if got := r.text(); got != args {
			t.Errorf("got %s", got)
		}
		sameBytes(t, "the result", wire.Get(r.m.Result, "structuredContent"), []byte(args))
		for _, q := range s.requests {
			if q.header.Get("X-Key") != "k" || q.header.Get("Mcp-Session-Id") != "" || q.header.Get("Mcp-Protocol-Version") != "" {
				t.Errorf("%s %s: headers %v", q.verb, q.rpc, q.header)
			}
		}
		p.conn.Close(context.Background())
		again := &remotePeer{peer: p.peer, remote: p.remote, dialer: p.dialer}
		again.connect() // without trying what it does not speak
		if n := s.streams; n != 2 {
			t.Errorf("%d streams", n)
		}
	})
	t.Run("named by the entry", func(t *testing.T) {
		web := newWebServer(t) // speaks streamable HTTP, but was not asked for it
		f := newRemotePeer(t, web.URL, func(o *RemoteOptions) { o.SSE = true }).refused(nil)
		contains(t, f.Error(), "[unreachable]", "GET: HTTP 404 Not Found: no such session")
		if order := web.order(); order != "GET" {
			t.Errorf("requests: %s", order)
		}
	})
	t.Run("the URL for messages", func(t *testing.T) {
		s := newOldServer(t)
		s.endpoint = s.URL + "/messages?session=$S" // absolute
		if got := dialRemote(t, s.URL+"/sse").call("echo", "{}"); got != "{}" {
			t.Errorf("got %s", got)
		}
		s.endpoint = "messages?session=$S" // relative
		dialRemote(t, s.URL+"/sse")
		other := newWebServer(t)
		for _, endpoint := range []string{other.URL + "/messages?key=s3cr3t", "//other.example/messages", "https://127.0.0.1:1/", "http://[::1", "\x00"} {
			s.endpoint = endpoint
			f := newRemotePeer(t, s.URL+"/sse", withHeaders(map[string]secret.Value{"X-Key": "k"})).refused(nil)
			contains(t, f.Error(), "[handshake_invalid]", "the endpoint that its event stream names is")
			if strings.Contains(f.Error(), "s3cr3t") {
				t.Error(f)
			}
		}
		if len(other.got()) > 0 {
			t.Errorf("another origin was asked: %s", other.order())
		}
	})
	t.Run("equal tokens of several calls do not cross", func(t *testing.T) {
		s := newOldServer(t)
		s.post = func(w http.ResponseWriter, q request, say func(string)) bool {
			if q.rpc != "tools/call" {
				return false
			}
			w.WriteHeader(http.StatusAccepted)
			say(event(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}`, wire.Get(q.msg.Meta, "progressToken"), q.msg.ID)))
			if string(q.msg.Arguments) == "{}" {
				say(event(echoReply(q.msg)))
			}
			return true
		}
		p := dialRemote(t, s.URL+"/sse")
		first := p.begin("echo", `{"wait":1}`, `"same"`)
		<-first.first
		second := p.begin("echo", "{}", `"same"`)
		second.text()
		if fmt.Sprint(first.progress, second.progress) != `[{"progressToken":"same","progress":2}] [{"progressToken":"same","progress":3}]` {
			t.Errorf("first %v, second %v", first.progress, second.progress)
		}
		first.call.Cancel(nil)
		cancelled := func() (params []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, q := range s.requests {
				if q.rpc == "notifications/cancelled" {
					params = q.msg.Params
				}
			}
			return params
		}
		for cancelled() == nil {
			runtime.Gosched()
		}
		sameBytes(t, "the notification", cancelled(), []byte(`{"requestId":2}`))
	})
	t.Run("answers in the wrong place, and none", func(t *testing.T) {
		s := newOldServer(t)
		var how string
		s.post = func(w http.ResponseWriter, q request, say func(string)) bool {
			if q.rpc != "tools/call" {
				return false
			}
			switch how {
			case "here":
				writeJSON(w, echoReply(q.msg))
			case "refused":
				w.WriteHeader(http.StatusBadRequest)
				w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}`))
			case "trouble":
				status(500, "oh")(w, nil, q)
			case "long":
				w.WriteHeader(http.StatusAccepted)
				say(event(wire.Reply(q.msg.ID, []byte(`"`+strings.Repeat("x", 2<<20)+`"`))))
			}
			return true
		}
		p := dialRemote(t, s.URL+"/sse", func(o *RemoteOptions) { o.Limit = 1 << 20 })
		how = "here"
		if got := p.call("echo", `{"a":1}`); got != `{"a":1}` {
			t.Errorf("got %s", got)
		}
		how = "refused"
		r := p.begin("echo", "{}", "").wait()
		sameBytes(t, "the error", r.m.Err, []byte(`{"code":-32602,"message":"no"}`))
		how = "trouble"
		contains(t, p.begin("echo", "{}", "").failure().Error(), "POST tools/call: HTTP 500 Internal Server Error: oh")
		how = "long"
		contains(t, p.begin("echo", "{}", "").failure().Error(), "over the limit")
	})
	t.Run("the end of the stream is the end of the connection", func(t *testing.T) {
		s := newOldServer(t)
		taken := make(chan bool)
		s.post = func(w http.ResponseWriter, q request, say func(string)) bool {
			if q.rpc != "tools/call" {
				return false
			}
			w.WriteHeader(http.StatusAccepted)
			taken <- true
			return true
		}
		p := dialRemote(t, s.URL+"/sse")
		r := p.begin("echo", "{}", "")
		<-taken
		s.end()
		contains(t, r.failure().Error(), `the connection to server "far" ended before it answered: its event stream has ended`)
		if p.ended() != errStreamOver {
			t.Errorf("ended by %v", p.conn.Err())
		}
		if _, err := p.try("echo", "{}", ""); err != ErrGone {
			t.Errorf("a call after the end: %v", err)
		}
	})
	t.Run("a stream that says nothing, or something else", func(t *testing.T) {
		s := newWebServer(t)
		for what, answer := range map[string]answerFunc{"server/discover": status(405, ""), "initialize": status(405, "")} {
			s.on(what, answer)
		}
		s.on("GET", func(w http.ResponseWriter, _ *http.Request, _ request) { writeEvents(w, ": hello\n\n") })
		contains(t, newRemotePeer(t, s.URL).refused(nil).Error(), "POST initialize: HTTP 405 Method Not Allowed; nor does it speak HTTP+SSE", "the event stream named no endpoint")
		s.on("GET", status(200, "<html>hello</html>"))
		contains(t, newRemotePeer(t, s.URL).refused(nil).Error(), "nor does it speak HTTP+SSE: GET: the answer is no message of MCP: HTTP 200", "<html>hello</html>"[6:11])
		s.on("GET", hang)
		ctx, cancel := context.WithCancelCause(t.Context())
		p := newRemotePeer(t, s.URL)
		go func() {
			for len(s.got("GET")) < 3 {
			}
			cancel(fmt.Errorf("enough"))
		}()
		_, err := p.dialer.Dial(ctx, nil)
		contains(t, err.Error(), "enough")
	})
}
