package relay_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// add adds a server.
func (g *rig) add(name string, s server) {
	g.t.Helper()
	if f := g.relay.Add(g.t.Context(), g.member(name, s)); f != nil {
		g.t.Errorf("add %q: %v", name, f)
	}
}

// remove takes a server away, and looks for what it may have left.
func (g *rig) remove(name string) {
	g.t.Helper()
	pid := g.state(name).PID
	if !g.relay.Remove(g.t.Context(), name) {
		g.t.Errorf("no server %q to remove", name)
	}
	if pid != 0 && !gone(pid) {
		g.t.Errorf("process %d of %q is there after its removal", pid, name)
	}
}

// Adds of 20 different servers while calls run: no call is lost.
func TestAddsUnderLoadLoseNoCall(t *testing.T) {
	g := one(t)
	var loads, adds sync.WaitGroup
	var calls atomic.Int64
	over := make(chan bool)
	for n := range 8 {
		c := g.legacy()
		if n%2 == 0 {
			c = g.modern()
		}
		loads.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				calls.Add(1)
				if r, err := c.Do("tools/call", mcptest.CallParams("whoami", "{}")); err != nil || r.Text() != "one" {
					t.Errorf("call: %s %v", r.Raw, err)
					return
				}
			}
		})
	}
	for n := range 20 {
		adds.Go(func() { g.add(fmt.Sprintf("s%02d", n), flags("-tool=t"+fmt.Sprint(n), "-only=tools")) })
	}
	adds.Wait()
	close(over)
	loads.Wait()
	t.Logf("%d calls", calls.Load())
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		for n := range 20 {
			equal(t, "call", c.Call(fmt.Sprint("t", n), "{}").Text(), fmt.Sprintf("s%02d/t%d {}", n, n))
		}
	})
	if n := len(g.started()); n != 21 {
		t.Errorf("%d processes for 21 servers", n)
	}
}

