package downstream

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mcp-gateway/internal/wire"
)

// Trap 12: the checks of 2026-07-28 in their order. Each case breaks one thing and all that is checked
// later, so only its own error can come.
func TestTrap12_Checks(t *testing.T) {
	f := &fake{headers: []ParamHeader{{Path: []string{"region"}, Name: "Region"}, {Path: []string{"deep", "n"}, Name: "Count"}}}
	s := serve(t, f, Options{})
	const (
		version = `"io.modelcontextprotocol/protocolVersion":`
		caps    = `"io.modelcontextprotocol/clientCapabilities":`
	)
	request := func(method, rest, meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"r","method":%q,"params":{%s"_meta":{%s}}}`, method, rest, meta)
	}
	good := version + `"2026-07-28",` + caps + `{}`
	tool := `"name":"t","arguments":{"region":"eu","deep":{"n":42}},`
	all := headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "t", "Mcp-Param-Region", "eu", "Mcp-Param-Count", "42"}
	with := func(more ...string) headers { return append(append(headers{}, all...), more...) }
	for _, test := range []struct {
		name, body   string
		h            headers
		status, code int
		says         string
	}{
		{"1 no version header", request("no/such", "", version+`"1"`), nil, 400, -32020, "MCP-Protocol-Version header is missing"},
		{"2 no version in the body", request("no/such", "", ""), headers{"Mcp-Protocol-Version", "2027-01-01"}, 400, -32602, "protocolVersion"},
		{"2 version is no string", request("no/such", "", version+`1`), headers{"Mcp-Protocol-Version", "2027-01-01"}, 400, -32602, "protocolVersion"},
		{"2 no params", `{"jsonrpc":"2.0","id":"r","method":"no/such"}`, headers{"Mcp-Protocol-Version", "2026-07-28"}, 400, -32602, "protocolVersion"},
		{"3 not equal", request("no/such", "", version+`"2027-01-02"`), headers{"Mcp-Protocol-Version", "2027-01-01"}, 400, -32020, `"2027-01-01" is not the "2027-01-02"`},
		{"3 not equal, an older header", request("no/such", "", version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2025-11-25"}, 400, -32020, `"2025-11-25" is not the "2026-07-28"`},
		{"3 two headers", request("no/such", "", version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28", "+Mcp-Protocol-Version", "2026-07-28"}, 400, -32020, "is not the"},
		{"4 not supported", request("no/such", "", version+`"2027-01-01"`), headers{"Mcp-Protocol-Version", "2027-01-01"}, 400, -32022, `"2027-01-01" is not supported`},
		{"5 unknown method", request("no/such", "", version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28"}, 404, -32601, `"no/such" not found`},
		{"5 initialize", request("initialize", `"protocolVersion":"2025-11-25",`, version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28"}, 404, -32601, `"initialize" not found`},
		{"6 no method header", request("tools/call", tool, version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28"}, 400, -32020, "Mcp-Method header is missing"},
		{"6 another method", request("tools/call", tool, version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32020, `"tools/list" is not the method "tools/call"`},
		{"6 case counts", request("tools/call", tool, version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "Tools/Call"}, 400, -32020, "is not the method"},
		{"7 no capabilities", request("tools/call", tool, version+`"2026-07-28"`), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}, 400, -32602, "clientCapabilities"},
		{"7 capabilities are no object", request("tools/call", tool, version+`"2026-07-28",`+caps+`[]`), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}, 400, -32602, "clientCapabilities"},
		{"8 no name header", request("tools/call", tool, good), with("Mcp-Name", none, "Mcp-Param-Count", none), 400, -32020, "Mcp-Name header is missing"},
		{"8 another name", request("tools/call", tool, good), with("Mcp-Name", "T", "Mcp-Param-Count", none), 400, -32020, `"T" is not the "t"`},
		{"8 two names", request("tools/call", tool, good), with("+Mcp-Name", "t"), 400, -32020, "is not the"},
		{"8 bad base64", request("tools/call", tool, good), with("Mcp-Name", "=?base64?d?="), 400, -32020, "no valid base64"},
		{"8 prompt", request("prompts/get", `"name":"p",`, good), with("Mcp-Method", "prompts/get"), 400, -32020, `"t" is not the "p"`},
		{"8 resource", request("resources/read", `"uri":"file:///a",`, good), with("Mcp-Method", "resources/read", "Mcp-Name", "file:///b"), 400, -32020, `is not the "file:///a"`},
		{"8 task", request("tasks/get", `"taskId":"1",`, good), with("Mcp-Method", "tasks/get", "Mcp-Name", "2"), 400, -32020, `"2" is not the "1"`},
		{"9 no param header", request("tools/call", tool, good), with("Mcp-Param-Region", none), 400, -32020, `Mcp-Param-Region header is missing; it repeats the argument "region"`},
		{"9 another value", request("tools/call", tool, good), with("Mcp-Param-Region", "us"), 400, -32020, `"us" is not the value of the argument "region"`},
		{"9 deep", request("tools/call", tool, good), with("Mcp-Param-Count", "43"), 400, -32020, `"43" is not the value of the argument "deep.n"`},
		{"9 no number", request("tools/call", tool, good), with("Mcp-Param-Count", "x42"), 400, -32020, `argument "deep.n"`},
		{"9 bad base64", request("tools/call", tool, good), with("Mcp-Param-Region", "=?base64?%?="), 400, -32020, "no valid base64"},
		{"9 header without argument", request("tools/call", `"name":"t","arguments":{"region":null,"deep":{"n":42}},`, good), all, 400, -32020, "the argument \"region\" is not"},
		{"9 trap 3 twice", request("tools/call", `"name":"t","arguments":{"region":"eu","r\u0065gion":"us","deep":{"n":42}},`, good), all, 400, -32020, `"region" stands in it twice`},
		{"9 no value for a header", request("tools/call", `"name":"t","arguments":{"region":{},"deep":{"n":42}},`, good), all, 400, -32020, "no string, integer or boolean"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.do("POST", test.body, test.h)
			body := read(t, r)
			r.Body = http.NoBody
			var id, code = wire.Get([]byte(body), "id"), wire.Get(wire.Get([]byte(body), "error"), "code")
			message, _ := wire.GetString(wire.Get([]byte(body), "error"), "message")
			if r.StatusCode != test.status || string(id) != `"r"` || string(code) != fmt.Sprint(test.code) || !strings.Contains(message, test.says) || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s", r.StatusCode, body)
			}
			if test.code == -32022 {
				if data := string(wire.Get(wire.Get([]byte(body), "error"), "data")); data != `{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2027-01-01"}` {
					t.Errorf("data %s", data)
				}
			}
		})
	}
	for name, test := range map[string]struct {
		body string
		h    headers
	}{
		"all":             {request("tools/call", tool, good), all},
		"a session's id":  {request("tools/call", tool, good), with("Mcp-Session-Id", "left over")},
		"base64":          {request("tools/call", strings.ReplaceAll(tool, `"eu"`, `"süd ♥ "`), good), with("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte("t"))+"?=", "Mcp-Param-Region", "=?base64?"+base64.StdEncoding.EncodeToString([]byte("süd ♥ "))+"?=")},
		"white space":     {request("tools/call", tool, good), with("Mcp-Name", "  t\t")},
		"escapes":         {request("tools/call", strings.ReplaceAll(tool, `"name":"t"`, `"n\u0061me":"\u0074"`), good), all},
		"number":          {request("tools/call", strings.ReplaceAll(tool, "42", "4.2e1"), good), all},
		"great number":    {request("tools/call", strings.ReplaceAll(tool, "42", "12345678901234567890"), good), with("Mcp-Param-Count", "12345678901234567890")},
		"boolean":         {request("tools/call", strings.ReplaceAll(tool, `"eu"`, "true"), good), with("Mcp-Param-Region", "true")},
		"empty string":    {request("tools/call", strings.ReplaceAll(tool, `"eu"`, `""`), good), with("Mcp-Param-Region", "")},
		"absent, no head": {request("tools/call", `"name":"t",`, good), with("Mcp-Param-Region", none, "Mcp-Param-Count", none)},
		"base64 inside":   {request("tools/call", strings.ReplaceAll(tool, `"eu"`, `"=?base64?x"`), good), with("Mcp-Param-Region", "=?base64?x")},
		"no name needed":  {request("tools/list", "", good), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}},
		"discover":        {request("server/discover", "", good), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover"}},
		"task":            {request("tasks/get", `"taskId":"1",`, good), headers{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.do("POST", test.body, test.h)
			if body := read(t, r); r.StatusCode != 200 || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":"r","result":{`) {
				t.Errorf("got %d %s", r.StatusCode, body)
			}
			if r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a session in 2026-07-28")
			}
		})
	}
}

