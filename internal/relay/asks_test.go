package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

// everything are the capabilities of a client that can be asked for all there is.
const everything = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}`

// answers answers what a server asks with results that say whose they are.
func answers(who string) func(mcptest.Message) (string, string) {
	return func(ask mcptest.Message) (string, string) {
		switch ask.Method {
		case "sampling/createMessage":
			return `{"role":"assistant","content":{"type":"text","text":"` + who + `"},"model":"m","n":12345678901234567890}`, ""
		case "elicitation/create":
			return `{"action":"accept","content":{"name":"` + who + `"}}`, ""
		case "roots/list":
			return `{"roots":[{"uri":"file:///` + who + `"}]}`, ""
		}
		return "", `{"code":-32601,"message":"no such thing"}`
	}
}

// asked is what a tool that asks returns for such an answer.
func asked(result string) string { return `{"result":` + result + `}` }

var askTools = []struct{ tool, method string }{
	{"ask_sampling", "sampling/createMessage"}, {"ask_elicitation", "elicitation/create"}, {"ask_roots", "roots/list"},
}

func TestB49_ServersAskTheCaller(t *testing.T) {
	g := one(t)
	for _, version := range []string{mcptest.Legacy, "2025-06-18", "2025-03-26", "2024-11-05"} {
		c := g.legacy(mcptest.ClientOptions{Version: version, Capabilities: everything, Answer: answers("me")})
		for _, a := range askTools {
			want, _ := answers("me")(mcptest.Message{Method: a.method})
			r := c.Call(a.tool, "{}")
			equal(t, version+" "+a.tool, r.Text(), asked(want))
			if len(r.Interim) != 1 || r.Interim[0].Method != a.method {
				t.Errorf("%s: the question came as %v", a.tool, r.Interim)
			}
		}
	}
	t.Run("params pass as they are", func(t *testing.T) {
		var got string
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: func(ask mcptest.Message) (string, string) {
			got = string(ask.Params)
			return `{"role":"assistant"}`, ""
		}})
		params := `{"z":12345678901234567890,"messages":[],"tools":[{"name":"t","inputSchema":{"b":1,"a":2}}],"toolChoice":{"mode":"auto"}}`
		c.Call("ask_sampling", args("params", params))
		equal(t, "params", got, params)
	})
	t.Run("errors of the client", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: func(mcptest.Message) (string, string) {
			return "", `{"code":-1,"message":"rejected","data":{"n":12345678901234567890}}`
		}})
		equal(t, "error", c.Call("ask_sampling", "{}").Text(), `{"error":{"code":-1,"message":"rejected","data":{"n":12345678901234567890}}}`)
	})
	t.Run("while the session has a GET stream the call's own stream is used", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		c.Listen()
		if r := c.Call("ask_roots", "{}"); len(r.Interim) != 1 || len(c.Seen()) != 0 {
			t.Errorf("interim %v, GET %v", r.Interim, c.Seen())
		}
	})
}

func TestB49_OnlyWhatTheClientHasDeclared(t *testing.T) {
	g := one(t)
	for _, c := range []struct{ capabilities, tool, params, want string }{
		{`{}`, "ask_sampling", ``, `"code":-32601`},
		{`{}`, "ask_elicitation", ``, `"code":-32601`},
		{`{}`, "ask_roots", ``, `"code":-32601`},
		{`{"sampling":{}}`, "ask_sampling", `{"messages":[],"tools":[]}`, `does not support sampling with tools`},
		{`{"elicitation":{}}`, "ask_elicitation", `{"mode":"url","url":"https://x","elicitationId":"1"}`, `does not support URL elicitation`},
		{`{"elicitation":{"url":{}}}`, "ask_elicitation", `{"message":"?"}`, `does not support form elicitation`},
		{`{"sampling":{}}`, "ask_sampling", ``, `"text":"me"`},
		{`{"elicitation":{}}`, "ask_elicitation", ``, `"name":"me"`},
		{`{"elicitation":{"form":{}}}`, "ask_elicitation", `{"message":"?"}`, `"name":"me"`},
		{`{"elicitation":{"url":{}}}`, "ask_elicitation", `{"mode":"url","url":"https://x","elicitationId":"1"}`, `"name":"me"`},
		{`{"roots":{}}`, "ask_roots", ``, `file:///me`},
	} {
		arguments := "{}"
		if c.params != "" {
			arguments = args("params", c.params)
		}
		client := g.legacy(mcptest.ClientOptions{Capabilities: c.capabilities, Answer: answers("me")})
		contains(t, client.Call(c.tool, arguments).Text(), c.want)
		modern := g.modern(mcptest.ClientOptions{Capabilities: c.capabilities, Answer: answers("me")})
		r, err := modern.Complete("tools/call", mcptest.CallParams(c.tool, arguments))
		if err != nil {
			t.Error(err)
		}
		contains(t, r.Text(), c.want)
	}
	t.Run("what no client has", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything})
		contains(t, c.Call("ask", `{"method":"x/y"}`).Text(), `"code":-32601`, "x/y")
		equal(t, "ping", c.Call("ask", `{"method":"ping"}`).Text(), `{"result":{}}`)
	})
}