// Clients are told when a server comes and goes, each era in its own way, and read then what is true.
func TestClientsAreToldOfServers(t *testing.T) {
	g := start(t, map[string]server{})
	c := g.legacy()
	c.Listen()
	m := g.modern()
	x := listen(m, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	heard := func() {
		t.Helper()
		for _, list := range []string{"prompts", "resources", "tools"} {
			changed := mcptest.IsMethod("notifications/" + list + "/list_changed")
			c.Await(changed)
			x.Await(changed)
		}
	}
	g.add("one", flags())
	heard()
	equal(t, "call", c.Call("whoami", "{}").Text(), "one")
	if !slices.Contains(m.Tools(), "whoami") || len(c.Names("prompts/list", "prompts", "name")) == 0 || len(c.Names("resources/list", "resources", "uri")) == 0 {
		t.Errorf("tools %v", m.Tools())
	}
	g.remove("one")
	heard()
	for _, client := range []*mcptest.Client{c, m} {
		if tools := client.Tools(); len(tools) > 0 {
			t.Errorf("tools %v", tools)
		}
		refused(t, client.Request("tools/call", mcptest.CallParams("whoami", "{}")), wire.CodeInvalidParams, `unknown tool "whoami"`)
	}
	if g.relay.Remove(t.Context(), "one") {
		t.Error("it was removed twice")
	}
}

// A name that a client has seen keeps its meaning, also while its server is away.
func TestB4_NamesComeBack(t *testing.T) {
	g := start(t, map[string]server{"b": flags("-tool=x", "-tool=y")})
	c := g.legacy()
	g.add("a", flags("-tool=x", "-tool=z")) // sorts first, but is late
	exposed := func() string {
		var out []string
		for _, tool := range g.relay.Tools() {
			out = append(out, tool.Name+"="+tool.Server+"/"+tool.OriginalName)
		}
		return strings.Join(out, " ")
	}
	const both = "a_x=a/x z=a/z x=b/x y=b/y"
	equal(t, "names", exposed(), both)
	g.remove("b")
	equal(t, "without b", exposed(), "a_x=a/x z=a/z")
	refused(t, c.Request("tools/call", mcptest.CallParams("x", "{}")), wire.CodeInvalidParams)
	g.add("c", flags("-tool=x"))
	equal(t, "with another", exposed(), "a_x=a/x z=a/z c_x=c/x")
	g.add("b", flags("-tool=x", "-tool=y"))
	equal(t, "b again", exposed(), "a_x=a/x z=a/z x=b/x y=b/y c_x=c/x")
	equal(t, "call", c.Call("x", "{}").Text(), "b/x {}")
}

func TestAddThatFails(t *testing.T) {
	g := one(t)
	c := g.legacy()
	c.Listen()
	f := g.relay.Add(t.Context(), g.member("bad", flags("-exit-before-ready=4", "-stderr=no key")))
	if f == nil || f.Server != "bad" || f.Cause != fault.ExitedBeforeReady || !slices.Equal(f.Stderr, []string{"no key"}) {
		t.Errorf("fault %+v", f)
	}
	if servers, _ := g.relay.Status(); len(servers) != 1 {
		t.Errorf("servers %v", servers)
	}
	if f = g.relay.Add(t.Context(), g.member("one", flags())); f == nil || !strings.Contains(f.Error(), "there already") {
		t.Errorf("fault %v", f)
	}
	half := server{flags: flags().flags, modern: []string{"-exit-before-ready=5"}, options: bothOption}
	if f = g.relay.Add(t.Context(), g.member("half", half)); f == nil || f.Cause != fault.ExitedBeforeReady {
		t.Errorf("fault %v", f)
	}
	equal(t, "others", c.Call("whoami", "{}").Text(), "one")
	if n := len(c.Seen()); n > 0 {
		t.Errorf("the client was told %d times of what did not come", n)
	}
	g.add("bad", flags("-tool=good"))
	equal(t, "added again", c.Call("good", "{}").Text(), "bad/good {}")
}

// waiting are calls of the server "x" that wait for something, each kind in its own way.
type waiting struct {
	what string
	x    *mcptest.Exchange
}

// manyWaiting begins a call in flight of each kind of client.
func manyWaiting(g *rig, tool string) (all []waiting) {
	for what, c := range map[string]*mcptest.Client{"legacy": g.legacy(), "modern": g.modern()} {
		x := c.BeginCall(tool, "{}", mcptest.WithToken(`"t"`))
		x.Await(isProgress)
		all = append(all, waiting{what, x})
	}
	return all
}

// ends are the two ways in which calls in flight are ended on purpose.
func ends(t *testing.T, f func(t *testing.T, text string, end func(g *rig))) {
	t.Run("removed", func(t *testing.T) {
		f(t, `server "x" was removed from the gateway`, func(g *rig) { g.remove("x") })
	})
	t.Run("restarted", func(t *testing.T) {
		f(t, `server "x" was restarted before it answered`, func(g *rig) {
			if f := g.relay.Restart(g.t.Context(), "x"); f != nil {
				g.t.Errorf("restart: %v", f)
			}
		})
	})
}

func TestCallsInFlightEndWithAClearError(t *testing.T) {
	ends(t, func(t *testing.T, text string, end func(g *rig)) {
		t.Run("in flight", func(t *testing.T) {
			g := start(t, map[string]server{"x": flags(), "y": flags("-prefix=y_")})
			all := manyWaiting(g, "cancellable")
			other := manyWaiting(g, "y_cancellable")
			end(g)
			for _, w := range all {
				r := w.x.Must()
				refused(t, r, wire.CodeInternal, text)
				contains(t, string(r.Error), `"data":{"server":"x"}`)
			}
			for _, w := range other {
				w.x.HangUp()
				if r, err := w.x.Wait(); err == nil {
					t.Errorf("a call of another server was answered: %s", r.Raw)
				}
			}
		})
		t.Run("of a session's own process", func(t *testing.T) {
			g := start(t, map[string]server{"x": {options: catalog.Options{Isolated: true}}})
			all := manyWaiting(g, "cancellable")
			before := g.started()
			end(g)
			for _, w := range all {
				refused(t, w.x.Must(), wire.CodeInternal, text)
			}
			for _, pid := range before {
				if !gone(pid) {
					t.Errorf("process %d is left", pid)
				}
			}
		})
		t.Run("held", func(t *testing.T) {
			g := start(t, map[string]server{"x": flags()})
			c := g.modern(modernAsker())
			_, state := inputs(t, c.Call("ask_sampling", "{}"))
			end(g)
			refused(t, c.Request("tools/call", retry("ask_sampling", state, `{"input-1":{}}`)), wire.CodeInternal, text)
		})
		t.Run("between two rounds", func(t *testing.T) {
			g := start(t, map[string]server{"x": {flags: []string{"-modern-only"}, options: modernOption}})
			c := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: func(mcptest.Message) (string, string) { return "", "" }})
			x := c.BeginCall("ask_sampling", "{}")
			question := x.Await(mcptest.IsMethod("sampling/createMessage"))
			end(g)
			r := x.Must()
			refused(t, r, wire.CodeInternal, text)
			c.Listen()
			withdrawn := func(m mcptest.Message) bool {
				return m.Method == "notifications/cancelled" && string(wire.Get(m.Params, "requestId")) == string(question.ID)
			}
			if !slices.ContainsFunc(r.Interim, withdrawn) {
				c.Await(withdrawn)
			}
		})
		t.Run("at a remote server", func(t *testing.T) {
			for _, kind := range append(knowing, mcptest.RemoteStateless) {
				s := mcptest.StartRemote(t, kind)
				g := start(t, map[string]server{"x": {url: s.URL}})
				c, m := g.legacy(), g.modern()
				all := []*mcptest.Exchange{c.BeginCall("wait", "{}"), m.BeginCall("wait", "{}")}
				happens(t, "the call", s.Waiting)
				happens(t, "the other call", s.Waiting)
				end(g)
				for _, x := range all {
					refused(t, x.Must(), wire.CodeInternal, text)
				}
				g.close()
			}
		})
	})
}

