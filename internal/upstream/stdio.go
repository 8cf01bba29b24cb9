package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/wire"
)

// Process is the child behind a stdio connection; process.Process is one.
type Process interface {
	Stdin() *os.File
	Stdout() *os.File
	Pid() int
	Done() <-chan struct{}
	Stop(ctx context.Context)
}

// StdioOptions configure a connection to a process.
type StdioOptions struct {
	Server  string
	Handler Handler
	Log     *slog.Logger
	Limit   int // bytes of one message
	// NoCancel keeps notifications/cancelled from the server.
	NoCancel bool
	// Ended tells how the process ended, for errors; called once after it has, with the number of
	// messages that it had sent.
	Ended func(messages int64) error
	// Noise gets what a server prints to stdout that is no message.
	Noise func(line string)
}

// stdio is a connection to a child process: a JSON-RPC message a line each way.
type stdio struct {
	o     StdioOptions
	p     Process
	out   *writer
	hello atomic.Pointer[Hello]
	done  chan struct{}
	err   error // set before done is closed
	noise atomic.Int64
	count int64 // messages read, by the reading goroutine

	closing atomic.Bool // the process is being ended, and may take its time
	calls   calls
}

// newStdio takes over a started process and begins to read from it.
func newStdio(ctx context.Context, p Process, o StdioOptions) *stdio {
	c := &stdio{o: o, p: p, done: make(chan struct{})}
	c.out = newWriter(p.Stdin(), maxQueued)
	go c.read(context.WithoutCancel(ctx))
	return c
}

func (c *stdio) Done() <-chan struct{} { return c.done }

func (c *stdio) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

func (c *stdio) Hello() Hello {
	if h := c.hello.Load(); h != nil {
		return *h
	}
	return Hello{}
}

// Begin implements Conn.
func (c *stdio) Begin(r Request, sink Sink) (Call, error) {
	k, err := c.calls.add(c, sink, r, true)
	if err != nil {
		return nil, err
	}
	k.lingers = c.hello.Load() != nil // else it is the handshake's
	if err := c.out.request(k.id, r.Method, k.params(r.Params)); err != nil {
		if !k.forget() {
			return k, nil // it has been answered, with the connection's error
		}
		if errors.Is(err, errClosed) {
			return nil, ErrGone // nobody reads any more, so nothing was received
		}
		return nil, fmt.Errorf("write to server %q: %w", c.o.Server, err)
	}
	return k, nil
}

// lingerFor is how long a cancelled call may linger whose server answers nothing.
const lingerFor = time.Minute

// cancelled implements canceller. A ping behind the notification tells when the server has read it: until
// then, what it asks may be for the cancelled call. A server that is gone needs neither.
func (c *stdio) cancelled(k *call, params []byte) {
	if c.o.NoCancel {
		time.AfterFunc(lingerFor, k.settle) // it goes on with the call, as long as we know
		return
	}
	note := append(wire.Flatten(wire.Notification("notifications/cancelled", k.cancellation(params))), '\n')
	if !k.lingers {
		_ = c.out.write(note)
		return
	}
	ping, err := c.calls.add(c, acknowledged{k}, Request{}, false)
	if err != nil {
		return
	}
	time.AfterFunc(lingerFor, func() {
		k.settle()
		ping.forget()
	})
	if c.Hello().Version == Modern { // which has no ping, nor requests of servers
		ping.forget()
		k.heard()
		_ = c.out.write(note)
		return
	}
	if c.out.write(note, append(wire.Request(ping.id, "ping", nil), '\n')) != nil {
		ping.forget()
	}
}

// acknowledged is the sink of the ping behind a cancellation.
type acknowledged struct{ k *call }

func (a acknowledged) Progress(wire.Msg)    {}
func (a acknowledged) Done(wire.Msg, error) { a.k.heard() }

func (c *stdio) Notify(method string, params []byte) error {
	return gone(c.out.send(wire.Notification(method, params)))
}

func (c *stdio) Answer(response []byte) error { return gone(c.out.send(response)) }

// gone makes ErrGone of the error of an input that is closed.
func gone(err error) error {
	if errors.Is(err, errClosed) {
		return ErrGone
	}
	return err
}

func (c *stdio) InFlight() []Sink { return c.calls.sinks() }

// Close implements Conn.
func (c *stdio) Close(ctx context.Context) {
	c.closing.Store(true)
	c.p.Stop(ctx)
	<-c.done
	c.out.close()
}

// drainLimit is how long output is still read after a process has ended or stopped reading its input,
// and how long a process may live on after it has closed its output.
const drainLimit = 500 * time.Millisecond

// read is the connection's reading goroutine: it owns done and err.
func (c *stdio) read(ctx context.Context) {
	over := make(chan struct{})
	var limiter sync.WaitGroup
	limiter.Go(func() { c.limitReading(over) })
	lines := wire.NewLineReader(c.p.Stdout(), c.o.Limit)
	var err error
	for {
		var line wire.Line
		if line, err = lines.Next(); err != nil {
			break
		}
		c.line(line)
	}
	close(over)
	limiter.Wait()
	c.finish(ctx, err)
}

