package relay_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
	"mcp-gateway/internal/wire"
)

// bothEras runs a test with a client of each kind.
func bothEras(t *testing.T, g *rig, f func(t *testing.T, c *mcptest.Client)) {
	t.Run("legacy client", func(t *testing.T) { f(t, mcptest.Connect(t, g.url, mcptest.ClientOptions{})) })
	t.Run("modern client", func(t *testing.T) {
		f(t, mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: mcptest.Modern}))
	})
}

// Arguments and results pass byte for byte.
func TestBytesPass(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags()})
	odd := `{"z":12345678901234567890,"a":1.0,"m":-0.0,"e":1E+2,"unknown":{"b":[],"a":null},"\u0061":"<&>\u2028 ≤ \ud83c\udf89","a":2}`
	t.Run("a legacy client's", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		equal(t, "params", c.Call("raw", odd).Text(), `{"name":"raw","arguments":`+odd+`}`)
		equal(t, "result", string(c.Call("rich", "{}").Result), payload.RichResult)
		equal(t, "unknown params", c.Begin("tools/call", `{"future":[1,{"x":2.50}],"name":"raw","arguments":{},"task":{"ttl":1}}`).Must().Text(),
			`{"future":[1,{"x":2.50}],"name":"raw","arguments":{},"task":{"ttl":1}}`)
		r := c.Request("tools/call", mcptest.CallParams("error", "{}"))
		equal(t, "error", string(r.Error), payload.ErrorAnswer)
		equal(t, "renamed", c.Call("b_raw", odd).Text(), `{"name":"raw","arguments":`+odd+`}`)
	})
	t.Run("a modern client's", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: mcptest.Modern})
		equal(t, "params", c.Call("raw", odd).Text(), `{"name":"raw","arguments":`+odd+`}`)
		equal(t, "result", string(c.Call("rich", "{}").Result), strings.TrimSuffix(payload.RichResult, "}")+`,"resultType":"complete"}`)
		r := c.Request("tools/call", mcptest.CallParams("raw", "{}"), mcptest.WithMeta("example.com/trace", `{"id":98765432109876543210}`))
		equal(t, "_meta", r.Text(), `{"name":"raw","arguments":{},"_meta":{"example.com/trace":{"id":98765432109876543210}}}`)
	})
	t.Run("B50 every kind of content", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		equal(t, "content", string(c.Call("content", "{}").Result), payload.ContentResult)
	})
	t.Run("trap 1 trap 2 line ends", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		r := c.BeginCall("echo", "{\"a\":\r\n[1,\n2]\r}", mcptest.WithToken(`"t"`)).Must()
		equal(t, "arguments", r.Text(), `{"a":  [1, 2] }`)
	})
}

func TestB45_Arguments(t *testing.T) {
	g := one(t)
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		for _, params := range []string{`{"name":"strict"}`, `{"name":"strict","arguments":null}`, `{"name":"strict","arguments":{}}`} {
			equal(t, params, c.Request("tools/call", params).Text(), "ok")
		}
		for _, arguments := range []string{`[]`, `"x"`, `1`, `true`} {
			refused(t, c.Request("tools/call", `{"name":"strict","arguments":`+arguments+`}`), wire.CodeInvalidParams, "arguments", arguments)
		}
	})
	c := g.legacy()
	for _, params := range []string{``, `{}`, `{"name":7}`, `[]`} {
		refused(t, c.Request("tools/call", params), wire.CodeInvalidParams, `"name"`)
	}
}

func TestTrap3_KeysWithEscapesAndTwice(t *testing.T) {
	c := start(t, map[string]server{"a": flags("-tool=x"), "b": flags("-tool=x")}).legacy()
	equal(t, "an escaped key", c.Request("tools/call", `{"\u006eame":"b_x","arguments":{}}`).Text(), `b/x {}`)
	equal(t, "an escaped name", c.Request("tools/call", `{"name":"b\u005fx"}`).Text(), `b/x {}`)
	refused(t, c.Request("tools/call", `{"name":"x","\u006eame":"b_x"}`), wire.CodeInvalidRequest, "twice")
}