// A call that waits for the server to be started learns of its removal, and is answered after a restart.
func TestWaitingCallsAndTheirServer(t *testing.T) {
	begin := func(t *testing.T) (*rig, string, []*mcptest.Exchange) {
		gate := file(t)
		create(t, gate)
		g := start(t, map[string]server{"x": flags("-start-gate=" + gate)})
		if err := os.Remove(gate); err != nil {
			t.Fatal(err)
		}
		g.kill("x")
		eventually(t, "its end", func() bool { return g.state("x").State != upstream.StateReady })
		all := []*mcptest.Exchange{g.legacy().BeginCall("whoami", "{}"), g.modern().BeginCall("whoami", "{}")}
		eventually(t, "starting", func() bool { return g.state("x").State == upstream.StateStarting && g.down.InFlight() == 2 })
		return g, gate, all
	}
	t.Run("removed", func(t *testing.T) {
		g, _, all := begin(t)
		g.remove("x")
		for _, x := range all {
			refused(t, x.Must(), wire.CodeInternal, `server "x" was removed from the gateway`)
		}
	})
	t.Run("restarted", func(t *testing.T) {
		g, gate, all := begin(t)
		done := make(chan *fault.Fault)
		go func() { done <- g.relay.Restart(t.Context(), "x") }()
		create(t, gate)
		for _, x := range all {
			equal(t, "answer", x.Must().Text(), "x")
		}
		if f := <-done; f != nil {
			t.Errorf("restart: %v", f)
		}
	})
}

