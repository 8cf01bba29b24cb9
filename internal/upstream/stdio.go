package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
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
	// Ended tells how the process ended, for errors; called once after it has.
	Ended func() error
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
	count atomic.Int64 // messages read

	mu      sync.Mutex
	pending map[int64]*call
	tokens  map[string]*call
	next    int64
	gone    bool
}

// call is one request in flight.
type call struct {
	c        *stdio
	id       int64
	sink     Sink
	token    []byte // as the client wrote it, nil for none
	key      string // under which it stands in tokens
	replaced bool   // the server was given another token
}

// newStdio takes over a started process and begins to read from it.
func newStdio(ctx context.Context, p Process, o StdioOptions) *stdio {
	c := &stdio{o: o, p: p, done: make(chan struct{}), pending: map[int64]*call{}}
	c.out = newWriter(p.Stdin())
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
	k := &call{c: c, sink: sink, token: r.Token}
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return nil, ErrGone
	}
	c.next++
	k.id = c.next
	c.pending[k.id] = k
	if r.Token != nil {
		c.claim(k)
	}
	c.mu.Unlock()
	if k.replaced {
		meta := wire.Edit(wire.Get(r.Params, "_meta"), wire.Change{Key: "progressToken", Value: wire.Quote(k.key)})
		r.Params = wire.Edit(r.Params, wire.Change{Key: "_meta", Value: meta})
	}
	if err := c.out.request(k.id, r.Method, r.Params); err != nil {
		if !c.forget(k) {
			return k, nil // it has been answered, with the connection's error
		}
		if errors.Is(err, syscall.EPIPE) {
			// Nobody reads any more, so nothing was received; the reading goroutine is told to end.
			c.p.Stdout().SetReadDeadline(time.Now())
			return nil, ErrGone
		}
		return nil, fmt.Errorf("write to server %q: %w", c.o.Server, err)
	}
	return k, nil
}

// claim registers the call's progress token, or one of our own where that is taken.
func (c *stdio) claim(k *call) {
	if c.tokens == nil {
		c.tokens = map[string]*call{}
	}
	k.key = tokenKey(k.token)
	if _, taken := c.tokens[k.key]; taken {
		k.key = "mcp-gateway-" + strconv.FormatInt(k.id, 10)
		k.replaced = true
	}
	c.tokens[k.key] = k
}

// tokenKey makes equal tokens equal, however they are written. Numbers get a prefix that no JSON
// string can have after decoding to text.
func tokenKey(token []byte) string {
	if s, ok := wire.String(token); ok {
		return s
	}
	return "\x00" + string(token)
}

// forget takes the call out; false where it was not there any more.
func (c *stdio) forget(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop(k)
}

func (c *stdio) drop(k *call) bool {
	if _, ok := c.pending[k.id]; !ok {
		return false
	}
	delete(c.pending, k.id)
	if k.key != "" || k.token != nil {
		delete(c.tokens, k.key)
	}
	return true
}

// Cancel implements Call.
func (k *call) Cancel(params []byte) {
	if !k.c.forget(k) {
		return
	}
	params = wire.Edit(params, wire.Change{Key: "requestId", Value: strconv.AppendInt(nil, k.id, 10)})
	// A server that is gone needs no cancellation.
	_ = k.c.Notify("notifications/cancelled", params)
}

func (c *stdio) Notify(method string, params []byte) error {
	return c.out.send(wire.Notification(method, params))
}

func (c *stdio) Answer(response []byte) error { return c.out.send(response) }

func (c *stdio) InFlight() []Sink {
	c.mu.Lock()
	defer c.mu.Unlock()
	sinks := make([]Sink, 0, len(c.pending))
	for _, k := range c.pending {
		sinks = append(sinks, k.sink)
	}
	return sinks
}

// Close implements Conn.
func (c *stdio) Close(ctx context.Context) {
	c.p.Stop(ctx)
	<-c.done
	c.out.close()
}

// drainLimit is how long output is still read after a process has ended, and how long a process may
// live on after it has closed its output.
const drainLimit = 500 * time.Millisecond

