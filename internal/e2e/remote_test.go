package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// echoServer is a remote server that answers a call with its body, as a document or as events, and keeps
// the requests that it got. It refuses whoever does not bring the key.
type echoServer struct {
	*httptest.Server
	events bool

	mu       sync.Mutex
	requests []string // headers and body
}

const echoKey = "echo-key-7f3a9c"

func startEcho(t *testing.T, events bool) *echoServer {
	t.Helper()
	s := &echoServer{events: events}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *echoServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, fmt.Sprint(r.Header, " ", string(body)))
	s.mu.Unlock()
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments json.RawMessage }
	}
	_ = json.Unmarshal(body, &m)
	var result string
	switch {
	case r.Header.Get("X-Key") != echoKey:
		w.Header().Set("WWW-Authenticate", `Bearer realm="echo"`)
		http.Error(w, "who are you? "+r.Header.Get("X-Key"), http.StatusUnauthorized)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "session-of-the-echo")
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case m.Method == "tools/list":
		result = `{"tools":[{"name":"bytes","inputSchema":{"type":"object"}}]}`
	case m.Method == "tools/call":
		result = `{ "structuredContent":` + string(m.Params.Arguments) + `, "content":[{"type":"new","n":12345678901234567890}],"z":1.0,"a":"\u0041<&>" }`
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	default:
		http.Error(w, "no such method", http.StatusBadRequest)
		return
	}
	answer := fmt.Sprintf(`{"result":%s,"id":%s,"jsonrpc":"2.0","x":[1, 2]}`, result, m.ID)
	if s.events {
		w.Header().Set("Content-Type", "text/event-stream")
		answer = ": first\n\nevent: message\ndata: " + answer + "\n\n"
	}
	io.WriteString(w, answer)
}

func (s *echoServer) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

// A call to a remote server and its result pass byte for byte, by documents and by events.
func TestRemoteCallsPassByteForByte(t *testing.T) {
	for name, events := range map[string]bool{"documents": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			far := startEcho(t, events)
			g := newPlace(t).start(t, fmt.Sprintf(`{"far":{"url":%q,"headers":{"X-Key":"${KEY}"},"envs":{"KEY":%q}}}`, far.URL+"/mcp?team=blue", echoKey))
			for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
				c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: version, Token: testToken})
				arguments := `{"z":12345678901234567890,"a":1.0,"m":-0.0,"e":1E+2,"\u0061":"<&>","deep":[[{"k":null}]], "emoji":"🎉 \ud83c\udf89"}`
				r := c.Call("bytes", arguments)
				want := `{ "structuredContent":` + arguments + `, "content":[{"type":"new","n":12345678901234567890}],"z":1.0,"a":"\u0041<&>" }`
				if version == mcptest.Modern {
					want = strings.TrimSuffix(want, " }") + `,"resultType":"complete" }`
				}
				if got := string(r.Result); strings.ReplaceAll(got, ` ,"resultType"`, `,"resultType"`) != want {
					t.Errorf("%s: result %s\nwant %s", version, got, want)
				}
				if version == mcptest.Legacy && string(r.Raw) != fmt.Sprintf(`{"result":%s,"id":%s,"jsonrpc":"2.0","x":[1, 2]}`, want, r.ID) {
					t.Errorf("response %s", r.Raw)
				}
				if !strings.Contains(far.got(), arguments) {
					t.Errorf("the server was given %s", far.got())
				}
			}
			nowhere(t, g.place, echoKey, "session-of-the-echo")
			if _, stdout, _ := g.command(t, "status"); !strings.Contains(stdout, "far") || !strings.Contains(stdout, "ready") {
				t.Errorf("status prints %s", stdout)
			}
		})
	}
}

// nowhere wants the texts in no file of the gateway's, in no argument or environment of its process, and
// in nothing that it tells (B75).
func nowhere(t *testing.T, p place, secrets ...string) {
	t.Helper()
	var all strings.Builder
	_ = filepath.WalkDir(p.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		return nil
	})
	state := p.status(t)
	for _, name := range []string{"cmdline", "environ"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", state.Pid, name))
		all.Write(text)
	}
	for _, args := range [][]string{{"status", "--json"}, {"tools", "ls", "--json"}, {"logs"}, {"doctor"}} {
		_, stdout, stderr := p.command(t, args...)
		all.WriteString(stdout + stderr)
	}
	for _, secret := range secrets {
		if strings.Contains(all.String(), secret) {
			t.Errorf("%q is to be read", secret)
		}
	}
}