func TestB48_Ids(t *testing.T) {
	c := one(t).legacy()
	var all []*mcptest.Exchange
	ids := []string{`1000`, `"1000"`, `0`, `-1`, `9007199254740991`, `9007199254740993`, `1.5`, `"\u0041"`, `"A"`, `"` + strings.Repeat("i", 1000) + `"`}
	gate := file(t)
	for _, id := range ids {
		all = append(all, c.BeginCall("wait_for", args("path", quoted(gate)), mcptest.WithID(id), mcptest.WithToken(id)))
	}
	for _, x := range all {
		x.Await(isProgress)
	}
	create(t, gate)
	for i, x := range all {
		if r := x.Must(); string(r.ID) != ids[i] || r.Text() != "it is there" {
			t.Errorf("id %s was answered %s", ids[i], r.Raw)
		}
	}
}

func TestB46_Cancellation(t *testing.T) {
	g := one(t)
	t.Run("a legacy client sends notifications/cancelled", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		x := c.BeginCall("cancellable", "{}", mcptest.WithToken(`"t"`), mcptest.WithID(`"mine"`))
		x.Await(isProgress)
		x.Cancel("not wanted")
		if r, err := x.Wait(); err == nil {
			t.Errorf("a cancelled request was answered %s", r.Raw)
		}
		got := c.Call("cancelled", `{"wait":1}`).Text()
		contains(t, got, `"reason":"not wanted"`)
		if strings.Contains(got, "mine") {
			t.Errorf("the server was given the client's id: %s", got)
		}
	})
	t.Run("a modern client hangs up", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: mcptest.Modern})
		x := c.BeginCall("cancellable", "{}", mcptest.WithToken(`"t"`))
		x.Await(isProgress)
		x.HangUp()
		c.Call("cancelled", `{"wait":2}`)
	})
	t.Run("a session ends", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		x := c.BeginCall("cancellable", "{}", mcptest.WithToken(`"t"`))
		x.Await(isProgress)
		c.Close()
		mcptest.Connect(t, g.url, mcptest.ClientOptions{}).Call("cancelled", `{"wait":3}`)
	})
	t.Run("an unknown request is nothing", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		c.Notify("notifications/cancelled", `{"requestId":"never sent"}`)
		c.Notify("notifications/cancelled", `{}`)
		if got := c.Call("cancelled", "{}").Text(); strings.Count(got, "requestId") != 3 {
			t.Errorf("the server saw %s", got)
		}
	})
}

func TestB47_Progress(t *testing.T) {
	g := one(t)
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		for _, token := range []string{`"p-1"`, `7`, `"7"`, `12345678901234567890`} {
			r := c.Call("progress", `{"n":3}`, mcptest.WithToken(token))
			if len(r.Interim) != 3 {
				t.Fatalf("%d notifications before the result", len(r.Interim))
			}
			for i, m := range r.Interim {
				equal(t, "progress", string(m.Raw), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":3,"message":"step %d"}}`, token, i+1, i+1))
			}
		}
		r := c.Call("progress", `{"n":3}`)
		if len(r.Interim) != 0 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("without a token: %d notifications, %s", len(r.Interim), r.Header)
		}
	})
	t.Run("equal tokens of two sessions do not cross", func(t *testing.T) {
		a, b := g.legacy(), g.legacy()
		first := a.BeginCall("cancellable", "{}", mcptest.WithToken(`"same"`))
		first.Await(isProgress)
		r := b.Call("progress", `{"n":2}`, mcptest.WithToken(`"same"`))
		for _, m := range r.Interim {
			contains(t, string(m.Params), `"progressToken":"same"`)
		}
		if len(r.Interim) != 2 {
			t.Errorf("%d notifications", len(r.Interim))
		}
		first.Cancel("")
		if r, _ := first.Wait(); len(r.Interim) != 1 {
			t.Errorf("the first one got %d notifications", len(r.Interim))
		}
	})
}

// A slow call holds up no other one, on its server or on another.
func TestB55_SlowCallHoldsUpNothing(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-tool=y")})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		gate := file(t)
		slow := c.BeginCall("wait_for", args("path", quoted(gate)), mcptest.WithToken("1"))
		slow.Await(isProgress)
		half := c.BeginCall("sleep", `{"ms":500}`)
		for range 20 {
			equal(t, "same server", c.Call("whoami", "{}").Text(), "a")
			equal(t, "other server", c.Call("y", "{}").Text(), "b/y {}")
		}
		if len(c.Tools()) == 0 {
			t.Error("no tools")
		}
		create(t, gate)
		equal(t, "slow", slow.Must().Text(), "it is there")
		equal(t, "half a second", half.Must().Text(), `"slept"`)
	})
	t.Run("ping", func(t *testing.T) {
		c := g.legacy()
		gate := file(t)
		slow := c.BeginCall("wait_for", args("path", quoted(gate)), mcptest.WithToken("1"))
		slow.Await(isProgress)
		equal(t, "pong", string(c.Result("ping", "")), "{}")
		create(t, gate)
		slow.Must()
	})
}