// The in-flight rule: a server's question is for the one session whose calls are in flight.
func TestTrap14_InFlightRule(t *testing.T) {
	t.Run("none in flight", func(t *testing.T) {
		g := one(t, "-ask-at-start", "-record="+file(t))
		g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		c := g.legacy()
		// The gateway itself has answered, with no roots. The response has no method.
		eventually(t, "the answer", func() bool {
			return strings.Contains(c.Call("received", `{"method":""}`).Text(), `"result":{"roots":[]}`)
		})
	})
	t.Run("several calls of one session", func(t *testing.T) {
		g := one(t)
		c := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		other := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
		other.Await(isProgress)
		want, _ := answers("me")(mcptest.Message{Method: "roots/list"})
		r := c.Call("ask_roots", "{}")
		equal(t, "answer", r.Text(), asked(want))
		if len(r.Interim) != 1 {
			t.Error("the question did not come on the latest call's stream")
		}
	})
	for _, kind := range []string{"another session", "a modern client", "another modern call of the same client"} {
		t.Run("calls of "+kind+" too", func(t *testing.T) {
			g := one(t)
			options := mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")}
			a, b := g.legacy(options), g.legacy(options)
			switch kind {
			case "a modern client":
				b = g.modern(options)
			case "another modern call of the same client":
				a = g.modern(options)
				b = a
			}
			x := b.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
			x.Await(isProgress)
			for _, tool := range askTools {
				contains(t, a.Call(tool.tool, "{}").Text(), `"error"`, "several clients", "isolated")
			}
			if b.SessionID() != "" {
				x.Cancel("")
			} else {
				x.HangUp()
			}
			eventually(t, "one owner again", func() bool {
				r, err := a.Complete("tools/call", mcptest.CallParams("ask_roots", "{}"))
				return err == nil && strings.Contains(r.Text(), "file:///me")
			})
		})
	}
}

func TestTrap6_QuestionWithoutAnAnswer(t *testing.T) {
	g := one(t)
	silent := func(mcptest.Message) (string, string) { return "", "" }
	t.Run("the client cancels its call", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: silent})
		x := c.BeginCall("ask_sampling", "{}")
		x.Await(mcptest.IsMethod("sampling/createMessage"))
		x.Cancel("")
		_, _ = x.Wait()
		c.Call("cancelled", `{"wait":1}`)
	})
	t.Run("the session ends", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: silent})
		x := c.BeginCall("ask_sampling", "{}")
		x.Await(mcptest.IsMethod("sampling/createMessage"))
		c.Close()
		mcptest.Connect(t, g.url, mcptest.ClientOptions{}).Call("cancelled", `{"wait":2}`)
	})
	t.Run("the server ends", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: silent})
		c.Listen()
		x := c.BeginCall("ask_sampling", "{}")
		x.Await(mcptest.IsMethod("sampling/createMessage"))
		g.kill("one")
		refused(t, x.Must(), wire.CodeInternal, "signal: killed")
		equal(t, "next call", c.Call("whoami", "{}").Text(), "one")
	})
}

