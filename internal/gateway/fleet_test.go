package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// sh is a registration of a line for the shell that ends in a fake server.
func (g *testGateway) sh(name, line string) string {
	g.t.Helper()
	text, err := json.Marshal(map[string]any{name: map[string]any{
		"command": "/bin/sh", "args": []string{"-c", line + "; exec " + mcptest.Build(g.t) + " -tool=" + name + "_tool -id=" + name + " -pid-file=" + g.pids},
	}})
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// inBackground adds a server; the channel gets the answer.
func (g *testGateway) inBackground(server, registration string) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		r, err := g.ask("POST", gatewayPath+"/servers", addBody(server, registration), token)
		if err != nil {
			r.body = err.Error()
		}
		answers <- r
	}()
	return answers
}

// A failed addition hurts nothing, is remembered with its reason, and can be repeated.
func TestFleet_AddThatFails(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}})
	cause := temporary(t, "licence")
	flawed := g.sh("flawed", "test -e "+cause+" || { echo no licence >&2; exit 3; }")
	e := g.add("flawed", flawed).refusal(t, 409, control.FailedPrecondition, `"flawed"`, "exit status 3", "no licence")
	contains(t, string(e.Details[0]), "EXITED_BEFORE_READY")
	check := func() {
		t.Helper()
		r := g.report()
		if outcomes(r) != "a=applied flawed=failed" || r.Complete {
			t.Errorf("report %+v", r)
		}
		equal(t, "servers", names(g.gateway().Servers), "a:stdio flawed:stdio")
		if s := g.gateway(); s.State != control.GatewayReady {
			t.Errorf("gateway %+v", s)
		}
		s := g.status()
		if s.State != control.StateReady || len(s.Servers) != 2 || s.Servers[1].State != "failed" || !strings.Contains(s.Servers[1].LastError, "no licence") {
			t.Errorf("status %+v", s)
		}
		if tools := g.client("").Tools(); !slices.Equal(tools, []string{"x"}) {
			t.Errorf("tools %v", tools)
		}
	}
	check()
	g.add("flawed", "").refusal(t, 409, control.FailedPrecondition, "no licence")
	g.api("POST", gatewayPath+"/servers/flawed/restart", "").refusal(t, 409, control.FailedPrecondition, "no licence")
	check()
	touch(t, cause)
	if r := g.api("POST", gatewayPath+"/servers/flawed/restart", ""); r.status != 200 {
		t.Errorf("restart: %d %s", r.status, r.body)
	}
	equal(t, "outcomes", outcomes(g.report()), "a=applied flawed=applied")
	if tools := g.client("").Tools(); !slices.Equal(tools, []string{"x", "flawed_tool"}) {
		t.Errorf("tools %v", tools)
	}
	t.Run("another definition mends it too", func(t *testing.T) {
		g.add("gone", `{"gone":{"command":"no-such-command"}}`).refusal(t, 409, control.FailedPrecondition, "no-such-command")
		if r := g.add("gone", g.fake("gone", "-tool=y")); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	t.Run("and it can be removed", func(t *testing.T) {
		g.add("bad", `{"bad":{"command":"no-such-command"}}`).refusal(t, 409, control.FailedPrecondition)
		if r := g.api("DELETE", gatewayPath+"/servers/bad", ""); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
		equal(t, "servers", names(g.gateway().Servers), "a:stdio flawed:stdio gone:stdio")
	})
}

func TestFleet_RemovedServerIsGoneAndKnown(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}})
	if r := g.add("b", g.fake("b", "-spawn")); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	c := g.client("")
	c.Listen()
	call := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	call.Await(mcptest.IsMethod("notifications/progress"))
	if r := g.api("DELETE", gatewayPath+"/servers/b", ""); r.status != 200 {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
	contains(t, string(call.Must().Raw), `server \"b\" was removed`)
	c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	if tools := c.Tools(); !slices.Equal(tools, []string{"x"}) {
		t.Errorf("tools %v", tools)
	}
	equal(t, "servers", names(g.gateway().Servers), "a:stdio")
	g.api("DELETE", gatewayPath+"/servers/b", "").refusal(t, 404, control.NotFound, `"b"`)
	g.api("POST", gatewayPath+"/servers/b/restart", "").refusal(t, 404, control.NotFound, `"b"`)
	if r := g.add("b", ""); r.status != 200 { // its registration is remembered
		t.Errorf("add again: %d %s", r.status, r.body)
	}
	equal(t, "it", c.Call("whoami", "{}").Text(), "b")
	if r := g.api("DELETE", gatewayPath+"/servers/a", ""); r.status != 200 {
		t.Errorf("remove one of the configuration: %d %s", r.status, r.body)
	}
	if r := g.add("a", ""); r.status != 200 {
		t.Errorf("add it again: %d %s", r.status, r.body)
	}
}

