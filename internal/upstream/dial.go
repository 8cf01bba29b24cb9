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
	Limit    int // bytes of one message
	Log      *slog.Logger
	Stderr   func(line string)        // each line of the server's stderr
	Scrub    func(text string) string // takes secrets out of what goes into errors
}

// Dial starts the process and shakes hands. An error is a *fault.Fault; nothing is left behind.
func (d *StdioDialer) Dial(ctx context.Context) (Conn, error) {
	p, err := d.Host.Start(d.Spec, d.Stderr)
	if err != nil {
		cause := fault.BadConfig
		hint := ""
		if errors.Is(err, process.ErrNotFound) {
			cause, hint = fault.NotFound, "install the command, or give its full path"
		}
		return nil, &fault.Fault{Server: d.Server, Cause: cause, Ran: d.ran(), Hint: hint, Err: err}
	}
	start := time.Now()
	c := newStdio(ctx, p, StdioOptions{
		Server: d.Server, Handler: d.Handler, Log: d.Log, Limit: d.Limit,
		Ended: func() error { return d.ended(p) },
		Noise: func(line string) {
			d.Log.Info("stdout line is no message, skipped", telemetry.KeyServer, d.Server, "line", line)
		},
	})
	shake := initialize
	if d.Modern {
		shake = discover
	}
	hello, err := shake(ctx, c, d.Identity)
	if err == nil {
		c.hello.Store(&hello)
		return c, nil
	}
	running := true
	select {
	case <-p.Done():
		running = false
	default:
	}
	f := d.fault(p, c, err, running, time.Since(start))
	c.Close(context.WithoutCancel(ctx))
	if f.Stderr == nil {
		f.Stderr = d.tail(p)
	}
	return nil, f
}

// fault says how the handshake went wrong.
func (d *StdioDialer) fault(p *process.Process, c *stdio, err error, running bool, after time.Duration) *fault.Fault {
	f := &fault.Fault{Server: d.Server, Ran: d.ran(), After: after, Stderr: d.tail(p)}
	var lost *LostError
	switch {
	case errors.Is(err, errInvalid) || errors.Is(err, errNotMCP):
		f.Cause, f.Err = fault.HandshakeInvalid, err
		f.Hint = "is it an MCP server that speaks over standard input and output?"
	case errors.As(err, &lost) || errors.Is(err, ErrGone) || !running:
		f.Cause = fault.ExitedBeforeReady
		if errors.As(err, &lost) && errors.Is(lost.Err, errNotMCP) {
			f.Cause, f.Err = fault.HandshakeInvalid, lost.Err
			break
		}
		f.Ended, f.After = p.Exit().String(), p.Exit().After
	default:
		f.Cause, f.Ended = fault.HandshakeTimeout, "still running, no answer to initialize"
		f.Hint = "raise its limit with \"gateway\": {\"startTimeout\": \"…\"} and --startup-timeout, or install it ahead of time"
		if n := c.noise.Load(); n > 0 {
			f.Ended = fmt.Sprintf("still running, no answer to initialize, but %d lines on standard output that are no messages", n)
		}
	}
	return f
}

// ended says how a process that had been ready ended.
func (d *StdioDialer) ended(p *process.Process) error {
	text := "it is still running"
	select {
	case <-p.Done():
		text = p.Exit().String()
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

// ran is the command as a person would type it, without secrets.
func (d *StdioDialer) ran() string {
	quoted := make([]string, len(d.Spec.Argv))
	for i, arg := range d.Spec.Argv {
		quoted[i] = quote(arg)
	}
	return d.Scrub(strings.Join(quoted, " "))
}

// quote quotes an argument for a shell where it needs it.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:@,+%", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
