// Package process runs each server as a whole process tree: it starts it, keeps the end of its stderr,
// reaps it, and ends everything that it has started, also when the gateway itself is killed.
package process

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcp-gateway/internal/telemetry"
)

// The limits of the ladder by which Stop ends a tree.
const (
	// StdinGrace is how long a server may take to end once its stdin is closed.
	StdinGrace = 2 * time.Second
	// TermGrace is how long the tree may take to end after SIGTERM.
	TermGrace = 3 * time.Second
	// StopLimit is the longest that Stop takes: both graces, the wait after SIGKILL, and the rest of stderr.
	StopLimit = StdinGrace + TermGrace + killLimit + drainLimit

	killLimit  = 2 * time.Second // only a process that hangs in the kernel outlasts SIGKILL for longer
	drainLimit = time.Second
)

// ErrClosed is what Start and Run give after Close.
var ErrClosed = errors.New("process host is closed")

// HostOptions are what NewHost takes.
type HostOptions struct {
	Log        *slog.Logger  // nil discards
	StdinGrace time.Duration // 0 means the constant of that name
	TermGrace  time.Duration // 0 means the constant of that name
	NoCgroup   bool          // use process groups and marks even where control groups can be made
}

// Host owns what all children share: the sub-reaper and reaper, the control group above the trees' own,
// and the watchdog. There is one in a gateway.
type Host struct {
	opts     HostOptions
	log      *slog.Logger
	run      string // unique for this host
	nursery  *nursery
	watchdog *watchdog
	groups   *groups // nil where none can be made
	noGroups atomic.Bool
	trees    atomic.Int64
	running  sync.WaitGroup

	closing  sync.Once
	closeErr error

	mu     sync.Mutex
	closed bool
	live   map[*Process]struct{}
}