func TestFleet_RemovalEndsAnAddition(t *testing.T) {
	g := start(t, map[string]entry{})
	adding := g.inBackground("slow", g.fake("slow", "-start-gate="+temporary(t, "gate")))
	eventually(t, "it is being added", func() bool { return g.started() == 1 })
	equal(t, "outcome", outcomes(g.report()), "slow=pending")
	if s := g.status(); len(s.Servers) != 1 || s.Servers[0].State != "starting" {
		t.Errorf("status %+v", s)
	}
	if r := g.api("DELETE", gatewayPath+"/servers/slow", ""); r.status != 200 {
		t.Errorf("remove: %d %s", r.status, r.body)
	}
	(<-adding).refusal(t, 409, control.FailedPrecondition, "removed while it was being added")
	equal(t, "servers", names(g.gateway().Servers), "")
	g.noProcessIsLeft()
}

func TestFleet_AdditionGoesOnWithoutItsCaller(t *testing.T) {
	g := start(t, map[string]entry{})
	gate := temporary(t, "gate")
	registration := g.fake("slow", "-tool=y", "-start-gate="+gate)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", g.base()+gatewayPath+"/servers", strings.NewReader(addBody("slow", registration)))
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+token)
			_, err = (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		}
		left <- err
	}()
	eventually(t, "it is being added", func() bool { return g.started() == 1 })
	leave()
	if err := <-left; err == nil {
		t.Error("the caller did not leave")
	}
	again := g.inBackground("slow", registration)
	touch(t, gate)
	if r := <-again; r.status != 200 {
		t.Errorf("who asks again: %d %s", r.status, r.body)
	}
	if g.started() != 1 {
		t.Errorf("%d processes", g.started())
	}
	equal(t, "outcome", outcomes(g.report()), "slow=applied")
}

func TestFleet_RestartMakesANewProcess(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	c := g.client("")
	call := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	call.Await(mcptest.IsMethod("notifications/progress"))
	pid := g.status().Servers[0].PID
	if r := g.api("POST", gatewayPath+"/servers/a/restart", ""); r.status != 200 {
		t.Errorf("restart: %d %s", r.status, r.body)
	}
	contains(t, string(call.Must().Raw), `server \"a\" was restarted`)
	if now := g.status().Servers[0]; now.State != "ready" || now.PID == pid || now.PID == 0 {
		t.Errorf("status %+v, pid before %d", now, pid)
	}
	equal(t, "it", c.Call("whoami", "{}").Text(), "a")
}

// What ends a restart is told as that, not as a fault of the server.
func TestFleet_StopEndsARestart(t *testing.T) {
	gate := temporary(t, "gate")
	touch(t, gate)
	g := start(t, map[string]entry{"a": {Args: []string{"-start-gate=" + gate}}})
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	restarting := make(chan reply, 1)
	go func() {
		r, _ := g.ask("POST", gatewayPath+"/servers/a/restart", "", token)
		restarting <- r
	}()
	eventually(t, "it is being restarted", func() bool { return g.started() == 2 })
	g.stopGateway()
	r := <-restarting
	if e := r.refusal(t, 409, control.FailedPrecondition); e.Message != `server "a": the gateway was stopped` {
		t.Errorf("error %q", e.Message)
	}
}

