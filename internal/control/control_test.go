package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/control/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a gateway made of functions.
type backend struct {
	control.Backend
	status  func() control.Status
	tools   func() []control.Tool
	stop    func(context.Context)
	changed chan struct{} // nil for one that tells of no change
}

var _ control.Backend = backend{}

func (b backend) Status() control.Status   { return b.status() }
func (b backend) Tools() []control.Tool    { return b.tools() }
func (b backend) Stop(ctx context.Context) { b.stop(ctx) }
func (b backend) Changed() <-chan struct{} { return b.changed }

// running serves b on the socket until the test, or end, ends it.
func running(t *testing.T, socket string, b control.Backend) (end func()) {
	t.Helper()
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: control.Handler(b)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	end = func() {
		server.Close()
		<-served
	}
	t.Cleanup(end)
	return end
}

func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "run", "gateway.sock") }

func inState(state string) func() control.Status {
	return func() control.Status { return control.Status{State: state, PID: 7} }
}

func TestG1_Status(t *testing.T) {
	socket := socketPath(t)
	want := control.Status{State: control.StateDegraded, URL: "http://127.0.0.1:50005/mcp", PID: 7,
		UptimeSeconds: 1.5, Tools: 3, Servers: []control.ServerStatus{{
			Name: "time", State: "failed", Restarts: 2, Tools: 3, LastError: "exit status 1",
			SkippedLines: 4, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}}
	running(t, socket, backend{status: func() control.Status { return want }})
	got, err := control.NewClient(socket).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	doc, err := json.Marshal(got)
	if want := `{"state":"degraded","url":"http://127.0.0.1:50005/mcp","pid":7,"uptime_seconds":1.5,` +
		`"servers":[{"name":"time","state":"failed","pid":0,"restarts":2,"tools":3,"last_error":"exit status 1",` +
		`"skipped_lines":4,"since":"2026-01-02T03:04:05Z"}],"tools":3}`; err != nil || string(doc) != want {
		t.Errorf("got  %s, %v\nwant %s", doc, err, want)
	}
}

func TestG2_Tools(t *testing.T) {
	socket := socketPath(t)
	want := []control.Tool{{Name: "b_ping", OriginalName: "ping", Server: "b", Description: "≤"}}
	running(t, socket, backend{tools: func() []control.Tool { return want }})
	got, err := control.NewClient(socket).Tools(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	doc, err := json.Marshal(got)
	if want := `[{"name":"b_ping","original_name":"ping","server":"b","description":"≤"}]`; err != nil || string(doc) != want {
		t.Errorf("got  %s, %v\nwant %s", doc, err, want)
	}
}

func TestClient_Stop(t *testing.T) {
	socket := socketPath(t)
	stopped := make(chan struct{})
	running(t, socket, backend{stop: func(context.Context) { close(stopped) }})
	if err := control.NewClient(socket).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-stopped
}

func TestClient_StopOfOneThatEndsAtOnce(t *testing.T) {
	socket := socketPath(t)
	l, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 4096))
		conn.Close()
	}()
	if err := control.NewClient(socket).Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClient_NotRunning(t *testing.T) {
	socket := socketPath(t)
	check := func(t *testing.T) {
		t.Helper()
		client := control.NewClient(socket)
		_, err := client.Status(t.Context())
		_, err2 := client.Tools(t.Context())
		for _, err := range []error{err, err2, client.Stop(t.Context())} {
			if !errors.Is(err, control.ErrNotRunning) {
				t.Errorf("got %v", err)
			}
		}
	}
	t.Run("no folder", check)
	running(t, socket, backend{})()
	t.Run("no socket", check)
	leaveDead(t, socket)
	t.Run("dead socket", check)
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("no socket but a file", check)
}

// The client's methods, each once, over a real socket.
func TestClient_Operations(t *testing.T) {
	socket := socketPath(t)
	running(t, socket, controltest.New())
	ctx, c := t.Context(), control.NewClient(socket)
	check := func(what string, got, want any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", what, err, diff)
		}
	}
	g, err := c.Gateway(ctx)
	check("Gateway", g.Servers, []control.ServerRef{{Name: "time", Type: control.TypeStdio}}, err)
	g, err = c.StartGateway(ctx, control.StartRequest{Servers: []string{"time"}})
	check("StartGateway", g.Reused, true, err)
	report, err := c.Report(ctx)
	check("Report", report.Mode, control.ModeDynamic, err)
	added, err := c.AddServer(ctx, control.AddRequest{Server: "own/1", Registration: json.RawMessage(`{"own/1":{}}`)})
	check("AddServer", added, control.ServerRef{Name: "own/1", Type: control.TypeStdio}, err)
	live, err := c.Server(ctx, "own/1")
	check("Server", live.State, "ready", err)
	live, err = c.RestartServer(ctx, "own/1")
	check("RestartServer", live.Name, "own/1", err)
	list, err := c.Servers(ctx)
	check("Servers", len(list), 2, err)
	check("RemoveServer", nil, nil, c.RemoveServer(ctx, "own/1"))
	signIn, err := c.Authorize(ctx, "mail", control.AuthorizeRequest{ForceReauth: true})
	check("Authorize", signIn.Status, control.AuthorizationPending, err)
	signIn, err = c.Authorization(ctx, "mail", time.Nanosecond)
	check("Authorization", signIn.UID, "a1", err)
	signIn, err = c.SubmitCode(ctx, "mail", control.CodeRequest{Code: "c", State: "s1"})
	check("SubmitCode", signIn.Status, control.AuthorizationAuthorized, err)
	check("StopGateway", nil, nil, c.StopGateway(ctx))
	_, err = c.Gateway(ctx)
	var told *control.Error
	if !errors.As(err, &told) || told.Code != control.NotFound || told.Status != 404 || err.Error() != "read the gateway: there is no gateway" {
		t.Errorf("got %v", err)
	}
}

