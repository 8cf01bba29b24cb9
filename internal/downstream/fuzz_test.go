package downstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/wire"
)

// Whatever a client posts: one of the statuses that are meant, and an answer that is JSON-RPC.
func FuzzPOST(f *testing.F) {
	for _, body := range []string{
		call(1), call(`"\u0041"`), `{"jsonrpc":"2.0","method":"x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		"[" + call(1) + "," + call(2) + ",3]", "[]", "[[]]", "{\"jsonrpc\":\"2.0\",\r\"id\":1,\n\"method\":\"a\",\"params\":{\r}}", `{"a":[}}`, "\xff", "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"region":"eu"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	} {
		for form := range uint8(8) {
			f.Add([]byte(body), form)
		}
	}
	h := &fake{headers: []ParamHeader{{Path: []string{"region"}, Name: "Region"}}}
	s := New(h, Options{MaxBody: 1 << 16, MaxSessions: 10})
	f.Fuzz(func(t *testing.T, body []byte, form uint8) {
		version := []string{"2025-03-26", "2025-11-25"}[form&1]
		session := newSession(s, version, &wire.Msg{})
		if e := s.open(session); e != nil {
			t.Fatal(e)
		}
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(string(body)))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session.ID}}
		if form&2 != 0 {
			r.Header.Set("Accept", "text/event-stream")
		}
		if form&4 != 0 {
			r.Header["Mcp-Protocol-Version"] = []string{"2026-07-28"}
			r.Header["Mcp-Method"] = []string{"tools/call"}
			r.Header["Mcp-Name"] = []string{"t"}
			r.Header["Mcp-Param-Region"] = []string{"eu"}
			delete(r.Header, "Mcp-Session-Id")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 202, 400, 404, 413}, w.Code) {
			t.Fatalf("status %d for %q", w.Code, body)
		}
		answer := w.Body.String()
		if w.Code == 202 {
			if answer != "" {
				t.Fatalf("202 with %q", answer)
			}
			return
		}
		if w.Header().Get("Content-Type") == "text/event-stream" {
			answer = lastData(t, answer)
		}
		if answer == "" && form&2 != 0 {
			return // a batch without answers
		}
		replies := [][]byte{[]byte(answer)}
		if wire.Kind([]byte(answer)) == '[' {
			replies = slices.Collect(wire.Elements([]byte(answer)))
		}
		for _, reply := range replies {
			m, err := wire.ParseServer(reply)
			if !json.Valid(reply) || m.Result == nil && m.Err == nil || err != nil && string(wire.Get(reply, "id")) != "null" {
				t.Fatalf("%q is answered with %q", body, answer)
			}
		}
		if session.isBusy() || s.InFlight() != 0 {
			t.Fatalf("something is in flight after %q", body)
		}
	})
}

// lastData reads an event stream strictly: each event is lines of known fields.
func lastData(t *testing.T, stream string) (data string) {
	t.Helper()
	if strings.ContainsRune(stream, '\r') {
		t.Fatalf("a carriage return in %q", stream)
	}
	for e := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		for line := range strings.SplitSeq(e, "\n") {
			field, value, ok := strings.Cut(line, ": ")
			if !ok || !slices.Contains([]string{"id", "event", "data"}, field) {
				t.Fatalf("line %q in %q", line, stream)
			}
			if field == "data" {
				data = value
			}
		}
	}
	return data
}

// A client may send any Last-Event-ID; what it then gets is what came after, without a gap but for
// what is not kept any more.
func FuzzLastEventID(f *testing.F) {
	for _, id := range []string{"0--1", "0-0", "1-5", "7", "", "-1-0", "+1-0", "1-+0", "01-1", "1-99999999999999999999", "1-1-1", "1--2", "0-3"} {
		f.Add(id, uint16(5), uint16(2))
	}
	f.Fuzz(func(t *testing.T, id string, put, read uint16) {
		number, after, ok := parseEventID(id)
		if !ok {
			return
		}
		if number < 0 || after < -1 || fmt.Sprintf("%d-%d", number, after) != id {
			t.Fatalf("%q is read as %d, %d", id, number, after)
		}
		put, read = put%2000, min(read%2000, put%2000)
		s := &stream{keeps: true}
		wake, _, _ := s.attach(onward)
		for n := range put {
			s.put(item{a: fmt.Appendf(nil, "%d", n), kind: important})
			if n < read {
				s.next(wake)
			}
		}
		wake, at, ok := s.attach(after)
		if !ok {
			t.Fatal("the stream has not ended")
		}
		held, waiting := 0, 0
		for n, i := range s.items {
			if s.first+n <= at {
				held += i.size()
			} else {
				waiting += i.size()
			}
		}
		if s.held != held || s.waiting != waiting {
			t.Fatalf("%d bytes are kept and %d wait, but %d and %d are counted", held, waiting, s.held, s.waiting)
		}
		expected := at + 1
		for i, number, c := s.next(wake); i.size() > 0; i, number, c = s.next(wake) {
			if number != expected || string(i.a) != fmt.Sprint(number) || c != goesOn {
				t.Fatalf("got %d (%s), want %d", number, i.a, expected)
			}
			expected++
		}
		if expected != int(put) {
			t.Fatalf("the last message is %d of %d", expected-1, put)
		}
		if after < int(put) && at < after {
			t.Fatalf("what the client has is sent again: from %d on, after %d", at+1, after)
		}
		if after < int(read) && at > max(after, int(read)-maxKept-1) {
			t.Fatalf("kept messages are left out: from %d on, after %d", at+1, after)
		}
	})
}
