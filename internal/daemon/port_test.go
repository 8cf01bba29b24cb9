package daemon_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-gateway/internal/daemon"
)

func TestA7_PortHolder(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(comm))
	for _, held := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		t.Run(held, func(t *testing.T) {
			l, err := net.Listen("tcp", held)
			if err != nil {
				t.Skipf("this machine has no such address: %v", err)
			}
			defer l.Close()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			for _, addr := range []string{l.Addr().String(), "0.0.0.0:" + port, ":" + port, "[::]:" + port} {
				pid, got, ok := daemon.PortHolder(addr)
				if !ok || pid != os.Getpid() || got != name {
					t.Errorf("holder of %s: %d %q %v, want %d %q", addr, pid, got, ok, os.Getpid(), name)
				}
			}
		})
	}
	t.Run("another address", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if pid, comm, ok := daemon.PortHolder("127.0.0.2:" + port); ok {
			t.Errorf("%d %q is said to hold an address that is free", pid, comm)
		}
	})
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"} {
		if _, _, ok := daemon.PortHolder(addr); ok {
			t.Errorf("a holder of %q was found", addr)
		}
	}
}

func TestA7_ListenError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	_, err = net.Listen("tcp", addr)
	err = daemon.ListenError(addr, err)
	comm, _ := os.ReadFile("/proc/self/comm")
	want := fmt.Sprintf("listen on %q: the port is taken by %q (pid %d)", addr, strings.TrimSpace(string(comm)), os.Getpid())
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Error("the system's error is lost")
	}
	unknown := &daemon.PortInUse{Addr: ":50005"}
	if got, want := unknown.Error(), `listen on ":50005": the port is taken by another program`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other := errors.New("other")
	if got := daemon.ListenError(addr, other); got != other {
		t.Errorf("another error became %v", got)
	}
}

// filesIn lists the paths that a process has open.
func filesIn(t *testing.T, pid int) map[string]string {
	t.Helper()
	open := map[string]string{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("descriptors of %d: %v, %v", pid, fds, err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			open[filepath.Base(fd)] = target
		}
	}
	return open
}
