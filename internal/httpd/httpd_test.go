package httpd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "7b2b8f6e-3d1c-4f6a-9f57-0d5f5d1f4c3a"

// door is a running server in front of a handler that says what reached it.
type door struct {
	*Server
	t       testing.TB
	address string
	reached []string // under mu
	mu      sync.Mutex
	health  Health
	client  *http.Client
}

func open(t testing.TB, o Options) *door {
	t.Helper()
	d := &door{t: t, health: Health{Status: OK, Servers: 4, Tools: 17}}
	if o.Token == "" {
		o.Token = token
	}
	if o.MCP == nil {
		o.MCP = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.mu.Lock()
			d.reached = append(d.reached, r.Method)
			d.mu.Unlock()
			w.Header().Set("Mcp-Session-Id", "s")
			io.WriteString(w, "reached")
		})
	}
	o.Health = func() Health { return d.health }
	o.Log = slog.New(slog.DiscardHandler)
	d.Server = New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.address = l.Addr().String()
	d.run(l)
	d.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(d.client.CloseIdleConnections)
	return d
}

func (d *door) run(l net.Listener) {
	served := make(chan error, 1)
	go func() { served <- d.Serve(context.Background(), l) }()
	d.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d.Shutdown(ctx)
		if err := <-served; err != nil {
			d.t.Errorf("Serve: %v", err)
		}
	})
}

func (d *door) do(method, path string, h http.Header) *http.Response {
	d.t.Helper()
	r, err := http.NewRequest(method, "http://"+d.address+path, strings.NewReader(""))
	if err != nil {
		d.t.Fatal(err)
	}
	if r.Header = h; h == nil {
		r.Header = http.Header{}
	}
	r.Host = h.Get("Host")
	response, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	response.Body.Close()
	response.Body = io.NopCloser(strings.NewReader(string(body)))
	return response
}

func (d *door) expect(r *http.Response, status int, body string) {
	d.t.Helper()
	got, _ := io.ReadAll(r.Body)
	if r.StatusCode != status || string(got) != body {
		d.t.Errorf("got  %d %s\nwant %d %s", r.StatusCode, got, status, body)
	}
}

func refusal(message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":%q}}`, message)
}

var bearer = http.Header{"Authorization": {"Bearer " + token}}

// B73: whoever has no token learns nothing of sessions: the request does not get that far.
func TestB1_B73_Token(t *testing.T) {
	d := open(t, Options{})
	no := refusal("the bearer token is missing or wrong: send Authorization: Bearer <token>")
	for name, authorization := range map[string][]string{
		"none":              nil,
		"empty":             {""},
		"scheme only":       {"Bearer"},
		"no token":          {"Bearer "},
		"token only":        {token},
		"wrong":             {"Bearer x"},
		"beginning":         {"Bearer " + token[:len(token)-1]},
		"longer":            {"Bearer " + token + "a"},
		"much longer":       {"Bearer " + strings.Repeat(token, 1000)},
		"other case":        {"Bearer " + strings.ToUpper(token)},
		"inner space":       {"Bearer " + token + " " + token},
		"basic":             {"Basic " + token},
		"good and bad":      {"Bearer " + token, "Bearer x"},
		"good twice":        {"Bearer " + token, "Bearer " + token},
		"list":              {"Bearer x, Bearer " + token},
		"another separator": {"Bearer\t" + token},
	} {
		for _, method := range []string{"POST", "GET", "DELETE", "OPTIONS", "PATCH"} {
			r := d.do(method, "/mcp", http.Header{"Authorization": authorization, "Mcp-Session-Id": {"s"}})
			if got := r.Header["Www-Authenticate"]; len(got) != 1 || got[0] != "Bearer" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: headers %v", name, method, r.Header)
			}
			d.expect(r, 401, no)
		}
	}
	if len(d.reached) > 0 {
		t.Fatalf("%v reached MCP", d.reached)
	}
	for _, good := range []string{"Bearer " + token, "bearer " + token, "BEARER   " + token + " "} {
		for _, path := range []string{"/mcp", "/mcp/", "/mcp?x=1"} {
			d.expect(d.do("POST", path, http.Header{"Authorization": {good}}), 200, "reached")
		}
	}
}

