package relay_test

import (
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

const updated = "notifications/resources/updated"

func logs(messages []mcptest.Message) (data []string) {
	for _, m := range messages {
		if m.Method == "notifications/message" {
			data = append(data, string(wire.Get(m.Params, "data")))
		}
	}
	return data
}

func TestLogLevels(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-only=tools", "-tool=y", "-exit-on-unknown-request")})
	quiet, loud, none := g.legacy(), g.legacy(), g.legacy()
	quiet.Result("logging/setLevel", `{"level":"error"}`)
	loud.Result("logging/setLevel", `{"level":"debug"}`)
	log := func(c *mcptest.Client, level, data string) []string {
		return logs(c.Call("log", args("level", quoted(level), "data", data)).Interim)
	}
	t.Run("each session gets what it asked for, on its own calls", func(t *testing.T) {
		if got := log(loud, "debug", `{"n":12345678901234567890}`); !slices.Equal(got, []string{`{"n":12345678901234567890}`}) {
			t.Errorf("loud got %q", got)
		}
		if got := log(quiet, "warning", `1`); len(got) > 0 {
			t.Errorf("quiet got %q", got)
		}
		if got := log(quiet, "critical", `2`); !slices.Equal(got, []string{"2"}) {
			t.Errorf("quiet got %q", got)
		}
		if got := log(none, "debug", `3`); !slices.Equal(got, []string{"3"}) {
			t.Errorf("a session without a level got %q", got)
		}
	})
	levels := func() string {
		var asked []string
		for line := range strings.SplitSeq(loud.Call("received", `{"method":"logging/setLevel"}`).Text(), "\n") {
			level, _ := wire.GetString(wire.Get([]byte(line), "params"), "level")
			asked = append(asked, level)
		}
		return strings.Join(asked, " ")
	}
	t.Run("the server is asked for the lowest level that anybody wants", func(t *testing.T) {
		equal(t, "levels", levels(), "error debug")
		quiet.Result("logging/setLevel", `{"level":"alert"}`)
		equal(t, "levels", levels(), "error debug")
		loud.Result("logging/setLevel", `{"level":"info"}`)
		equal(t, "levels", levels(), "error debug info")
		other := g.legacy()
		other.Result("logging/setLevel", `{"level":"debug"}`)
		other.Close()
		equal(t, "levels after a session has ended", levels(), "error debug info debug info")
	})
	t.Run("and again after a restart", func(t *testing.T) {
		refused(t, loud.Request("tools/call", mcptest.CallParams("boom", "{}")), wire.CodeInternal, "exit status 1")
		equal(t, "levels", levels(), "info")
	})
	t.Run("bad levels", func(t *testing.T) {
		for _, params := range []string{`{}`, `{"level":"loud"}`, `{"level":7}`} {
			refused(t, quiet.Request("logging/setLevel", params), wire.CodeInvalidParams, "debug")
		}
	})
	t.Run("a modern request names its own", func(t *testing.T) {
		m := mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: mcptest.Modern})
		level := func(l string) mcptest.RequestOption {
			return mcptest.WithMeta("io.modelcontextprotocol/logLevel", quoted(l))
		}
		call := func(l string, options ...mcptest.RequestOption) []string {
			return logs(m.Call("log", args("level", quoted(l)), options...).Interim)
		}
		if got := call("error"); len(got) > 0 {
			t.Errorf("without a level: %q", got)
		}
		if got := call("error", level("warning")); len(got) != 1 {
			t.Errorf("with a level: %q", got)
		}
		if got := call("info", level("warning")); len(got) != 0 {
			t.Errorf("below the level: %q", got)
		}
		equal(t, "levels", levels(), "info")
		if got := call("debug", level("debug")); len(got) != 1 {
			t.Errorf("lower than any session: %q", got)
		}
		equal(t, "levels", levels(), "info debug")
	})
	t.Run("no server with logging", func(t *testing.T) {
		c := one(t, "-only=tools").legacy()
		refused(t, c.Request("logging/setLevel", `{"level":"debug"}`), wire.CodeMethodNotFound)
	})
}

func TestB53_UnknownNotifications(t *testing.T) {
	g := one(t, "-odd-notifications=5ms")
	idle, c := g.legacy(), g.legacy()
	idle.Listen()
	c.Listen()
	// Without a call in flight they are for everybody.
	equal(t, "params", string(idle.Await(mcptest.IsMethod("window/logMessage")).Params), `{"type":3,"message":"from another protocol"}`)
	idle.Await(mcptest.IsMethod("x/event"))
	x := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	x.Await(mcptest.IsMethod("x/event"))
	x.Cancel("")
	for range 3 {
		idle.Await(mcptest.IsMethod("x/event"))
	}
	if n := strings.Count(g.logged(), "notification of an unknown kind"); n != 2 {
		t.Errorf("%d log lines for two kinds", n)
	}
}