func TestRestart(t *testing.T) {
	t.Run("makes a new process that lists again", func(t *testing.T) {
		tools := file(t)
		if err := os.WriteFile(tools, []byte(`["old"]`), 0o644); err != nil {
			t.Fatal(err)
		}
		g := start(t, map[string]server{"x": flags("-tools-file=" + tools)})
		c := g.legacy()
		c.Listen()
		old := g.pid("x")
		if err := os.WriteFile(tools, []byte(`["new"]`), 0o644); err != nil {
			t.Fatal(err)
		}
		if f := g.relay.Restart(t.Context(), "x"); f != nil {
			t.Fatal(f)
		}
		if !gone(old) || g.pid("x") == old {
			t.Error("the old process is there")
		}
		c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
		equal(t, "tools", fmt.Sprint(c.Tools()), "[new]")
		if st := g.state("x"); st.Restarts != 1 || st.LastErr != nil {
			t.Errorf("state %+v", st)
		}
		if strings.Contains(g.logged(), "level=WARN") {
			t.Error("a wanted end is warned of")
		}
	})
	t.Run("forgets that it failed", func(t *testing.T) {
		g := start(t, map[string]server{"x": flags()})
		c := g.legacy()
		for g.state("x").State != upstream.StateFailed {
			c.Request("tools/call", mcptest.CallParams("boom", "{}"))
			eventually(t, "its end", func() bool { return g.state("x").State != upstream.StateReady })
		}
		if f := g.relay.Restart(t.Context(), "x"); f != nil {
			t.Fatal(f)
		}
		equal(t, "call", c.Call("whoami", "{}").Text(), "x")
		c.Request("tools/call", mcptest.CallParams("boom", "{}"))
		eventually(t, "its end", func() bool { return g.state("x").State != upstream.StateReady })
		if st := g.state("x"); st.State != upstream.StateStopped {
			t.Errorf("its failures are remembered: %+v", st)
		}
	})
	t.Run("tells why it does not come back", func(t *testing.T) {
		g := start(t, map[string]server{"x": flags()})
		f := g.relay.Restart(t.Context(), "nobody")
		if f == nil || !strings.Contains(f.Error(), "no server of that name") {
			t.Errorf("fault %v", f)
		}
		short, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("the caller has left"))
		if f = g.relay.Restart(short, "x"); f == nil || !strings.Contains(f.Error(), "the caller has left") {
			t.Errorf("fault %v", f)
		}
		eventually(t, "it comes back all the same", func() bool { return g.state("x").State == upstream.StateReady })
	})
}

// 50 goroutines add, remove and restart the same few servers while calls run.
func TestManyChangesAtOnce(t *testing.T) {
	g := start(t, map[string]server{"rock": flags("-tool=rock")})
	kinds := []server{flags("-tool=t0"), {options: catalog.Options{Isolated: true}, flags: []string{"-tool=t1"}},
		{flags: []string{"-tool=t2"}, modern: []string{"-modern-only", "-tool=t2"}, options: bothOption}}
	over := make(chan bool)
	var loads, changes sync.WaitGroup
	for n := range 4 {
		c := g.legacy()
		if n%2 == 0 {
			c = g.modern()
		}
		loads.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if r, err := c.Do("tools/call", mcptest.CallParams("rock", "{}")); err != nil || r.Text() != "rock/rock {}" {
					t.Errorf("a server that stays: %s %v", r.Raw, err)
				}
				// One that comes and goes answers, or says why not.
				r, err := c.Do("tools/call", mcptest.CallParams(fmt.Sprint("t", n%3), "{}"))
				if text := string(r.Error); err != nil || r.Error != nil && !strings.Contains(text, "was removed") && !strings.Contains(text, "was restarted") && !strings.Contains(text, "unknown tool") {
					t.Errorf("a server that comes and goes: %s %v", r.Raw, err)
				}
			}
		})
	}
	for n := range 50 {
		changes.Go(func() {
			name := fmt.Sprint("s", n%3)
			switch n / 3 % 3 {
			case 0:
				g.relay.Add(t.Context(), g.member(name, kinds[n%3]))
			case 1:
				g.relay.Restart(t.Context(), name)
			default:
				g.relay.Remove(t.Context(), name)
			}
			g.relay.Status()
			g.relay.Tools()
		})
	}
	changes.Wait()
	close(over)
	loads.Wait()
	c := g.legacy()
	for n := range 3 {
		name := fmt.Sprint("s", n)
		g.relay.Remove(t.Context(), name)
		g.add(name, kinds[n])
		equal(t, "call", c.Call(fmt.Sprint("t", n), "{}").Text(), fmt.Sprintf("s%d/t%d {}", n, n))
	}
	for n := range 3 {
		g.relay.Remove(t.Context(), fmt.Sprint("s", n))
	}
	rock := g.pid("rock")
	for _, pid := range g.started() {
		if pid != rock && !gone(pid) {
			t.Errorf("process %d is left of a removed server", pid)
		}
	}
}