// NewHost makes the process a sub-reaper and starts what watches over its children. It marks every
// inherited descriptor close-on-exec.
func NewHost(o HostOptions) (*Host, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StdinGrace == 0 {
		o.StdinGrace = StdinGrace
	}
	if o.TermGrace == 0 {
		o.TermGrace = TermGrace
	}
	if err := CloseOnExecAll(); err != nil {
		return nil, fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails
	h := &Host{opts: o, log: o.Log, run: hex.EncodeToString(id), live: map[*Process]struct{}{}}
	var err error
	if h.nursery, err = enterNursery(); err != nil {
		return nil, err
	}
	// The watchdog comes before the group that it is to remove, and goes after it.
	var plan *groups
	groupDir := ""
	if !o.NoCgroup {
		if plan, err = planGroups(h.run); err == nil {
			groupDir = plan.dir
		}
	}
	h.watchdog = startWatchdog(h.nursery, h.log, markName+"="+h.run+"/", groupDir, h.groupList)
	if plan != nil {
		if err = plan.create(); err == nil {
			h.groups = plan
		}
	}
	if err != nil {
		h.log.Debug("no control groups: using process groups and marks", telemetry.KeyError, err)
	}
	return h, nil
}

// Close kills every tree that is left and waits for it. Stop the processes first for a gentle end.
func (h *Host) Close() error {
	h.closing.Do(func() { h.closeErr = h.close() })
	return h.closeErr
}

func (h *Host) close() error {
	h.mu.Lock()
	h.closed = true
	for p := range h.live {
		p.force()
	}
	h.mu.Unlock()
	h.running.Wait()
	killChildren(func(pid int) bool { return hasEnv(pid, h.watchdog.mark) })
	var err error
	if h.groups != nil {
		err = h.groups.remove()
	}
	h.watchdog.close()
	// What changed its environment and cut itself off can be told from other hosts' trees only now.
	leaveNursery(func() { killChildren(func(int) bool { return true }) })
	return err
}

// killChildren ends what servers have left under the gateway: chosen orphans that it has adopted. They
// live in other sessions than the gateway, whose own is left alone.
func killChildren(chosen func(pid int) bool) {
	gateway := os.Getpid()
	for range 20 { // each round finds what those killed before have left
		procs, err := readProcs()
		if err != nil {
			return
		}
		none := true
		for _, p := range descendants(procs, -1, gateway, chosen) {
			none = false
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if none {
			return
		}
	}
}

// Start starts one process tree. Each line of its stderr is given to onStderr, which must not block.
func (h *Host) Start(spec Spec, onStderr func(line string)) (*Process, error) {
	stdin, err := newPipe("stdin of "+spec.Name, true)
	if err != nil {
		return nil, err
	}
	stdout, err := newPipe("stdout of "+spec.Name, false)
	if err != nil {
		stdin.close()
		return nil, err
	}
	defer stdin.theirs.Close()
	defer stdout.theirs.Close()
	p, err := h.start(spec, stdin.theirs, stdout.theirs, onStderr, &Process{stdin: stdin.ours, stdout: stdout.ours})
	if err != nil {
		stdin.ours.Close()
		stdout.ours.Close()
		return nil, err
	}
	return p, nil
}

// Run runs a command to its end, with stdin from /dev/null; each line of its stdout and stderr is
// given to onLine, which must not block. When the context ends, the whole tree is killed, and the
// error is the context's.
func (h *Host) Run(ctx context.Context, spec Spec, onLine func(line string)) (Exit, error) {
	if err := ctx.Err(); err != nil {
		return Exit{Code: -1}, context.Cause(ctx)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Exit{Code: -1}, err
	}
	defer null.Close()
	p, err := h.start(spec, null, nil, onLine, &Process{})
	if err != nil {
		return Exit{Code: -1}, err
	}
	select {
	case <-p.done:
		return p.Exit(), nil
	case <-ctx.Done():
		p.force()
		<-p.done
		return p.Exit(), context.Cause(ctx)
	}
}

// start starts a tree with this stdin and stdout; without a stdout it shares stderr.
func (h *Host) start(spec Spec, stdin, stdout *os.File, onLine func(string), p *Process) (*Process, error) {
	cmd, err := prepare(spec)
	if err != nil {
		return nil, err
	}
	stderr, err := newPipe("stderr of "+spec.Name, false)
	if err != nil {
		return nil, err
	}
	defer stderr.theirs.Close()
	if stdout == nil {
		stdout = stderr.theirs
	}
	cmd.files = []*os.File{stdin, stdout, stderr.theirs}
	p.host, p.stderr = h, stderr.ours
	p.stopping, p.forced, p.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
	if err := h.fork(cmd, p); err != nil {
		stderr.ours.Close()
		return nil, startError(spec.Argv[0], err)
	}
	go func() {
		defer h.running.Done()
		p.supervise(onLine)
	}()
	return p, nil
}

// fork makes the tree of p and adds it to the host's.
func (h *Host) fork(cmd *command, p *Process) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return ErrClosed
	}
	h.running.Add(1) // before the fork: Close waits for a start that is on its way
	h.mu.Unlock()

	n := int(h.trees.Add(1))
	p.tree.mark = markName + "=" + h.run + "/" + strconv.Itoa(n) + "/"
	cmd.env = setEnv(cmd.env, markName, h.run+"/"+strconv.Itoa(n)+"/")
	if err := h.forkIn(n, cmd, &p.tree); err != nil {
		h.running.Done()
		return err
	}
	h.mu.Lock()
	h.live[p] = struct{}{}
	closed := h.closed
	h.mu.Unlock()
	if closed {
		p.force()
	}
	h.watchdog.notify()
	return nil
}

// forkIn forks into a control group of the tree's own, or without one where that does not work.
func (h *Host) forkIn(n int, cmd *command, t *tree) error {
	if h.groups != nil && !h.noGroups.Load() {
		group, err := h.groups.make(n)
		if err == nil {
			t.child, err = h.nursery.fork(cmd.path, cmd.argv, cmd.attr(group))
			if err == nil {
				t.group = group
				return nil
			}
			_ = group.remove()
		}
		// The program itself may be at fault; the next attempt tells.
		if t.child, err = h.nursery.fork(cmd.path, cmd.argv, cmd.attr(nil)); err == nil {
			h.noGroups.Store(true)
			h.log.Info("control groups do not work: using process groups and marks")
		}
		return err
	}
	var err error
	t.child, err = h.nursery.fork(cmd.path, cmd.argv, cmd.attr(nil))
	return err
}

// forget takes an ended tree off the books.
func (h *Host) forget(p *Process) {
	h.mu.Lock()
	delete(h.live, p)
	h.mu.Unlock()
	h.watchdog.notify()
}

// groupList names the process groups of all living trees, for the watchdog.
func (h *Host) groupList() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	pids := make([]int, 0, len(h.live))
	for p := range h.live {
		pids = append(pids, p.Pid())
	}
	return groupList(pids)
}
