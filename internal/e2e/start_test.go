package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/mcptest"
)

// TestA1_A4_StartLikeAnSDK starts a gateway by a login shell whose outputs are pipes; start itself
// fails when one of them stays open.
func TestA1_A4_StartLikeAnSDK(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil}))

	// A4: exit 0 means that every server's tools are there.
	if got := call(t, g.connect(t), "whoami", nil); got != "fake" {
		t.Errorf("whoami says %q", got)
	}
	s := g.status(t)
	if sid, err := unix.Getsid(s.Pid); err != nil || sid == ownSession(t) {
		t.Errorf("the gateway is in session %d, %v, which is the caller's", sid, err)
	}

	// A3: the token alone, for its owner alone.
	file := filepath.Join(g.root, "etc/mcp-gateway/.token")
	data, err := os.ReadFile(file)
	if err != nil || string(data) != testToken {
		t.Errorf("the token file holds %q, %v", data, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file is %v, %v", info, err)
	}

	// A7: a second start is refused and disturbs nothing.
	exit, _, stderr := g.shell(t, g.startLine("{}"))
	if exit == 0 || !strings.Contains(stderr, "already running") {
		t.Errorf("second start: exit %d, stderr %q", exit, stderr)
	}
	if got := g.status(t); got.Pid != s.Pid || got.State != "ready" {
		t.Errorf("after the second start: %+v", got)
	}

	// A8: neither configuration nor token is in the daemon's arguments or environment.
	for _, part := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.Pid), part))
		if err != nil || strings.Contains(string(data), testToken) || strings.Contains(string(data), "fakeserver") {
			t.Errorf("%s of the daemon: %q, %v", part, data, err)
		}
	}
	if env := call(t, g.connect(t), "env", nil); strings.Contains(env, testToken) {
		t.Errorf("the server's environment holds the token: %s", env)
	}

	exit, _, stderr = g.command(t, "stop")
	if exit != 0 {
		t.Errorf("stop: exit %d, %s", exit, stderr)
	}
	for _, pid := range []int{s.Pid, s.Servers[0].Pid} {
		if !gone(pid) {
			t.Errorf("process %d is left after stop", pid)
		}
	}
}

func ownSession(t *testing.T) int {
	t.Helper()
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	return sid
}

// gone says whether a process has ended; one that nobody has waited for yet has.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// TestA5_FailuresAtStart starts one good server beside two bad ones. Both bad ones are told, on
// standard error alone, and nothing is left: no process, no token file, no pid file.
func TestA5_FailuresAtStart(t *testing.T) {
	p := newPlace(t)
	pids := filepath.Join(t.TempDir(), "pids")
	exit, stdout, stderr := p.shell(t, p.startLine(mcptest.Config(t, map[string][]string{
		"good":    {"-spawn", "-pid-file", pids},
		"no-key":  {"-exit-before-ready=7", "-stderr=API_KEY is not set", "-start-delay=0s"},
		"garbled": {"-answer=initialize={\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":5}"},
	})))
	if exit != 1 || stdout != "" {
		t.Errorf("exit %d, stdout %q", exit, stdout)
	}
	first, _, _ := strings.Cut(stderr, "\n")
	for _, part := range []string{"no-key", "garbled"} {
		if !strings.Contains(first, part) {
			t.Errorf("the first line does not name %q: %s", part, first)
		}
	}
	for _, part := range []string{"[exited_before_ready]", "[handshake_invalid]", "exit status 7", "API_KEY is not set", "fakeserver"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("stderr lacks %q:\n%s", part, stderr)
		}
	}
	if len(stderr) > 4096 {
		t.Errorf("stderr has %d bytes", len(stderr))
	}
	for _, file := range []string{"etc/mcp-gateway/.token", "run/mcp-gateway.pid", "run/mcp-gateway.sock"} {
		if _, err := os.Lstat(filepath.Join(p.root, file)); err == nil {
			t.Errorf("%s is left", file)
		}
	}
	for _, pid := range pidsIn(t, pids) {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// pidsIn reads the file that a fake server's flag -pid-file has written.
func pidsIn(t *testing.T, file string) []int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for d := json.NewDecoder(strings.NewReader(string(data))); d.More(); {
		var pid int
		if err := d.Decode(&pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// TestC4_NothingIsStarted proves that a refused configuration starts no server at all.
func TestC4_NothingIsStarted(t *testing.T) {
	p := newPlace(t)
	started := filepath.Join(t.TempDir(), "started")
	exit, stdout, stderr := p.shell(t, p.startLine(`{"a":{"runCmd":"touch `+started+`"},"nonsense":{}}`))
	if exit != 2 || stdout != "" || !strings.Contains(stderr, "nonsense") {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the good server was started")
	}
}
