package downstream

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"mcp-gateway/internal/wire"
)

func TestInitialize_Versions(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	for _, test := range []struct{ asked, agreed string }{
		{"2025-11-25", "2025-11-25"},
		{"2025-06-18", "2025-06-18"},
		{"2025-03-26", "2025-03-26"},
		{"2024-11-05", "2024-11-05"}, // over streamable HTTP too
		{"2026-07-28", "2025-11-25"}, // has no initialize; without its header the client is an older one
		{"1999-01-01", "2025-11-25"},
		{"", "2025-11-25"},
	} {
		t.Run(test.asked, func(t *testing.T) {
			r := s.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"roots":{}},"clientInfo":{"name":"c"}}}`, test.asked), nil)
			expect(t, r, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":%q,"capabilities":{},"serverInfo":{"name":"fake","version":"1"}}}`, test.agreed))
			session := client{s, r.Header.Get("Mcp-Session-Id")}.session()
			if session == nil || session.Version != test.agreed || string(session.Capabilities) != `{"roots":{}}` || string(session.ClientInfo) != `{"name":"c"}` {
				t.Fatalf("session %+v", session)
			}
			c := client{s, session.ID}
			expect(t, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), 202, "")
			expect(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", test.agreed), 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		})
	}
	t.Run("no version", func(t *testing.T) {
		refused(t, s.do("POST", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}`, nil), 400, wire.CodeInvalidParams, "7", "protocolVersion")
	})
	t.Run("as an event stream", func(t *testing.T) {
		r := s.do("POST", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, headers{"Accept", "text/event-stream"})
		e := events(t, r)
		if m := e.message(); !strings.Contains(m.data, `"id":7,"result"`) || m.id != "" {
			t.Errorf("got %+v", m)
		}
		e.end()
	})
}

func TestLegacy_VersionHeader(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-06-18")
	for version, ok := range map[string]bool{none: true, "2025-06-18": true, "2025-03-26": true, "2025-11-25": true, "2024-11-05": true, "1.0": false, "2025-06-19": false, "DRAFT-2026": false} {
		r := c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Protocol-Version", version)
		if ok {
			expect(t, r, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		} else {
			refused(t, r, 400, wire.CodeInvalidRequest, "1", "MCP-Protocol-Version header is \""+version+`"; spoken are 2026-07-28, 2025-11-25`)
		}
	}
}

