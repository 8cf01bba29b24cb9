package downstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mcp-gateway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Handler of functions. Without them every request is answered with its params.
type fake struct {
	serve    func(ctx context.Context, x *Exchange)
	notified func(s *Session, m wire.Msg)
	closed   func(s *Session)
	headers  []ParamHeader
}

var _ Handler = (*fake)(nil)

func (f *fake) Initialize(s *Session) []byte {
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`, s.Version)
}

func (f *fake) Serve(ctx context.Context, x *Exchange) {
	if f.serve != nil {
		f.serve(ctx, x)
		return
	}
	echo(x)
	_ = x.Wait(ctx)
}

// echo is what the fake answers.
func echo(x *Exchange) {
	params := x.Msg.Params
	if params == nil {
		params = []byte("{}")
	}
	x.Result(params)
}

func (f *fake) Notified(_ context.Context, s *Session, m wire.Msg) {
	if f.notified != nil {
		f.notified(s, m)
	}
}

func (f *fake) Closed(s *Session) {
	if f.closed != nil {
		f.closed(s)
	}
}

func (f *fake) Knows(method string) bool {
	return !strings.HasPrefix(method, "no/") && method != "initialize"
}

func (f *fake) ParamHeaders(string) []ParamHeader { return f.headers }

// held is a call that a test answers by hand.
type held struct {
	*Exchange
	over chan error // what Wait returned
}

// holder makes a fake whose calls are handed to the test.
func holder() (*fake, <-chan held) {
	calls := make(chan held)
	return &fake{serve: func(ctx context.Context, x *Exchange) {
		h := held{x, make(chan error, 1)}
		select {
		case calls <- h:
		case <-ctx.Done():
		}
		h.over <- x.Wait(ctx)
	}}, calls
}

// site is an endpoint behind a real HTTP server.
type site struct {
	*Server
	t    testing.TB
	http *httptest.Server
}

func serve(t testing.TB, h Handler, o Options) *site {
	s := &site{Server: New(h, o), t: t}
	s.http = httptest.NewServer(s.Server)
	t.Cleanup(func() {
		s.Close()
		s.http.Close()
	})
	return s
}

// headers are pairs of name and value; a name after a plus is added to what is there.
type headers []string

func (s *site) do(method, body string, h headers) *http.Response {
	s.t.Helper()
	return s.doCtx(context.Background(), method, body, h)
}

func (s *site) doCtx(ctx context.Context, method, body string, h headers) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.http.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", acceptBoth)
	for i := 0; i < len(h); i += 2 {
		name, another := strings.CutPrefix(h[i], "+")
		if !another {
			r.Header.Del(name)
		}
		if h[i+1] != none {
			r.Header.Add(name, h[i+1])
		}
	}
	response, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return response
}

// none takes a header away.
const none = "\x00"

// read reads an answer to its end.
func read(t testing.TB, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return string(body)
}

// expect compares status and whole body.
func expect(t testing.TB, r *http.Response, status int, body string) {
	t.Helper()
	if got := read(t, r); r.StatusCode != status || got != body {
		t.Errorf("got  %d %s\nwant %d %s", r.StatusCode, got, status, body)
	}
}

// refused checks status, code and id of an error, that the message says what it should, and that the
// answer is JSON.
func refused(t testing.TB, r *http.Response, status, code int, id, says string) {
	t.Helper()
	body := read(t, r)
	var e struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%d %q is no JSON: %v", r.StatusCode, body, err)
	}
	if r.StatusCode != status || e.Version != "2.0" || e.Error.Code != code || string(e.ID) != id || !strings.Contains(e.Error.Message, says) || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got  %d %s (%s)\nwant %d, code %d, id %s, ...%s...", r.StatusCode, body, r.Header.Get("Content-Type"), status, code, id, says)
	}
}

// client is a session seen from outside.
type client struct {
	*site
	id string
}

func (s *site) initialize(version string) client {
	s.t.Helper()
	r := s.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`, version), nil)
	if body := read(s.t, r); r.StatusCode != 200 || r.Header.Get("Mcp-Session-Id") == "" {
		s.t.Fatalf("initialize: %d %s", r.StatusCode, body)
	}
	return client{s, r.Header.Get("Mcp-Session-Id")}
}

func (c client) post(body string, more ...string) *http.Response {
	c.t.Helper()
	return c.do("POST", body, append(headers{"Mcp-Session-Id", c.id}, more...))
}

func (c client) get(more ...string) *http.Response {
	c.t.Helper()
	return c.do("GET", "", append(headers{"Mcp-Session-Id", c.id, "Accept", "text/event-stream"}, more...))
}

// session is the server's side of it.
func (c client) session() *Session {
	c.Server.mu.RLock()
	defer c.Server.mu.RUnlock()
	return c.sessions[c.id]
}

// async posts and hands on the answer once its headers are there.
func (c client) async(body string, more ...string) <-chan *http.Response {
	out := make(chan *http.Response, 1)
	go func() { out <- c.post(body, more...) }()
	return out
}

// event is one of an event stream, or a comment.
type event struct{ kind, id, data, comment string }

// sse reads an event stream as the standard wants it: fields by line, events by blank line, data lines
// joined.
type sse struct {
	t testing.TB
	r *bufio.Reader
}

func events(t testing.TB, r *http.Response) *sse {
	t.Helper()
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" || r.Header.Get("X-Accel-Buffering") != "no" || r.Header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("no event stream: %d %v %s", r.StatusCode, r.Header, read(t, r))
	}
	return &sse{t, bufio.NewReader(r.Body)}
}

// next returns the next event; ok is false at the end of the stream.
func (s *sse) next() (e event, ok bool) {
	s.t.Helper()
	some := false
	for {
		line, err := s.line()
		if err == io.EOF {
			if some {
				s.t.Errorf("the stream ends in the middle of an event: %+v", e)
			}
			return event{}, false
		}
		if err != nil {
			return event{}, false
		}
		switch field, value, _ := strings.Cut(line, ":"); {
		case line == "":
			return e, true
		case field == "":
			e.comment = strings.TrimSpace(value)
		default:
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				e.kind = value
			case "id":
				e.id = value
			case "data":
				e.data += value
			default:
				s.t.Errorf("field %q", line)
			}
		}
		some = true
	}
}

// line reads a line that ends with LF, CR LF or CR, as the standard has it.
func (s *sse) line() (string, error) {
	var line []byte
	for {
		c, err := s.r.ReadByte()
		switch {
		case err != nil:
			return string(line), err
		case c == '\n':
			return string(line), nil
		case c == '\r':
			if next, err := s.r.Peek(1); err == nil && next[0] == '\n' {
				s.r.Discard(1)
			}
			return string(line), nil
		}
		line = append(line, c)
	}
}

// message returns the next event that is a message.
func (s *sse) message() event {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatal("the event stream has ended")
		}
		if e.data != "" {
			return e
		}
	}
}

// want reads the next message and compares.
func (s *sse) want(data string) event {
	s.t.Helper()
	e := s.message()
	if e.data != data || e.kind != "message" {
		s.t.Errorf("got %+v, want %s", e, data)
	}
	return e
}

// end checks that no message comes any more.
func (s *sse) end() {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			return
		}
		if e.data != "" {
			s.t.Errorf("a message after the end: %+v", e)
		}
	}
}

func progress(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, n)
}

func call(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"a"}}`, id)
}

func result(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"name":"a"}}`, id)
}
