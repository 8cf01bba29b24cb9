package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/daemon"
)

// TestMain lets the test binary play the processes of these tests: its first argument names the part.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if part, ok := parts[os.Args[1]]; ok {
			if err := part(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

var parts map[string]func(args []string) error

func init() {
	parts = map[string]func([]string) error{
		"launcher": playLauncher,
		"daemon":   playDaemon,
		"acquire":  playAcquire,
	}
}

// playLauncher launches a daemon that plays the part in args and prints its report.
func playLauncher(args []string) error {
	report, err := daemon.Launch(context.Background(), daemon.LaunchOptions{
		Argv:  append([]string{os.Args[0], "daemon"}, args...),
		Env:   os.Environ(),
		Input: []byte(theInput),
	})
	if err != nil {
		return err
	}
	if !report.OK {
		return errors.New(report.Text)
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

const (
	theToken = "0b6c5a1e-token"
	theInput = `{"token":"` + theToken + `","config":{"time":{"secretProperty":1}}}`
)

// status is what a daemon of these tests reports.
type status struct {
	PID   int
	SID   int
	Dir   string
	Input string
}

// playDaemon does what its first argument says; the second is a pipe that it tells things over.
func playDaemon(args []string) error {
	if args[0] == "panic-early" {
		panic("no luck today")
	}
	ready, err := daemon.ReadyFile()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := daemon.Receive(ctx, os.Stdin, ready)
	if err != nil {
		return err
	}
	defer s.Close()
	switch args[0] {
	case "ready":
		return playReady(s, args[1])
	case "refuse":
		return s.Report(daemon.Report{Text: "server \"x\" [not_found]", Code: 1})
	case "linger": // says no, but does not end
		s.Report(daemon.Report{Text: "no", Code: 1})
		select {}
	case "log-and-die":
		return errors.Join(os.WriteFile(args[1], []byte("level=ERROR msg=\"out of luck\"\n"), 0o600),
			syscall.Kill(os.Getpid(), syscall.SIGKILL))
	case "wait":
		if err := tell(args[1], fmt.Sprint(os.Getpid())); err != nil {
			return err
		}
		<-s.Context().Done()
		return tell(args[1], context.Cause(s.Context()).Error())
	case "late": // has a reason when it is told to give up
		if err := tell(args[1], "started"); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Report(daemon.Report{Text: "server \"slow\" [handshake_timeout]", Code: 1})
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		if err := tell(args[1], fmt.Sprint(os.Getpid())); err != nil {
			return err
		}
		select {}
	}
	return fmt.Errorf("no such part: %q", args[0])
}

func playReady(s *daemon.Start, pipe string) error {
	sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	doc, err := json.Marshal(status{PID: os.Getpid(), SID: int(sid), Dir: dir, Input: string(s.Input())})
	if err != nil {
		return err
	}
	if err := s.Report(daemon.Report{OK: true, Text: "ready", Status: doc}); err != nil {
		return err
	}
	if err := tell(pipe, "serving"); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// tell opens the named pipe, writes a line and closes it.
func tell(path, line string) error {
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(pipe, line)
	return errors.Join(err, pipe.Close())
}

// told reads what one tell wrote.
func told(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(text))
}

func namedPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// playAcquire waits for a line, takes the lock, says how that went, and holds on until its input ends.
func playAcquire(args []string) error {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	lock, err := daemon.Acquire(daemon.Paths{Root: args[0]}, daemon.Info{Listen: "0.0.0.0:50005"})
	if err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("won")
	}
	if _, err := io.Copy(io.Discard, in); err != nil || lock == nil {
		return err
	}
	return lock.Release()
}

// process is a helper process of a test.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPart(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...)}
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Process.Kill() // no harm where it has ended
		p.Wait()
	})
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line of the helper process: %v", err)
	}
	return strings.TrimSpace(text)
}

// patience bounds what must happen, far above what it takes.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