// read is the connection's reading goroutine: it owns done and err.
func (c *stdio) read(ctx context.Context) {
	ended := make(chan struct{})
	var stopper sync.WaitGroup
	stopper.Go(func() {
		// What the process wrote before it ended is read to the end; a descendant that holds the
		// pipe open must not keep the connection alive.
		select {
		case <-c.p.Done():
			select {
			case <-ended:
			case <-time.After(drainLimit):
				c.p.Stdout().SetReadDeadline(time.Now())
			}
		case <-ended:
		}
	})
	lines := wire.NewLineReader(c.p.Stdout(), c.o.Limit)
	var err error
	for {
		var line wire.Line
		if line, err = lines.Next(); err != nil {
			break
		}
		c.line(line)
	}
	close(ended)
	stopper.Wait()
	c.finish(ctx, err)
}

// finish ends the process and fails every call in flight.
func (c *stdio) finish(ctx context.Context, reason error) {
	select {
	case <-c.p.Done():
	case <-time.After(drainLimit):
	}
	alive := false
	select {
	case <-c.p.Done():
	default:
		alive = true
	}
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	c.p.Stop(ctx)
	cancel()
	c.p.Stdout().Close()
	err := c.o.Ended()
	switch {
	case errors.Is(reason, wire.ErrNoLineEnd):
		err = fmt.Errorf("%w: %w", errNotMCP, reason)
	case alive && errors.Is(reason, io.EOF):
		err = errors.New("it closed its standard output but lived on, and was ended")
	}
	c.mu.Lock()
	c.gone = true
	lost := c.pending
	c.pending, c.tokens = nil, nil
	c.mu.Unlock()
	c.err = err
	close(c.done)
	for _, k := range lost {
		k.sink.Done(wire.Msg{}, &LostError{Server: c.o.Server, Err: err})
	}
}

var errNotMCP = errors.New("it does not speak MCP on its standard output")

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
		c.count.Add(1)
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
	c.o.Log.Warn("message over the limit dropped", telemetry.KeyServer, c.o.Server, "bytes", line.Size, "limit", c.o.Limit)
	id, ok := findID(line.Text)
	if !ok {
		id, ok = findID(line.End)
	}
	if !ok {
		return
	}
	c.mu.Lock()
	k := c.pending[id]
	if k != nil {
		c.drop(k)
	}
	c.mu.Unlock()
	if k != nil {
		k.sink.Done(wire.Msg{}, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q answered with %d bytes, over the limit of %d bytes for one message", c.o.Server, line.Size, c.o.Limit)})
	}
}

// findID looks for an id member in a piece of a message. It may be deceived by a text that holds
// one, so it serves only to fail a call that can get no answer any more.
func findID(piece []byte) (int64, bool) {
	i := bytes.Index(piece, []byte(`"id"`))
	if i < 0 {
		return 0, false
	}
	rest := bytes.TrimLeft(piece[i+4:], " \t:")
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	id, err := strconv.ParseInt(string(rest[:n]), 10, 64)
	return id, err == nil
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
		c.progress(m)
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
	text := m.ID
	if len(text) > 2 && text[0] == '"' { // some servers give a number back as a string
		text = text[1 : len(text)-1]
	}
	id, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return // an answer to nothing we asked
	}
	c.mu.Lock()
	k := c.pending[id]
	if k != nil {
		c.drop(k)
	}
	c.mu.Unlock()
	if k != nil { // else it is late, or the second one
		k.sink.Done(m, nil)
	}
}

func (c *stdio) progress(m wire.Msg) {
	token := wire.Get(m.Params, "progressToken")
	if token == nil {
		return
	}
	c.mu.Lock()
	k := c.tokens[tokenKey(token)]
	c.mu.Unlock()
	if k == nil {
		return
	}
	if k.replaced {
		m.Raw = m.ParamsWith(wire.Edit(m.Params, wire.Change{Key: "progressToken", Value: k.token}))
		m, _ = wire.ParseServer(m.Raw)
	}
	k.sink.Progress(m)
}