// A gateway that has no token lets nobody in, an empty token least of all.
func TestB1_NoTokenOfOurOwn(t *testing.T) {
	d := open(t, Options{})
	d.o.Token = ""
	d.digest = New(Options{Log: d.o.Log}).digest
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer x"} {
		if r := d.do("POST", "/mcp", http.Header{"Authorization": {authorization}}); r.StatusCode != 401 {
			t.Errorf("%q: %d", authorization, r.StatusCode)
		}
	}
}

func TestB2_B56_ForeignHost(t *testing.T) {
	d := open(t, Options{})
	for _, host := range []string{"50005-abc.example.dev", "50005-abc.example.dev:443", "evil.example", "[::1]:1", "localhost"} {
		h := bearer.Clone()
		h.Set("Host", host)
		d.expect(d.do("POST", "/mcp", h), 200, "reached")
		d.expect(d.do("GET", "/health", http.Header{"Host": {host}}), 200, `{"status":"ok","servers":4,"tools":17}`+"\n")
	}
}

func TestB3_Health(t *testing.T) {
	d := open(t, Options{AllowedOrigins: []string{"https://app.example"}})
	for status, code := range map[string]int{OK: 200, Degraded: 200, Starting: 503} {
		d.health.Status = status
		r := d.do("GET", "/health", nil)
		if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", r.Header)
		}
		d.expect(r, code, fmt.Sprintf(`{"status":%q,"servers":4,"tools":17}`+"\n", status))
		d.expect(d.do("HEAD", "/health", nil), code, "")
	}
	r := d.do("POST", "/health", nil)
	if r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("headers %v", r.Header)
	}
	d.expect(r, 405, refusal("/health takes GET"))
	// A page gets nothing to read it with, whatever its origin.
	for _, origin := range []string{"https://app.example", "https://evil.example", "http://localhost:1"} {
		r := d.do("GET", "/health", http.Header{"Origin": {origin}})
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control") {
				t.Errorf("%s for %s", name, origin)
			}
		}
	}
}

// Trap 11: an origin is allowed by name, and never for being the same as the Host header: with DNS
// rebinding both are the page's.
func TestB3_Trap11_Origins(t *testing.T) {
	d := open(t, Options{AllowedOrigins: []string{"https://app.example", "https://Slash.example/"}})
	for origin, ok := range map[string]bool{
		"https://app.example":            true,
		"https://slash.example":          true,
		"http://localhost":               true,
		"http://localhost:8080":          true,
		"http://127.0.0.1:3000":          true,
		"http://[::1]:3000":              true,
		"http://app.example":             false,
		"https://app.example:8443":       false,
		"https://evil.example":           false,
		"https://app.example.evil":       false,
		"http://localhost.evil.example":  false,
		"http://127.0.0.1.evil.example":  false,
		"http://evil.example/localhost":  false,
		"http://localhost@evil.example":  false,
		"file://localhost":               false,
		"chrome-extension://localhost":   false,
		"null":                           false,
		"":                               false,
		"https://app.example, http://e":  false,
		"http://[::1%25evil.example]:80": false,
	} {
		h := bearer.Clone()
		h.Set("Origin", origin)
		h.Set("Host", strings.TrimPrefix(origin, "https://"))
		if strings.ContainsAny(h.Get("Host"), "/, %") {
			h.Del("Host")
		}
		r := d.do("POST", "/mcp", h)
		if !ok {
			if r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%q: headers %v", origin, r.Header)
			}
			d.expect(r, 403, refusal(fmt.Sprintf("pages of the origin %.100q are not allowed here; --allow-origin allows one", origin)))
			continue
		}
		if r.Header.Get("Access-Control-Allow-Origin") != origin || r.Header.Get("Vary") != "Origin" || !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("%q: headers %v", origin, r.Header)
		}
		d.expect(r, 200, "reached")
	}
	t.Run("two origins", func(t *testing.T) {
		r := d.do("POST", "/mcp", http.Header{"Authorization": bearer["Authorization"], "Origin": {"https://app.example", "https://evil.example"}})
		if r.StatusCode != 403 {
			t.Errorf("status %d", r.StatusCode)
		}
	})
	t.Run("an allowed page without a token may read why", func(t *testing.T) {
		r := d.do("POST", "/mcp", http.Header{"Origin": {"https://app.example"}})
		if r.StatusCode != 401 || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	})
	t.Run("all", func(t *testing.T) {
		d := open(t, Options{AllowedOrigins: []string{"*"}})
		h := bearer.Clone()
		h.Set("Origin", "https://any.example")
		r := d.do("POST", "/mcp", h)
		if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "https://any.example" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
	})
}

