package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// call is one request on its way: the sink of what comes back from the server. It is in one of these
// states: waiting for a connection (up is nil), in flight, held while its client is asked (x is nil),
// between two rounds, over.
type call struct {
	number  int64               // later calls have greater ones
	session *downstream.Session // nil for a client of 2026-07-28
	caps    []byte              // that client's capabilities
	link    *link
	method  string
	params  []byte // as sent to the server
	token   []byte // the progress token in them, nil for none

	mu     sync.Mutex
	x      *downstream.Exchange // where the client is to be reached
	up     upstream.Call        // in flight; of the newest round
	over   bool                 // answered, failed or cancelled
	failed bool
	giveUp context.CancelFunc // ends the wait for a connection, nil where nobody waits
	timer  *time.Timer        // the entry's call limit, nil for none
	asking int                // questions that the client has not answered: the limit rests
	rounds int                // answers that wanted more input
	resent int                // times that the server had not taken it
	held   held
	asTask *tokenHold // of a call that was to be made as a task, nil for others
}

// forward sends the exchange's request to a server, waits, and writes what comes back.
func (r *Relay) forward(ctx context.Context, x *downstream.Exchange, m *member, params []byte) {
	r.send(ctx, x, m, params)
}

// send is forward, and returns the call to see how it went.
func (r *Relay) send(ctx context.Context, x *downstream.Exchange, m *member, params []byte) *call {
	l := r.linkFor(x, m)
	k := &call{number: r.calls.Add(1), session: x.Session, link: l, method: x.Msg.Method, x: x, token: wire.Get(x.Msg.Meta, "progressToken")}
	if x.Modern() {
		k.caps = wire.Get(x.Msg.Meta, downstream.MetaCapabilities)
		if level, ok := wire.GetString(x.Msg.Meta, downstream.MetaLogLevel); ok {
			l.wantLevel(level)
		}
	}
	if x.Modern() && !l.modern.Load() && wire.Get(params, "requestState") != nil {
		r.fail(ctx, x, wire.CodeInvalidParams, "the requestState is not known any more: its call was answered or given up; send the request without it")
		return k
	}
	if k.method == "tools/call" && wire.Kind(x.Msg.Task) == '{' {
		k.asTask = &tokenHold{}
	}
	k.params = l.outgoing(x, params)
	x.OnAbandon(func() { k.cancel(x.CancelParams()) })
	if c := l.server.Live(); c == nil || !k.begin(c) {
		k.connect()
	}
	k.wait(ctx, x)
	return k
}

// wait writes to the client until it has its answer, or tells the server that nobody waits any more.
func (k *call) wait(ctx context.Context, x *downstream.Exchange) {
	if err := x.Wait(ctx); err != nil && !errors.Is(err, downstream.ErrParked) {
		k.cancel(x.CancelParams())
	}
}

// begin sends the request on a connection; false where that had ended before anything was sent.
func (k *call) begin(c upstream.Conn) bool {
	up, err := c.Begin(upstream.Request{Method: k.method, Params: k.params, Token: k.token, Task: k.asTask != nil}, k)
	if upstream.Retryable(err) {
		return false
	}
	if err != nil {
		k.Done(wire.Msg{}, err)
		return true
	}
	k.sent(up, 0)
	return true
}

// connect has the server started and sends the request when it is ready. The exchange's own goroutine
// goes on meanwhile, so that its client sees a sign of life and can cancel.
func (k *call) connect() {
	ctx, cancel := context.WithCancel(k.link.r.ctx)
	k.mu.Lock()
	k.giveUp = cancel
	k.mu.Unlock()
	started := k.link.r.background.start(func() {
		defer cancel()
		for range maxTries {
			c, err := k.link.server.Conn(ctx)
			switch {
			case ctx.Err() != nil:
				return // nobody waits any more
			case err != nil:
				k.Done(wire.Msg{}, err)
				return
			case k.begin(c):
				return
			}
			<-c.Done() // it takes no input any more, so it is on its way out
		}
		k.Done(wire.Msg{}, errors.New("it ended again and again before it could be sent a request"))
	})
	if !started {
		cancel()
		k.Done(wire.Msg{}, errStopping)
	}
}

var errStopping = errors.New("the gateway is being stopped")

// maxTries bounds how often a connection that turns out to have ended is replaced for one call.
const maxTries = 3

// sent notes that a round is in flight and begins its limit. Its answer may have come already, and the
// client may have left.
func (k *call) sent(up upstream.Call, round int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.rounds != round:
	case k.over && !k.failed && k.asTask != nil:
		k.asTask.take(up)
	case k.over:
		up.Cancel(nil) // does nothing where it was answered
	default:
		k.up = up
		if k.asTask != nil {
			k.asTask.take(up)
		}
		if limit := k.link.m.Options.CallTimeout; limit > 0 {
			k.timer = time.AfterFunc(limit, func() { k.expire(limit) })
		}
	}
}

// exchange is where the client is to be reached, nil while the call is held.
func (k *call) exchange() *downstream.Exchange {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.x
}

