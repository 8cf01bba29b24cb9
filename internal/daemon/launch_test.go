package daemon_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/secret"
)

func launch(t *testing.T, ctx context.Context, o daemon.LaunchOptions, part ...string) (daemon.Report, error) {
	t.Helper()
	o.Argv = append([]string{os.Args[0], "daemon"}, part...)
	o.Env = os.Environ()
	if o.Input == nil {
		o.Input = []byte(theInput)
	}
	return daemon.Launch(ctx, o)
}

// endOf makes sure that a daemon ends with the test, and returns what identifies it.
func endOf(t *testing.T, pid int) daemon.Info {
	t.Helper()
	info := daemon.Info{PID: pid}
	t.Cleanup(func() {
		if info.Alive() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return info
}

// The SDK's way: both outputs are pipes that it reads to their end, before it looks at the exit code.
func TestA4_LauncherLeavesNoDescriptor(t *testing.T) {
	var ends []*os.File
	pipe := func() *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		ends = append(ends, r)
		return w
	}
	serving := namedPipe(t)
	cmd := exec.Command(os.Args[0], "launcher", "ready", serving)
	cmd.Env = append(os.Environ(), "GATEWAY_ACCESS_TOKEN="+theToken, "KEPT=yes")
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipe(), pipe(), pipe()        // any pipe will do for its input
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, pipe()} // descriptor 9
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles[6]} {
		w.(*os.File).Close()
	}
	var texts []string
	for _, r := range ends {
		r.SetReadDeadline(time.Now().Add(20 * time.Second)) // passes when the daemon holds the other end
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("launcher: %v: %s", err, texts[2])
	}
	var report daemon.Report
	var got status
	if err := errors.Join(json.Unmarshal([]byte(texts[1]), &report), json.Unmarshal(report.Status, &got)); err != nil {
		t.Fatalf("launcher printed %q: %v", texts[1], err)
	}
	info := endOf(t, got.PID)
	if !info.Alive() {
		t.Fatal("the daemon does not go on")
	}
	told(t, serving)
	if got.SID != got.PID || got.Dir != cmd.Dir || got.Input != theInput {
		t.Errorf("daemon: %+v, want a session of its own, %s, and the input", got, cmd.Dir)
	}
	for fd, target := range filesIn(t, got.PID) {
		if fd <= "2" && len(fd) == 1 && target != "/dev/null" {
			t.Errorf("descriptor %s of the daemon is %s", fd, target)
		}
		if fd == "9" || strings.HasPrefix(target, "/memfd:") {
			t.Errorf("the daemon holds descriptor %s: %s", fd, target)
		}
	}
	t.Run("A8 nothing secret in /proc", func(t *testing.T) {
		for _, name := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", got.PID, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, hidden := range []string{theToken, "secretProperty", "GATEWAY_ACCESS_TOKEN"} {
				if bytes.Contains(text, []byte(hidden)) {
					t.Errorf("%s of the daemon holds %q", name, hidden)
				}
			}
			if name == "environ" && !bytes.Contains(text, []byte("KEPT=yes")) {
				t.Error("the rest of the environment did not reach the daemon")
			}
		}
	})
	if err := info.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := info.Wait(patience(t)); err != nil {
		t.Error(err)
	}
}

func TestA5_Refused(t *testing.T) {
	cmd := exec.Command(os.Args[0], "launcher", "refuse")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr // read to their end by Run
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("launcher: %v", err)
	}
	if got, want := stderr.String(), "server \"x\" [not_found]\n"; got != want || stdout.Len() > 0 {
		t.Errorf("stderr %q, want %q; stdout %q", got, want, stdout.String())
	}
}

func TestA5_RefusedAndGone(t *testing.T) {
	for _, part := range []string{"refuse", "linger"} {
		t.Run(part, func(t *testing.T) {
			report, err := launch(t, t.Context(), daemon.LaunchOptions{Grace: time.Second}, part)
			if err != nil || report.OK || report.Code != 1 {
				t.Errorf("report %+v, %v", report, err)
			}
			wantNoChild(t)
		})
	}
}