// Each session of an isolated server has a process of its own, which ends with the session.
func TestIsolatedSessions(t *testing.T) {
	g := start(t, map[string]server{"iso": {options: catalog.Options{Isolated: true}}, "z": flags("-tool=y")})
	before := len(g.started())
	pid := func(c *mcptest.Client) (pid int) {
		var p struct{ Pid int }
		if err := json.Unmarshal([]byte(c.Call("process", "{}").Text()), &p); err != nil {
			t.Fatal(err)
		}
		return p.Pid
	}
	var clients []*mcptest.Client
	var pids []int
	for i := range 4 {
		c := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers(fmt.Sprint(i))})
		clients = append(clients, c)
		pids = append(pids, pid(c))
	}
	if slices.Sort(pids); len(slices.Compact(slices.Clone(pids))) != 4 || len(g.started())-before != 4 {
		t.Errorf("processes %v", pids)
	}
	t.Run("questions never cross and are never refused", func(t *testing.T) {
		var all sync.WaitGroup
		for i, c := range clients {
			for _, a := range askTools {
				all.Go(func() {
					want, _ := answers(fmt.Sprint(i))(mcptest.Message{Method: a.method})
					r, err := c.Do("tools/call", mcptest.CallParams(a.tool, "{}"))
					if err != nil || r.Text() != asked(want) {
						t.Errorf("%d was answered %s %v", i, r.Raw, err)
					}
				})
			}
		}
		all.Wait()
	})
	t.Run("the server is told what the client has declared", func(t *testing.T) {
		contains(t, clients[0].Call("received", `{"method":"initialize"}`).Text(), `"capabilities":`+everything)
		plain := g.legacy()
		contains(t, plain.Call("received", `{"method":"initialize"}`).Text(), `"capabilities":{}`)
	})
	t.Run("a killed one comes back for its session", func(t *testing.T) {
		c := clients[0]
		refused(t, c.Request("tools/call", mcptest.CallParams("boom", "{}")), wire.CodeInternal, "exit status 1")
		if next := pid(c); slices.Contains(pids, next) {
			t.Errorf("process %d", next)
		}
	})
	for _, c := range clients {
		p := pid(c)
		c.Close()
		eventually(t, "its end", func() bool { return gone(p) })
	}
	equal(t, "the shared one lives on", g.modern().Call("whoami", "{}").Text(), "iso")
}

func TestRootsListChangedIsPassedOn(t *testing.T) {
	t.Run("to the only server", func(t *testing.T) {
		c := one(t).legacy(mcptest.ClientOptions{Capabilities: everything})
		c.Notify("notifications/roots/list_changed", "")
		c.Call("received", `{"method":"notifications/roots/list_changed","wait":1}`)
		c.Notify("notifications/x", `{"n":12345678901234567890}`)
		contains(t, c.Call("received", `{"method":"notifications/x","wait":1}`).Text(), `"params":{"n":12345678901234567890}`)
	})
	t.Run("to the session's own", func(t *testing.T) {
		g := start(t, map[string]server{"iso": {options: catalog.Options{Isolated: true}}, "z": flags("-prefix=z_")})
		c := g.legacy(mcptest.ClientOptions{Capabilities: everything})
		c.Call("whoami", "{}")
		c.Notify("notifications/roots/list_changed", "")
		c.Call("received", `{"method":"notifications/roots/list_changed","wait":1}`)
		equal(t, "others are not told", c.Call("z_received", `{"method":"notifications/roots/list_changed"}`).Text(), "")
	})
}

// An elicitation by URL ends with a notification for the session that was given the URL.
func TestElicitationComplete(t *testing.T) {
	complete := func(id string) string {
		return args("jsonrpc", `"2.0"`, "method", `"notifications/elicitation/complete"`, "params", args("elicitationId", quoted(id)))
	}
	// x/done says that the elicitation e1 is complete; it is sent by another session.
	g := one(t, "-answer=x/done="+complete("e1")+` {"jsonrpc":"2.0","id":$ID,"result":{}}`,
		"-answer=x/needs="+`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32042,"message":"sign in first","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://x","message":"?"}]}}}`)
	a := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("a")})
	b := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("b")})
	a.Listen()
	b.Listen()
	for range 2 {
		contains(t, a.Call("ask_elicitation", `{"params":{"mode":"url","url":"https://x","elicitationId":"e1","message":"?"}}`).Text(), "accept")
		if r := b.Request("x/done", ""); len(r.Interim) > 0 {
			t.Errorf("another session was told: %s", r.Interim[0].Raw)
		}
		equal(t, "told", string(a.Await(mcptest.IsMethod("notifications/elicitation/complete")).Params), `{"elicitationId":"e1"}`)
		code, _ := errorOf(t, a.Request("x/needs", ""))
		if code != wire.CodeURLElicitation {
			t.Errorf("code %d", code)
		}
		b.Request("x/done", "")
		a.Await(mcptest.IsMethod("notifications/elicitation/complete"))
	}
	if len(b.Seen()) > 0 {
		t.Errorf("another session was told: %s", b.Seen()[0].Raw)
	}
}
