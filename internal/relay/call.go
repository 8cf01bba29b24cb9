package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// call is one request on its way: the sink of what comes back from the server.
type call struct {
	number  int64               // later calls have greater ones
	session *downstream.Session // nil for a client of 2026-07-28
	caps    []byte              // that client's capabilities
	link    *link
	method  string
	params  []byte // as sent to the server

	mu        sync.Mutex
	x         *downstream.Exchange // nil while the call is held
	up        upstream.Call
	timer     *time.Timer // the entry's call limit, nil for none
	over      bool
	failed    bool
	rounds    int
	open      map[string]question // held: what the client has to answer
	questions int
	state     string
	parked    *time.Timer
	final     *answer // held: came meanwhile
}

// forward sends the exchange's request to a server, waits, and writes what comes back.
func (r *Relay) forward(ctx context.Context, x *downstream.Exchange, m *member, params []byte) {
	r.send(ctx, x, m, params)
}

// send is forward, and returns the call to see how it went.
func (r *Relay) send(ctx context.Context, x *downstream.Exchange, m *member, params []byte) *call {
	l := r.linkFor(x, m)
	k := &call{number: r.calls.Add(1), session: x.Session, link: l, method: x.Msg.Method, x: x}
	if x.Modern() {
		k.caps = wire.Get(x.Msg.Meta, downstream.MetaCapabilities)
		if level, ok := wire.GetString(x.Msg.Meta, downstream.MetaLogLevel); ok {
			l.wantLevel(level)
		}
	}
	k.params = l.outgoing(x, params)
	if err := k.begin(ctx, wire.Get(x.Msg.Meta, "progressToken")); err != nil {
		k.failed = true
		x.Fail(serverError(m.Name, err))
		_ = x.Wait(ctx) // there is nothing to cancel
		return k
	}
	x.OnAbandon(func() { k.cancel(x.CancelParams()) })
	if err := x.Wait(ctx); err != nil && !errors.Is(err, downstream.ErrParked) {
		k.cancel(x.CancelParams())
	}
	return k
}