// expire ends a call that has been silent for its whole limit.
func (k *call) expire(limit time.Duration) {
	k.mu.Lock()
	up := k.up
	if k.over || k.asking > 0 || up == nil { // just answered, asked, or not sent for the time being
		k.mu.Unlock()
		return
	}
	k.answer(wire.Msg{}, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q gave no answer and no progress within %s, the limit set by its entry (gateway.callTimeout); the server is alive", k.link.m.Name, limit)})
	k.mu.Unlock()
	up.Cancel(fmt.Appendf(nil, `{"reason":"no answer and no progress within %s"}`, limit))
}

// cancel tells the server that nobody waits any more.
func (k *call) cancel(params []byte) {
	k.mu.Lock()
	up := k.up
	k.failed = k.failed || !k.over
	k.end()
	k.mu.Unlock()
	if up != nil {
		up.Cancel(params)
	}
}

// end stops everything that still runs for the call. The caller holds mu.
func (k *call) end() {
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.giveUp != nil {
		k.giveUp()
	}
}

// ask notes n more questions to the client, n fewer where it is negative. While one is open the
// limit rests: the server is not the one who is slow.
func (k *call) ask(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking += n
	k.alive()
}

// land takes the request out of flight, with its limit, until it is sent again. The caller holds mu.
func (k *call) land() {
	k.up = nil
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// alive begins the limit anew. The caller holds mu.
func (k *call) alive() {
	switch {
	case k.timer == nil || k.over:
	case k.asking > 0:
		k.timer.Stop()
	default:
		k.timer.Reset(k.link.m.Options.CallTimeout)
	}
}

// Progress implements upstream.Sink. What is made while the client is away is of no use later.
func (k *call) Progress(m wire.Msg) {
	k.mu.Lock()
	x, token := k.x, k.held.token
	k.alive()
	k.mu.Unlock()
	if x == nil {
		return
	}
	if token != nil { // the client has come back with another one
		m.Raw = m.ParamsWith(wire.Edit(m.Params, wire.Change{Key: "progressToken", Value: token}))
	}
	switch {
	case x.Send(m.Raw):
	case k.asTask != nil && k.session != nil: // the task goes on without the call
		_, m = k.link.ofTask(m)
		k.session.Send(m.Raw, false)
	}
}

// Done implements upstream.Sink.
func (k *call) Done(m wire.Msg, err error) {
	if err == nil && k.link.modern.Load() && k.session != nil && needsInput(m) {
		k.round(m)
		return
	}
	switch {
	case err == nil:
		if server := k.link.m; server.unsigned.Load() {
			server.unsigned.Store(false)
		}
	case upstream.Retryable(err) && k.resend(), k.invite(err):
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.answer(m, err)
	}
}

// resend makes a request again that the server has not taken: it did not know the session, or could not
// be reached. It is false where that has been tried often enough.
func (k *call) resend() bool {
	k.mu.Lock()
	if k.over || k.rounds > 0 || k.resent == maxTries {
		k.mu.Unlock()
		return false
	}
	k.resent++
	k.land()
	k.mu.Unlock()
	k.connect()
	return true
}

// answer ends the call and gives its answer to the client, when it is there. The caller holds mu.
func (k *call) answer(m wire.Msg, err error) {
	k.end()
	k.failed = err != nil || m.Err != nil
	if m.Err != nil {
		k.noteElicitations(m.Err)
	}
	if k.x == nil {
		k.held.final = &final{m, err}
		return
	}
	k.finish(m, err)
}

// finish gives the answer to the client. The caller holds mu.
func (k *call) finish(m wire.Msg, err error) {
	if err != nil {
		k.finishWithout(err)
		return
	}
	m = k.taskResult(m)
	if k.link.modern.Load() == k.x.Modern() && !k.link.renames(k.x, m.Result) {
		k.x.Finish(m)
	} else {
		k.link.incoming(k.x, m)
	}
}

// finishWithout tells the client why there is no answer. The caller holds mu.
func (k *call) finishWithout(err error) {
	var refused refusal
	var invitation *invited
	switch {
	case errors.As(err, &refused):
		k.x.FailRaw(refused)
	case errors.As(err, &invitation):
		invitation.answer(k.x)
	default:
		k.x.Fail(serverError(k.link.m.Name, err))
	}
}

// isOver tells whether the client waits no more.
func (k *call) isOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over
}

// hasFailed tells whether the answer was an error, or none is wanted any more.
func (k *call) hasFailed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// serverError tells a client why its call has no answer of the server's own.
func serverError(server string, err error) *wire.Error {
	var own *wire.Error
	if errors.As(err, &own) {
		return own
	}
	text := err.Error()
	if !strings.Contains(text, "server ") {
		text = fmt.Sprintf("server %q: %s", server, text)
	}
	return &wire.Error{Code: wire.CodeInternal, Message: text, Data: serverData(server)}
}

// serverData is the data of an error that is about a server.
func serverData(server string) []byte { return fmt.Appendf(nil, `{"server":%s}`, wire.Quote(server)) }

// linkFor is the connection line that serves an exchange: the session's own one, where the entry asks
// for that, or a remote server knows its clients, so that what it asks reaches the right one.
func (r *Relay) linkFor(x *downstream.Exchange, m *member) *link {
	l := m.links[era(x)]
	if x.Session != nil && (m.Options.Isolated || m.Remote && !l.shared.Load()) {
		return stateOf(x.Session).own(r, m, x.Session)
	}
	return l
}
