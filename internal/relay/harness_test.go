package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is one fake server behind the relay.
type server struct {
	flags   []string
	modern  []string // flags of the process for clients of 2026-07-28, with protocol "both"
	options catalog.Options
	url     string // of a remote server instead
}

// flags is a server with these flags and no options.
func flags(flags ...string) server { return server{flags: flags} }

// Options of servers of 2026-07-28.
var (
	modernOption = catalog.Options{Protocol: "modern"}
	bothOption   = catalog.Options{Protocol: "both"}
)

// rig is a relay with real processes behind it and real HTTP before it.
type rig struct {
	t       *testing.T
	url     string
	relay   *relay.Relay
	members []relay.Member // to be started
	out     *slog.Logger
	down    *downstream.Server
	host    *process.Host
	pids    string
	closed  bool

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes the log.
func (g *rig) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.Write(b)
}

func (g *rig) logged() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

type rigOptions struct {
	relay relay.Options
	down  downstream.Options
}

// newRig builds everything and starts nothing.
func newRig(t *testing.T, servers map[string]server, o rigOptions) *rig {
	t.Helper()
	host, err := process.NewHost(process.HostOptions{StdinGrace: time.Second, TermGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, host: host, pids: filepath.Join(t.TempDir(), "pids")}
	log := slog.New(slog.NewTextHandler(g, nil))
	g.out = log
	o.relay.Log, o.relay.Version, o.down.Log = log, "1.2.3", log
	if o.relay.StartTimeout == 0 {
		o.relay.StartTimeout = mcptest.Patience
	}
	for name, s := range servers {
		g.members = append(g.members, g.member(name, s))
	}
	g.relay = relay.New(context.Background(), o.relay)
	g.down = downstream.New(g.relay, o.down)
	g.relay.Attach(g.down)
	http := httptest.NewServer(g.down)
	g.url = http.URL + "/mcp"
	running, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { g.down.Run(running) })
	t.Cleanup(func() {
		g.close()
		http.Close()
		stop()
		loops.Wait()
		if err := host.Close(); err != nil {
			t.Error(err)
		}
		for _, pid := range g.started() {
			if !gone(pid) {
				t.Errorf("process %d is left", pid)
			}
		}
		if t.Failed() {
			t.Logf("log:\n%s", g.logged())
		}
	})
	return g
}

// member describes a server to the relay.
func (g *rig) member(name string, s server) relay.Member {
	log := g.out
	if s.url != "" {
		return remoteMember(name, s, log)
	}
	return relay.Member{Name: name, Options: s.options, Dial: func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
		flags := s.flags
		if modern && s.modern != nil {
			flags = s.modern
		}
		argv := append([]string{mcptest.Build(g.t), "-id=" + name, "-pid-file=" + g.pids}, flags...)
		return &upstream.StdioDialer{
			Server: name, Modern: modern, Host: g.host, Handler: h, Identity: id, Limit: 64 << 20, Log: log,
			NoCancel: s.options.NoCancel,
			Spec:     process.Spec{Name: name, Argv: argv, Env: os.Environ()},
			Stderr:   func(line string) { log.Info("stderr", "server", name, "line", line) },
			Scrub:    func(s string) string { return s },
		}
	}}
}

func remoteMember(name string, s server, log *slog.Logger) relay.Member {
	remote := upstream.NewRemote(upstream.RemoteOptions{
		Server: name, URL: s.url, Limit: 64 << 20, Log: log, Scrub: func(s string) string { return s },
	})
	return relay.Member{Name: name, Options: s.options, Remote: true, Dial: func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
		return &upstream.RemoteDialer{Remote: remote, Protocol: s.options.Protocol, Handler: h, Identity: id}
	}}
}

// start builds a rig and starts all servers.
func start(t *testing.T, servers map[string]server, o ...rigOptions) *rig {
	t.Helper()
	var options rigOptions
	if len(o) > 0 {
		options = o[0]
	}
	g := newRig(t, servers, options)
	ctx, cancel := context.WithTimeout(t.Context(), mcptest.Patience)
	defer cancel()
	if faults := g.relay.Start(ctx, g.members); len(faults) > 0 {
		t.Fatalf("start: %v", faults)
	}
	return g
}

// one starts a single server called "one".
func one(t *testing.T, flags ...string) *rig {
	t.Helper()
	return start(t, map[string]server{"one": {flags: flags}})
}

// close ends clients' requests and servers in the order in which a gateway does.
func (g *rig) close() {
	if g.closed {
		return
	}
	g.closed = true
	g.relay.EndListening()
	g.down.Close()
	g.relay.Close(context.Background())
}

// legacy connects a client of 2025-11-25.
func (g *rig) legacy(o ...mcptest.ClientOptions) *mcptest.Client {
	g.t.Helper()
	var options mcptest.ClientOptions
	if len(o) > 0 {
		options = o[0]
	}
	return mcptest.Connect(g.t, g.url, options)
}

// modern is a client of 2026-07-28.
func (g *rig) modern(o ...mcptest.ClientOptions) *mcptest.Client {
	g.t.Helper()
	var options mcptest.ClientOptions
	if len(o) > 0 {
		options = o[0]
	}
	options.Version = mcptest.Modern
	return mcptest.Connect(g.t, g.url, options)
}

// started lists the pids of every process that was ever started.
func (g *rig) started() []int {
	text, _ := os.ReadFile(g.pids)
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pid is the process of a server now.
func (g *rig) pid(name string) int {
	g.t.Helper()
	servers, _ := g.relay.Status()
	for _, s := range servers {
		if s.Name == name && s.State.PID != 0 {
			return s.State.PID
		}
	}
	g.t.Fatalf("server %q has no process", name)
	return 0
}

// state is a server's, or none where there is no such server (yet).
func (g *rig) state(name string) upstream.State {
	servers, _ := g.relay.Status()
	for _, s := range servers {
		if s.Name == name {
			return s.State
		}
	}
	return upstream.State{}
}

// kill ends a server's process at once.
func (g *rig) kill(name string) {
	g.t.Helper()
	if err := syscall.Kill(g.pid(name), syscall.SIGKILL); err != nil {
		g.t.Fatal(err)
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// What tests say most often.
var (
	eventually = mcptest.Eventually
	contains   = mcptest.Contains
	equal      = mcptest.Equal
)

// errorOf is the code and message of a reply that must be an error.
func errorOf(t *testing.T, r mcptest.Reply) (code int, message string) {
	t.Helper()
	var e struct {
		Code    int
		Message string
	}
	if r.Error == nil || json.Unmarshal(r.Error, &e) != nil {
		t.Errorf("no error: %s", r.Raw)
	}
	return e.Code, e.Message
}

// refused wants an error with this code, and these texts in its message.
func refused(t *testing.T, r mcptest.Reply, code int, parts ...string) {
	t.Helper()
	got, message := errorOf(t, r)
	if got != code {
		t.Errorf("code %d, want %d: %s", got, code, r.Raw)
	}
	contains(t, message, parts...)
}

// file is a path that does not exist yet, and create makes it.
func file(t *testing.T) string { return filepath.Join(t.TempDir(), "gate") }

func create(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func isProgress(m mcptest.Message) bool { return m.Method == "notifications/progress" }

// quoted is text as JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// args is a JSON object of alternating keys and raw values.
func args(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
