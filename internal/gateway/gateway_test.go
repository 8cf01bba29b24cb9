package gateway_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/mcptest"
)

// The moment that the gateway is said to be ready, everything answers.
func TestA4_B24_ReadyMeansReady(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	g := prepare(t, map[string]entry{"a": {}, "b": {Args: []string{"-tool=y", "-start-gate=" + gate}}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.o.Listen = listener.Addr().String()
	g.ready.URL = "http://" + g.o.Listen + "/mcp"
	listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		g.ended <- gateway.Run(ctx, g.o, func(s control.Status) error {
			defer cancel()
			if s.State != control.StateReady || s.URL != g.ready.URL || s.PID != os.Getpid() || len(s.Servers) != 2 || s.Tools < 20 {
				t.Errorf("status %+v", s)
			}
			written, err := daemon.ReadToken(g.o.Paths)
			if err != nil || written != token {
				t.Errorf("token file: %v", err)
			}
			c, err := mcptest.Dial(s.URL, mcptest.ClientOptions{Token: token})
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Do("tools/list", "")
			if err := must(r, err); err != nil || !strings.Contains(string(r.Result), `"name":"y"`) {
				t.Errorf("tools/list in the moment of being ready: %v %s", err, r.Raw)
			}
			return nil
		})
	}()
	// Until then the door is there, and says 503.
	eventually(t, "the door", func() bool {
		c, err := net.Dial("tcp", g.o.Listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	status, body := g.get("/health")
	if status != 503 {
		t.Errorf("status %d", status)
	}
	contains(t, body, `"status":"starting"`)
	if _, err := mcptest.Dial(g.ready.URL, mcptest.ClientOptions{Token: token}); err == nil {
		t.Error("initialize is answered before all servers are ready")
	} else {
		contains(t, err.Error(), "starting")
	}
	if _, err := os.Stat(g.o.Paths.Token()); err == nil {
		t.Error("the token file is there before the gateway is ready")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-g.ended; err != nil {
		t.Error(err)
	}
	g.nothingIsLeft()
}

func TestA5_FailedStart(t *testing.T) {
	t.Parallel()
	g := prepare(t, map[string]entry{
		"good": {Args: []string{"-ignore-eof", "-ignore-term", "-spawn"}},
		"poor": {Args: []string{"-exit-before-ready=3", "-stderr=no key", "-spawn"}},
		"gone": {Command: "no-such-command"},
	})
	err := g.run()
	var failed *gateway.StartError
	if !errors.As(err, &failed) || failed.Total != 3 || len(failed.Faults) != 2 {
		t.Fatalf("error %v", err)
	}
	for i, want := range []struct {
		server string
		cause  fault.Cause
	}{{"gone", fault.NotFound}, {"poor", fault.ExitedBeforeReady}} { // B18
		if f := failed.Faults[i]; f.Server != want.server || f.Cause != want.cause || f.Ran == "" {
			t.Errorf("fault %+v", f)
		}
	}
	contains(t, err.Error(), "no-such-command", "exit status 3")
	g.nothingIsLeft()
	contains(t, g.log(), `server=poor`, "no key", "kept the gateway from starting")
	t.Run("and the next start works", func(t *testing.T) {
		again := prepare(t, map[string]entry{"good": {}})
		again.o.Paths = g.o.Paths
		if err := again.run(); err != nil {
			t.Fatal(err)
		}
		again.end()
		again.nothingIsLeft()
	})
	t.Run("a report that cannot be given", func(t *testing.T) {
		g := prepare(t, map[string]entry{"good": {}})
		err := gateway.Run(t.Context(), g.o, func(control.Status) error { return errors.New("the launcher has gone") })
		contains(t, err.Error(), "the launcher has gone")
		g.nothingIsLeft()
	})
	t.Run("told to end while it starts", func(t *testing.T) {
		g := prepare(t, map[string]entry{"mute": {Args: []string{"-silent"}}})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			eventually(t, "it runs", func() bool { _, err := os.Stat(g.pids); return err == nil })
			cancel(errors.New("SIGTERM"))
		}()
		err := gateway.Run(ctx, g.o, func(control.Status) error { t.Error("ready"); return nil })
		if err == nil || !strings.Contains(err.Error(), "SIGTERM") {
			t.Errorf("error %v", err)
		}
		g.nothingIsLeft()
	})
}

func TestA6_StartLimits(t *testing.T) {
	g := prepare(t, map[string]entry{
		"mute": {Args: []string{"-silent", "-stderr=loading", "-ignore-eof", "-ignore-term"}},
		"own":  {Args: []string{"-silent"}, Gateway: map[string]any{"startTimeout": "100ms"}},
	})
	g.o.StartupTimeout = 400 * time.Millisecond
	var failed *gateway.StartError
	if err := g.run(); !errors.As(err, &failed) || len(failed.Faults) != 2 {
		t.Fatalf("error %v", err)
	}
	mute, own := failed.Faults[0], failed.Faults[1]
	if mute.Cause != fault.HandshakeTimeout || !slices.Equal(mute.Stderr, []string{"loading"}) || mute.Ended != "still running" || mute.Hint == "" {
		t.Errorf("fault %+v", mute)
	}
	contains(t, mute.Error(), "no answer to initialize", "limit of 400ms") // B22, B23
	contains(t, own.Error(), "start limit of 100ms")
	g.nothingIsLeft()
}

func TestA7_SecondStart(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	second := prepare(t, map[string]entry{"a": {}})
	second.o.Paths = g.o.Paths
	var running *daemon.AlreadyRunning
	if err := second.run(); !errors.As(err, &running) || running.PID != os.Getpid() {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(second.pids); err == nil {
		t.Error("the second start has started servers")
	}
	equal(t, "the first one goes on", g.client("").Call("whoami", "{}").Text(), "a")

	t.Run("a port that another program has", func(t *testing.T) {
		third := prepare(t, map[string]entry{"a": {}})
		third.o.Listen = strings.TrimSuffix(strings.TrimPrefix(g.ready.URL, "http://"), "/mcp")
		var taken *daemon.PortInUse
		if err := third.run(); !errors.As(err, &taken) || taken.PID != os.Getpid() {
			t.Errorf("error %v", err)
		}
		third.nothingIsLeft()
	})
}

// The configuration's secrets stand nowhere but in memory.
func TestA8_B75_Secrets(t *testing.T) {
	const key = "s3cr3t-123 with 'quotes'"
	servers := func(args ...string) map[string]entry {
		return map[string]entry{"a": {Args: append([]string{"-stderr=TOKEN=" + key, "-print=key " + key}, args...), Env: map[string]string{"TOKEN": key}}}
	}
	quiet := func(t *testing.T, g *testGateway, texts ...string) {
		t.Helper()
		for _, text := range append(texts, g.log()) {
			if strings.Contains(text, "s3cr3t-123") || strings.Contains(text, token) {
				t.Errorf("the secret stands in %q", text)
			}
		}
		err := filepath.WalkDir(g.o.Paths.Root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || path == g.o.Paths.Token() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), "s3cr3t-123") {
				t.Errorf("the secret stands in %q", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	t.Run("while it runs", func(t *testing.T) {
		g := start(t, servers())
		c := g.client("")
		env := c.Call("env", "{}").Text()
		contains(t, env, `"TOKEN":"`+key)
		if strings.Contains(env, token) {
			t.Error("the server was given the token")
		}
		r := c.Request("tools/call", mcptest.CallParams("boom", "{}"))
		eventually(t, "its end is logged", func() bool { return strings.Contains(g.log(), "server ended") })
		quiet(t, g, string(r.Error), g.status().Servers[0].LastError)
		contains(t, string(r.Error), "TOKEN=***")
	})
	t.Run("when it fails", func(t *testing.T) {
		g := prepare(t, servers("-exit-before-ready=1"))
		err := g.run()
		var failed *gateway.StartError
		if !errors.As(err, &failed) {
			t.Fatal(err)
		}
		quiet(t, g, err.Error(), failed.Faults[0].Ran, strings.Join(failed.Faults[0].Stderr, "\n"))
		contains(t, strings.Join(failed.Faults[0].Stderr, "\n"), "TOKEN=***")
	})
}

func TestB19_HealthAndStatus(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-banner", "-stderr=goodbye"}}, "b": {Args: []string{"-tool=y"}}})
	status, body := g.get("/health")
	if status != 200 || !strings.HasPrefix(body, `{"status":"ok","servers":2,"tools":`) {
		t.Errorf("health %d %s", status, body)
	}
	s := g.status()
	if s.State != control.StateReady || s.Servers[0].SkippedLines != 2 || s.Servers[1].Tools != 1 || s.Servers[0].Restarts != 0 || s.Servers[0].LastError != "" {
		t.Errorf("status %+v", s)
	}
	if err := syscall.Kill(s.Servers[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "degraded", func() bool { return g.status().State == control.StateDegraded })
	status, body = g.get("/health")
	if status != 200 || !strings.HasPrefix(body, `{"status":"degraded","servers":2`) {
		t.Errorf("health %d %s", status, body)
	}
	a := g.status().Servers[0]
	if a.PID != 0 || a.State != "stopped" {
		t.Errorf("server %+v", a)
	}
	contains(t, a.LastError, "signal: killed", "goodbye")
	for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
		equal(t, "next call", g.client(version).Call("whoami", "{}").Text(), "a")
	}
	s = g.status()
	if s.State != control.StateReady || s.Servers[0].Restarts != 1 {
		t.Errorf("status %+v", s)
	}
	contains(t, g.log(), "server=a", "signal: killed", "hello, starting")
}

func TestB09_B7_LogLinesNameTheirServer(t *testing.T) {
	g := start(t, map[string]entry{"a": {Args: []string{"-stderr-every=2ms", "-stderr=from a"}}, "b": {Args: []string{"-stderr-every=2ms", "-stderr=from b"}}})
	eventually(t, "lines of both", func() bool {
		return strings.Contains(g.log(), "server=a line=x") && strings.Contains(g.log(), "server=b line=x")
	})
	contains(t, g.log(), `server=a line="from a"`, `server=b line="from b"`)
	info, err := os.Stat(g.o.Paths.Log())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if l := len(g.client("").Tools()); l == 0 {
		t.Error("no tools")
	}
}

func TestB77_EmptyConfiguration(t *testing.T) {
	g := start(t, map[string]entry{})
	status, body := g.get("/health")
	if status != 200 || body != `{"status":"ok","servers":0,"tools":0}` {
		t.Errorf("health %d %s", status, body)
	}
	if n := len(g.client("").Tools()); n != 0 {
		t.Errorf("%d tools", n)
	}
	if s := g.status(); s.Servers == nil || len(s.Servers) != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestB1_TheDoor(t *testing.T) {
	g := start(t, map[string]entry{"a": {}})
	for _, wrong := range []string{"", "wrong", token + "x"} {
		if _, err := mcptest.Dial(g.ready.URL, mcptest.ClientOptions{Token: wrong}); err == nil || !strings.Contains(err.Error(), "token") {
			t.Errorf("token %q: %v", wrong, err)
		}
	}
	if status, body := g.get("/"); status != 404 || !strings.Contains(body, "/mcp") {
		t.Errorf("/: %d %s", status, body)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("calls in flight are answered, listeners told, nothing is left", func(t *testing.T) {
		gate := filepath.Join(t.TempDir(), "gate")
		g := start(t, map[string]entry{"a": {Args: []string{"-spawn"}}})
		c, m := g.client(mcptest.Legacy), g.client(mcptest.Modern)
		x := c.BeginCall("wait_for", `{"path":"`+gate+`"}`, mcptest.WithToken("1"))
		x.Await(mcptest.IsMethod("notifications/progress"))
		l := m.Begin("subscriptions/listen", `{"notifications":{}}`)
		l.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
		if err := control.NewClient(g.o.Paths.Socket()).Stop(t.Context()); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("stop: %v", err)
		}
		contains(t, string(l.Must().Result), `"resultType":"complete"`)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		equal(t, "the call in flight", x.Must().Text(), "it is there")
		g.end()
		g.nothingIsLeft()
	})
	t.Run("stubborn servers and calls that never end", func(t *testing.T) {
		g := start(t, map[string]entry{"a": {Args: []string{"-ignore-eof", "-ignore-term", "-spawn"}}})
		for _, c := range []*mcptest.Client{g.client(mcptest.Legacy), g.client(mcptest.Modern)} {
			x := c.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
			x.Await(mcptest.IsMethod("notifications/progress"))
		}
		g.end()
		g.nothingIsLeft()
	})
}