// limitReading ends the reading a while after the process has ended or can get no message any more.
// What it wrote before is read to the end; a descendant that holds the pipe open must not keep the
// connection alive.
func (c *stdio) limitReading(over <-chan struct{}) {
	select {
	case <-c.p.Done():
	case <-c.out.broken:
	case <-over:
		return
	}
	select {
	case <-over:
	case <-time.After(drainLimit):
		// Where the file is closed already, reading has ended too.
		_ = c.p.Stdout().SetReadDeadline(time.Now())
	}
}

// finish ends the process and fails every call in flight.
func (c *stdio) finish(ctx context.Context, reason error) {
	alive := false
	select {
	case <-c.p.Done():
	case <-time.After(drainLimit):
		alive = !c.closing.Load()
	}
	if alive {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drainLimit)
		defer cancel()
	}
	c.p.Stop(ctx)
	err := c.o.Ended(c.count)
	switch {
	case errors.Is(reason, wire.ErrNoLineEnd):
		err = fmt.Errorf("%w: %w", errNotMCP, reason)
	case alive && errors.Is(reason, io.EOF):
		err = fmt.Errorf("%w output", errLivedOn)
	case alive && errors.Is(reason, os.ErrDeadlineExceeded):
		err = fmt.Errorf("%w input", errLivedOn)
	}
	lost := c.calls.end()
	c.err = err
	close(c.done)
	failure := c.calls.why(&LostError{Server: c.o.Server, Err: err})
	for _, k := range lost {
		k.sink.Done(wire.Msg{}, failure)
	}
}

// because implements what a Server wants of its connections.
func (c *stdio) because(reason error) { c.calls.because(reason) }

var (
	errNotMCP  = errors.New("it does not speak MCP on its standard output")
	errLivedOn = errors.New("it lived on, but was ended since it had closed its standard")
)

// LostError means that a server ended while a call was in flight.
type LostError struct {
	Server string
	Err    error // how it ended
}

// Error names the server and how it ended.
func (e *LostError) Error() string {
	return fmt.Sprintf("server %q ended before it answered: %v; the next call starts it again", e.Server, e.Err)
}

// Unwrap returns how it ended.
func (e *LostError) Unwrap() error { return e.Err }

// line takes one line of the server's output.
func (c *stdio) line(line wire.Line) {
	switch {
	case !line.JSON():
		c.skip(line)
	case line.Cut:
		c.tooLong(line)
	default:
		c.text(line.Text, true)
	}
}

// text takes what should be a message; several on a line, or in an array, are each taken.
func (c *stdio) text(text []byte, whole bool) {
	m, err := wire.ParseServer(text)
	if err == nil {
		c.count++
		c.message(m)
		return
	}
	some := false
	if whole && wire.Valid(text) {
		for element := range wire.Elements(text) {
			some = true
			c.text(element, false)
		}
	} else if whole {
		for value := range wire.Values(text) {
			if len(value) < len(text) && wire.Kind(value) == '{' {
				some = true
				c.text(value, false)
			}
		}
	}
	if !some {
		c.skip(wire.Line{Text: text, Size: len(text)})
	}
}

// skip keeps what is no message for the log.
func (c *stdio) skip(line wire.Line) {
	c.noise.Add(1)
	text := line.Text[:min(len(line.Text), 1<<10)]
	c.o.Noise(string(bytes.ToValidUTF8(text, []byte("\uFFFD"))))
}

// tooLong fails the call whose answer is over the limit; the server lives on.
func (c *stdio) tooLong(line wire.Line) {
	c.noise.Add(1)
	c.o.Log.Warn("message over the limit dropped", telemetry.KeyServer, c.o.Server, telemetry.KeyBytes, line.Size, telemetry.KeyLimit, c.o.Limit)
	if k := c.calls.take(cutID(line)); k != nil {
		k.sink.Done(wire.Msg{}, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q answered with %d bytes, over the limit of %d bytes for one message", c.o.Server, line.Size, c.o.Limit)})
	}
}

// idAtEnd finds the id of a message whose id comes last. Inside a string its quotes would be escaped.
var idAtEnd = regexp.MustCompile(`"id"\s*:\s*("?\d{1,18}"?)\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?}\s*$`)

// cutID reads the id of a message of which only beginning and end are there, nil where it is in
// neither.
func cutID(line wire.Line) []byte {
	if id := wire.Get(line.Text, "id"); id != nil {
		return id
	}
	if found := idAtEnd.FindSubmatch(line.End); found != nil {
		return found[1]
	}
	return nil
}

func (c *stdio) message(m wire.Msg) {
	switch {
	case m.IsResponse():
		c.response(m)
	case m.Method == "ping" && m.ID != nil:
		c.answer(wire.Reply(m.ID, []byte("{}")))
	case m.ID != nil:
		c.o.Handler.Asked(c, m)
	case m.Method == "notifications/progress":
		c.calls.progress(m)
	default:
		c.o.Handler.Notified(c, m)
	}
}

func (c *stdio) answer(response []byte) {
	if err := c.out.send(response); err != nil {
		c.o.Log.Debug("answer to a server not written", telemetry.KeyServer, c.o.Server, telemetry.KeyError, err)
	}
}

func (c *stdio) response(m wire.Msg) {
	if k := c.calls.take(m.ID); k != nil { // else it is late, or the second one, or to nothing we asked
		k.sink.Done(m, nil)
	}
}
