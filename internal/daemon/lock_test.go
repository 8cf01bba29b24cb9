package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/daemon"
)

func TestPaths(t *testing.T) {
	for root, prefix := range map[string]string{"": "", "/": "", "/tmp/x/": "/tmp/x"} {
		p := daemon.Paths{Root: root}
		for got, want := range map[string]string{
			p.Token():   "/etc/mcp-gateway/.token",
			p.Catalog(): "/etc/mcp-gateway/catalog.json",
			p.Pid():     "/run/mcp-gateway.pid",
			p.Lock():    "/run/mcp-gateway.lock",
			p.Socket():  "/run/mcp-gateway.sock",
			p.Log():     "/var/log/mcp-gateway.log",
			p.Servers(): "/var/lib/mcp-gateway/servers",
		} {
			if got != prefix+want {
				t.Errorf("root %q: got %q, want %q", root, got, prefix+want)
			}
		}
	}
}

func acquire(t *testing.T, p daemon.Paths) *daemon.Lock {
	t.Helper()
	lock, err := daemon.Acquire(p, daemon.Info{Listen: "0.0.0.0:50005"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
	return lock
}

func TestA7_PidFile(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	lock := acquire(t, p)
	got, err := os.ReadFile(p.Pid())
	if want := fmt.Sprintf("%d\n", os.Getpid()); err != nil || string(got) != want {
		t.Errorf("pid file: %q, %v; want %q", got, err, want)
	}
	info, ok := daemon.Running(p)
	if !ok || info.PID != os.Getpid() || info.Listen != "0.0.0.0:50005" || info.Started.IsZero() {
		t.Errorf("running: %+v, %v", info, ok)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if info, ok := daemon.Running(p); ok {
		t.Errorf("still running after the release: %+v", info)
	}
}

func TestA7_SecondStartIsRefused(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	started := time.Now().Add(-200 * time.Second)
	lock, err := daemon.Acquire(p, daemon.Info{Listen: "0.0.0.0:50005", Started: started})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := daemon.WriteToken(p, "token-of-the-first"); err != nil {
		t.Fatal(err)
	}

	_, err = daemon.Acquire(p, daemon.Info{Listen: "0.0.0.0:50005"})
	var running *daemon.AlreadyRunning
	if !errors.As(err, &running) {
		t.Fatalf("second acquire: %v", err)
	}
	if running.PID != os.Getpid() || !running.Started.Equal(started) || running.Age() < 200*time.Second {
		t.Errorf("second acquire: %+v", running)
	}
	if token, err := daemon.ReadToken(p); err != nil || token.Reveal() != "token-of-the-first" {
		t.Errorf("the running gateway's token was touched: %v", err)
	}
	if _, ok := daemon.Running(p); !ok {
		t.Error("the running gateway was disturbed")
	}
}

func TestA7_Text(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // for the clock
		now := time.Now()
		for want, e := range map[string]*daemon.AlreadyRunning{
			`gateway is already running (pid 42, port 50005, for 3m20s); end it with "mcp-gateway stop"`: {
				PID: 42, Listen: "0.0.0.0:50005", Started: now.Add(-200 * time.Second)},
			`gateway is already running (pid 42, port 9, for 0s); end it with "mcp-gateway stop --root /r"`: {
				PID: 42, Listen: "[::1]:9", Started: now.Add(time.Hour), Root: "/r"},
			"another start of the gateway is under way": {},
		} {
			if got := e.Error(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestA7_OneOfManyStartsWins(t *testing.T) {
	const starts = 20
	root := t.TempDir()
	var all []*process
	for range starts {
		all = append(all, startPart(t, "acquire", root))
	}
	for _, p := range all {
		fmt.Fprintln(p.in, "go")
	}
	winner := 0
	results := make([]string, starts)
	for i, p := range all {
		if results[i] = p.line(t); results[i] == "won" {
			if winner != 0 {
				t.Fatalf("two winners: %d and %d", winner, p.Process.Pid)
			}
			winner = p.Process.Pid
		}
	}
	want := fmt.Sprintf("gateway is already running (pid %d, port 50005, ", winner)
	for _, r := range results {
		if r != "won" && (len(r) < len(want) || r[:len(want)] != want) {
			t.Errorf("loser says %q, want %q…", r, want)
		}
	}
	for _, p := range all {
		p.in.Close()
	}
	for _, p := range all {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantNothingLeft(t, root)
}

func wantNothingLeft(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A lock file that is unlinked and made again must never be held twice.
func TestLock_ReleaseAndAcquireExclude(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for taken := 0; taken < 50; {
				lock, err := daemon.Acquire(p, daemon.Info{Listen: ":1"})
				var running *daemon.AlreadyRunning
				if errors.As(err, &running) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				taken++
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				inside.Add(-1)
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantNothingLeft(t, p.Root)
}

func TestB25_DeadGatewayIsNoObstacle(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	dead := startPart(t, "acquire", p.Root)
	fmt.Fprintln(dead.in, "go")
	if got := dead.line(t); got != "won" {
		t.Fatal(got)
	}
	if err := errors.Join(daemon.WriteToken(p, "stale-token"), os.WriteFile(p.Socket(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, ok := daemon.Running(p); !ok {
		t.Fatal("does not run while it runs")
	}
	if err := dead.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Dead, but not yet reaped: under a PID 1 that reaps nothing it stays like this.
	if err := unix.Waitid(unix.P_PID, dead.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if info, ok := daemon.Running(p); ok {
		t.Errorf("a zombie counts as running: %+v", info)
	}
	lock := acquire(t, p)
	for _, path := range []string{p.Token(), p.Socket()} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of the dead gateway is there: %v", path, err)
		}
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, p.Root)
}

func TestB25_PidOfAnotherProcess(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	if err := os.MkdirAll(filepath.Dir(p.Lock()), 0o755); err != nil {
		t.Fatal(err)
	}
	// Our own pid, but of a process that was started at another time.
	stale := fmt.Sprintf(`{"pid":%d,"listen":":1","ticks":1}`, os.Getpid())
	if err := os.WriteFile(p.Lock(), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, ok := daemon.Running(p); ok {
		t.Errorf("taken for a running gateway: %+v", info)
	}
	acquire(t, p)
}

func TestInfo_SignalAndWait(t *testing.T) {
	p := daemon.Paths{Root: t.TempDir()}
	other := startPart(t, "acquire", p.Root)
	fmt.Fprintln(other.in, "go")
	other.line(t)
	info, ok := daemon.Running(p)
	if !ok {
		t.Fatal("not running")
	}
	if err := info.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := info.Wait(patience(t)); err != nil {
		t.Error(err)
	}
	if err := info.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a dead process: %v", err)
	}
}
