package relay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// kill -9 with a call in flight: its error names the server and how it ended, the next call works, and
// nothing of the old process is left, not even a grandchild in a session of its own.
func TestB5_KilledServer(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-tool=y")})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		grandchild, err := strconv.Atoi(c.Call("spawn_setsid", `{"stubborn":true}`).Text())
		if err != nil {
			t.Fatal(err)
		}
		old := g.pid("a")
		x := c.BeginCall("cancellable", "{}", mcptest.WithToken(`"t"`))
		x.Await(isProgress)
		g.kill("a")
		r := x.Must()
		refused(t, r, wire.CodeInternal, `server "a" ended before it answered`, "signal: killed")
		contains(t, string(r.Error), `"data":{"server":"a"}`)
		equal(t, "next call", c.Call("whoami", "{}").Text(), "a")
		equal(t, "other server", c.Call("y", "{}").Text(), "b/y {}")
		for _, pid := range []int{old, grandchild} {
			if !gone(pid) {
				t.Errorf("process %d is still there", pid)
			}
		}
		if g.pid("a") == old {
			t.Error("status shows the old process")
		}
	})
}

func TestB19_StatusTellsOfADeadServer(t *testing.T) {
	g := one(t, "-stderr=the end is near")
	pid := g.pid("one")
	g.kill("one")
	eventually(t, "stopped", func() bool { return g.state("one").State == upstream.StateStopped })
	st := g.state("one")
	if st.PID != 0 || st.LastErr == nil {
		t.Fatalf("state %+v", st)
	}
	contains(t, st.LastErr.Error(), "signal: killed", "the end is near")
	if !gone(pid) {
		t.Error("the process is still there")
	}
}

func TestB20_ServerThatExitsComesBack(t *testing.T) {
	g := one(t)
	c := g.legacy()
	for range 2 {
		refused(t, c.Request("tools/call", mcptest.CallParams("boom", `{"code":3}`)), wire.CodeInternal, `server "one"`, "exit status 3", "boom: about to end")
		equal(t, "next call", c.Call("whoami", "{}").Text(), "one")
	}
	if st := g.state("one"); st.Restarts != 2 || st.State != upstream.StateReady {
		t.Errorf("state %+v", st)
	}
}

func TestB10_ServerOfOneQuestion(t *testing.T) {
	// It answers initialize, four lists and one call, then ends.
	g := one(t, "-exit-after=6")
	c := g.legacy()
	for range 2 {
		equal(t, "answer", c.Call("whoami", "{}").Text(), "one")
		eventually(t, "its end", func() bool { return g.state("one").State != upstream.StateReady })
	}
	contains(t, g.state("one").LastErr.Error(), "exit status 0 after 6 messages")
}

func TestB21_CrashLoop(t *testing.T) {
	g := start(t, map[string]server{"one": {}, "two": flags("-tool=y")})
	c := g.legacy()
	for i := range 10 {
		r := c.Request("tools/call", mcptest.CallParams("boom", "{}"))
		_, message := errorOf(t, r)
		if strings.Contains(message, "times in a row") {
			contains(t, message, `server "one" failed`, "a call in", "starts it again", "last failure", "exit status 1")
			if st := g.state("one"); st.State != upstream.StateFailed {
				t.Errorf("state %+v", st)
			}
			equal(t, "other server", c.Call("y", "{}").Text(), "two/y {}")
			return
		}
		if i == 9 {
			t.Errorf("after 10 crashes it is still started at once: %s", message)
		}
	}
}

func TestB22_SlowRestart(t *testing.T) {
	gate := file(t)
	create(t, gate)
	g := one(t, "-start-gate="+gate)
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	c := g.legacy()
	g.kill("one")
	eventually(t, "its end", func() bool { return g.state("one").State != upstream.StateReady })
	x := c.BeginCall("whoami", "{}")
	eventually(t, "starting", func() bool { return g.state("one").State == upstream.StateStarting })
	// A client that gives up does not end the start, and does not wait for it.
	y := c.BeginCall("whoami", "{}", mcptest.WithID(`"given up"`))
	z := g.modern().BeginCall("whoami", "{}")
	eventually(t, "three callers", func() bool { return g.down.InFlight() == 3 })
	y.Cancel("")
	if r, err := y.Wait(); err == nil {
		t.Errorf("a cancelled call was answered %s", r.Raw)
	}
	z.HangUp()
	create(t, gate)
	equal(t, "a late server", x.Must().Text(), "one")
	if n := len(g.started()); n != 2 {
		t.Errorf("%d processes were started", n)
	}
	if got := c.Call("received", `{"method":"tools/call"}`).Text(); strings.Count(got, "whoami") != 1 {
		t.Errorf("calls that were given up were sent:\n%s", got)
	}
}