func TestB11_ManyCallersAtOnce(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags()})
	var all sync.WaitGroup
	for i := range 8 {
		c := g.legacy()
		if i%2 == 1 {
			c = g.modern()
		}
		for j := range 25 {
			all.Go(func() {
				tool := []string{"sleep", "b_sleep"}[j%2]
				want := fmt.Sprintf(`"%d-%d"`, i, j)
				r, err := c.Do("tools/call", mcptest.CallParams(tool, args("ms", fmt.Sprint((i*j)%30), "tag", want)))
				if err != nil || r.Text() != want {
					t.Errorf("%s: %s %v", want, r.Raw, err)
				}
			})
		}
	}
	all.Wait()
	if n := len(g.started()); n != 2 { // B16
		t.Errorf("%d processes", n)
	}
}

func TestB54_CallTimeout(t *testing.T) {
	g := start(t, map[string]server{"one": {options: catalog.Options{CallTimeout: time.Second}}})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		busy := c.BeginCall("sleep", `{"ms":1500,"progress_ms":50}`, mcptest.WithToken(`"t"`))
		silent := c.BeginCall("cancellable", "{}")
		equal(t, "progress makes the limit begin anew", busy.Must().Text(), `"slept"`)
		// B13: the error of a silent call names the limit.
		refused(t, silent.Must(), wire.CodeInternal, `server "one"`, "within 1s", "callTimeout", "the server is alive")
		contains(t, c.Call("cancelled", `{"wait":1}`).Text(), "no answer and no progress within 1s")
	})
	t.Run("no limit is hidden", func(t *testing.T) {
		c := one(t).legacy()
		equal(t, "result", c.Call("sleep", `{"ms":1200}`).Text(), `"slept"`)
	})
}

func TestTrap17_UnknownTools(t *testing.T) {
	t.Run("the only server answers itself", func(t *testing.T) {
		bothEras(t, one(t), func(t *testing.T, c *mcptest.Client) {
			r := c.Request("tools/call", mcptest.CallParams("nothing", "{}"))
			equal(t, "error", string(r.Error), `{"code":-32602,"message":"unknown tool: nothing"}`)
		})
	})
	t.Run("with several", func(t *testing.T) {
		g := start(t, map[string]server{"a": flags(), "b": flags("-tool=y")})
		bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
			refused(t, c.Request("tools/call", mcptest.CallParams("whoamI", "{}")), wire.CodeInvalidParams, `unknown tool "whoamI"; did you mean "whoami"?`)
			_, message := errorOf(t, c.Request("tools/call", mcptest.CallParams("something else altogether", "{}")))
			equal(t, "message", message, `unknown tool "something else altogether"`)
		})
	})
	t.Run("a tool that is denied does not exist", func(t *testing.T) {
		g := start(t, map[string]server{"one": {options: catalog.Options{Allow: []string{"e*", "w*"}, Deny: []string{"env", "wait_*"}}}})
		bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
			for _, name := range c.Tools() {
				if name[0] != 'e' && name[0] != 'w' || name == "env" || name == "wait_for" {
					t.Errorf("%q is exposed", name)
				}
			}
			refused(t, c.Request("tools/call", mcptest.CallParams("env", "{}")), wire.CodeInvalidParams, `unknown tool "env"`)
			equal(t, "allowed", c.Call("whoami", "{}").Text(), "one")
		})
	})
}

func TestTrap7_StuckServerCostsNobody(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-tool=y")})
	c := g.legacy()
	stop := func(sig syscall.Signal) { _ = syscall.Kill(g.pid("a"), sig) }
	stop(syscall.SIGSTOP)
	long := c.BeginCall("echo", args("text", quoted(strings.Repeat("x", 2<<20))))
	short := c.BeginCall("whoami", "{}", mcptest.WithID("5000"))
	equal(t, "another server", c.Call("y", "{}").Text(), "b/y {}")
	short.Cancel("") // a cancellation does not wait either
	if _, err := short.Wait(); err == nil {
		t.Error("a cancelled call was answered")
	}
	stop(syscall.SIGCONT)
	if n := len(long.Must().Text()); n < 2<<20 {
		t.Errorf("%d bytes came back", n)
	}
}
