package process

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"mcp-gateway/internal/telemetry"
)

//go:embed watchdog.sh
var watchdogScript string

// watchdogRestarts is how often a watchdog that was ended from outside is started again.
const watchdogRestarts = 3

// watchdog is a shell that outlives the gateway by a moment: when the gateway is killed, its pipe ends,
// and it kills every tree. A shell, since a second copy of this program would cost ten times the memory.
type watchdog struct {
	nursery *nursery
	log     *slog.Logger
	mark    string        // found in the environment of every process of ours
	group   string        // the control group of all trees, or empty
	list    func() string // the trees' process groups
	changed chan struct{} // the list has changed; holds one
	quit    chan struct{}
	ended   chan struct{}
}

// startWatchdog starts the shell before it returns, so that no tree is without it. Where there is no
// shell the gateway works all the same, but trees may outlive it.
func startWatchdog(n *nursery, log *slog.Logger, mark, group string, list func() string) *watchdog {
	w := &watchdog{
		nursery: n, log: log, mark: mark, group: group, list: list,
		changed: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	shell, stdin, err := w.start()
	go func() {
		defer close(w.ended)
		for restarts := 0; err == nil && !w.feed(shell, stdin); restarts++ {
			w.log.Warn("watchdog ended", telemetry.KeyEnded, shell.exit.String())
			if restarts == watchdogRestarts {
				err = errors.New("it was ended too often")
				break
			}
			shell, stdin, err = w.start()
		}
		if err != nil {
			w.log.Warn("no watchdog: servers may outlive a killed gateway", telemetry.KeyError, err)
		}
		<-w.quit
	}()
	return w
}

func (w *watchdog) start() (*child, *os.File, error) {
	stdin, err := newPipe("watchdog stdin", true)
	if err != nil {
		return nil, nil, err
	}
	defer stdin.theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		stdin.ours.Close()
		return nil, nil, err
	}
	defer null.Close()
	// A session of its own: a signal to the gateway's group must not reach it.
	args, env := watchdogCommand(w.mark, w.group)
	shell, err := w.nursery.fork("/bin/sh", append([]string{"mcp-gateway-watchdog"}, args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		Files: []uintptr{stdin.theirs.Fd(), null.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		stdin.ours.Close()
		return nil, nil, fmt.Errorf("start /bin/sh: %w", err)
	}
	return shell, stdin.ours, nil
}

// watchdogCommand gives the shell's arguments and environment. The script is in the latter, since the
// former are what lists of processes show.
func watchdogCommand(mark, group string) (args, env []string) {
	return []string{"-c", `eval "$SCRIPT"`, "mcp-gateway-watchdog", mark, group}, []string{"SCRIPT=" + watchdogScript}
}

// feed keeps the shell informed until the host closes (true) or the shell ends.
func (w *watchdog) feed(shell *child, stdin *os.File) bool {
	defer stdin.Close()
	w.notify()
	for {
		select {
		case <-w.changed:
			if err := writeLine(stdin, w.list()); err != nil && !errors.Is(err, syscall.EPIPE) {
				w.log.Warn("watchdog not informed", telemetry.KeyError, err)
			}
		case <-shell.exited:
			return false
		case <-w.quit:
			_ = writeLine(stdin, "end")
			stdin.Close()
			select {
			case <-shell.exited:
			case <-time.After(killLimit):
				shell.signalGroup(syscall.SIGKILL)
				<-shell.exited
			}
			return true
		}
	}
}

// writeLine writes one line; a shell that was stopped must not hold the caller for ever.
func writeLine(f *os.File, line string) error {
	if err := f.SetWriteDeadline(time.Now().Add(killLimit)); err != nil {
		return err
	}
	_, err := f.WriteString(line + "\n")
	return err
}

// notify says that the list has changed. It never waits.
func (w *watchdog) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watchdog) close() {
	close(w.quit)
	<-w.ended
}

// groupList makes the watchdog's line.
func groupList(pids []int) string {
	var b strings.Builder
	for i, pid := range pids {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, pid)
	}
	return b.String()
}
