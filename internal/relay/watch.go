package relay

import (
	"context"
	"errors"
	"fmt"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// readResource brings a read to the server that the URI belongs to. One that nobody lists and no
// template covers is tried at each server with resources, in order of their names.
func (r *Relay) readResource(ctx context.Context, x *downstream.Exchange, t *table) {
	uri, ok := wire.String(x.Msg.URI)
	if !ok {
		r.fail(ctx, x, wire.CodeInvalidParams, `resources/read needs params with a string "uri"`)
		return
	}
	server, own, known := t.resource(uri)
	if !known {
		r.tryAll(ctx, x, uri)
		return
	}
	params := x.Msg.Params
	if own != uri {
		params = wire.Edit(params, wire.Change{Key: "uri", Value: wire.Quote(own)})
	}
	r.forward(ctx, x, r.members[server], params)
}

// tryAll asks each server with resources for a URI until one has it; the last one's error is the
// answer.
func (r *Relay) tryAll(ctx context.Context, x *downstream.Exchange, uri string) {
	var with []*member
	for _, name := range r.names {
		l := r.members[name].links[era(x)].listing.Load()
		if l != nil && wire.Kind(wire.Get(l.capabilities, "resources")) == '{' {
			with = append(with, r.members[name])
		}
	}
	if len(with) == 0 {
		r.fail(ctx, x, notFoundCode(x), "resource %.200q not found: no server has resources", uri)
		return
	}
	var refusal []byte
	for _, m := range with {
		l := r.linkFor(x, m)
		c, err := l.server.Conn(ctx)
		if err != nil {
			refusal = serverError(m.Name, err).Object()
			continue
		}
		result, err := upstream.Ask(ctx, c, x.Msg.Method, l.outgoing(x, x.Msg.Params))
		if err == nil {
			r.reply(ctx, x, l.resultFor(x, result))
			return
		}
		var own *upstream.ResponseError
		if refusal = serverError(m.Name, err).Object(); errors.As(err, &own) {
			refusal = l.errorFor(x, own.Object)
		}
	}
	x.FailRaw(refusal)
	_ = x.Wait(ctx) // there is nothing to cancel
}

// notFoundCode is the code for a resource that is not there: 2026-07-28 has given up -32002.
func notFoundCode(x *downstream.Exchange) int {
	if x.Modern() {
		return wire.CodeInvalidParams
	}
	return wire.CodeNotFound
}

// complete brings a completion to the server of the prompt or resource that it is about.
func (r *Relay) complete(ctx context.Context, x *downstream.Exchange, t *table) {
	ref := wire.Get(x.Msg.Params, "ref")
	kind, _ := wire.GetString(ref, "type")
	switch kind {
	case "ref/prompt":
		name, _ := wire.GetString(ref, "name")
		if route := t.prompts[name]; route != nil {
			r.forward(ctx, x, r.members[route.server], editRef(x, ref, "name", route.name, name))
			return
		}
	case "ref/resource":
		uri, _ := wire.GetString(ref, "uri")
		for _, route := range t.templates {
			if route.exposed == uri {
				r.forward(ctx, x, r.members[route.server], editRef(x, ref, "uri", route.name, uri))
				return
			}
		}
		if server, own, known := t.resource(uri); known {
			r.forward(ctx, x, r.members[server], editRef(x, ref, "uri", own, uri))
			return
		}
	}
	if m := r.only(era(x), "completions"); m != nil {
		r.forward(ctx, x, m, x.Msg.Params) // its own error says it best
		return
	}
	if !r.capable(era(x), "completions") {
		r.notFound(ctx, x)
		return
	}
	r.fail(ctx, x, wire.CodeInvalidParams, "completion/complete: no prompt or resource fits the reference %.200s", ref)
}

func editRef(x *downstream.Exchange, ref []byte, key, own, exposed string) []byte {
	if own == exposed {
		return x.Msg.Params
	}
	return wire.Edit(x.Msg.Params, wire.Change{Key: "ref", Value: wire.Edit(ref, wire.Change{Key: key, Value: wire.Quote(own)})})
}

// subscribe counts who wants to know of a resource; a server is asked when the first one comes and
// told when the last one leaves.
func (r *Relay) subscribe(ctx context.Context, x *downstream.Exchange, t *table) {
	uri, ok := wire.String(x.Msg.URI)
	if !ok || x.Session == nil {
		r.fail(ctx, x, wire.CodeInvalidParams, `%s needs params with a string "uri"`, x.Msg.Method)
		return
	}
	server, own, known := t.resource(uri)
	m := r.only(era(x), "resources")
	switch {
	case known:
		m = r.members[server]
	case m == nil:
		r.fail(ctx, x, notFoundCode(x), "resource %.200q not found", uri)
		return
	}
	l := r.linkFor(x, m)
	st := stateOf(x.Session)
	w := watch{l, own}
	if x.Msg.Method == "resources/unsubscribe" {
		if st.drop(w) {
			l.unwatch(own)
		}
		r.reply(ctx, x, []byte("{}"))
		return
	}
	if !st.add(w, uri) {
		r.reply(ctx, x, []byte("{}"))
		return
	}
	if first := l.count(own, 1) == 1; !first {
		r.reply(ctx, x, []byte("{}"))
		return
	}
	if l.modern {
		l.listenTo(own)
		r.reply(ctx, x, []byte("{}"))
		return
	}
	params := x.Msg.Params
	if own != uri {
		params = wire.Edit(params, wire.Change{Key: "uri", Value: wire.Quote(own)})
	}
	if k := r.send(ctx, x, m, params); k.hasFailed() && st.drop(w) {
		l.count(own, -1)
	}
}

// watch is a subscription: a resource of a server by its own URI.
type watch struct {
	l   *link
	own string
}

// count adds to the subscriptions of a resource and returns how many there are.
func (l *link) count(own string, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched[own] += n
	left := l.watched[own]
	if left <= 0 {
		delete(l.watched, own)
	}
	return left
}

// unwatch takes one subscription away and tells the server when it was the last.
func (l *link) unwatch(own string) {
	if l.count(own, -1) > 0 {
		return
	}
	if l.modern {
		l.listenNoMore(own)
		return
	}
	if c := l.server.Live(); c != nil {
		// A server that ends now has no subscriptions.
		_, _ = c.Begin(upstream.Request{Method: "resources/unsubscribe", Params: uriParams(own)}, discard{})
	}
}

func uriParams(uri string) []byte {
	return wire.Edit(nil, wire.Change{Key: "uri", Value: wire.Quote(uri)})
}

// updated tells those who have subscribed that a resource has changed, under the URI that they know.
func (l *link) updated(m wire.Msg) {
	own, _ := wire.GetString(m.Params, "uri")
	w := watch{l, own}
	l.r.down.Sessions(func(s *downstream.Session) {
		uri, yes := stateOf(s).watches(w)
		if !yes {
			return
		}
		message := m.Raw
		if params := plainParams(m.Params, own, uri); params != nil {
			message = wire.Notification(m.Method, params)
		}
		s.Send(message, false)
	})
	exposed := l.r.tables[modern].Load().exposedURI(l.m.Name, own)
	l.r.tell(m.Method, exposed, plainParams(m.Params, "", exposed))
}

// plainParams exchanges the URI and takes away the subscription's id of 2026-07-28; nil where nothing
// needs to be changed.
func plainParams(params []byte, own, uri string) []byte {
	meta := wire.Get(params, "_meta")
	tagged := wire.Get(meta, downstream.MetaSubscriptionID) != nil
	if own == uri && !tagged {
		return nil
	}
	if tagged {
		params = wire.Edit(params, wire.Change{Key: "_meta", Value: wire.Edit(meta, wire.Change{Key: downstream.MetaSubscriptionID})})
	}
	return wire.Edit(params, wire.Change{Key: "uri", Value: wire.Quote(uri)})
}

// listenTo opens a stream of 2026-07-28 for one resource.
func (l *link) listenTo(own string) {
	c := l.server.Live()
	if c == nil {
		return // opened when it is started again
	}
	l.openListen(c, own, fmt.Appendf(nil, `{"resourceSubscriptions":[%s]}`, wire.Quote(own)))
}

// openListen sends subscriptions/listen; key is the resource, "" for the lists.
func (l *link) openListen(c upstream.Conn, key string, notifications []byte) {
	params := fmt.Appendf(nil, `{"notifications":%s,"_meta":%s}`, notifications, upstream.ModernMeta(l.r.identity()))
	up, err := c.Begin(upstream.Request{Method: "subscriptions/listen", Params: params}, discard{})
	if err != nil {
		return // it has just ended
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listens == nil {
		l.listens = map[string]upstream.Call{}
	}
	l.listens[key] = up
}

func (l *link) listenNoMore(own string) {
	l.mu.Lock()
	up := l.listens[own]
	delete(l.listens, own)
	l.mu.Unlock()
	if up != nil {
		up.Cancel(nil)
	}
}

// attend opens what a fresh connection has to tell of by itself: changes of lists, and what clients
// have subscribed to and asked for already.
func (l *link) attend(c upstream.Conn) {
	l.mu.Lock()
	level := l.level
	l.listens, l.asks = nil, nil
	var watched []string
	for own := range l.watched {
		watched = append(watched, own)
	}
	l.mu.Unlock()
	l.sendLevel(c, level)
	if l.modern {
		l.openListen(c, "", []byte(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`))
	}
	for _, own := range watched {
		if l.modern {
			l.openListen(c, own, fmt.Appendf(nil, `{"resourceSubscriptions":[%s]}`, wire.Quote(own)))
			continue
		}
		l.subscribeOn(c, own)
	}
}

// subscribeTo subscribes at an older server; one that does not run is asked when it does.
func (l *link) subscribeTo(own string) {
	if c := l.server.Live(); c != nil {
		l.subscribeOn(c, own)
	}
}

func (l *link) subscribeOn(c upstream.Conn, own string) {
	// A server that ends now is asked again when it is started again.
	_, _ = c.Begin(upstream.Request{Method: "resources/subscribe", Params: uriParams(own)}, discard{})
}
