package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// watchdogOf finds a gateway's watchdog: its child that has the mark as an argument.
func watchdogOf(t *testing.T, gateway int, mark string) int {
	t.Helper()
	procs, err := readProcs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if p.ppid == gateway && !p.dead() && strings.Contains(string(args), mark) {
			return p.pid
		}
	}
	return 0
}

func TestB68_KilledGatewayLeavesNothing(t *testing.T) { modes(t, killGateway) }

func killGateway(t *testing.T, o HostOptions) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gateway := exec.Command(exe)
	gateway.Env = setEnv(os.Environ(), roleVar, "gateway")
	if o.NoCgroup {
		gateway.Env = append(gateway.Env, "PROCESS_TEST_NO_CGROUP=1")
	}
	// As a shell would: the group signal below must not reach the watchdog.
	gateway.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	gateway.Stderr = os.Stderr
	stdout, err := gateway.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	var left []handle
	group := ""
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "ready"; {
		if dir, ok := strings.CutPrefix(lines.Text(), "group "); ok {
			group = dir
			continue
		}
		for pid := range strings.FieldsSeq(lines.Text()) {
			left = append(left, hold(t, pid))
		}
	}
	watchdog := hold(t, fmt.Sprint(watchdogOf(t, gateway.Process.Pid, markName)))
	if err := syscall.Kill(-gateway.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = gateway.Wait()
	if want := map[bool]int{true: 4, false: 6}[o.NoCgroup]; len(left) != want {
		t.Fatalf("%d processes, want %d", len(left), want)
	}
	for _, p := range left {
		p.mustEnd(t)
	}
	watchdog.mustEnd(t)
	if o.NoCgroup != (group == "") {
		t.Errorf("control group %q", group)
	}
	if _, err := os.Stat(group); group != "" && !os.IsNotExist(err) {
		t.Errorf("control group left: %v", err)
	}
}

func TestWatchdog(t *testing.T) {
	h := newHost(t, HostOptions{})
	pid := watchdogOf(t, os.Getpid(), h.watchdog.mark)
	if pid == 0 {
		t.Fatal("no watchdog")
	}
	t.Run("holds three descriptors", func(t *testing.T) {
		p := start(t, h, shell("cat"))
		defer p.Stop(context.Background())
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		var held []string
		for _, link := range links {
			// Shells keep a descriptor of their own above 9 for what they have redirected.
			if to, _ := os.Readlink(link); filepath.Base(link) < "3" && len(filepath.Base(link)) == 1 || to != os.DevNull {
				held = append(held, filepath.Base(link))
			}
		}
		if !slices.Equal(held, []string{"0", "1", "2"}) {
			t.Errorf("descriptors %q", held)
		}
	})
	t.Run("has a session of its own", func(t *testing.T) {
		procs, err := readProcs()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range procs {
			if p.pid == pid && (p.session != pid || p.group != pid) {
				t.Errorf("%+v", p)
			}
		}
	})
	t.Run("ends with the host", func(t *testing.T) {
		held := hold(t, fmt.Sprint(pid))
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		held.mustEnd(t)
	})
}

func TestWatchdog_IsStartedAgain(t *testing.T) {
	h := newHost(t, HostOptions{})
	first := watchdogOf(t, os.Getpid(), h.watchdog.mark)
	held := hold(t, fmt.Sprint(first))
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	held.mustEnd(t)
	eventually(t, "no second watchdog", func() bool {
		next := watchdogOf(t, os.Getpid(), h.watchdog.mark)
		return next != 0 && next != first
	})
}

// The script runs in whatever /bin/sh an image has, and with hardly any other program there.
func TestWatchdog_Script(t *testing.T) {
	for _, name := range []string{"sh", "dash", "bash", "busybox"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		argv := []string{path}
		if name == "busybox" {
			argv = append(argv, "ash")
		}
		for _, programs := range []string{os.Getenv("PATH"), t.TempDir()} {
			t.Run(fmt.Sprintf("%s with PATH %s", name, programs), func(t *testing.T) {
				mark := fmt.Sprintf("%s=test%d-%s/", markName, os.Getpid(), filepath.Base(t.TempDir()))
				marked := exec.Command("/bin/sh", "-c", "read x")
				marked.Env = []string{"A=line\nbreak", mark + "1/", "Z=z"}
				grouped := exec.Command("/bin/sh", "-c", "read x")
				grouped.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				spared := exec.Command("/bin/sh", "-c", "read x")
				for _, cmd := range []*exec.Cmd{marked, grouped, spared} {
					if _, err := cmd.StdinPipe(); err != nil {
						t.Fatal(err)
					}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
				}
				args, env := watchdogCommand(mark, "")
				script := exec.Command(argv[0], append(argv[1:], args...)...)
				script.Env = append(env, "PATH="+programs)
				script.Stdin = strings.NewReader(fmt.Sprintf("99999991 99999992\n%d\n9999999", grouped.Process.Pid))
				if out, err := script.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				for _, cmd := range []*exec.Cmd{marked, grouped} {
					if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
						t.Errorf("%v", err)
					}
				}
				if err := spared.Process.Signal(syscall.Signal(0)); err != nil {
					t.Errorf("an unmarked process was ended: %v", err)
				}
				_ = spared.Process.Kill()
				_ = spared.Wait()
			})
		}
	}
}