func TestB16_ManyFirstCallsStartOneProcess(t *testing.T) {
	g := one(t)
	var clients []*mcptest.Client
	for range 10 {
		clients = append(clients, g.legacy())
	}
	g.kill("one")
	eventually(t, "its end", func() bool { return g.state("one").State != upstream.StateReady })
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			r, err := clients[i%10].Do("tools/call", mcptest.CallParams("whoami", "{}"))
			if err != nil || r.Text() != "one" {
				t.Errorf("%s %v", r.Raw, err)
			}
		})
	}
	all.Wait()
	if n := len(g.started()); n != 2 {
		t.Errorf("%d processes were started", n)
	}
}

func TestB67_OneHandshake(t *testing.T) {
	g := one(t)
	for range 5 { // B17, B51
		c, m := g.legacy(), g.modern()
		for range 20 {
			c.Call("whoami", "{}")
			m.Call("whoami", "{}")
		}
		c.Close()
	}
	c := g.legacy()
	equal(t, "B51 handshakes", strconv.Itoa(strings.Count(c.Call("received", `{"method":"initialize"}`).Text(), "protocolVersion")), "1")
	equal(t, "B51 initialized", strconv.Itoa(strings.Count(c.Call("received", `{"method":"notifications/initialized"}`).Text(), "\n")), "0")
	if n := len(g.started()); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestB51_StrictServers(t *testing.T) {
	g := one(t, "-exit-on-second-initialize", "-exit-on-unknown-request", "-exit-on-unknown-notification", "-only=tools,logging")
	for range 3 {
		bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
			equal(t, "answer", c.Call("whoami", "{}").Text(), "one")
			c.Tools()
		})
	}
	if st := g.state("one"); st.Restarts > 0 {
		t.Errorf("restarted: %v", st.LastErr)
	}
}

func TestB52_ServerThatDiesOfACancellation(t *testing.T) {
	g := one(t, "-exit-on-unknown-notification")
	c := g.legacy()
	x := c.BeginCall("cancellable", "{}", mcptest.WithToken(`"t"`))
	x.Await(isProgress)
	x.Cancel("")
	eventually(t, "its end", func() bool { return g.state("one").Restarts == 1 })
	contains(t, g.state("one").LastErr.Error(), "exit status 3", `unknown notification "notifications/cancelled"`)
	equal(t, "next call", c.Call("whoami", "{}").Text(), "one")
	t.Run("with noCancel it is not told", func(t *testing.T) {
		g := start(t, map[string]server{"one": {flags: []string{"-exit-on-unknown-notification"}, options: catalog.Options{NoCancel: true}}})
		c := g.legacy()
		gate := file(t)
		x := c.BeginCall("wait_for", args("path", quoted(gate)), mcptest.WithToken(`"t"`))
		x.Await(isProgress)
		x.Cancel("")
		if r, err := x.Wait(); err == nil {
			t.Errorf("a cancelled request was answered %s", r.Raw)
		}
		create(t, gate) // its answer comes late, to nobody
		equal(t, "next call", c.Call("whoami", "{}").Text(), "one")
		equal(t, "cancellations", c.Call("received", `{"method":"notifications/cancelled"}`).Text(), "")
		if st := g.state("one"); st.Restarts != 0 {
			t.Errorf("state %+v", st)
		}
	})
}

