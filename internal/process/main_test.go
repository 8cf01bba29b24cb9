package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVar makes the test binary play a server, a gateway, or one of their children.
const roleVar = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role string) {
	switch role {
	case "chatter": // says much on stderr before it answers
		line := strings.Repeat("e", 1023) + "\n"
		for range 1 << 10 {
			_, _ = os.Stderr.WriteString(line)
		}
		fmt.Println("answer")
	case "endless-line":
		block := strings.Repeat("x", 1<<16)
		for range 128 {
			_, _ = os.Stderr.WriteString(block)
		}
		fmt.Println("answer")
	case "stubborn": // neither the end of stdin nor SIGTERM ends it
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	case "tells": // ends at SIGTERM, and tells what it got
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		fmt.Println(os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprintln(os.Stderr, "end of stdin")
		<-terms
		fmt.Fprintln(os.Stderr, "SIGTERM")
	case "detacher": // a server with a grandchild that has cut itself off, as daemons do
		run("detach", "stubborn")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "detacher-tells":
		run("detach", "tells")
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Hour)
	case "detach":
		cmd := exec.Command(os.Args[0])
		cmd.Env = setEnv(os.Environ(), roleVar, os.Getenv("PROCESS_TEST_NEXT"))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	case "gateway":
		playGateway()
	default:
		panic("unknown role " + role)
	}
}

// run plays a role in a child and waits for it.
func run(role, next string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = setEnv(setEnv(os.Environ(), roleVar, role), "PROCESS_TEST_NEXT", next)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

// playGateway starts two trees, tells all pids, and waits to be killed.
func playGateway() {
	h, err := NewHost(HostOptions{NoCgroup: os.Getenv("PROCESS_TEST_NO_CGROUP") != ""})
	if err != nil {
		panic(err)
	}
	for range 2 {
		p, err := h.Start(Spec{Name: "s", Argv: []string{os.Args[0]}, Env: setEnv(os.Environ(), roleVar, "detacher")}, nil)
		if err != nil {
			panic(err)
		}
		tellPids(p)
	}
	if h.groups != nil {
		p, err := h.Start(shell(hiding), nil)
		if err != nil {
			panic(err)
		}
		tellPids(p)
		fmt.Println("group", h.groups.dir)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

func tellPids(p *Process) {
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d %s", p.Pid(), line)
}

// hiding is a server with a grandchild that has cut itself off and emptied its environment.
const hiding = `(setsid env -i sh -c 'echo $$; exec sleep 3600' &); cat >/dev/null`

// self is a server played by the test binary.
func self(t *testing.T, role string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := setEnv(os.Environ(), "GORACE", "atexit_sleep_ms=0") // else a binary with the race detector ends a second late
	return Spec{Name: role, Argv: []string{exe}, Env: setEnv(env, roleVar, role)}
}

// shell is a server that is one line for /bin/sh.
func shell(line string) Spec {
	return Spec{Name: "shell", Argv: []string{"/bin/sh", "-c", line}, Env: os.Environ()}
}

// modes runs a test with control groups, where they can be made, and without.
func modes(t *testing.T, test func(t *testing.T, o HostOptions)) {
	t.Run("control group", func(t *testing.T) {
		g, err := planGroups("probe" + strconv.Itoa(os.Getpid()))
		if err == nil {
			err = g.create()
		}
		if err != nil {
			t.Skipf("no control groups here: %v", err)
		}
		if err := g.remove(); err != nil {
			t.Fatal(err)
		}
		test(t, HostOptions{})
	})
	t.Run("marks", func(t *testing.T) { test(t, HostOptions{NoCgroup: true}) })
}

// newHost makes a host, and fails the test if closing it leaves a process, a zombie or a group.
func newHost(t *testing.T, o HostOptions) *Host {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		procs, err := readProcs()
		if err != nil {
			t.Fatal(err)
		}
		shared.mu.Lock()
		last := shared.hosts == 0
		shared.mu.Unlock()
		for _, p := range procs {
			if hasEnv(p.pid, h.watchdog.mark) || (last && p.ppid == os.Getpid() && p.session != h.nursery.session) {
				t.Errorf("process left: %+v", p)
			}
		}
		if h.groups != nil {
			if _, err := os.Stat(h.groups.dir); !os.IsNotExist(err) {
				t.Errorf("control group left: %v", err)
			}
		}
	})
	return h
}

func start(t *testing.T, h *Host, spec Spec) *Process {
	t.Helper()
	p, err := h.Start(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		p.Stop(ended)
	})
	return p
}

// readLine reads one line of a server's stdout.
func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("read stdout: %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// handle holds a process that the test did not start, so that its end can be waited for.
type handle struct{ pid, fd int }

func hold(t *testing.T, pid string) handle {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		t.Fatalf("pidfd_open %d: %v", n, err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // for a failed test
		_ = unix.Close(fd)
	})
	return handle{n, fd}
}

func (h handle) ended(limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	deadline := time.Now().Add(limit)
	for {
		n, err := unix.Poll(fds, int(max(0, time.Until(deadline)).Milliseconds()))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// patience is how long a test waits for what has to happen; it is long since it passes at once.
const patience = 20 * time.Second

func (h handle) mustEnd(t *testing.T) {
	t.Helper()
	if !h.ended(patience) {
		t.Errorf("process %d lives", h.pid)
	}
}

// eventually waits for something that gives no sign when it happens.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !happened(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func mustBeDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
}
