package downstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"mcp-gateway/internal/wire"
)

// One exchange without a network: what this package costs, with an answer from another goroutine as
// from a server.
func BenchmarkExchange(b *testing.B) {
	answers := make(chan *Exchange)
	defer close(answers)
	m, err := wire.ParseServer([]byte(`{"jsonrpc":"2.0","id":77,"result":{"content":[{"type":"text","text":"hello"}]}}`))
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for x := range answers {
			x.Finish(m)
		}
	}()
	s := New(&fake{serve: func(ctx context.Context, x *Exchange) {
		x.OnAbandon(func() {})
		answers <- x
		_ = x.Wait(ctx)
	}}, Options{})
	session := newSession(s, V20251125, &wire.Msg{})
	s.open(session)
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
	for _, accept := range []string{acceptBoth, "text/event-stream"} {
		b.Run(accept, func(b *testing.B) {
			b.ReportAllocs()
			w := &discard{header: http.Header{}}
			r := httptest.NewRequest("POST", "/mcp", nil)
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {accept}, "Mcp-Session-Id": {session.ID}}
			r.ContentLength = int64(len(body))
			in := bytes.NewReader(nil)
			r.Body = io.NopCloser(in)
			for b.Loop() {
				in.Reset(body)
				clear(w.header)
				s.ServeHTTP(w, r)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// The same over a real connection, for the share of net/http.
func BenchmarkExchangeHTTP(b *testing.B) {
	s := serve(b, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	body := call(1)
	request := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: %s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", acceptBoth, c.id, len(body), body)
	in := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 {
			b.Fatal(r.StatusCode, err)
		}
		r.Body.Close()
	}
}

func BenchmarkBigResult(b *testing.B) {
	big := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 1<<20)...), '"')
	s := New(&fake{serve: func(ctx context.Context, x *Exchange) {
		x.Result(big)
		_ = x.Wait(ctx)
	}}, Options{})
	session := newSession(s, V20251125, &wire.Msg{})
	s.open(session)
	for _, accept := range []string{acceptBoth, "text/event-stream"} {
		b.Run(accept, func(b *testing.B) {
			b.SetBytes(int64(len(big)))
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/mcp", bytes.NewReader([]byte(call(1))))
				r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {accept}, "Mcp-Session-Id": {session.ID}}
				s.ServeHTTP(&discard{header: http.Header{}}, r)
			}
		})
	}
}