// What is refused, with its exact HTTP status and JSON-RPC error.
func TestRefusals(t *testing.T) {
	s := serve(t, &fake{}, Options{MaxBody: 1000})
	c := s.initialize("2025-11-25")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	big := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 1000) + `"}}`
	for _, test := range []struct {
		name         string
		method, body string
		h            headers
		status, code int
		id, says     string
	}{
		{"B58 no session id", "POST", ping, nil, 400, -32600, "1", "Mcp-Session-Id header is missing"},
		{"B58 B73 unknown session", "POST", ping, headers{"Mcp-Session-Id", "made-up"}, 404, -32001, "1", "session not found"},
		{"B58 unknown session, notification", "POST", `{"jsonrpc":"2.0","method":"x"}`, headers{"Mcp-Session-Id", "made-up"}, 404, -32001, "null", "session not found"},
		{"B58 unknown session, GET", "GET", "", headers{"Mcp-Session-Id", "made-up"}, 404, -32001, "null", "session not found"},
		{"B58 unknown session, DELETE", "DELETE", "", headers{"Mcp-Session-Id", "made-up"}, 404, -32001, "null", "session not found"},
		{"B58 GET without session", "GET", "", nil, 400, -32600, "null", "Mcp-Session-Id header is missing"},
		{"B58 DELETE without session", "DELETE", "", nil, 400, -32600, "null", "Mcp-Session-Id header is missing"},
		{"two session ids", "POST", ping, headers{"Mcp-Session-Id", c.id, "+Mcp-Session-Id", c.id}, 404, -32001, "1", "session not found"},
		{"B63 null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, headers{"Mcp-Session-Id", c.id}, 400, -32600, "null", "an id is a string or a number"},
		{"trap 21 parse error", "POST", `{"jsonrpc":"2.0","id":5,"method":`, headers{"Mcp-Session-Id", c.id}, 400, -32700, "5", "not valid JSON"},
		{"trap 21 parse error before the id", "POST", `{"jsonrpc":`, headers{"Mcp-Session-Id", c.id}, 400, -32700, "null", "not valid JSON"},
		{"empty body", "POST", "", headers{"Mcp-Session-Id", c.id}, 400, -32700, "null", "not valid JSON"},
		{"trap 3 two methods", "POST", `{"jsonrpc":"2.0","id":5,"method":"a","m\u0065thod":"b"}`, headers{"Mcp-Session-Id", c.id}, 400, -32600, "5", `"method" stands in it twice`},
		{"trap 3 two names", "POST", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`, headers{"Mcp-Session-Id", c.id}, 400, -32600, "5", `"params.name" stands in it twice`},
		{"no jsonrpc", "POST", `{"id":5,"method":"ping"}`, headers{"Mcp-Session-Id", c.id}, 400, -32600, "5", `"jsonrpc" is "2.0"`},
		{"no message", "POST", `"ping"`, headers{"Mcp-Session-Id", c.id}, 400, -32600, "null", "a message is a JSON object"},
		{"other method", "PUT", ping, headers{"Mcp-Session-Id", c.id}, 405, -32600, "null", "PUT is not allowed"},
		{"content type", "POST", ping, headers{"Content-Type", "text/plain"}, 415, -32600, "null", `Content-Type header is "text/plain"`},
		{"no content type", "POST", ping, headers{"Content-Type", none}, 415, -32600, "null", "application/json"},
		{"B57 nothing that we have", "POST", ping, headers{"Accept", "text/html"}, 406, -32600, "null", "send Accept: application/json, text/event-stream"},
		{"GET takes no events", "GET", "", headers{"Mcp-Session-Id", c.id, "Accept", "application/json"}, 406, -32600, "null", "send Accept: text/event-stream"},
		{"strange event id", "GET", "", headers{"Mcp-Session-Id", c.id, "Last-Event-ID", "7"}, 400, -32600, "null", `Last-Event-ID header "7"`},
		{"forgotten event stream", "GET", "", headers{"Mcp-Session-Id", c.id, "Last-Event-ID", "7-0"}, 410, -32600, "null", "event stream 7 is not kept"},
		{"too large", "POST", big, headers{"Mcp-Session-Id", c.id}, 413, -32600, "null", "over the limit of 1000 bytes"},
		{"modern GET", "GET", "", headers{"Mcp-Protocol-Version", V20260728}, 405, -32600, "null", "subscriptions/listen"},
		{"modern DELETE", "DELETE", "", headers{"Mcp-Protocol-Version", V20260728}, 405, -32600, "null", "only POST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.do(test.method, test.body, test.h)
			refused(t, r, test.status, test.code, test.id, test.says)
			if r.Close != (r.StatusCode == 413) {
				t.Errorf("status %d, and the connection is closed: %v", r.StatusCode, r.Close)
			}
			if allow := r.Header.Get("Allow"); (r.StatusCode == 405) != (allow != "") {
				t.Errorf("status %d with Allow %q", r.StatusCode, allow)
			}
		})
	}
	t.Run("too large, in chunks", func(t *testing.T) {
		r, err := http.NewRequest("POST", s.http.URL+"/mcp", &chunks{strings.NewReader(big)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {c.id}}
		response, err := s.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		refused(t, response, 413, -32600, "null", "over the limit of 1000 bytes")
	})
	t.Run("in chunks", func(t *testing.T) {
		r, err := http.NewRequest("POST", s.http.URL+"/mcp", &chunks{strings.NewReader(ping)})
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Mcp-Session-Id": {c.id}}
		response, err := s.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		expect(t, response, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
	t.Run("cut off", func(t *testing.T) {
		conn := s.dial()
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"")
		conn.(*net.TCPConn).CloseWrite()
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		refused(t, response, 400, -32700, "null", "the body ended early")
	})
}

// chunks hides the length from the client, which then sends a chunked body.
type chunks struct{ r *strings.Reader }

func (c *chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), 7)]) }

func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestB57_Accept(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	for _, test := range []struct {
		accept string
		form   form
	}{
		{none, anyForm},
		{"*/*", anyForm},
		{"application/json, text/event-stream", anyForm},
		{"text/event-stream;q=0.5, Application/JSON;q=0.1", anyForm},
		{"text/*, application/*", anyForm},
		{"text/event-stream, */*;q=0.1", anyForm},
		{"application/json", onlyJSON},
		{"application/json, text/event-stream;q=0", onlyJSON},
		{"text/event-stream;q=0.0, */*", onlyJSON},
		{"text/html, application/*", onlyJSON},
		{"text/event-stream", onlyEvents},
		{"text/event-stream, application/json; q=0", onlyEvents},
	} {
		t.Run(test.accept, func(t *testing.T) {
			r := c.post(call(1), "Accept", test.accept)
			if test.form != onlyEvents {
				expect(t, r, 200, result(1))
				return
			}
			e := events(t, r)
			if prime, _ := e.next(); prime.id == "" || prime.data != "" {
				t.Errorf("got %+v", prime)
			}
			e.want(result(1))
			e.end()
		})
	}
}

// B48, trap 4: an id comes back as the very bytes.
func TestB48_IDs(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	ids := []string{`1`, `"1"`, `0`, `-1`, `9007199254740991`, `9007199254740993`, `1.50`, `1e3`, `"A"`, `"\u0041"`, `""`, `"` + strings.Repeat("long", 500) + `"`}
	var answers []<-chan *http.Response
	var held []held
	for _, id := range ids { // all in flight at once
		answers = append(answers, c.async(call(id)))
		held = append(held, <-calls)
	}
	for n := len(ids) - 1; n >= 0; n-- {
		x := held[n]
		if string(x.Msg.ID) != ids[n] {
			t.Fatalf("got %s, want %s", x.Msg.ID, ids[n])
		}
		m, err := wire.ParseServer(fmt.Appendf(nil, `{"result":{"for":%q}, "id" : 77,"jsonrpc":"2.0"}`, ids[n]))
		if err != nil {
			t.Fatal(err)
		}
		x.Finish(m)
		expect(t, <-answers[n], 200, fmt.Sprintf(`{"result":{"for":%q}, "id" : %s,"jsonrpc":"2.0"}`, ids[n], ids[n]))
		if err := <-x.over; err != nil {
			t.Error(err)
		}
	}
}

func TestDuplicateID(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	c, other := s.initialize("2025-11-25"), s.initialize("2025-11-25")
	first := c.async(call(1))
	x := <-calls
	refused(t, c.post(call(1)), 400, -32600, "1", "a request with the id 1 is in flight already")
	second := other.async(call(1)) // in another session it is another id
	y := <-calls
	x.Result([]byte(`"x"`))
	y.Result([]byte(`"y"`))
	expect(t, <-first, 200, `{"jsonrpc":"2.0","id":1,"result":"x"}`)
	expect(t, <-second, 200, `{"jsonrpc":"2.0","id":1,"result":"y"}`)
	again := c.async(call(1)) // once answered it may be used again
	(<-calls).Result([]byte(`"z"`))
	expect(t, <-again, 200, `{"jsonrpc":"2.0","id":1,"result":"z"}`)
}

func TestUnknownMethodOfOldRevisionIs200(t *testing.T) { // trap 21
	f, calls := holder()
	s := serve(t, f, Options{})
	c := s.initialize("2025-11-25")
	answer := c.async(call(1))
	(<-calls).Fail(&wire.Error{Code: wire.CodeMethodNotFound, Message: "no"})
	expect(t, <-answer, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`)
}

func TestTooManyCalls(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{MaxInFlight: 2})
	c := s.initialize("2025-11-25")
	first, second := c.async(call(1)), c.async(call(2))
	x, y := <-calls, <-calls
	expect(t, c.post(call(3)), 200, `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"too many calls: 2 are open already"}}`)
	if n := s.InFlight(); n != 2 {
		t.Errorf("%d in flight", n)
	}
	echo(x.Exchange)
	echo(y.Exchange)
	read(t, <-first)
	read(t, <-second)
	<-x.over
	third := c.async(call(3))
	z := <-calls
	echo(z.Exchange)
	expect(t, <-third, 200, result(3))
}
