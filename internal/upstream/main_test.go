package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// peer is what a test sees of one fake server.
type peer struct {
	t      *testing.T
	host   *process.Host
	dialer *StdioDialer
	conn   Conn

	mu       sync.Mutex
	noise    []string
	stderr   []string
	notified chan wire.Msg
	asked    chan wire.Msg
}

// newPeer prepares a fake server with these flags; it is not started.
func newPeer(t *testing.T, flags ...string) *peer {
	t.Helper()
	host, err := process.NewHost(process.HostOptions{StdinGrace: time.Second, TermGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &peer{t: t, host: host, notified: make(chan wire.Msg, 1000), asked: make(chan wire.Msg, 1000)}
	p.dialer = &StdioDialer{
		Server: "fake", Host: host, Handler: p, Limit: 64 << 20,
		Spec:     process.Spec{Name: "fake", Argv: append([]string{mcptest.Build(t)}, flags...), Env: os.Environ()},
		Identity: Identity{ClientInfo: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(`{}`)},
		Log:      slog.New(slog.NewTextHandler(logLines{p}, nil)),
		Stderr: func(line string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.stderr = append(p.stderr, line)
		},
		Scrub: func(text string) string { return strings.ReplaceAll(text, "s3cr3t", "***") },
	}
	return p
}

// logLines keeps what is logged.
type logLines struct{ p *peer }

func (l logLines) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.noise = append(l.p.noise, string(b))
	return len(b), nil
}

func (p *peer) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.noise, "")
}

func (p *peer) Notified(_ Conn, m wire.Msg) { p.notified <- m }
func (p *peer) Asked(_ Conn, m wire.Msg)    { p.asked <- m }

// dial starts a fake server and connects to it.
func dial(t *testing.T, flags ...string) *peer {
	t.Helper()
	p := newPeer(t, flags...)
	p.connect()
	return p
}

func (p *peer) connect() {
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

func (p *peer) pid() int { return p.conn.(*stdio).p.Pid() }

// reply is the sink of a test's call.
type reply struct {
	t    *testing.T
	call Call
	done chan struct{}
	m    wire.Msg
	err  error

	mu       sync.Mutex
	progress []string
	first    chan struct{} // closed at the first progress
}

func (r *reply) Progress(m wire.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress = append(r.progress, string(m.Params)); len(r.progress) == 1 {
		close(r.first)
	}
}

func (r *reply) Done(m wire.Msg, err error) {
	r.m, r.err = m, err
	close(r.done)
}

// begin sends a tools/call; token is raw JSON, "" for none.
func (p *peer) begin(tool, args, token string) *reply {
	p.t.Helper()
	r, err := p.try(tool, args, token)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *peer) try(tool, args, token string) (*reply, error) {
	r := &reply{t: p.t, done: make(chan struct{}), first: make(chan struct{})}
	request := Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, args)}
	if token != "" {
		request.Token = []byte(token)
		request.Params = fmt.Appendf(nil, `{"name":%q,"arguments":%s,"_meta":{"progressToken":%s}}`, tool, args, token)
	}
	var err error
	r.call, err = p.conn.Begin(request, r)
	return r, err
}

// wait waits for the end of the call.
func (r *reply) wait() *reply {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("the call did not end")
	}
	return r
}

// text is the text of the tool's result.
func (r *reply) text() string {
	r.t.Helper()
	r.wait()
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(r.m.Result, &result); err != nil || len(result.Content) == 0 {
		r.t.Fatalf("no result of a tool: %.300s", r.m.Raw)
	}
	return result.Content[0].Text
}

// call calls a tool and returns the text of its result.
func (p *peer) call(tool, args string) string {
	p.t.Helper()
	return p.begin(tool, args, "").text()
}

var contains = mcptest.Contains

// receive waits for a message.
func receive(t *testing.T, c <-chan wire.Msg) wire.Msg {
	t.Helper()
	select {
	case m := <-c:
		return m
	case <-time.After(patience):
		t.Fatal("no message came")
		return wire.Msg{}
	}
}
