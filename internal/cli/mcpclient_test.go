package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// oddResult is a result that no typed layer gives back: key order, a number of 20 digits, unknown
// fields, an unknown kind of content.
const oddResult = `{"zeta":1.0,  "content":[{"type":"text","text":"<b>"},{"odd":true,"type":"hologram"}],"structuredContent":{"n":12345678901234567890},"isError":false}`

// rawGateway is a minimal MCP endpoint whose answers are written by hand.
type rawGateway struct {
	events  bool   // answer with an event stream, a progress notification first
	token   string // refuse requests without it
	result  string // of tools/call; an object with "code" is an error
	tools   [][]string
	unready bool // answer 503 to everything
	hang    bool // never answer tools/call

	seen     chan json.RawMessage // params of tools/call
	notified chan string          // notifications after the call
}

func (g *rawGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.token != "" && r.Header.Get("Authorization") != "Bearer "+g.token {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	if g.unready {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	json.Unmarshal(body, &m)
	if m.ID == nil {
		if m.Method != "notifications/initialized" {
			g.notified <- m.Method
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{}`
	switch m.Method {
	case "server/discover":
		g.answer(w, m.ID, `{"code":-32601,"message":"method not found"}`)
		return
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
	case "tools/list":
		result = g.page(m.Params)
	case "tools/call":
		select {
		case g.seen <- m.Params:
		default: // no test looks
		}
		if g.hang {
			<-r.Context().Done()
			return
		}
		result = g.result
	}
	g.answer(w, m.ID, result)
}

// page answers tools/list; the cursor is the number of the page.
func (g *rawGateway) page(params json.RawMessage) string {
	var p struct{ Cursor string }
	json.Unmarshal(params, &p)
	n := 0
	fmt.Sscan(p.Cursor, &n)
	next := ""
	if n+1 < len(g.tools) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, n+1)
	}
	return fmt.Sprintf(`{"tools":[%s]%s}`, strings.Join(g.tools[n], ","), next)
}

func (g *rawGateway) answer(w http.ResponseWriter, id json.RawMessage, result string) {
	kind := "result"
	if strings.HasPrefix(result, `{"code"`) {
		kind = "error"
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"%s":%s}`, id, kind, result)
	if !g.events {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n")
	fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", message)
}

func newRawGateway(t *testing.T, g *rawGateway) string {
	g.seen, g.notified = make(chan json.RawMessage, 1), make(chan string, 1)
	if g.tools == nil {
		g.tools = [][]string{{`{"name":"odd","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`},
			{`{"name":"ill","readOnlyHint":"yes","icons":"foo","description":"two\nlines"}`}}
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return server.URL
}

// run runs one command line in this process.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, env)
	return code, out.String(), errs.String()
}

// G2: tools call gives the result object as the server sent it, from a JSON answer and from a stream.
func TestG2_ToolsCallIsByteExact(t *testing.T) {
	for _, events := range []bool{false, true} {
		g := &rawGateway{events: events, result: oddResult, token: "tok"}
		url := newRawGateway(t, g)
		code, stdout, stderr := run(t, []string{"MCP_GATEWAY_TOKEN=tok"},
			"tools", "call", "odd", "--url", url, "--arg", "n=12345678901234567890", "--arg", "s=x")
		if code != exitDone || stdout != oddResult+"\n" || stderr != "" {
			t.Errorf("events %t: exit %d, stdout %s, stderr %s", events, code, stdout, stderr)
		}
		if params := string(<-g.seen); !strings.Contains(params, `"arguments":{"n":12345678901234567890,"s":"x"}`) {
			t.Errorf("events %t: server got %s", events, params)
		}
	}
}

func TestG2_ToolsListOfAnotherGateway(t *testing.T) {
	url := newRawGateway(t, &rawGateway{token: "tok"})
	code, stdout, stderr := run(t, []string{"GATEWAY_ACCESS_TOKEN=tok"}, "tools", "ls", "--json", "--url", url+"/mcp")
	want := `[{"name":"odd","original_name":"odd","server":"","description":""},` +
		`{"name":"ill","original_name":"ill","server":"","description":"two\nlines"}]` + "\n"
	if code != exitDone || stdout != want {
		t.Errorf("exit %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	_, stdout, _ = run(t, []string{"GATEWAY_ACCESS_TOKEN=tok", "MCP_GATEWAY_URL=" + url}, "tools", "ls")
	if want := "odd\t\todd\t\nill\t\till\ttwo lines\n"; stdout != want {
		t.Errorf("in a pipe: %q", stdout)
	}
	empty := newRawGateway(t, &rawGateway{tools: [][]string{{}}})
	if _, stdout, _ = run(t, nil, "tools", "ls", "--json", "--url", empty); stdout != "[]\n" {
		t.Errorf("no tools: %q", stdout)
	}
	code, stdout, _ = run(t, []string{"MCP_GATEWAY_TOKEN=tok"}, "tools", "inspect", "ill", "--url", url)
	if want := `{"name":"ill","readOnlyHint":"yes","icons":"foo","description":"two\nlines"}` + "\n"; code != exitDone || stdout != want {
		t.Errorf("inspect: exit %d, stdout %s", code, stdout)
	}
}

// The exit codes of the tools commands, and G5: the error as an object in the last line.
func TestG5_ToolsErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	isError := `{"content":[{"type":"text","text":"boom"}],"isError":true}`
	for _, test := range []struct {
		name         string
		gateway      *rawGateway
		args         []string
		exit         int
		code, stderr string
	}{
		{"unauthorized", &rawGateway{token: "other"}, []string{"tools", "ls"}, exitUnauthorized, "not_authorized", "HTTP status 401"},
		{"not ready", &rawGateway{unready: true}, []string{"tools", "ls"}, exitNotRunning, "not_ready", "gateway is not ready"},
		{"unreachable", nil, []string{"tools", "ls"}, exitNotRunning, "unreachable", "connection refused"},
		{"unknown tool", &rawGateway{}, []string{"tools", "call", "od"}, exitTool, "unknown_tool", `there is no tool "od": did you mean "odd"?`},
		{"isError", &rawGateway{result: isError}, []string{"tools", "call", "odd"}, exitTool, "tool_error", `tool "odd" reported an error`},
		{"error", &rawGateway{result: `{"code":-32000,"message":"it died"}`}, []string{"tools", "call", "odd"}, exitFailed, "failed",
			`call tool "odd": it died (JSON-RPC error -32000)`},
		{"odd URL", nil, []string{"tools", "ls", "--url", "ftp://x"}, exitUsage, "usage", `--url "ftp://x": a URL with http or https is needed`},
		{"odd arguments", &rawGateway{}, []string{"tools", "call", "odd", "--args-json", "[]"}, exitUsage, "usage", "a JSON object is needed"},
		{"no name", nil, []string{"tools", "call"}, exitUsage, "usage", "NAME is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := closed.URL
			if test.gateway != nil {
				url = newRawGateway(t, test.gateway)
			}
			env := []string{"MCP_GATEWAY_TOKEN=tok", "MCP_GATEWAY_URL=" + url}
			code, stdout, stderr := run(t, env, test.args...)
			if first, _, _ := strings.Cut(stderr, "\n"); code != test.exit || !strings.Contains(first, test.stderr) {
				t.Errorf("exit %d, stderr %s", code, stderr)
			}
			if test.code == "tool_error" && stdout != isError+"\n" {
				t.Errorf("result is %q", stdout)
			}
			if strings.Contains(stderr, "tok\n") || strings.Contains(stderr, "Bearer tok") {
				t.Errorf("the token is in %q", stderr)
			}
			_, _, stderr = run(t, env, append(test.args, "--json")...)
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			checkErrorJSON(t, lines[len(lines)-1]+"\n", test.code)
		})
	}
}

// The token goes to the host that it was given for, and to no other that an answer points to.
func TestTokenStaysWithItsHost(t *testing.T) {
	got := make(chan string, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer other.Close()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer first.Close()
	run(t, []string{"MCP_GATEWAY_TOKEN=tok"}, "tools", "ls", "--url", first.URL)
	if header := <-got; header != "" {
		t.Errorf("the other host got %q", header)
	}
}

func TestWriteResult(t *testing.T) {
	for _, test := range []struct{ result, want string }{
		{`{"content":[{"type":"text","text":"one\ntwo\n"},{"type":"image","mimeType":"image/png","data":"aGVsbG8h"}]}`,
			"one\ntwo\n[image image/png, 6 bytes]\n"},
		{`{"content":[{"type":"resource_link","uri":"x://y"},{"type":"resource","resource":{"uri":"a","text":"inside"}},` +
			`{"type":"resource","resource":{"uri":"b","mimeType":"z","blob":"aGVsbG8h"}}]}`, "[resource x://y]\ninside\n[resource b z, 6 bytes]\n"},
		{`{"content":[],"structuredContent":{"n":12345678901234567890}}`, "{\n  \"n\": 12345678901234567890\n}\n"},
		{`{"content":[{"type":"text","text":"\u001b[2Jclean\u0007"}]}`, "clean\n"},
		{`{"content":[{"type":"hologram","x":1}]}`, `{"type":"hologram","x":1}` + "\n"},
		{`{"resultType":"task"}`, "{\n  \"resultType\": \"task\"\n}\n"},
	} {
		var b strings.Builder
		if err := writeResult(&b, json.RawMessage(test.result)); err != nil || b.String() != test.want {
			t.Errorf("%s: got %q, %v", test.result, b.String(), err)
		}
	}
}

// An interrupted call ends at once, says so instead of a transport's error, and tells the server.
func TestInterruptedCall(t *testing.T) {
	g := &rawGateway{hang: true}
	url := newRawGateway(t, g)
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	client, err := connect(ctx, &app{Streams: &Streams{}}, remoteFlags{url: url})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	go func() {
		<-g.seen
		cancel(cause)
	}()
	if _, err := client.call(ctx, "odd", []byte("{}")); !errors.Is(err, cause) {
		t.Errorf("error is %v", err)
	}
	if method := <-g.notified; method != "notifications/cancelled" {
		t.Errorf("server was told %q", method)
	}
}