func TestFleet_NoMoreThan64(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	for n := range 63 {
		name := fmt.Sprintf("s%d", n)
		g.add(name, `{"`+name+`":{"command":"no-such-command"}}`).refusal(t, 409, control.FailedPrecondition)
	}
	g.add("one-more", g.fake("one-more")).refusal(t, 429, control.ResourceExhausted, "64")
	if len(g.gateway().Servers) != 64 {
		t.Errorf("%d servers", len(g.gateway().Servers))
	}
	g.api("DELETE", gatewayPath+"/servers/s0", "")
	if r := g.add("one-more", g.fake("one-more", "-tool=y")); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestFleet_RegistrationsAreChecked(t *testing.T) {
	g := start(t, map[string]entry{})
	for registration, parts := range map[string][]string{
		`{"x":{"command":7}}`:                            {"command", "must be a string"},
		`{"x":{}}`:                                       {"not in the catalogue"},
		`{"x":{"command":"a","runCmd":"b"}}`:             {"command"},
		`{"x":{"command":"a","envs":{"NOT OK":"secr"}}}`: {"envs"},
		`{"x":{"command":"a","disabled":true}}`:          {"disabled"},
	} {
		e := g.add("x", registration).refusal(t, 400, control.InvalidArgument, parts...)
		details[map[string]any](t, e, control.TypeBadRequest)
	}
	for _, mismatch := range []string{`{}`, `{"y":{"command":"a"}}`, `{"x":{"command":"a"},"y":{"command":"a"}}`, `{"mcpServers":{"x":{"command":"a"}}}`} {
		g.add("x", mismatch).refusal(t, 409, control.FailedPrecondition, `"x"`)
	}
	equal(t, "servers", names(g.gateway().Servers), "")
}

// Of many starts at once one is done, and all are told of it.
func TestFleet_StartsAtOnceAreOne(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	g.stopGateway()
	var wait sync.WaitGroup
	var mu sync.Mutex
	uids, fresh := map[string]bool{}, 0
	for range 20 {
		wait.Go(func() {
			r, err := g.ask("POST", gatewayPath+"/start", `{"servers":["a"]}`, token)
			var out control.Gateway
			if err != nil || json.Unmarshal([]byte(r.body), &out) != nil {
				t.Errorf("%v %s", err, r.body)
			}
			mu.Lock()
			defer mu.Unlock()
			uids[out.UID] = true
			if !out.Reused {
				fresh++
			}
		})
	}
	wait.Wait()
	g.until(control.GatewayReady)
	if len(uids) != 1 || fresh != 1 || g.started() != 2 {
		t.Errorf("%d gateways, %d of them new, %d processes", len(uids), fresh, g.started())
	}
}

// A server whose addition has failed keeps the others from nothing: another start tries it again beside them.
func TestFleet_AddThatFailedDoesNotKeepOthersFromStarting(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}})
	cause := temporary(t, "licence")
	g.add("flawed", g.sh("flawed", "test -e "+cause+" || { echo no licence >&2; exit 3; }")).refusal(t, 409, control.FailedPrecondition, "no licence")
	again := func(want string) {
		t.Helper()
		g.stopGateway()
		if r := g.api("POST", gatewayPath+"/start", `{}`); r.status != 202 {
			t.Fatalf("start: %d %s", r.status, r.body)
		}
		g.until(control.GatewayReady)
		eventually(t, "all are settled", func() bool { return !strings.Contains(outcomes(g.report()), "pending") })
		equal(t, "outcomes", outcomes(g.report()), want)
		equal(t, "servers", names(g.gateway().Servers), "a:stdio flawed:stdio")
	}
	again("a=applied flawed=failed")
	contains(t, g.report().Servers[1].Reason, "no licence")
	if r := g.api("POST", gatewayPath+"/start", `{"servers":["flawed","a"]}`); r.status != 200 {
		t.Errorf("start of what there is: %d %s", r.status, r.body)
	}
	touch(t, cause)
	again("a=applied flawed=applied")
	if tools := g.client("").Tools(); !slices.Equal(tools, []string{"x", "flawed_tool"}) {
		t.Errorf("tools %v", tools)
	}
}