// wantNoChild checks that nothing that this process started is left, dead or alive.
func wantNoChild(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("child %d is left: %v", pid, err)
	}
}

func TestA5_DaemonDies(t *testing.T) {
	t.Run("panic", func(t *testing.T) {
		_, err := launch(t, t.Context(), daemon.LaunchOptions{}, "panic-early")
		if want := "gateway ended before it was ready: exit status 2: panic: no luck today"; err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
		var died *daemon.Died
		if !errors.As(err, &died) || !slices.Contains(died.Lines, "goroutine 1 [running]:") {
			t.Errorf("no stack among %q", died.Lines)
		}
	})
	t.Run("killed", func(t *testing.T) {
		log := filepath.Join(t.TempDir(), "log")
		_, err := launch(t, t.Context(), daemon.LaunchOptions{Log: log}, "log-and-die", log)
		if want := "gateway ended before it was ready: signal: killed"; err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
		var died *daemon.Died
		if want := []string{`level=ERROR msg="out of luck"`}; !errors.As(err, &died) || !slices.Equal(died.Lines, want) {
			t.Errorf("lines %q, want %q", died.Lines, want)
		}
	})
	t.Run("B75 quoted without secrets", func(t *testing.T) {
		_, err := launch(t, t.Context(), daemon.LaunchOptions{
			Scrubber: secret.NewScrubber([]secret.Value{"luck today"}),
		}, "panic-early")
		if err == nil || strings.Contains(err.Error(), "luck") || !strings.Contains(err.Error(), "panic: no ***") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		_, err := daemon.Launch(t.Context(), daemon.LaunchOptions{Argv: []string{"/no/such/program"}})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	wantNoChild(t)
}

func TestA5_LauncherIsKilled(t *testing.T) {
	pipe := namedPipe(t)
	launcher := startPart(t, "launcher", "wait", pipe)
	pid, err := strconv.Atoi(told(t, pipe))
	if err != nil {
		t.Fatal(err)
	}
	info := endOf(t, pid)
	if !info.Alive() {
		t.Fatal("the daemon does not live")
	}
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, want := told(t, pipe), daemon.ErrLauncherGone.Error(); got != want {
		t.Errorf("the daemon gives up because of %q, want %q", got, want)
	}
	if err := info.Wait(patience(t)); err != nil {
		t.Error(err)
	}
}

func TestLaunch_ContextEnds(t *testing.T) {
	for _, part := range []string{"wait", "stubborn"} {
		t.Run(part, func(t *testing.T) {
			pipe := namedPipe(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			said := make(chan string, 2)
			go func() {
				defer close(said)
				said <- told(t, pipe)
				cancel(errors.New("interrupted"))
				if part == "wait" {
					said <- told(t, pipe)
				}
			}()
			_, err := launch(t, ctx, daemon.LaunchOptions{Grace: time.Second}, part, pipe)
			if want := "wait for the gateway to be ready: interrupted"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			wantNoChild(t)
			for range said { // both sides of the pipe are done
			}
		})
	}
}

func TestA6_LimitPasses(t *testing.T) {
	t.Run("no reason", func(t *testing.T) {
		pipe := namedPipe(t)
		go told(t, pipe)
		_, err := launch(t, t.Context(), daemon.LaunchOptions{Limit: time.Second, Grace: time.Second}, "stubborn", pipe)
		if want := "wait for the gateway to be ready: start-up limit reached (1s)"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		wantNoChild(t)
	})
}

func TestB23_LateDaemonStillGivesItsReason(t *testing.T) {
	pipe := namedPipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string, 1)
	go func() {
		heard <- told(t, pipe)
		cancel()
	}()
	report, err := launch(t, ctx, daemon.LaunchOptions{}, "late", pipe)
	if want := "server \"slow\" [handshake_timeout]"; err != nil || report.OK || report.Text != want {
		t.Errorf("report %+v, %v; want %s", report, err, want)
	}
	<-heard
	wantNoChild(t)
}

func TestLaunch_LargeInput(t *testing.T) {
	input := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // far more than a pipe holds
	serving := namedPipe(t)
	report, err := launch(t, t.Context(), daemon.LaunchOptions{Input: input}, "ready", serving)
	if err != nil {
		t.Fatal(err)
	}
	var got status
	if err := json.Unmarshal(report.Status, &got); err != nil {
		t.Fatal(err)
	}
	endOf(t, got.PID)
	told(t, serving)
	if got.Input != string(input) {
		t.Errorf("%d bytes came, want %d", len(got.Input), len(input))
	}
	syscall.Kill(got.PID, syscall.SIGTERM)
	if _, err := syscall.Wait4(got.PID, nil, 0, nil); err != nil {
		t.Error(err)
	}
}

// received gives both sides of a Start inside one process.
func received(t *testing.T, ctx context.Context) (s *daemon.Start, toDaemon, fromDaemon *os.File) {
	t.Helper()
	stdin, toDaemon, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromDaemon, ready, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { toDaemon.Close(); fromDaemon.Close() })
	toDaemon.Write(append(binary.BigEndian.AppendUint64(nil, 5), "hello"...))
	s, err = daemon.Receive(ctx, stdin, ready)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if string(s.Input()) != "hello" {
		t.Errorf("input %q", s.Input())
	}
	return s, toDaemon, fromDaemon
}

func TestReceive_ReportNobodyAccepts(t *testing.T) {
	t.Run("launcher gone before", func(t *testing.T) {
		s, toDaemon, fromDaemon := received(t, t.Context())
		toDaemon.Close()
		fromDaemon.Close()
		<-s.Context().Done()
		if err := s.Report(daemon.Report{OK: true}); !errors.Is(err, daemon.ErrLauncherGone) {
			t.Errorf("report: %v", err)
		}
	})
	t.Run("launcher gone after", func(t *testing.T) {
		s, toDaemon, fromDaemon := received(t, t.Context())
		go func() {
			io.Copy(io.Discard, fromDaemon) // to its end: the report is complete
			toDaemon.Close()
		}()
		if err := s.Report(daemon.Report{OK: true}); !errors.Is(err, daemon.ErrLauncherGone) {
			t.Errorf("report: %v", err)
		}
		if cause := context.Cause(s.Context()); cause != daemon.ErrLauncherGone {
			t.Errorf("the context's cause is %v", cause)
		}
	})
	t.Run("daemon told to end", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, _, _ := received(t, ctx)
		told := errors.New("SIGTERM")
		cancel(told)
		if err := s.Report(daemon.Report{OK: true}); !errors.Is(err, told) {
			t.Errorf("report: %v", err)
		}
	})
}

func TestReceive_LauncherGoneWhileReading(t *testing.T) {
	for name, sent := range map[string]string{"length": "\x00\x00", "input": "\x00\x00\x00\x00\x00\x00\x00\x05hel"} {
		t.Run(name, func(t *testing.T) {
			stdin, toDaemon, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_, ready, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			toDaemon.WriteString(sent)
			toDaemon.Close()
			if _, err := daemon.Receive(t.Context(), stdin, ready); !errors.Is(err, daemon.ErrLauncherGone) {
				t.Errorf("receive: %v", err)
			}
		})
	}
}

func TestReceive_Cancelled(t *testing.T) {
	stdin, toDaemon, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer toDaemon.Close()
	_, ready, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := daemon.Receive(ctx, stdin, ready); !errors.Is(err, context.Canceled) {
		t.Errorf("receive: %v", err)
	}
}

func TestReadyFile_NotLaunched(t *testing.T) {
	cmd := exec.Command(os.Args[0], "daemon", "ready")
	out, err := cmd.CombinedOutput()
	if want := "find the launcher: descriptor 3 is not its pipe\n"; err == nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
}
