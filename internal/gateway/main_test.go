package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "token-of-the-test"

// entry is a server of a configuration: a fake one with these flags.
type entry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	Gateway map[string]any    `json:"gateway,omitempty"`
}

// testGateway is a gateway under a root of its own, run in this process.
type testGateway struct {
	t     *testing.T
	o     gateway.Options
	pids  string
	stop  context.CancelFunc
	ended chan error
	ready control.Status
}

// prepare makes the options for these servers; every process that is started leaves its pid.
func prepare(t *testing.T, servers map[string]entry) *testGateway {
	t.Helper()
	g := &testGateway{t: t, pids: filepath.Join(t.TempDir(), "pids"), ended: make(chan error, 1)}
	for name, e := range servers {
		if e.Command == "" {
			e.Command = mcptest.Build(t)
			e.Args = append([]string{"-id=" + name, "-pid-file=" + g.pids}, e.Args...)
		}
		servers[name] = e
	}
	text, err := json.Marshal(servers)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := config.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	paths := daemon.Paths{Root: t.TempDir()}
	log, err := telemetry.OpenLog(paths.Log(), telemetry.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(paths.Log())
			t.Logf("log:\n%s", text)
		}
	})
	secrets := secret.NewScrubber(append(checked.Secrets(), token))
	log.SetScrubber(secrets)
	g.o = gateway.Options{
		Paths: paths, Listen: "127.0.0.1:0", Token: token, StartupTimeout: mcptest.Patience, Servers: checked.Servers,
		Secrets: secrets, Log: log, Env: os.Environ(), Version: "1.2.3",
	}
	return g
}

// withServers adds servers to the configuration.
func (g *testGateway) withServers(text string) *testGateway {
	g.t.Helper()
	more, err := config.Parse([]byte(text), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	g.o.Servers = append(g.o.Servers, more.Servers...)
	return g
}

// run runs the gateway and waits until it is ready or has failed.
func (g *testGateway) run() error {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	ready := make(chan control.Status, 1)
	go func() {
		g.ended <- gateway.Run(ctx, g.o, func(s control.Status) error {
			ready <- s
			return nil
		})
	}()
	select {
	case g.ready = <-ready:
		g.t.Cleanup(func() { g.end() })
		return nil
	case err := <-g.ended:
		cancel()
		g.ended <- nil
		if err == nil {
			g.t.Fatal("the gateway ended without an error")
		}
		return err
	case <-time.After(mcptest.Patience):
		g.t.Fatal("the gateway is neither ready nor has it failed")
		return nil
	}
}

// end stops the gateway and waits for it; a second time does nothing.
func (g *testGateway) end() {
	g.t.Helper()
	g.stop()
	if err := <-g.ended; err != nil {
		g.t.Errorf("the gateway ended with %v", err)
	}
	g.ended <- nil
}

// start is run that must succeed.
func start(t *testing.T, servers map[string]entry) *testGateway {
	t.Helper()
	g := prepare(t, servers)
	if err := g.run(); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *testGateway) client(version string) *mcptest.Client {
	g.t.Helper()
	return mcptest.Connect(g.t, g.ready.URL, mcptest.ClientOptions{Token: token, Version: version})
}

// status asks over the control socket.
func (g *testGateway) status() control.Status {
	g.t.Helper()
	s, err := control.NewClient(g.o.Paths.Socket()).Status(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// get asks the door, without a token.
func (g *testGateway) get(path string) (status int, body string) {
	g.t.Helper()
	base := strings.TrimSuffix(g.ready.URL, "/mcp")
	transport := &http.Transport{DisableKeepAlives: true}
	r, err := (&http.Client{Transport: transport}).Get(base + path)
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, strings.TrimSpace(string(text))
}

func (g *testGateway) log() string {
	g.t.Helper()
	text, err := os.ReadFile(g.o.Paths.Log())
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// noProcessIsLeft looks for processes of a gateway that has ended.
func (g *testGateway) noProcessIsLeft() {
	g.t.Helper()
	text, _ := os.ReadFile(g.pids)
	for _, field := range strings.Fields(string(text)) {
		if pid, _ := strconv.Atoi(field); syscall.Kill(pid, 0) != syscall.ESRCH {
			g.t.Errorf("process %d is left", pid)
		}
	}
}

// nothingIsLeft looks for processes and files of a gateway that has ended.
func (g *testGateway) nothingIsLeft() {
	g.t.Helper()
	g.noProcessIsLeft()
	p := g.o.Paths
	for _, path := range []string{p.Token(), p.Pid(), p.Lock(), p.Socket()} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			g.t.Errorf("%q is left (%v)", path, err)
		}
	}
}

// What tests say most often.
var (
	eventually = mcptest.Eventually
	contains   = mcptest.Contains
	equal      = mcptest.Equal
)

// must makes sure that a client's call has a result.
func must(r mcptest.Reply, err error) error {
	if err == nil && r.Error != nil {
		err = fmt.Errorf("answer %s", r.Raw)
	}
	return err
}