// What sessions and listeners have of a server goes with it, and comes back when they ask again.
func TestRemovedServersSubscriptions(t *testing.T) {
	g := start(t, map[string]server{"x": flags("-prefix=x_"), "y": flags("-prefix=y_", "-resources=0", "-templates=0")})
	c, m := g.legacy(), g.modern()
	c.Listen()
	uri := `{"uri":"fake://text/1"}`
	c.Result("resources/subscribe", uri)
	x := listen(m, `{"resourceSubscriptions":["fake://text/1"]}`)
	g.remove("x")
	g.add("x", flags("-prefix=x_"))
	equal(t, "subscriptions of the new process", c.Call("x_subscriptions", "{}").Text(), "[]")
	c.Result("resources/subscribe", uri) // it is a new one, not counted on top of the old
	equal(t, "subscriptions", c.Call("x_subscriptions", "{}").Text(), `["fake://text/1"]`)
	c.Call("x_touch", "{}")
	c.Await(mcptest.IsMethod(updated))
	x.HangUp()
	equal(t, "an old listener takes nothing away", c.Call("x_subscriptions", "{}").Text(), `["fake://text/1"]`)
	c.Result("resources/unsubscribe", uri)
	eventually(t, "none is left", func() bool { return c.Call("x_subscriptions", "{}").Text() == "[]" })
}

func builtIn(name, result string) relay.BuiltIn {
	return relay.BuiltIn{
		Tool: fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name),
		Call: func(_ context.Context, _ *downstream.Exchange, arguments []byte) []byte {
			return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Quote(result+string(arguments)))
		},
	}
}

func TestBuiltInTools(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-tool=find", "-tool=x")})
	c, m := g.legacy(), g.modern()
	c.Listen()
	g.relay.SetBuiltIns([]relay.BuiltIn{builtIn("find", "own "), builtIn("add", "own add ")})
	c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	for what, client := range map[string]*mcptest.Client{"legacy": c, "modern": m} {
		equal(t, what+" tools", fmt.Sprint(client.Tools()), "[find add a_find x]")
		equal(t, what, client.Call("find", `{"q":1}`).Text(), `own {"q":1}`)
		equal(t, what+" without arguments", client.Request("tools/call", `{"name":"add"}`).Text(), `own add {}`)
		equal(t, what+" server's", client.Call("a_find", "{}").Text(), "a/find {}")
	}
	contains(t, string(m.Call("find", "{}").Result), `"resultType":"complete"`)
	equal(t, "a server's own error", string(c.Request("tools/call", mcptest.CallParams("nothing", "{}")).Error), string(one(t, "-tool=x").legacy().Request("tools/call", mcptest.CallParams("nothing", "{}")).Error))
	if tools := g.relay.Tools(); tools[0].Server != "mcp-gateway" || tools[0].OriginalName != "find" {
		t.Errorf("tools %+v", tools)
	}
	t.Run("it may ask its client", func(t *testing.T) {
		asks := builtIn("ask", "")
		asks.Call = func(_ context.Context, x *downstream.Exchange, _ []byte) []byte {
			answer := make(chan []byte, 1)
			x.Session.Ask(x, "elicitation/create", []byte(`{"message":"sure?"}`), func(m wire.Msg, err error) { answer <- m.Result })
			return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Quote(string(<-answer)))
		}
		g.relay.SetBuiltIns([]relay.BuiltIn{asks})
		want, _ := answers("me")(mcptest.Message{Method: "elicitation/create"})
		equal(t, "answer", g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")}).Call("ask", "{}").Text(), want)
	})
	t.Run("its context ends with its client", func(t *testing.T) {
		ended, begun := make(chan bool), make(chan bool)
		waits := builtIn("wait", "")
		waits.Call = func(ctx context.Context, _ *downstream.Exchange, _ []byte) []byte {
			close(begun)
			<-ctx.Done()
			close(ended)
			return []byte("{}")
		}
		g.relay.SetBuiltIns([]relay.BuiltIn{waits})
		x := c.BeginCall("wait", "{}")
		happens(t, "the call", begun)
		x.Cancel("")
		happens(t, "the end", ended)
	})
	g.relay.SetBuiltIns(nil)
	equal(t, "tools", fmt.Sprint(c.Tools()), "[a_find x]")
}