func TestB59_Preflight(t *testing.T) {
	d := open(t, Options{AllowedOrigins: []string{"https://app.example"}})
	ask := http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"}}
	r := d.do("OPTIONS", "/mcp", ask)
	allowed := r.Header.Get("Access-Control-Allow-Headers")
	for _, name := range []string{"Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		if !strings.Contains(allowed, name) {
			t.Errorf("%s is missing in %q", name, allowed)
		}
	}
	if r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || r.Header.Get("Access-Control-Allow-Methods") != "GET, POST, DELETE, OPTIONS" || r.Header.Get("Access-Control-Max-Age") == "" {
		t.Errorf("headers %v", r.Header)
	}
	d.expect(r, 204, "")
	ask.Set("Access-Control-Request-Headers", "authorization,mcp-param-region")
	if r = d.do("OPTIONS", "/mcp", ask); r.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-param-region" {
		t.Errorf("headers %v", r.Header)
	}
	ask.Set("Origin", "https://evil.example")
	if r = d.do("OPTIONS", "/mcp", ask); r.StatusCode != 403 || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	// An OPTIONS that is no preflight is a request like any other.
	if r = d.do("OPTIONS", "/mcp", http.Header{"Origin": {"https://app.example"}}); r.StatusCode != 401 {
		t.Errorf("%d", r.StatusCode)
	}
	if len(d.reached) > 0 {
		t.Errorf("%v reached MCP", d.reached)
	}
}

func TestB62_WrongPath(t *testing.T) {
	d := open(t, Options{})
	for _, path := range []string{"/", "/sse", "/mcp2", "/mcp/x", "/MCP", "/healthz"} {
		for _, h := range []http.Header{nil, bearer} {
			d.expect(d.do("POST", path, h), 404, refusal(fmt.Sprintf("%.100q is not served here; MCP is at /mcp", path)))
		}
	}
}

// The control side is behind the same door, and is refused in the form that its own clients read: "an
// authenticated client is needed".
func TestControl(t *testing.T) {
	said := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, what) })
	}
	d := open(t, Options{Control: said("control"), Callback: said("callback"), AllowedOrigins: []string{"https://app.example"}})
	for _, path := range []string{"/v1/", "/v1/status", "/v1/mcp-servers/a%2Fb/authorization", "/v1/x?wait=1s"} {
		d.expect(d.do("GET", path, bearer), 200, "control")
		r := d.do("GET", path, nil)
		if r.Header.Get("WWW-Authenticate") != "Bearer" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", path, r.Header)
		}
		d.expect(r, 401, `{"code":"unauthenticated","message":"the bearer token is missing or wrong: send Authorization: Bearer <token>"}`)
	}
	r := d.do("GET", "/v1/status", http.Header{"Authorization": bearer["Authorization"], "Origin": {"https://evil.example"}})
	d.expect(r, 403, `{"code":"permissionDenied","message":"pages of the origin \"https://evil.example\" are not allowed here; --allow-origin allows one"}`)
	r = d.do("GET", "/v1/status", http.Header{"Authorization": bearer["Authorization"], "Origin": {"https://app.example"}})
	if !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("headers %v", r.Header)
	}
	d.expect(d.do("GET", "/oauth/callback?state=x", nil), 200, "callback") // the state is the proof
	d.expect(d.do("GET", "/oauth/client.json", nil), 200, "callback")
	for _, path := range []string{"/v1", "/v2/status", "/oauth/", "/oauth/callback/"} {
		if r := d.do("GET", path, bearer); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := open(t, Options{}).do("GET", "/v1/status", bearer); r.StatusCode != 404 {
		t.Errorf("without a control side: %d", r.StatusCode)
	}
}

func TestUnready(t *testing.T) {
	d := open(t, Options{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Unready(w, r, "the gateway is starting; try again in a second")
	})})
	r := d.do("POST", "/mcp", bearer)
	if r.Header.Get("Retry-After") != "1" {
		t.Errorf("headers %v", r.Header)
	}
	d.expect(r, 503, refusal("the gateway is starting; try again in a second"))
}

