package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

// request is one that a webServer got.
type request struct {
	verb   string
	rpc    string // the JSON-RPC method; "" for a response, and where there is no body
	header http.Header
	body   []byte
	msg    wire.Msg
}

// answerFunc answers a request. It is called in the goroutine of the HTTP request.
type answerFunc func(w http.ResponseWriter, r *http.Request, q request)

// webServer is an MCP server by streamable HTTP that a test makes misbehave: of 2025-11-25 with sessions,
// unless it is told otherwise. Its tool echoes.
type webServer struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	answers   map[string]answerFunc // by JSON-RPC method, or by verb
	requests  []request
	sessions  map[string]bool
	opened    int
	stateless bool
}

// newWebServer starts one. It ends with the test.
func newWebServer(t *testing.T) *webServer {
	t.Helper()
	s := &webServer{t: t, answers: map[string]answerFunc{}, sessions: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections() // for those that hang
		s.Close()
	})
	return s
}

// on sets how a JSON-RPC method or a verb is answered.
func (s *webServer) on(what string, f answerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[what] = f
}

// forget makes the server forget its sessions, as when it is started again.
func (s *webServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]bool{}
}

// got lists the requests with these JSON-RPC methods or verbs; all of them without any.
func (s *webServer) got(what ...string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []request
	for _, q := range s.requests {
		for _, name := range what {
			if q.rpc == name || q.verb == name && q.rpc == "" {
				found = append(found, q)
			}
		}
		if len(what) == 0 {
			found = append(found, q)
		}
	}
	return found
}

// order is the requests' methods, or verbs where they have none.
func (s *webServer) order() string {
	var all []string
	for _, q := range s.got() {
		if q.rpc != "" {
			all = append(all, q.rpc)
		} else {
			all = append(all, q.verb)
		}
	}
	return strings.Join(all, " ")
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := request{verb: r.Method, header: r.Header.Clone()}
	q.body, _ = io.ReadAll(r.Body)
	if len(q.body) > 0 {
		m, err := wire.Parse(q.body)
		if err != nil {
			s.t.Errorf("the gateway sent %q: %v", q.body, err)
		}
		q.rpc, q.msg = m.Method, m
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	answer := s.answers[q.rpc]
	if q.rpc == "" {
		answer = s.answers[q.verb]
	}
	known := s.stateless || s.sessions[r.Header.Get("Mcp-Session-Id")]
	s.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r, q)
	case q.rpc == "server/discover":
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
	case q.rpc == "initialize":
		s.initialize(w, q)
	case !known:
		http.Error(w, "no such session", http.StatusNotFound)
	case q.verb == http.MethodGet:
		http.Error(w, "no", http.StatusMethodNotAllowed)
	case q.verb == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case q.msg.ID == nil || q.rpc == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		s.result(w, q)
	}
}

func (s *webServer) initialize(w http.ResponseWriter, q request) {
	s.mu.Lock()
	s.opened++
	id := fmt.Sprintf("session-%d", s.opened)
	s.sessions[id] = true
	stateless := s.stateless
	s.mu.Unlock()
	if !stateless {
		w.Header().Set("Mcp-Session-Id", id)
	}
	writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`)))
}

// result answers a list with one tool, and a call with its arguments.
func (s *webServer) result(w http.ResponseWriter, q request) {
	switch q.rpc {
	case "tools/list":
		writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)))
	default:
		writeJSON(w, echoReply(q.msg))
	}
}

// echoReply is the result of the tool that echoes.
func echoReply(m wire.Msg) []byte {
	arguments := m.Arguments
	if arguments == nil {
		arguments = []byte("{}")
	}
	return wire.Reply(m.ID, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"structuredContent":%s}`, wire.Quote(string(arguments)), arguments))
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// writeEvents begins an event stream, or goes on with it.
func writeEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range events {
		io.WriteString(w, event)
	}
	w.(http.Flusher).Flush()
}

// event is one with a message.
func event(message []byte) string { return "event: message\ndata: " + string(message) + "\n\n" }

// status answers with a status and a body.
func status(code int, body string) answerFunc {
	return func(w http.ResponseWriter, _ *http.Request, _ request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// hang answers nothing until the request is given up.
func hang(_ http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() }

// remotePeer is what a test sees of a server that is reached by HTTP.
type remotePeer struct {
	*peer
	remote *Remote
	dialer *RemoteDialer
}

// newRemotePeer prepares for a server; it is not connected.
func newRemotePeer(t *testing.T, url string, change ...func(*RemoteOptions)) *remotePeer {
	t.Helper()
	p := &remotePeer{peer: &peer{t: t, notified: make(chan wire.Msg, 1000), asked: make(chan wire.Msg, 1000)}}
	o := RemoteOptions{
		Server: "far", URL: url, Limit: 64 << 20,
		Log:   slog.New(slog.NewTextHandler(logLines{p.peer}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Scrub: func(text string) string { return strings.ReplaceAll(text, "s3cr3t", "***") },
	}
	for _, f := range change {
		f(&o)
	}
	p.remote = NewRemote(o)
	p.dialer = &RemoteDialer{Remote: p.remote, Handler: p.peer,
		Identity: Identity{ClientInfo: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(`{"sampling":{},"roots":{},"elicitation":{}}`)}}
	t.Cleanup(func() {
		if p.remote.transport != nil {
			p.remote.transport.CloseIdleConnections()
		}
	})
	return p
}

// dialRemote connects to a server.
func dialRemote(t *testing.T, url string, change ...func(*RemoteOptions)) *remotePeer {
	t.Helper()
	p := newRemotePeer(t, url, change...)
	p.connect()
	return p
}

func (p *remotePeer) connect() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	c, err := p.dialer.Dial(ctx, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.conn = c
	p.t.Cleanup(func() { c.Close(context.Background()) })
}

// refused wants the connection to fail, and returns why.
func (p *remotePeer) refused(ready ReadyFunc) *fault.Fault {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	c, err := p.dialer.Dial(ctx, ready)
	var f *fault.Fault
	if !errors.As(err, &f) {
		if err == nil {
			c.Close(context.Background())
		}
		p.t.Fatalf("no fault, but %v", err)
	}
	return f
}

// ended waits for the end of the connection.
func (p *remotePeer) ended() error {
	p.t.Helper()
	select {
	case <-p.conn.Done():
		return p.conn.Err()
	case <-time.After(patience):
		p.t.Fatal("the connection did not end")
		return nil
	}
}

// told is the progress that came, which by HTTP may be on another stream than the response.
func (r *reply) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.progress...)
}

// failure is the error that a call ends with.
func (r *reply) failure() error {
	r.t.Helper()
	if r.wait(); r.err == nil {
		r.t.Fatalf("no failure, but %.300s", r.m.Raw)
	}
	return r.err
}

func withHeaders(headers map[string]secret.Value) func(*RemoteOptions) {
	return func(o *RemoteOptions) { o.Headers = headers }
}

// sameJSON compares two documents by their bytes without white space around.
func sameBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %.300s, want %.300s", what, got, want)
	}
}