func TestA5_StartFaults(t *testing.T) {
	g := newRig(t, map[string]server{
		"good": flags(), "gone": flags("-exit-before-ready=4", "-stderr=no key"), "mute": flags("-silent"),
		"late": {flags: []string{"-start-delay=1h"}, options: catalog.Options{StartTimeout: 200 * time.Millisecond}},
		"twin": {flags: []string{"-exit-before-ready=5"}, options: bothOption},
		"poor": flags(`-answer=tools/list={"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"no tools today"}}`),
	}, rigOptions{})
	// The budget ends when those that can start or fail by themselves have done so.
	budget, end := context.WithCancelCause(t.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		settled := func(name string) bool {
			return g.state(name).State == upstream.StateReady || g.state(name).LastErr != nil
		}
		eventually(t, "all but one are settled", func() bool {
			return settled("good") && settled("gone") && settled("late") && settled("poor") && settled("twin")
		})
		end(errors.New("the start-up limit of 1h has passed"))
	})
	defer watcher.Wait()
	var got []string
	for _, f := range g.relay.Start(budget, g.members) {
		got = append(got, fmt.Sprintf("%s %s %q %v", f.Server, f.Cause, f.Stderr, f.Err))
		if !strings.Contains(f.Ran, "fakeserver") || f.After <= 0 {
			t.Errorf("fault %+v", f)
		}
	}
	want := []string{
		`gone exited_before_ready ["no key"] <nil>`,
		`late handshake_timeout [] no answer to initialize: the start limit of 200ms has passed`,
		`mute handshake_timeout [] no answer to initialize: the start-up limit of 1h has passed`,
		`poor handshake_invalid [] tools/list: the server answered with error -32000: no tools today`,
		`twin exited_before_ready [] <nil>`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestB34_OnlyWhatIsAdvertisedIsAsked(t *testing.T) {
	t.Run("tools only", func(t *testing.T) {
		g := one(t, "-only=tools", "-exit-on-unknown-request")
		bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
			if len(c.Tools()) == 0 {
				t.Error("no tools")
			}
			equal(t, "prompts", string(wire.Get(c.Result("prompts/list", ""), "prompts")), "[]")
		})
		contains(t, string(g.legacy().Hello), `"capabilities":{"tools":{"listChanged":true}}`)
	})
	t.Run("a list that is advertised but refused", func(t *testing.T) {
		g := one(t, `-answer=prompts/list={"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}`)
		if st := g.state("one"); st.State != upstream.StateReady {
			t.Errorf("state %+v", st)
		}
		equal(t, "call", g.legacy().Call("whoami", "{}").Text(), "one")
	})
	t.Run("no tools at all", func(t *testing.T) {
		g := one(t, "-only=prompts")
		c := g.legacy()
		if len(c.Tools()) != 0 || len(c.Names("prompts/list", "prompts", "name")) != 2 {
			t.Errorf("tools %v", c.Tools())
		}
	})
}

func TestB77_NoServers(t *testing.T) {
	g := start(t, map[string]server{})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		if len(c.Tools()) != 0 {
			t.Errorf("tools %v", c.Tools())
		}
		refused(t, c.Request("tools/call", mcptest.CallParams("x", "{}")), wire.CodeInvalidParams, `unknown tool "x"`)
	})
	servers, tools := g.relay.Status()
	if len(servers) != 0 || tools != 0 {
		t.Errorf("%d servers, %d tools", len(servers), tools)
	}
}

// Nothing that a gateway has taken part in is left when it ends, whatever is going on.
func TestCloseWhileBusy(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-ignore-eof", "-ignore-term"), "iso": {options: catalog.Options{Isolated: true}, flags: []string{"-prefix=iso_"}}})
	var all sync.WaitGroup
	for range 4 {
		c, m := g.legacy(), g.modern()
		for _, x := range []*mcptest.Exchange{c.BeginCall("cancellable", "{}", mcptest.WithToken("1")), m.BeginCall("cancellable", "{}", mcptest.WithToken("1")),
			c.BeginCall("iso_cancellable", "{}", mcptest.WithToken("1"))} {
			x.Await(isProgress)
			all.Go(func() { _, _ = x.Wait() })
		}
		all.Go(func() { _, _ = m.Do("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`) })
	}
	g.close()
	all.Wait()
	for _, pid := range g.started() {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}