// Shutdown lets requests end and cuts off those that do not.
func TestShutdown(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	d := open(t, Options{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		in <- struct{}{}
		<-r.Context().Done()
		close(out)
	})})
	conn := d.dial()
	fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	<-in
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.Shutdown(ctx)
	<-out
	if _, err := net.Dial("tcp", d.address); err == nil {
		t.Error("it still accepts connections")
	}
}

func (d *door) dial() net.Conn {
	d.t.Helper()
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

// Connections that send nothing are closed after a while, those with a request in flight are not.
func TestSilentConnections(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	d := open(t, Options{MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		<-out
		io.WriteString(w, "done")
	})})
	ask := fmt.Sprintf("GET /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	silent, slow, busy := d.dial(), d.dial(), d.dial()
	fmt.Fprint(slow, ask[:30])
	fmt.Fprint(busy, ask)
	<-in
	d.until(func(all int) bool { return all == 3 })
	after := func(limit time.Duration) int64 { return int64(time.Since(d.conns.started) + limit) }
	d.conns.sweep(after(headerLimit - time.Second))
	if n := d.count(); n != 3 {
		t.Fatalf("%d connections", n)
	}
	d.conns.sweep(after(headerLimit + time.Second))
	for _, conn := range []net.Conn{silent, slow} {
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(err.Error(), "reset") {
			t.Errorf("got %v", err)
		}
	}
	close(out)
	answer := bufio.NewReader(busy)
	for round := range 2 { // it is idle from now on, and may be used again
		r, err := http.ReadResponse(answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(r.Body); string(body) != "done" {
			t.Errorf("got %q", body)
		}
		d.conns.sweep(after(idleLimit - time.Minute))
		if round == 0 {
			fmt.Fprint(busy, ask)
			<-in
		}
	}
	// The server notes that the connection is idle after it has sent the answer.
	for d.count() > 0 {
		d.conns.sweep(after(idleLimit + time.Minute))
	}
	if _, err := answer.ReadByte(); err == nil {
		t.Error("an idle connection stays for ever")
	}
}

func (d *door) count() int {
	d.conns.mu.Lock()
	defer d.conns.mu.Unlock()
	return len(d.conns.all)
}

func (d *door) until(ok func(int) bool) {
	for !ok(d.count()) {
		runtime.Gosched() // another goroutine is about to count
	}
}

// Who has no token cannot hold a connection by a body that never comes.
func TestRefusedBodyIsNotWaitedFor(t *testing.T) {
	d := open(t, Options{})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deadlines := make(chan time.Time, 10)
	d.run(&spying{inner, deadlines})
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
	for {
		if left := time.Until(<-deadlines); left > 0 {
			if left > bodyLimit {
				t.Errorf("waits for %v", left)
			}
			break
		}
	}
	fmt.Fprint(conn, "12345")
	answer := bufio.NewReader(conn)
	r, err := http.ReadResponse(answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.expect(r, 401, refusal("the bearer token is missing or wrong: send Authorization: Bearer <token>"))
	// The connection serves on.
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", token)
	if r, err = http.ReadResponse(answer, nil); err != nil {
		t.Fatal(err)
	}
	d.expect(r, 200, "reached")
}

// spying tells of the read deadlines of its connections.
type spying struct {
	net.Listener
	deadlines chan time.Time
}

func (l *spying) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &spied{c, l.deadlines}, err
}

type spied struct {
	net.Conn
	deadlines chan time.Time
}

func (c *spied) SetReadDeadline(t time.Time) error {
	select {
	case c.deadlines <- t:
	default:
	}
	return c.Conn.SetReadDeadline(t)
}

// The token's text is nowhere in what the server says.
func TestB1_TokenIsNotSaid(t *testing.T) {
	if s := fmt.Sprintf("%v %+v", Options{Token: token}.Token, secret.Value(token)); strings.Contains(s, token) {
		t.Error(s)
	}
}

func BenchmarkDoor(b *testing.B) {
	s := New(Options{Token: token, Log: slog.New(slog.DiscardHandler), MCP: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	r, err := http.NewRequest("POST", "/mcp", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header = bearer
	b.ReportAllocs()
	for b.Loop() {
		s.route(nil, r)
	}
}