func TestModern_OneWay(t *testing.T) {
	got := make(chan *Session, 1)
	s := serve(t, &fake{notified: func(s *Session, m wire.Msg) { got <- s }}, Options{})
	// Trap 12: notifications carry no triple.
	expect(t, s.do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, headers{"Mcp-Protocol-Version", V20260728}), 202, "")
	if session := <-got; session != nil {
		t.Error("a session in 2026-07-28")
	}
	refused(t, s.do("POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, headers{"Mcp-Protocol-Version", V20260728}), 400, -32600, "1", "a client sends no responses")
}

// Which era a message is of.
func TestModern_OrNot(t *testing.T) {
	s := serve(t, &fake{}, Options{})
	c := s.initialize("2025-11-25")
	refused(t, s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, nil), 400, -32020, "1", "header is missing")
	refused(t, s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, headers{"Mcp-Protocol-Version", "2025-11-25"}), 400, -32600, "1", "Mcp-Session-Id")
	// With a session, what a request's _meta holds is the servers' business.
	meta := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`
	expect(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"x","params":`+meta+`}`), 200, `{"jsonrpc":"2.0","id":1,"result":`+meta+`}`)
	for version, modern := range map[string]bool{"": false, "2025-11-25": false, "2026-07-27": false, "2026-07-28": true, "2030-01-01": true, "DRAFT-2026": false, "9999999999": false, "2026-07-2x": false, "2026_07_28": false, "2026-07-281": false} {
		if modernVersion(version) != modern {
			t.Errorf("%q: %v", version, !modern)
		}
	}
}