func TestFleet_StopEndsWhatIsUnderWay(t *testing.T) {
	t.Run("an addition", func(t *testing.T) {
		g := start(t, map[string]entry{"a": {}})
		adding := g.inBackground("slow", g.fake("slow", "-silent"))
		eventually(t, "it is being added", func() bool { return g.started() == 2 })
		g.stopGateway()
		(<-adding).refusal(t, 409, control.FailedPrecondition, "stopped")
		g.noProcessIsLeft()
	})
	t.Run("a start", func(t *testing.T) {
		g := early(t, map[string]entry{"slow": {Args: []string{"-silent"}}})
		g.o.StartupTimeout = time.Hour
		g.up()
		eventually(t, "it is being started", func() bool { return g.started() == 1 })
		g.stopGateway()
		g.api("GET", gatewayPath, "").refusal(t, 404, control.NotFound)
		g.noProcessIsLeft()
		if s := g.status(); s.State != control.StateStopped {
			t.Errorf("status %+v", s)
		}
	})
	t.Run("a start that somebody waits for", func(t *testing.T) {
		g := prepare(t, map[string]entry{"slow": {Args: []string{"-silent"}}})
		stopped := make(chan error, 1)
		go func() {
			eventually(t, "it is being started", func() bool { return g.started() == 1 })
			stopped <- control.NewClient(g.o.Paths.Socket()).StopGateway(context.Background())
		}()
		if err := g.run(); err == nil || !strings.Contains(err.Error(), "the gateway was stopped") {
			t.Errorf("error %v", err)
		}
		if err := <-stopped; err != nil {
			t.Logf("stop: %v", err) // it may end faster than it answers
		}
		g.nothingIsLeft()
	})
	t.Run("the end of the program", func(t *testing.T) {
		g := early(t, map[string]entry{"slow": {Args: []string{"-silent"}}}).up()
		eventually(t, "it is being started", func() bool { return g.started() == 1 })
		g.end()
		g.nothingIsLeft()
	})
}

// The bearer for a shared gateway goes to the one that it was given for.
func TestFleet_AttachTokenStaysWithItsGateway(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
	}))
	defer thief.Close()
	shared := start(t, map[string]entry{"far": {}})
	g := prepare(t, map[string]entry{})
	g.o.Attach, g.o.AttachToken = shared.ready.URL, token
	g.up()
	g.stopGateway()
	g.api("POST", gatewayPath+"/start", `{"gatewayUrl":`+quoted(thief.URL+"/mcp")+`}`)
	g.until(control.GatewayFailed)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 || slices.ContainsFunc(seen, func(h string) bool { return h != "" }) {
		t.Errorf("another gateway was shown %q", seen)
	}
	if s := g.status(); s.State != control.StateFailed || len(s.Servers) != 1 || s.Servers[0].Name != "attached" || s.Servers[0].LastError == "" {
		t.Errorf("status %+v", s)
	}
}

// Whatever comes at once, each request is answered, and in the end what is asked for is what runs.
func TestFleet_EverythingAtOnce(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-tool=x"}}})
	registrations := map[string]string{"b": g.fake("b", "-tool=b_tool"), "c": g.fake("c", "-tool=c_tool"), "bad": `{"bad":{"command":"no-such-command"}}`}
	var wait sync.WaitGroup
	for n := range 6 {
		wait.Go(func() {
			for i := range 12 {
				server := []string{"b", "c", "bad"}[(n+i)%3]
				method, path, body := "POST", gatewayPath+"/servers", addBody(server, registrations[server])
				switch (n*5 + i) % 6 {
				case 0:
					method, path, body = "DELETE", gatewayPath+"/servers/"+server, ""
				case 1:
					path, body = gatewayPath+"/servers/"+server+"/restart", ""
				case 2:
					method, path, body = "GET", gatewayPath+"/servers", ""
				case 3:
					path, body = gatewayPath+"/start", "{}"
					if n == 0 {
						path, body = gatewayPath+"/stop", ""
					}
				}
				r, err := g.ask(method, path, body, token)
				if err != nil || r.status >= 500 {
					t.Errorf("%s %s: %d %s, %v", method, path, r.status, r.body, err)
				}
			}
		})
	}
	wait.Wait()
	g.stopGateway()
	g.noProcessIsLeft()
	g.api("POST", gatewayPath+"/start", `{"servers":["a"]}`)
	g.until(control.GatewayReady)
	for _, server := range []string{"b", "c"} {
		if r := g.add(server, registrations[server]); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	equal(t, "outcomes", outcomes(g.report()), "a=applied b=applied c=applied")
	if tools := g.client("").Tools(); !slices.Equal(tools, []string{"x", "b_tool", "c_tool"}) {
		t.Errorf("tools %v", tools)
	}
}
