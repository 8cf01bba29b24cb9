package relay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/upstream"
)

// remote starts a server of the Go SDK and a relay for it, beside a process.
func remote(t *testing.T, kind string) (*mcptest.RemoteServer, *rig) {
	t.Helper()
	s := mcptest.StartRemote(t, kind)
	return s, start(t, map[string]server{"far": {url: s.URL}, "near": flags("-prefix=near_")})
}

// knowing are the kinds of remote servers that know their clients.
var knowing = []string{mcptest.RemoteSessions, mcptest.RemoteDocuments, mcptest.RemoteResumable, mcptest.RemoteSSE}

func happens(t *testing.T, what string, c <-chan bool) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(mcptest.Patience):
		t.Fatalf("%s did not happen", what)
	}
}

func question(text string) string { return args("question", quoted(text)) }

func TestRemoteServers(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			s, g := remote(t, kind)
			for name, c := range map[string]*mcptest.Client{"legacy": g.legacy(), "modern": g.modern()} {
				tools := c.Names("tools/list", "tools", "name")
				if !slices.Contains(tools, "progress") || !slices.Contains(tools, "near_whoami") {
					t.Errorf("%s: tools %v", name, tools)
				}
				arguments := `{"n":12345678901234567890, "a":"<&>"}`
				equal(t, name, c.Call("echo", arguments).Text(), arguments)
				equal(t, name, c.Call("near_whoami", "{}").Text(), "near")
				r := c.Call("progress", "{}", mcptest.WithToken(`"t"`))
				if len(r.Interim) != 3 && kind != mcptest.RemoteDocuments { // which sends it elsewhere
					t.Errorf("%s: progress %v", name, r.Interim)
				}
				for _, m := range r.Interim {
					contains(t, string(m.Params), `"progressToken":"t"`)
				}
				refused(t, c.Request("tools/call", mcptest.CallParams("far_nothing", "{}")), -32602, "unknown tool")
				waiting := c.BeginCall("wait", "{}")
				happens(t, "the call", s.Waiting)
				if name == "modern" {
					waiting.HangUp()
				} else {
					waiting.Cancel("enough")
				}
				happens(t, "the cancellation", s.Cancelled)
			}
			if state := g.state("far"); state.State != upstream.StateReady || state.PID != 0 {
				t.Errorf("state %+v", state)
			}
		})
	}
}

// A server that knows its clients has a session for each, so that what it asks reaches the right one.
func TestRemoteSessions(t *testing.T) {
	for _, kind := range knowing {
		t.Run(kind, func(t *testing.T) {
			s, g := remote(t, kind)
			idle := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("idle")})
			idle.Result("tools/list", "")
			if n := s.Sessions(); n != 1 {
				t.Errorf("%d sessions before the first call", n)
			}
			var clients []*mcptest.Client
			for n := range 5 {
				clients = append(clients, g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers(fmt.Sprint("client ", n))}))
			}
			waiting := clients[0].BeginCall("wait", "{}")
			happens(t, "the call", s.Waiting)
			var all sync.WaitGroup
			for n, c := range clients {
				all.Go(func() {
					for range 3 {
						r, err := c.BeginCall("ask", question("?")).Wait()
						if err != nil || r.Text() != fmt.Sprint("client ", n) {
							t.Errorf("client %d got the answer %s, %v", n, r.Raw, err)
						}
					}
				})
			}
			all.Wait()
			waiting.Cancel("enough")
			happens(t, "the cancellation", s.Cancelled)
			if n := s.Sessions(); n != 1+len(clients) {
				t.Errorf("%d sessions for %d clients", n, len(clients))
			}
			for _, c := range clients {
				c.Close()
			}
			eventually(t, "the sessions end with the clients", func() bool { return s.Sessions() == 1 })
			t.Run("a client that cannot be asked", func(t *testing.T) {
				refused(t, g.legacy().Request("tools/call", mcptest.CallParams("ask", question("?"))), -32601)
			})
		})
	}
}

// Clients of 2026-07-28 have no sessions, so they share one at the server. Where a question comes on a
// call's own stream, it is for that call's client all the same.
func TestRemoteServerAsksAClientWithoutSession(t *testing.T) {
	for _, kind := range []string{mcptest.RemoteSessions, mcptest.RemoteResumable} {
		t.Run(kind, func(t *testing.T) {
			s, g := remote(t, kind)
			waiting := g.modern().BeginCall("wait", "{}")
			happens(t, "the call", s.Waiting)
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					c := g.modern(mcptest.ClientOptions{Capabilities: everything, Answer: answers(fmt.Sprint("client ", n))})
					r, err := c.Complete("tools/call", mcptest.CallParams("ask", question("?")))
					if err != nil || r.Text() != fmt.Sprint("client ", n) {
						t.Errorf("client %d got the answer %s, %v", n, r.Raw, err)
					}
				})
			}
			all.Wait()
			waiting.HangUp()
			happens(t, "the cancellation", s.Cancelled)
			if n := s.Sessions(); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

func TestB66_RemoteServerWithoutSessions(t *testing.T) {
	s, g := remote(t, mcptest.RemoteStateless)
	for range 3 {
		c := g.legacy()
		for range 10 {
			c.Call("echo", "{}")
		}
	}
	opened := 0
	for _, r := range s.Requests() {
		if method := r.Header.Get("Mcp-Method"); r.Method != http.MethodPost || method == "initialize" || method == "server/discover" {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("%d handshakes", opened)
	}
	t.Run("older clients of a server of 2026-07-28 are asked in rounds", func(t *testing.T) {
		c := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		equal(t, "answer", c.Call("elicit", "{}").Text(), "accept me, state")
		m := g.modern(mcptest.ClientOptions{Capabilities: everything, Answer: answers("you")})
		r, err := m.Complete("tools/call", mcptest.CallParams("elicit", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "answer to a newer client", r.Text(), "accept you, state")
	})
}

func TestB26_RemoteServerIsStartedAgain(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			s, g := remote(t, kind)
			c, m := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")}), g.modern()
			works := func() {
				equal(t, "legacy", c.Call("echo", "{}").Text(), "{}")
				equal(t, "modern", m.Call("echo", "{}").Text(), "{}")
				equal(t, "asked for input", c.Call("elicit", "{}").Text(), "accept me, state")
				if kind != mcptest.RemoteStateless {
					equal(t, "asked", c.Call("ask", question("?")).Text(), "me")
				}
			}
			works()
			if kind != mcptest.RemoteSSE { // its stream is its session, so a call can meet its end
				s.Forget()
				works()
			}
			// What was sent on a connection that was about to be dropped has no answer, and may have
			// been taken.
			s.Restart()
			for _, client := range []*mcptest.Client{c, m} {
				eventually(t, "calls work again", func() bool { return client.Request("tools/call", mcptest.CallParams("echo", "{}")).Error == nil })
			}
			works()
		})
	}
	t.Run("with a call in flight", func(t *testing.T) {
		s, g := remote(t, mcptest.RemoteSessions)
		waiting := g.legacy().BeginCall("wait", "{}")
		happens(t, "the call", s.Waiting)
		s.Restart()
		r := waiting.Must()
		refused(t, r, -32603, `"far"`)
	})
}

