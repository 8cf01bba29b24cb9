package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func TestStart_Pipes(t *testing.T) {
	h := newHost(t, HostOptions{})
	p := start(t, h, shell("cat"))
	if _, err := io.WriteString(p.Stdin(), "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, p.Stdout()); got != "hello" {
		t.Errorf("got %q", got)
	}
	p.Stdin().Close()
	mustBeDone(t, p)
	if !p.Exit().Success() || p.Exit().After <= 0 {
		t.Errorf("exit %+v", p.Exit())
	}
}

// A write that waits for a reader ends when the process is stopped: the pipes are in Go's poller.
func TestStart_BlockedWriteEnds(t *testing.T) {
	h := newHost(t, HostOptions{StdinGrace: time.Millisecond, TermGrace: time.Millisecond})
	p := start(t, h, self(t, "stubborn"))
	readLine(t, p.Stdout())
	wrote := make(chan error, 1)
	size := 0
	if raw, err := p.Stdin().SyscallConn(); err != nil {
		t.Fatal(err)
	} else if err := raw.Control(func(fd uintptr) { size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }); err != nil {
		t.Fatal(err)
	}
	if size != pipeBytes {
		t.Errorf("pipe of %d bytes", size)
	}
	go func() {
		_, err := p.Stdin().Write(make([]byte, 1<<20))
		wrote <- err
	}()
	p.Stop(context.Background())
	if err := <-wrote; err == nil {
		t.Error("the write succeeded")
	}
}