// leaveDead makes the socket file of a gateway that was killed.
func leaveDead(t *testing.T, socket string) {
	t.Helper()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
}

func TestListen_Mode(t *testing.T) {
	// Without a umask's help. It is the process's: no other test may run meanwhile.
	old := unix.Umask(0)
	defer unix.Umask(old)
	socket := socketPath(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // looks all the time: there is no moment with another mode
		for {
			select {
			case <-done:
				return
			default:
			}
			if info, err := os.Lstat(socket); err == nil && info.Mode() != os.ModeSocket|0o600 {
				t.Errorf("mode %v, want Srw-------", info.Mode())
				return
			}
		}
	})
	for range 300 {
		l, err := control.Listen(socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(socket); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file is left: %v", err)
		}
	}
	close(done)
	wg.Wait()
}

func TestListen_Replaces(t *testing.T) {
	socket := socketPath(t)
	running(t, socket, backend{})()
	leaveDead(t, socket)
	running(t, socket, backend{status: inState("ready")})
	if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := control.Listen(socket)
	if want := "listen on control socket \"" + socket + "\": a gateway answers there"; err == nil || err.Error() != want {
		t.Errorf("over a living one: %v, want %s", err, want)
	}
	if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
		t.Errorf("the living one was disturbed: %v", err)
	}
}

func TestListen_CloseLeavesASuccessorAlone(t *testing.T) {
	socket := socketPath(t)
	first, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	running(t, socket, backend{status: inState("ready")})
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestListen_PathLongerThanAnAddress(t *testing.T) {
	socket := filepath.Join(t.TempDir(), strings.Repeat("long/", 40), "gateway.sock")
	end := running(t, socket, backend{status: inState("ready")})
	client := control.NewClient(socket)
	if _, err := client.Status(t.Context()); err != nil {
		t.Error(err)
	}
	end()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	if _, err := client.Status(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}

func TestF1_Wait(t *testing.T) {
	for _, state := range []string{control.StateReady, control.StateDegraded, control.StateFailed, control.StateStopped} {
		t.Run(state, func(t *testing.T) {
			socket := socketPath(t)
			var looks atomic.Int32
			always := make(chan struct{})
			close(always)
			running(t, socket, backend{changed: always, status: func() control.Status {
				if looks.Add(1) < 4 {
					return control.Status{State: control.StateStarting}
				}
				return control.Status{State: state}
			}})
			got, err := control.NewClient(socket).Wait(t.Context())
			if err != nil || got.State != state {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("no gateway yet", func(t *testing.T) {
		socket := socketPath(t)
		got := make(chan control.Status, 1)
		go func() {
			status, err := control.NewClient(socket).Wait(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- status
		}()
		var asked atomic.Bool
		end := running(t, socket, backend{status: func() control.Status { // one that ends before it is ready
			asked.Store(true)
			return control.Status{State: control.StateStarting}
		}})
		for !asked.Load() {
			if _, err := control.NewClient(socket).Status(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		end()
		running(t, socket, backend{status: inState(control.StateReady)})
		if status := <-got; status.State != control.StateReady {
			t.Errorf("got %+v", status)
		}
	})
	t.Run("expires without a gateway", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		got, err := control.NewClient(socketPath(t)).Wait(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || got.State != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("ends while the gateway starts", func(t *testing.T) {
		socket := socketPath(t)
		ctx, cancel := context.WithCancel(t.Context())
		var looks atomic.Int32
		running(t, socket, backend{status: func() control.Status {
			if looks.Add(1) == 3 {
				cancel()
			}
			return control.Status{State: control.StateStarting}
		}})
		got, err := control.NewClient(socket).Wait(ctx)
		if !errors.Is(err, context.Canceled) || got.State != control.StateStarting {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// The waiting request itself, under a clock that costs nothing.
func TestF1_WaitOfARequestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := recorder{header: http.Header{}}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "/v1/status?wait=30s", nil)
		if err != nil {
			t.Fatal(err)
		}
		control.Handler(backend{status: inState(control.StateStarting)}).ServeHTTP(&w, req)
		if took := time.Since(began); took != 30*time.Second || !strings.Contains(w.body.String(), `"starting"`) {
			t.Errorf("after %s: %s", took, w.body.String())
		}
	})
}

// Nobody waits for what does not come: a gateway that was stopped, a program that is ending.
func TestF1_WaitOfARequestEndsWithTheGateway(t *testing.T) {
	for _, state := range []string{control.StateStopping, control.StateStopped} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			w := recorder{header: http.Header{}}
			req, err := http.NewRequestWithContext(t.Context(), "GET", "/v1/status?wait=30s", nil)
			if err != nil {
				t.Fatal(err)
			}
			control.Handler(backend{status: inState(state)}).ServeHTTP(&w, req)
			if took := time.Since(began); took > time.Second || !strings.Contains(w.body.String(), `"`+state+`"`) {
				t.Errorf("after %s: %s", took, w.body.String())
			}
		})
	}
}

type recorder struct {
	header http.Header
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