// Remote servers of every transport beside a process.
func TestRemoteServersBesideAProcess(t *testing.T) {
	entries := []string{fmt.Sprintf(`"near":{"command":%q,"args":["-prefix=near_"]}`, mcptest.Build(t))}
	kinds := []string{mcptest.RemoteSessions, mcptest.RemoteStateless, mcptest.RemoteSSE}
	var servers []*mcptest.RemoteServer
	for _, kind := range kinds {
		s := mcptest.StartRemote(t, kind)
		servers = append(servers, s)
		transport := ""
		if kind == mcptest.RemoteSSE {
			transport = `"type":"sse",`
		}
		entries = append(entries, fmt.Sprintf(`%q:{%s"url":%q,"gateway":{"prefix":"%s_"}}`, kind, transport, s.URL, kind))
	}
	g := newPlace(t).start(t, "{"+strings.Join(entries, ",")+"}")
	c := g.connect(t)
	for _, kind := range kinds {
		if got := call(t, c, kind+"_echo", map[string]any{"a": 1}); got != `{"a":1}` {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := call(t, c, "near_echo", map[string]any{}); got != "{}" {
		t.Errorf("near: %s", got)
	}
	if _, body := g.health(t); !strings.Contains(body, `"servers":4`) || !strings.Contains(body, `"ok"`) {
		t.Errorf("health %s", body)
	}
	if exit, _, stderr := g.command(t, "stop"); exit != 0 {
		t.Fatal(stderr)
	}
	for i, s := range servers {
		if n := s.Sessions(); kinds[i] == mcptest.RemoteSessions && n != 0 { // ended by DELETE
			t.Errorf("%s: %d sessions are left", kinds[i], n)
		}
	}
}

// A5 for servers that are reached by their URL.
func TestA5_RemoteServerThatDoesNotWork(t *testing.T) {
	echo := startEcho(t, false)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><body>Welcome to <b>nginx</b>!</body></html>")
	}))
	defer page.Close()
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	for name, test := range map[string]struct{ entry, want string }{
		"credentials": {fmt.Sprintf(`{"url":%q,"headers":{"X-Key":"wrong-key-123"}}`, echo.URL+"/mcp?k=secret-in-url"),
			`[sign_in_required]: ` + echo.URL + `/mcp?…: POST server/discover: HTTP 401 Unauthorized (Bearer realm="echo"): who are you? ***`},
		"nobody": {fmt.Sprintf(`{"url":%q}`, nobody.URL+"/mcp"), `[unreachable]: ` + nobody.URL + `/mcp: POST server/discover: dial tcp ` + strings.TrimPrefix(nobody.URL, "http://") + `: connect: connection refused`},
		"a page": {fmt.Sprintf(`{"url":%q}`, page.URL), `[handshake_invalid]: ` + page.URL + `: POST initialize: the answer is no message of MCP: HTTP 200 text/html: Welcome to nginx !`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			exit, stdout, stderr := p.shell(t, p.startLine(`{"far":`+test.entry+`}`))
			first, rest, _ := strings.Cut(stderr, "\n")
			if exit != 1 || stdout != "" || !strings.Contains(first, `server "far" `+test.want) {
				t.Errorf("exit %d, stdout %q, first line\n%s\nwant\n%s", exit, stdout, first, test.want)
			}
			if strings.Contains(stderr, "wrong-key-123") || strings.Contains(stderr, "secret-in-url") {
				t.Errorf("a secret is in %s", stderr)
			}
			if rest == "" {
				t.Error("no hint")
			}
			log, _ := os.ReadFile(filepath.Join(p.root, "var/log/mcp-gateway.log"))
			if strings.Contains(string(log), "wrong-key-123") || strings.Contains(string(log), "secret-in-url") {
				t.Errorf("a secret is in the log: %s", log)
			}
		})
	}
}

// A catalogue entry of the kind remote, from the machine's own catalogue (C5), and A8: the proxy of the
// environment that the gateway was started in reaches remote servers.
func TestC5_RemoteCatalogueEntry(t *testing.T) {
	echo := startEcho(t, false)
	p := newPlace(t, "http_proxy="+echo.URL, "HTTP_PROXY="+echo.URL, "no_proxy=")
	file := filepath.Join(p.root, "etc/mcp-gateway/catalog.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	catalog := `{"echoes":{"description":"Echoes.","runs":"remote","url":"http://echo.example/{{team}}/mcp","headers":{"X-Key":"{{key}}"},
		"properties":{"key":{"type":"string","required":true,"secret":true},"team":{"type":"string","default":"a b"}}}}`
	if err := os.WriteFile(file, []byte(catalog), 0o644); err != nil {
		t.Fatal(err)
	}
	exit, _, stderr := p.shell(t, p.startLine(`{"echoes":{}}`))
	if exit != 2 || !strings.Contains(stderr, `server "echoes": key: is missing`) {
		t.Errorf("without its key: exit %d, %s", exit, stderr)
	}
	g := p.start(t, fmt.Sprintf(`{"echoes":{"key":%q}}`, echoKey))
	c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Token: testToken})
	if tools := c.Names("tools/list", "tools", "name"); !slices.Equal(tools, []string{"bytes"}) {
		t.Errorf("tools %v", tools)
	}
	c.Call("bytes", `{"a":1}`)
	nowhere(t, g.place, echoKey)
	exit, stdout, _ := p.command(t, "catalog", "show", "echoes")
	if exit != 0 || !strings.Contains(stdout, "echo.example") {
		t.Errorf("catalog show: %d %s", exit, stdout)
	}
}