// Nobody has to call it first: its lists may have changed, and /health counts it.
func TestRemoteServerComesBackByItself(t *testing.T) {
	for _, kind := range knowing {
		s, g := remote(t, kind)
		s.Forget()
		eventually(t, kind, func() bool {
			state := g.state("far")
			return state.State == upstream.StateReady && state.Restarts == 1
		})
	}
}

func TestRemoteListsChange(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			_, g := remote(t, kind)
			c := g.legacy()
			c.Listen()
			c.Call("add_tool", "{}")
			c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
			eventually(t, "the new tool is listed", func() bool { return slices.Contains(c.Names("tools/list", "tools", "name"), "added") })
			equal(t, "the new tool", c.Call("added", "{}").Text(), "new")
		})
	}
}

// A stream of changes that ends is opened again, and what changed meanwhile is read.
func TestRemoteListensAgain(t *testing.T) {
	s, g := remote(t, mcptest.RemoteStateless)
	c := g.modern()
	c.Call("add_tool", "{}")
	eventually(t, "the new tool is listed", func() bool { return slices.Contains(c.Names("tools/list", "tools", "name"), "added") })
	s.Restart() // it has the tool no more, and tells nobody
	eventually(t, "the lists are read again", func() bool { return !slices.Contains(c.Names("tools/list", "tools", "name"), "added") })
	c.Call("add_tool", "{}")
	eventually(t, "changes are told again", func() bool { return slices.Contains(c.Names("tools/list", "tools", "name"), "added") })
}

func TestRemoteServerThatCannotBeReached(t *testing.T) {
	s := mcptest.StartRemote(t, mcptest.RemoteSessions)
	down := make(chan bool)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-down:
			w.WriteHeader(http.StatusBadGateway)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	defer front.Close()
	g := start(t, map[string]server{"far": {url: front.URL}, "near": flags("-prefix=near_")})
	c := g.legacy()
	c.Call("echo", "{}")
	close(down)
	r := c.Request("tools/call", mcptest.CallParams("echo", "{}"))
	refused(t, r, -32603, `server "far": POST tools/call: HTTP 502 Bad Gateway`)
	equal(t, "others", c.Call("near_whoami", "{}").Text(), "near")
	front.CloseClientConnections()
	front.Close()
	eventually(t, "it is noticed", func() bool {
		r := g.legacy().Request("tools/call", mcptest.CallParams("echo", "{}"))
		return strings.Contains(string(r.Error), "[unreachable]") && strings.Contains(string(r.Error), "connection refused")
	})
}

func TestRemoteProtocolOption(t *testing.T) {
	s := mcptest.StartRemote(t, mcptest.RemoteStateless)
	g := start(t, map[string]server{"far": {url: s.URL, options: catalog.Options{Protocol: "legacy"}}})
	equal(t, "result", g.modern().Call("echo", "{}").Text(), "{}")
	for _, r := range s.Requests() {
		if r.Header.Get("Mcp-Protocol-Version") > "2025-11-25" {
			t.Errorf("a request of %s", r.Header.Get("Mcp-Protocol-Version"))
		}
	}
}

// A tool whose arguments cannot be repeated in headers is left out, the others stay.
func TestRemoteToolThatCannotBeCalledByHTTP(t *testing.T) {
	tools := `[{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},
		{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}]`
	var mu sync.Mutex
	var headers []string
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		switch m.Method {
		case "tools/list":
			result = `{"resultType":"complete","tools":` + tools + `}`
		case "tools/call":
			mu.Lock()
			headers = append(headers, r.Header.Get("Mcp-Name")+" "+r.Header.Get("Mcp-Param-A"))
			mu.Unlock()
			result = `{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`
		case "subscriptions/listen":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer far.Close()
	g := start(t, map[string]server{"far": {url: far.URL, options: catalog.Options{Prefix: "p_"}}})
	c := g.legacy()
	equal(t, "tools", fmt.Sprint(c.Names("tools/list", "tools", "name")), "[p_good]")
	contains(t, g.logged(), "tool left out", "bad", "which is no string, integer or boolean")
	equal(t, "result", c.Call("p_good", `{"a":"b"}`).Text(), "ok")
	equal(t, "headers", fmt.Sprint(headers), "[good b]")
}