// begin finds a live connection and sends the request. A connection that had ended before anything
// was sent is replaced.
func (k *call) begin(ctx context.Context, token []byte) error {
	for try := 0; ; try++ {
		c, err := k.link.server.Conn(ctx)
		if err != nil {
			return err
		}
		up, err := c.Begin(upstream.Request{Method: k.method, Params: k.params, Token: token}, k)
		if err == nil {
			k.sent(up)
			return nil
		}
		if !upstream.Retryable(err) || try == maxTries {
			return err
		}
		select {
		case <-c.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// maxTries bounds how often a connection that turns out to have ended is replaced for one call.
const maxTries = 2

// sent notes the call in flight and begins its limit. The answer may have come already.
func (k *call) sent(up upstream.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.up = up
	if limit := k.link.m.Options.CallTimeout; limit > 0 && !k.over {
		k.timer = time.AfterFunc(limit, func() { k.expire(limit) })
	}
}

// exchange is where the client is to be reached, nil while the call is held.
func (k *call) exchange() *downstream.Exchange {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.x
}

// capabilities are those of a client of 2026-07-28.
func (k *call) capabilities() []byte { return k.caps }

// expire ends a call that has been silent for its whole limit.
func (k *call) expire(limit time.Duration) {
	k.cancel(fmt.Appendf(nil, `{"reason":"no answer and no progress within %s"}`, limit))
	if x := k.exchange(); x != nil {
		x.Fail(&wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q gave no answer and no progress within %s, the limit set by its entry (gateway.callTimeout); the server is alive", k.link.m.Name, limit)})
	}
}

// cancel tells the server that nobody waits any more.
func (k *call) cancel(params []byte) {
	k.mu.Lock()
	up := k.up
	k.end()
	k.mu.Unlock()
	if up != nil {
		up.Cancel(params)
	}
}

// end stops the limit. The caller holds mu.
func (k *call) end() {
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// Progress implements upstream.Sink. What is made while the client is away is of no use later.
func (k *call) Progress(m wire.Msg) {
	if limit := k.link.m.Options.CallTimeout; limit > 0 {
		k.mu.Lock()
		if k.timer != nil && !k.over {
			k.timer.Reset(limit)
		}
		k.mu.Unlock()
	}
	if x := k.exchange(); x != nil {
		x.Send(m.Raw)
	}
}

// Done implements upstream.Sink.
func (k *call) Done(m wire.Msg, err error) {
	if err == nil && k.link.modern && k.session != nil && needsInput(&m) {
		k.round(m)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end()
	k.failed = err != nil || m.Err != nil
	if k.x == nil {
		k.final = &answer{m, err}
		return
	}
	k.finish(m, err)
}

// answer is what came back from the server.
type answer struct {
	m   wire.Msg
	err error
}

// finish gives the answer to the client. The caller holds mu.
func (k *call) finish(m wire.Msg, err error) {
	switch {
	case err != nil:
		k.x.Fail(serverError(k.link.m.Name, err))
	case k.link.modern == k.x.Modern() && !k.link.renames(k.x, m.Result):
		k.x.Finish(m)
	default:
		k.link.incoming(k.x, m)
	}
}

// hasFailed tells whether the answer was an error.
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
	return &wire.Error{Code: wire.CodeInternal, Message: text, Data: fmt.Appendf(nil, `{"server":%s}`, wire.Quote(server))}
}

// linkFor is the connection line that serves an exchange: the session's own one, where the entry asks
// for that.
func (r *Relay) linkFor(x *downstream.Exchange, m *member) *link {
	if m.Options.Isolated && x.Session != nil {
		return stateOf(x.Session).own(r, m, x.Session)
	}
	return m.links[era(x)]
}

// metaPrefix begins the keys of _meta that belong to the transport of 2026-07-28.
var metaPrefix = []byte("io.modelcontextprotocol/")

// outgoing makes a request's params fit the server's era.
func (l *link) outgoing(x *downstream.Exchange, params []byte) []byte {
	switch {
	case x.Modern() && !l.modern:
		return toLegacy(params)
	case !x.Modern() && l.modern:
		meta := wire.Edit(wire.Get(params, "_meta"),
			wire.Change{Key: downstream.MetaVersion, Value: wire.Quote(upstream.Modern)},
			wire.Change{Key: downstream.MetaClientInfo, Value: orEmpty(x.Session.ClientInfo, l.r.identity().ClientInfo)},
			wire.Change{Key: downstream.MetaCapabilities, Value: orEmpty(x.Session.Capabilities, []byte("{}"))})
		return wire.Edit(params, wire.Change{Key: "_meta", Value: meta})
	}
	return params
}

func orEmpty(v, otherwise []byte) []byte {
	if wire.Kind(v) != '{' {
		return otherwise
	}
	return v
}

// toLegacy takes out what only 2026-07-28 has.
func toLegacy(params []byte) []byte {
	changes := []wire.Change{{Key: "requestState"}, {Key: "inputResponses"}}
	if meta := wire.Get(params, "_meta"); bytes.Contains(meta, metaPrefix) {
		var drop []wire.Change
		left := 0
		for key := range wire.Members(meta) {
			if strings.HasPrefix(key, string(metaPrefix)) {
				drop = append(drop, wire.Change{Key: key})
			} else {
				left++
			}
		}
		change := wire.Change{Key: "_meta"}
		if left > 0 {
			change.Value = wire.Edit(meta, drop...)
		}
		changes = append(changes, change)
	}
	return wire.Edit(params, changes...)
}

// cacheable are the methods whose results carry ttlMs and cacheScope in 2026-07-28.
func cacheable(method string) bool { return method == "resources/read" }

// renames tells whether a result may hold URIs to be exchanged.
func (l *link) renames(x *downstream.Exchange, result []byte) bool {
	return l.r.tables[era(x)].Load().mayRename(l.m.Name, x.Msg.Method, result)
}

// incoming makes a response fit the client's era and exchanges URIs that are exposed under others.
func (l *link) incoming(x *downstream.Exchange, m wire.Msg) {
	if m.Err != nil {
		x.FailRaw(l.errorFor(x, m.Err))
		return
	}
	x.Result(l.resultFor(x, m.Result))
}

// errorFor exchanges the code for a resource that is not there, which differs between the eras.
func (l *link) errorFor(x *downstream.Exchange, object []byte) []byte {
	code := string(wire.Get(object, "code"))
	if x.Modern() && !l.modern && code == strconv.Itoa(wire.CodeNotFound) {
		return wire.Edit(object, wire.Change{Key: "code", Value: strconv.AppendInt(nil, wire.CodeInvalidParams, 10)})
	}
	return object
}

func (l *link) resultFor(x *downstream.Exchange, result []byte) []byte {
	if l.renames(x, result) {
		result = l.r.tables[era(x)].Load().exposeLinks(l.m.Name, x.Msg.Method, result)
	}
	if x.Modern() && !l.modern && wire.Kind(result) == '{' {
		var add []wire.Change
		if wire.Get(result, "resultType") == nil {
			add = append(add, wire.Change{Key: "resultType", Value: []byte(`"complete"`)})
		}
		if cacheable(x.Msg.Method) {
			add = append(add, wire.Change{Key: "ttlMs", Value: []byte("0")}, wire.Change{Key: "cacheScope", Value: []byte(`"private"`)})
		}
		result = wire.Edit(result, add...)
	}
	return result
}