func TestExit(t *testing.T) {
	h := newHost(t, HostOptions{})
	for line, want := range map[string]string{
		"exit 0": "exit status 0", "exit 3": "exit status 3", "kill -9 $$": "signal: killed", "kill -TERM $$": "signal: terminated",
	} {
		p := start(t, h, shell(line))
		mustBeDone(t, p)
		if got := p.Exit().String(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestB08_StderrIsAlwaysDrained(t *testing.T) {
	h := newHost(t, HostOptions{})
	for _, role := range []string{"chatter", "endless-line"} {
		t.Run(role, func(t *testing.T) {
			p := start(t, h, self(t, role))
			if got := readLine(t, p.Stdout()); got != "answer" {
				t.Errorf("got %q", got)
			}
			mustBeDone(t, p)
			size := 0
			for _, line := range p.Tail() {
				size += len(line)
			}
			if size == 0 || size > tailBytes {
				t.Errorf("tail of %d bytes", size)
			}
		})
	}
}

func TestB09_EachServersLinesAreItsOwn(t *testing.T) {
	h := newHost(t, HostOptions{})
	var group errgroup.Group
	for i := range 4 {
		group.Go(func() error {
			want := fmt.Sprintf("server %d", i)
			var lines []string
			p, err := h.Start(shell("for i in 1 2 3 4 5 6 7 8 9 10; do echo "+want+" >&2; done"), func(line string) { lines = append(lines, line) })
			if err != nil {
				return err
			}
			<-p.Done()
			p.Stop(context.Background())
			if len(lines) != 10 || slices.ContainsFunc(lines, func(l string) bool { return l != want }) {
				return fmt.Errorf("%s: %q", want, lines)
			}
			if !slices.Equal(p.Tail(), lines) {
				return fmt.Errorf("%s: tail %q", want, p.Tail())
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestB15_OrphansAreReapedAndExitCodesKept(t *testing.T) {
	h := newHost(t, HostOptions{})
	orphans := start(t, h, shell(`i=0; while [ $i -lt 50 ]; do i=$((i+1)); (setsid sh -c 'exit 9' &); done; cat >/dev/null; exit 5`))
	var group errgroup.Group
	for code := range 100 {
		group.Go(func() error {
			p, err := h.Start(shell(fmt.Sprintf("exit %d", code)), nil)
			if err != nil {
				return err
			}
			<-p.Done()
			p.Stop(context.Background())
			if p.Exit().Code != code {
				return fmt.Errorf("exit %v instead of %d", p.Exit(), code)
			}
			// Other code of this process forks and waits too.
			var exit *exec.ExitError
			if err := exec.Command("/bin/sh", "-c", fmt.Sprintf("exit %d", code+1)).Run(); !errors.As(err, &exit) || exit.ExitCode() != code+1 {
				return fmt.Errorf("os/exec got %v instead of %d", err, code+1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	orphans.Stdin().Close()
	mustBeDone(t, orphans)
	if orphans.Exit().Code != 5 {
		t.Errorf("exit %v", orphans.Exit())
	}
	if zombies := ownZombies(t, h); len(zombies) > 0 {
		t.Errorf("zombies: %+v", zombies)
	}
}

// Zombies behind those that other code has yet to wait for are reaped. The kernel lists them by thread,
// so there is one of each of several threads.
func TestB15_ForeignZombiesHideNone(t *testing.T) {
	h := newHost(t, HostOptions{})
	var foreign []*exec.Cmd
	var ready, forked sync.WaitGroup
	ready.Add(8)
	cmds := make(chan *exec.Cmd, 8)
	for range 8 {
		forked.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait() // each has a thread of its own now
			cmd := exec.Command("/bin/sh", "-c", "exit 7")
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			cmds <- cmd
		})
	}
	forked.Wait()
	close(cmds)
	for cmd := range cmds {
		foreign = append(foreign, cmd)
		if !hold(t, fmt.Sprint(cmd.Process.Pid)).ended(patience) {
			t.Fatal("it does not end")
		}
	}
	p := start(t, h, shell(`(setsid sh -c 'exit 9' &); exit 3`))
	mustBeDone(t, p)
	if p.Exit().Code != 3 {
		t.Errorf("exit %v", p.Exit())
	}
	if zombies := ownZombies(t, h); len(zombies) != len(foreign) {
		t.Errorf("zombies: %+v, want %d", zombies, len(foreign))
	}
	for _, cmd := range foreign {
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("os/exec got %v", err)
		}
	}
}

func ownZombies(t *testing.T, h *Host) []procStat {
	t.Helper()
	h.nursery.sweep()
	procs, err := readProcs()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(procs, func(p procStat) bool { return p.ppid != os.Getpid() || p.state != 'Z' })
}

func TestStart_ManySideBySide(t *testing.T) {
	modes(t, func(t *testing.T, o HostOptions) {
		h := newHost(t, o)
		var group errgroup.Group
		for i := range 64 {
			group.Go(func() error {
				p, err := h.Start(shell("cat"), nil)
				if err != nil {
					return err
				}
				defer p.Stop(context.Background())
				if _, err := fmt.Fprintln(p.Stdin(), i); err != nil {
					return err
				}
				line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
				if err == nil && line != fmt.Sprintln(i) {
					err = fmt.Errorf("%d got %q", i, line)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A child gets its three descriptors and none of the gateway's or of the gateway's starter.
func TestA4_ChildrenGetThreeDescriptors(t *testing.T) {
	leaky, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // not close-on-exec, like one that was inherited
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaky)
	h := newHost(t, HostOptions{})
	other := start(t, h, shell("cat"))
	defer other.Stop(context.Background())
	p := start(t, h, shell("exec ls /proc/self/fd"))
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"0", "1", "2", "3"}) { // 3 is ls reading the folder
		t.Errorf("descriptors %q", got)
	}
	t.Run("without close_range", func(t *testing.T) {
		if _, err := unix.FcntlInt(uintptr(leaky), unix.F_SETFD, 0); err != nil {
			t.Fatal(err)
		}
		if err := markDescriptors(); err != nil {
			t.Fatal(err)
		}
		if flags, err := unix.FcntlInt(uintptr(leaky), unix.F_GETFD, 0); err != nil || flags != unix.FD_CLOEXEC {
			t.Errorf("flags %d, %v", flags, err)
		}
	})
}

func TestRun(t *testing.T) {
	modes(t, func(t *testing.T, o HostOptions) {
		h := newHost(t, o)
		t.Run("both outputs, and nothing to read", func(t *testing.T) {
			var lines []string
			exit, err := h.Run(t.Context(), shell("echo out; echo err >&2; cat; exit 2"), func(l string) { lines = append(lines, l) })
			if err != nil || exit.Code != 2 || !slices.Equal(lines, []string{"out", "err"}) {
				t.Errorf("%v %v %q", exit, err, lines)
			}
		})
		t.Run("the end of the context ends the tree", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("out of time")
			var grandchild handle
			exit, err := h.Run(ctx, self(t, "detacher-tells"), func(l string) {
				if grandchild.pid == 0 {
					grandchild = hold(t, l)
					cancel(cause)
				}
			})
			if !errors.Is(err, cause) || exit.Signal != syscall.SIGKILL {
				t.Errorf("%v %v", exit, err)
			}
			grandchild.mustEnd(t)
		})
		t.Run("no start after the end of the context", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			file := filepath.Join(t.TempDir(), "started")
			if _, err := h.Run(ctx, shell("touch "+file), nil); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("it was started")
			}
		})
	})
}

func TestSpecUser(t *testing.T) {
	h := newHost(t, HostOptions{})
	if _, err := h.Start(Spec{Argv: []string{"id"}, Env: os.Environ(), User: "no-such-user"}, nil); err == nil || !strings.Contains(err.Error(), `"no-such-user"`) {
		t.Errorf("error %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can switch users")
	}
	spec := shell(`id -u; id -G; echo "$HOME $USER"`)
	spec.User = "nobody"
	p := start(t, h, spec)
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	u, cred, err := credential("nobody")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 || lines[0] != u.Uid || lines[2] != u.HomeDir+" nobody" || len(strings.Fields(lines[1])) != len(cred.Groups) {
		t.Errorf("ran as %q, want %+v", lines, u)
	}
}
