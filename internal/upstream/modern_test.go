package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mcp-gateway/internal/wire"
)

// newModernServer starts a server of 2026-07-28.
func newModernServer(t *testing.T) *webServer {
	s := newWebServer(t)
	s.stateless = true
	s.on("server/discover", func(w http.ResponseWriter, _ *http.Request, q request) {
		writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)))
	})
	return s
}

func TestModern_Headers(t *testing.T) {
	s := newModernServer(t)
	schema := `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"n":{"type":"integer","x-mcp-header":"N"},
		"deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
		"other":{"type":"string"}}}`
	s.on("tools/list", func(w http.ResponseWriter, _ *http.Request, q request) {
		writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"resultType":"complete","tools":[{"name":"wetter in köln","inputSchema":`+schema+`},{"name":"plain","inputSchema":{"type":"object"}}]}`)))
	})
	p := dialRemote(t, s.URL)
	if _, err := ListAll(t.Context(), p.conn, "tools/list", "tools", ModernMeta(p.dialer.Identity)); err != nil {
		t.Fatal(err)
	}
	header := func(tool, args string) http.Header {
		t.Helper()
		p.call(tool, args)
		calls := s.got("tools/call")
		return calls[len(calls)-1].header
	}
	for _, test := range []struct{ tool, args, name, region, n, flag string }{
		{"wetter in köln", `{"region":"eu","n":42,"deep":{"flag":true},"other":"x"}`, "=?base64?d2V0dGVyIGluIGvDtmxu?=", "eu", "42", "true"},
		{"wetter in köln", `{"region":" a","n":-7.0,"deep":{"flag":null}}`, "=?base64?d2V0dGVyIGluIGvDtmxu?=", "=?base64?IGE=?=", "-7", ""},
		{"wetter in köln", `{"region":"","n":1.5}`, "=?base64?d2V0dGVyIGluIGvDtmxu?=", "=?base64??=", "", ""},
		{"plain", `{"region":"eu"}`, "plain", "", "", ""},
	} {
		h := header(test.tool, test.args)
		got := fmt.Sprintf("%s %s|%s|%s|%s|%s", h.Get("Mcp-Method"), h.Get("Mcp-Protocol-Version"), h.Get("Mcp-Name"), h.Get("Mcp-Param-Region"), h.Get("Mcp-Param-N"), h.Get("Mcp-Param-Flag"))
		if want := fmt.Sprintf("tools/call 2026-07-28|%s|%s|%s|%s", test.name, test.region, test.n, test.flag); got != want {
			t.Errorf("%s %s: %s, want %s", test.tool, test.args, got, want)
		}
	}
	for method, params := range map[string]string{"resources/read": `{"uri":"file:///ä"}`, "prompts/get": `{"name":"p"}`} {
		if _, err := Ask(t.Context(), p.conn, method, []byte(params)); err != nil {
			t.Fatal(err)
		}
	}
	if name := s.got("resources/read")[0].header.Get("Mcp-Name"); name != "=?base64?ZmlsZTovLy/DpA==?=" {
		t.Errorf("a resource's name is %q", name)
	}
	if name := s.got("prompts/get")[0].header.Get("Mcp-Name"); name != "p" {
		t.Errorf("a prompt's name is %q", name)
	}
}

func TestModern_HeadersThatDoNotFitAnyMore(t *testing.T) {
	s := newModernServer(t)
	annotated := false
	s.on("tools/list", func(w http.ResponseWriter, _ *http.Request, q request) {
		schema := `{"type":"object"}`
		if annotated {
			schema = `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`
		}
		writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"resultType":"complete","tools":[{"name":"echo","inputSchema":`+schema+`}]}`)))
	})
	s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
		if annotated && r.Header.Get("Mcp-Param-A") != "b" {
			w.WriteHeader(http.StatusBadRequest)
			w.Write(wire.ErrorReply(q.msg.ID, []byte(`{"code":-32020,"message":"mismatch"}`)))
			return
		}
		writeJSON(w, echoReply(q.msg))
	})
	p := dialRemote(t, s.URL)
	if _, err := ListAll(t.Context(), p.conn, "tools/list", "tools", nil); err != nil {
		t.Fatal(err)
	}
	p.call("echo", `{"a":"b"}`)
	annotated = true
	p.call("echo", `{"a":"b"}`)
	if order := s.order(); order != "server/discover tools/list tools/call tools/call tools/list tools/call" {
		t.Errorf("requests: %s", order)
	}
	r := p.begin("echo", `{"a":"c"}`, "").wait() // it stays wrong: asked once more only
	contains(t, string(r.m.Err), "-32020")
}

func TestModern_StreamIsNotGoneOnWith(t *testing.T) {
	s := newModernServer(t)
	s.on("tools/call", func(w http.ResponseWriter, _ *http.Request, q request) {
		writeEvents(w, "id: 1\ndata:\n\n")
		panic(http.ErrAbortHandler)
	})
	p := dialRemote(t, s.URL)
	contains(t, p.begin("echo", "{}", "").failure().Error(), "the answer broke off")
	if len(s.got("GET")) > 0 {
		t.Error("2026-07-28 has no GET")
	}
}

func TestParamHeaders(t *testing.T) {
	for _, test := range []struct{ schema, want, err string }{
		{`{"type":"object"}`, "[]", ""},
		{`true`, "[]", ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`, "[{[a] A}]", ""},
		{`{"properties":{"a":{"properties":{"b":{"type":"integer","x-mcp-header":"B-1"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}`, "[{[a b] B-1} {[c] C}]", ""},
		{`{"properties":{"x-mcp-header":{"type":"string"}}}`, "[]", ""},
		{`{"properties":{"a":{"type":"string","default":{"x-mcp-header":"A"}}}}`, "[]", ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "", `is no name for a header: ""`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "", `is no name for a header: "A B"`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`, "", "is no name for a header"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, "", "is no name for a header: 7"},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "", "which is no string, integer or boolean"},
		{`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, "", "which is no string, integer or boolean"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, "", `"a" is there twice`},
		{`{"x-mcp-header":"A","type":"string"}`, "", "by properties alone"},
		{`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, "", `at "a.items" is not on a property`},
		{`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, "", "by properties alone"},
		{`{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`, "", "by properties alone"},
	} {
		got, err := ParamHeaders([]byte(test.schema))
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: error %v, want %q", test.schema, err, test.err)
		case test.err == "" && (err != nil || fmt.Sprint(got) != test.want):
			t.Errorf("%s: %v, %v, want %s", test.schema, got, err, test.want)
		}
	}
}

func TestEncodeHeader(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1": "us-west1", "a b": "a b", "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "": "=?base64??=",
	} {
		if got := encodeHeader(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
