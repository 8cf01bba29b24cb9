package process

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"mcp-gateway/internal/telemetry"
)

// Process is one process tree: a direct child and everything that it starts.
type Process struct {
	host   *Host
	tree   tree
	stdin  *os.File // nil for a command that reads nothing
	stdout *os.File // nil for a command whose output is all lines
	stderr *os.File
	tail   Tail

	stopOnce  sync.Once
	stopping  chan struct{} // closed by the first Stop
	forceOnce sync.Once
	forced    chan struct{} // closed when the tree is to be killed at once
	done      chan struct{}
}

// Stdin is the write end of the child's standard input. It is closed when the tree ends.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout is the read end of the child's standard output. Stop closes it.
func (p *Process) Stdout() *os.File { return p.stdout }

// Pid is the direct child's process id.
func (p *Process) Pid() int { return p.tree.child.pid }

// Done is closed when the direct child has ended and been reaped, the rest of its tree is gone too,
// and its stderr has been read to the end, so that Tail is complete. When the direct child ends by
// itself, the rest of its tree is killed at once.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the direct child ended; it is valid after Done.
func (p *Process) Exit() Exit {
	select {
	case <-p.tree.child.exited:
		return p.tree.child.exit
	default: // it hangs in the kernel and will end when that lets go of it
		return Exit{Code: -1, After: time.Since(p.tree.child.started)}
	}
}

// Tail gives the last lines of the stderr, cleaned: 20 lines and 2 KiB at most.
func (p *Process) Tail() []string { return p.tail.Lines() }

// Stop ends the tree: stdin is closed; after StdinGrace all of it gets SIGTERM; after TermGrace all of
// it gets SIGKILL. It returns as soon as the tree is gone, after StopLimit at the latest. When the
// context ends, SIGKILL follows at once. It is to be called for every process, also for one that has
// ended by itself, and may be called often and concurrently.
func (p *Process) Stop(ctx context.Context) {
	p.stopOnce.Do(func() { close(p.stopping) })
	select {
	case <-p.done:
	case <-ctx.Done():
		p.force()
		<-p.done
	}
	if p.stdout != nil {
		p.stdout.Close()
	}
}

func (p *Process) force() {
	p.forceOnce.Do(func() { close(p.forced) })
}

// supervise owns the process from its start to the end of its tree.
func (p *Process) supervise(onLine func(string)) {
	defer close(p.done)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(p.stderr, &p.tail, onLine)
	}()
	select {
	case <-p.tree.child.exited:
	case <-p.forced:
	case <-p.stopping:
		p.endGently()
	}
	p.kill()
	p.host.nursery.sweep()
	if p.tree.group != nil {
		if err := p.tree.group.remove(); err != nil {
			p.host.log.Warn("control group left", telemetry.KeyError, err)
		}
	}
	// A process that has escaped the tree may hold the other end.
	_ = p.stderr.SetReadDeadline(time.Now().Add(drainLimit))
	<-drained
	p.stderr.Close()
	if p.stdin != nil {
		p.stdin.Close()
	}
	p.host.forget(p)
}

// endGently takes the steps that leave a server time to end well.
func (p *Process) endGently() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	timer := time.NewTimer(p.host.opts.StdinGrace)
	defer timer.Stop()
	select {
	case <-p.tree.child.exited:
	case <-p.forced:
		return
	case <-timer.C:
	}
	if !p.tree.alive() {
		return
	}
	p.tree.signal(syscall.SIGTERM)
	p.waitUntilGone(p.host.opts.TermGrace, p.forced)
}

// kill ends what is left of the tree, and waits for it.
func (p *Process) kill() {
	deadline := time.Now().Add(killLimit)
	for p.tree.alive() {
		p.tree.signal(syscall.SIGKILL)
		if time.Now().After(deadline) {
			p.host.log.Error("process tree outlasts SIGKILL", telemetry.KeyPid, p.Pid())
			return
		}
		p.waitUntilGone(killRound, nil)
	}
	p.tree.child.signalGroup(syscall.SIGKILL) // it may have left its control group
	select {
	case <-p.tree.child.exited:
	case <-time.After(time.Until(deadline)):
	}
}

// killRound is how long a round of SIGKILL has before it is sent again, to what was forked meanwhile.
const killRound = 20 * time.Millisecond

// waitUntilGone looks for the tree at growing intervals, since the kernel tells the end of the direct
// child only.
func (p *Process) waitUntilGone(limit time.Duration, forced <-chan struct{}) {
	end := time.NewTimer(limit)
	defer end.Stop()
	pause := time.Millisecond
	for p.tree.alive() {
		select {
		case <-end.C:
			return
		case <-forced:
			return
		case <-time.After(pause):
			pause = min(2*pause, 25*time.Millisecond)
		}
	}
}