func TestSubscriptions(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-prefix=a_"), "b": flags("-prefix=b_")})
	const other = "mcp-gateway://b/"
	one, two := g.legacy(), g.legacy()
	one.Listen()
	two.Listen()
	subscribed := func(server string) string { return one.Call(server+"_subscriptions", "{}").Text() }
	// The server handles its requests side by side.
	settles := func(server, want string) {
		t.Helper()
		eventually(t, server+" has "+want, func() bool { return subscribed(server) == want })
	}
	uri := func(u string) string { return args("uri", quoted(u)) }
	t.Run("the server is asked once, and told when the last one leaves", func(t *testing.T) {
		for _, c := range []*mcptest.Client{one, two, one} {
			equal(t, "result", string(c.Result("resources/subscribe", uri("fake://text/1"))), "{}")
		}
		equal(t, "subscriptions", subscribed("a"), `["fake://text/1"]`)
		one.Call("a_touch", "{}")
		for _, c := range []*mcptest.Client{one, two} {
			equal(t, "update", string(c.Await(mcptest.IsMethod(updated)).Params), `{"uri":"fake://text/1"}`)
		}
		one.Result("resources/unsubscribe", uri("fake://text/1"))
		one.Result("resources/unsubscribe", uri("fake://text/1"))
		equal(t, "subscriptions", subscribed("a"), `["fake://text/1"]`)
		one.Call("a_touch", "{}")
		two.Await(mcptest.IsMethod(updated))
		two.Result("resources/unsubscribe", uri("fake://text/1"))
		settles("a", `[]`)
		if len(one.Seen()) > 0 {
			t.Errorf("a session that has left was told: %s", one.Seen()[0].Raw)
		}
	})
	t.Run("a URI that the other server has too", func(t *testing.T) {
		one.Result("resources/subscribe", uri(other+"fake://text/1"))
		equal(t, "subscriptions", subscribed("a")+subscribed("b"), `[]["fake://text/1"]`)
		one.Call("b_touch", "{}")
		equal(t, "update", string(one.Await(mcptest.IsMethod(updated)).Params), `{"uri":"`+other+`fake://text/1"}`)
		one.Result("resources/unsubscribe", uri(other+"fake://text/1"))
		settles("b", `[]`)
	})
	t.Run("a session that ends takes its own with it", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		c.Result("resources/subscribe", uri("fake://item/9"))
		equal(t, "subscriptions", subscribed("a"), `["fake://item/9"]`)
		c.Close()
		settles("a", `[]`)
	})
	t.Run("after a restart they are made again", func(t *testing.T) {
		one.Result("resources/subscribe", uri("fake://text/2"))
		refused(t, one.Request("tools/call", mcptest.CallParams("a_boom", "{}")), wire.CodeInternal, "exit status 1")
		settles("a", `["fake://text/2"]`)
		one.Call("a_touch", uri("fake://text/2"))
		equal(t, "update", string(one.Await(mcptest.IsMethod(updated)).Params), `{"uri":"fake://text/2"}`)
		one.Result("resources/unsubscribe", uri("fake://text/2"))
	})
	t.Run("trap 20 what the server refuses, or does not answer", func(t *testing.T) {
		g := start(t, map[string]server{
			"no":   flags(`-answer=resources/subscribe={"jsonrpc":"2.0","id":$ID,"error":{"code":-32002,"message":"no such resource"}}`),
			"mute": flags(`-answer=resources/subscribe={"jsonrpc":"2.0","method":"x/asked"}`, `-answer=logging/setLevel={}`, "-prefix=m_"),
		})
		c := g.legacy()
		c.Listen()
		for range 2 {
			refused(t, c.Request("resources/subscribe", uri("mcp-gateway://no/fake://text/1")), wire.CodeNotFound, "no such resource")
		}
		x := c.Begin("resources/subscribe", uri("fake://text/1"))
		x.Await(mcptest.IsMethod("x/asked"))
		x.Cancel("")
		if r, err := x.Wait(); err == nil {
			t.Errorf("a cancelled request was answered %s", r.Raw)
		}
		equal(t, "setLevel at a server that does not answer", string(c.Result("logging/setLevel", `{"level":"debug"}`)), "{}")
		equal(t, "the session goes on", c.Call("m_whoami", "{}").Text(), "mute")
		refused(t, c.Request("resources/subscribe", uri("file:///nowhere")), wire.CodeNotFound, "not found")
		refused(t, c.Request("resources/subscribe", `{}`), wire.CodeInvalidParams, "uri")
	})
}