// Errors of the handler have the HTTP status that 2026-07-28 wants, where they come first.
func TestModern_StatusOfErrors(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{})
	for code, status := range map[int]int{-32601: 404, -32602: 400, -32020: 400, -32021: 400, -32022: 400, -32603: 200, -32000: 200, 7: 200} {
		answer := s.modern(call(1))
		(<-calls).Fail(&wire.Error{Code: code, Message: "m"})
		expect(t, <-answer, status, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}`, code))
		raw := fmt.Sprintf(`{"error":{"code":%d,"data":{"z":1,"a":12345678901234567890}},"id":77}`, code)
		m, err := wire.ParseServer([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		answer = s.modern(call(1))
		(<-calls).Finish(m)
		expect(t, <-answer, status, strings.Replace(raw, "77", "1", 1))
		answer = s.modern(call(1)) // trap 10
		x := <-calls
		x.Send([]byte(progress(1)))
		x.Finish(m)
		e := events(t, <-answer)
		e.want(progress(1))
		e.want(strings.Replace(raw, "77", "1", 1))
	}
}

func TestModern_Listen(t *testing.T) {
	f, calls := holder()
	s := serve(t, f, Options{MaxSessions: 2, MaxInFlight: 1})
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`
	refused(t, s.postModern(listen, "Accept", "application/json"), 406, -32600, "1", "send Accept")
	var open []held
	for range 2 { // it is no call, and no id is anybody else's
		answer := s.modern(listen)
		x := <-calls
		open = append(open, x)
		x.Require([]byte(`"ack"`))
		events(t, <-answer).want(`"ack"`)
	}
	expect(t, s.postModern(listen), 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"too many streams of subscriptions/listen: 2 are open already"}}`)
	answer := s.modern(call(1))
	x := <-calls
	if n := s.InFlight(); n != 1 {
		t.Errorf("%d in flight", n)
	}
	x.Result([]byte("{}"))
	expect(t, <-answer, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	open[0].Result([]byte("{}"))
	<-open[0].over
}
