package relay

import (
	"bytes"
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

// call is one request on its way: the sink of what comes back from the server.
type call struct {
	x    *downstream.Exchange
	link *link

	mu    sync.Mutex
	up    upstream.Call
	timer *time.Timer // the entry's call limit, nil for none
	over  bool
}

// forward sends the exchange's request to a server, waits, and writes what comes back.
func (r *Relay) forward(ctx context.Context, x *downstream.Exchange, m *member, params []byte) {
	l := r.linkFor(x, m)
	k := &call{x: x, link: l}
	if err := k.begin(ctx, l.outgoing(x, params)); err != nil {
		x.Fail(serverError(m.Name, err))
		_ = x.Wait(ctx)
		return
	}
	x.OnAbandon(func() { k.cancel(x.CancelParams()) })
	err := x.Wait(ctx)
	switch {
	case err == nil || errors.Is(err, downstream.ErrParked):
	default:
		k.cancel(x.CancelParams())
	}
}

// begin finds a live connection and sends the request. A connection that had ended before anything
// was sent is replaced once.
func (k *call) begin(ctx context.Context, params []byte) error {
	request := upstream.Request{Method: k.x.Msg.Method, Params: params, Token: wire.Get(k.x.Msg.Meta, "progressToken")}
	for try := 0; ; try++ {
		c, err := k.link.server.Conn(ctx)
		if err != nil {
			return err
		}
		up, err := c.Begin(request, k)
		if err == nil {
			k.sent(up)
			return nil
		}
		if !upstream.Retryable(err) || try == 2 {
			return err
		}
		select {
		case <-c.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sent notes the call in flight and begins its limit. The answer may have come already.
func (k *call) sent(up upstream.Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.up = up
	if limit := k.link.m.Options.CallTimeout; limit > 0 && !k.over {
		k.timer = time.AfterFunc(limit, func() { k.expire(limit) })
	}
}

// expire ends a call that has been silent for its whole limit.
func (k *call) expire(limit time.Duration) {
	k.cancel(fmt.Appendf(nil, `{"reason":"no answer and no progress within %s"}`, limit))
	k.x.Fail(&wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q gave no answer and no progress within %s, the limit set by its entry (gateway.callTimeout); the server is alive", k.link.m.Name, limit)})
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

// Progress implements upstream.Sink.
func (k *call) Progress(m wire.Msg) {
	if limit := k.link.m.Options.CallTimeout; limit > 0 {
		k.mu.Lock()
		if k.timer != nil && !k.over {
			k.timer.Reset(limit)
		}
		k.mu.Unlock()
	}
	k.x.Send(m.Raw)
}

// Done implements upstream.Sink.
func (k *call) Done(m wire.Msg, err error) {
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	if err != nil {
		k.x.Fail(serverError(k.link.m.Name, err))
		return
	}
	if k.link.modern == k.x.Modern() && !k.link.remaps(k.x) {
		k.x.Finish(&m)
		return
	}
	k.link.incoming(k.x, &m)
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

// linkFor is the connection line that serves an exchange.
func (r *Relay) linkFor(x *downstream.Exchange, m *member) *link {
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

// remaps tells whether results of the server for this exchange may hold URIs to be exchanged.
func (l *link) remaps(x *downstream.Exchange) bool {
	return l.r.tables[era(x)].Load().remapped[l.m.Name]
}

// incoming makes a response fit the client's era and exchanges URIs that are exposed under others.
func (l *link) incoming(x *downstream.Exchange, m *wire.Msg) {
	if m.Err != nil {
		x.Finish(m)
		return
	}
	result := m.Result
	if l.remaps(x) {
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
	x.Result(result)
}