func TestTrap23_Listen(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-prefix=a_"), "b": flags("-prefix=b_")})
	m, c := g.modern(), g.legacy()
	c.Listen()
	const other = "mcp-gateway://b/"
	x := m.Begin("subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["fake://text/1","`+other+`fake://text/1"],"future":true}}`, mcptest.WithID(`"sub 1"`))
	ack := x.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
	equal(t, "acknowledged", string(ack.Params), `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["fake://text/1","`+other+`fake://text/1"]},"_meta":{"io.modelcontextprotocol/subscriptionId":"sub 1"}}`)
	subscribed := func(server string) string { return c.Call(server+"_subscriptions", "{}").Text() }
	eventually(t, "both servers are asked", func() bool { return subscribed("a")+subscribed("b") == `["fake://text/1"]["fake://text/1"]` })

	c.Result("resources/subscribe", `{"uri":"fake://text/1"}`)
	c.Call("a_touch", "{}")
	equal(t, "tagged", string(x.Await(mcptest.IsMethod(updated)).Params), `{"uri":"fake://text/1","_meta":{"io.modelcontextprotocol/subscriptionId":"sub 1"}}`)
	equal(t, "untagged", string(c.Await(mcptest.IsMethod(updated)).Params), `{"uri":"fake://text/1"}`)
	c.Call("b_touch", "{}")
	equal(t, "the other server's", string(x.Await(mcptest.IsMethod(updated)).Params), `{"uri":"`+other+`fake://text/1","_meta":{"io.modelcontextprotocol/subscriptionId":"sub 1"}}`)
	c.Call("a_add_prompt", "{}") // not wanted
	c.Call("b_add_tool", "{}")
	equal(t, "tools", string(x.Await(mcptest.IsMethod("notifications/tools/list_changed")).Params), `{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub 1"}}`)

	t.Run("it is told once of each", func(t *testing.T) {
		x.HangUp()
		r, _ := x.Wait()
		var got []string
		for _, m := range r.Interim {
			got = append(got, m.Method)
		}
		want := []string{"notifications/subscriptions/acknowledged", updated, updated, "notifications/tools/list_changed"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the last one's leave is told to the server", func(t *testing.T) {
		eventually(t, "b is told", func() bool { return subscribed("b") == `[]` })
		equal(t, "a has a subscriber left", subscribed("a"), `["fake://text/1"]`)
		c.Result("resources/unsubscribe", `{"uri":"fake://text/1"}`)
		eventually(t, "none is left", func() bool { return subscribed("a") == `[]` })
	})
	t.Run("it ends well when the gateway stops", func(t *testing.T) {
		x := m.Begin("subscriptions/listen", `{"notifications":{}}`, mcptest.WithID("77"))
		x.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
		g.relay.EndListening()
		equal(t, "result", string(x.Must().Result), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":77}}`)
		equal(t, "a late one", string(m.Result("subscriptions/listen", `{"notifications":{}}`, mcptest.WithID("78"))), `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":78}}`)
	})
	t.Run("without notifications", func(t *testing.T) {
		refused(t, m.Request("subscriptions/listen", `{}`), wire.CodeInvalidParams, "notifications")
	})
}

// Towards a server of 2026-07-28 subscriptions are listens, cancelled when the last subscriber leaves.
func TestTrap23_ListensUpstream(t *testing.T) {
	record := file(t)
	listens := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"n":$ID}} {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"fake://text/1","_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`
	g := start(t, map[string]server{"one": {flags: []string{"-modern-only", "-record=" + record, "-answer=subscriptions/listen=" + listens}, options: modernOption}})
	c, m := g.legacy(), g.modern()
	c.Listen()
	count := func(method string) int {
		return strings.Count(m.Call("received", args("method", quoted(method))).Text(), `"method"`)
	}
	if n := count("subscriptions/listen"); n != 1 {
		t.Errorf("%d listens for the lists", n)
	}
	c.Result("resources/subscribe", `{"uri":"fake://text/1"}`)
	equal(t, "update", string(c.Await(mcptest.IsMethod(updated)).Params), `{"uri":"fake://text/1"}`)
	x := listen(m, `{"resourceSubscriptions":["fake://text/1"]}`)
	if n := count("subscriptions/listen"); n != 2 {
		t.Errorf("%d listens", n)
	}
	c.Result("resources/unsubscribe", `{"uri":"fake://text/1"}`)
	if n := count("notifications/cancelled"); n != 0 {
		t.Errorf("%d cancelled while somebody listens", n)
	}
	x.HangUp()
	eventually(t, "the listen is cancelled", func() bool { return count("notifications/cancelled") == 1 })
}
