package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/telemetry"
)

// Starter starts processes; process.Host is one.
type Starter interface {
	Start(spec process.Spec, onStderr func(line string)) (*process.Process, error)
}

// StdioDialer connects to a server that is a child process.
type StdioDialer struct {
	Server   string
	Spec     process.Spec
	Modern   bool // the server speaks 2026-07-28
	Host     Starter
	Handler  Handler
	Identity Identity
	Limit    int  // bytes of one message
	NoCancel bool // the server is not told of cancellations
	Log      *slog.Logger
	Stderr   func(line string)        // each line of the server's stderr
	Scrub    func(text string) string // takes secrets out of what goes into errors
}

// Dial starts the process, shakes hands and makes the connection ready. An error is a *fault.Fault;
// nothing is left behind.
func (d *StdioDialer) Dial(ctx context.Context, ready ReadyFunc) (Conn, error) {
	p, err := d.Host.Start(d.Spec, d.Stderr)
	if err != nil {
		f := &fault.Fault{Server: d.Server, Cause: fault.BadConfig, Ran: d.ran(), Err: err}
		if errors.Is(err, process.ErrNotFound) {
			f.Cause, f.Hint = fault.NotFound, "install the command, or give its full path"
		}
		return nil, f
	}
	start := time.Now()
	c := newStdio(ctx, p, StdioOptions{
		Server: d.Server, Handler: d.Handler, Log: d.Log, Limit: d.Limit, NoCancel: d.NoCancel,
		Ended: func(messages int64) error { return d.ended(p, messages) },
		Noise: func(line string) {
			d.Log.Info("stdout line is no message, skipped", telemetry.KeyServer, d.Server, telemetry.KeyLine, line)
		},
	})
	if err = d.open(ctx, c, ready); err == nil {
		return c, nil
	}
	after := time.Since(start)
	ended := "still running"
	select {
	case <-p.Done():
		ended, after = p.Exit().String(), p.Exit().After
	default:
	}
	// Whoever waits for the reason waits for this too, so it is killed if it does not end by itself.
	hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	c.Close(hurry)
	if errors.Is(err, ErrGone) { // its end was noticed before it was reaped
		ended, after = p.Exit().String(), p.Exit().After
	}
	return nil, d.fault(c, err, ended, after, d.tail(p))
}

// open makes a connection of a started process.
func (d *StdioDialer) open(ctx context.Context, c *stdio, ready ReadyFunc) error {
	shake := initialize
	if d.Modern {
		shake = discover
	}
	hello, err := shake(ctx, c, d.Identity)
	if err != nil {
		return err
	}
	c.hello.Store(&hello)
	if ready == nil {
		return nil
	}
	return ready(ctx, c)
}

// fault says how a start went wrong.
func (d *StdioDialer) fault(c *stdio, err error, ended string, after time.Duration, stderr []string) *fault.Fault {
	f := &fault.Fault{Server: d.Server, Ran: d.ran(), Ended: ended, After: after, Stderr: stderr, Err: err}
	if reason := c.Err(); errors.Is(err, ErrGone) && reason != nil { // it had ended before it was asked
		err = &LostError{Server: d.Server, Err: reason}
	}
	var lost *LostError
	var unanswered *UnansweredError
	switch {
	case errors.As(err, &lost) && (errors.Is(err, errNotMCP) || errors.Is(err, errLivedOn)):
		f.Cause, f.Ended, f.Err = fault.HandshakeInvalid, "", lost.Err
	case errors.As(err, &lost) || errors.Is(err, ErrGone):
		f.Cause, f.Err = fault.ExitedBeforeReady, nil
	case errors.As(err, &unanswered):
		f.Cause = fault.HandshakeTimeout
		f.Hint = "raise its limit with \"gateway\": {\"startTimeout\": \"…\"} and --startup-timeout, or install it ahead of time"
	default:
		f.Cause = fault.HandshakeInvalid
		f.Hint = "is it an MCP server that speaks over standard input and output?"
	}
	if n := c.noise.Load(); n > 0 && f.Cause != fault.ExitedBeforeReady {
		f.Err = fmt.Errorf("%w (lines on its standard output that are no messages: %d)", f.Err, n)
	}
	return f
}

// ended says how a process that had been ready ended.
func (d *StdioDialer) ended(p *process.Process, messages int64) error {
	text := "it is still running"
	select {
	case <-p.Done():
		text = fmt.Sprintf("%s after %d messages", p.Exit(), messages)
	default:
	}
	if tail := d.tail(p); len(tail) > 0 {
		last := tail[max(0, len(tail)-3):]
		text += ", last stderr: " + strings.Join(last, " | ")
	}
	return errors.New(text)
}

func (d *StdioDialer) tail(p *process.Process) []string {
	tail := p.Tail()
	for i := range tail {
		tail[i] = d.Scrub(tail[i])
	}
	return tail
}

// ran is the command as a person would type it. Secrets go before the quoting, which would hide those
// with special characters.
func (d *StdioDialer) ran() string {
	shown := process.Spec{Argv: make([]string, len(d.Spec.Argv))}
	for i, arg := range d.Spec.Argv {
		shown.Argv[i] = d.Scrub(arg)
	}
	return shown.CommandLine()
}
