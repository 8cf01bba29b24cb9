// Package process runs each server as a whole process tree: starts it, keeps the end of its stderr,
// reaps it, and ends everything that it started.
package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// ErrNotFound is in the chain of an error of Start and Run when the command is not on PATH, or
// cannot be executed.
var ErrNotFound = errors.New("not found")

// HostOptions are what NewHost takes.
type HostOptions struct {
	Log *slog.Logger // nil discards
}

// Host owns what all children share. There is one in a gateway.
type Host struct{}

// NewHost makes the process a sub-reaper and starts what watches over its children.
func NewHost(o HostOptions) (*Host, error) { return &Host{}, nil }

// Close kills every tree that is left.
func (h *Host) Close() error { return nil }

// Start starts one process tree; each line of its stderr is given to onStderr, which must not block.
func (h *Host) Start(spec Spec, onStderr func(line string)) (*Process, error) {
	return nil, errors.ErrUnsupported
}

// Run runs a command to its end, with stdin from /dev/null; each line of its stdout and stderr is
// given to onLine. The whole tree is killed when the context ends.
func (h *Host) Run(ctx context.Context, spec Spec, onLine func(line string)) (Exit, error) {
	return Exit{}, errors.ErrUnsupported
}

// Exit says how a process ended.
type Exit struct {
	Code   int            // the exit status; -1 when a signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
	After  time.Duration  // from its start to its end
}

// String gives "exit status 1" or "signal: killed".
func (e Exit) String() string { return "" }

// Process is one process tree.
type Process struct{}

// Stdin is the write end of the child's standard input. It is closed when the tree ends.
func (p *Process) Stdin() *os.File { return nil }

// Stdout is the read end of the child's standard output. It is closed by Stop.
func (p *Process) Stdout() *os.File { return nil }

// Pid is the direct child's process id.
func (p *Process) Pid() int { return 0 }

// Done is closed when the direct child has ended and been reaped, the rest of its tree has been
// ended too, and its stderr has been read to the end, so that Tail is complete.
func (p *Process) Done() <-chan struct{} { return nil }

// Exit says how the direct child ended; valid after Done.
func (p *Process) Exit() Exit { return Exit{} }

// Tail is the end of the stderr.
func (p *Process) Tail() []string { return nil }

// Stop ends the tree: stdin closed, a wait, SIGTERM to all of it, a wait, SIGKILL to all of it. It
// returns when the tree is gone. When the context ends, SIGKILL is sent at once. It is to be called
// for every process, also for one that has ended, and can be called often and concurrently.
func (p *Process) Stop(ctx context.Context) {}
