package relay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// subscribe counts who wants to know of a resource; a server is asked when the first one comes and
// told when the last one leaves.
func (r *Relay) subscribe(ctx context.Context, x *downstream.Exchange, t *table) {
	uri, ok := wire.String(x.Msg.URI)
	if !ok || x.Session == nil {
		r.fail(ctx, x, wire.CodeInvalidParams, `%s needs params with a string "uri"`, x.Msg.Method)
		return
	}
	server, own, known := t.resource(uri)
	m := t.only("resources")
	switch {
	case known:
		m = t.members[server]
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
	if !st.add(w, uri) || l.count(own, 1) > 1 {
		r.reply(ctx, x, []byte("{}"))
		return
	}
	if l.modern.Load() {
		l.mu.Lock()
		if c := l.server.Live(); c != nil {
			l.watchOn(c, own)
		}
		l.mu.Unlock()
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
	return l.countLocked(own, n)
}

func (l *link) countLocked(own string, n int) int {
	l.watched[own] += n
	left := l.watched[own]
	if left <= 0 {
		delete(l.watched, own)
	}
	return left
}

// watch counts one subscription more and asks the server when it is the first.
func (l *link) watch(own string) {
	if l.count(own, 1) > 1 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.server.Live(); c != nil {
		l.watchOn(c, own)
	}
}

// watchOn asks a connection to tell of a resource. The caller holds mu. A server that ends now is asked
// again when it is started again.
func (l *link) watchOn(c upstream.Conn, own string) {
	if id, is := strings.CutPrefix(own, taskWatch); is {
		l.openListen(c, own, fmt.Appendf(nil, `{"taskIds":[%s]}`, wire.Quote(id)))
		return
	}
	if l.modern.Load() {
		l.openListen(c, own, fmt.Appendf(nil, `{"resourceSubscriptions":[%s]}`, wire.Quote(own)))
		return
	}
	_, _ = c.Begin(upstream.Request{Method: "resources/subscribe", Params: uriParams(own)}, discard{})
}

// unwatch takes one subscription away and tells the server when it was the last. Counting and telling
// are one step, so that the order in which clients come and go is the server's too.
func (l *link) unwatch(own string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.countLocked(own, -1) > 0 {
		return
	}
	if up := l.listens[own]; up != nil {
		delete(l.listens, own)
		up.Cancel(nil)
	}
	if c := l.server.Live(); c != nil && !l.modern.Load() {
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
		left := wire.Edit(meta, wire.Change{Key: downstream.MetaSubscriptionID})
		if isEmpty(left) {
			left = nil
		}
		params = wire.Edit(params, wire.Change{Key: "_meta", Value: left})
	}
	return wire.Edit(params, wire.Change{Key: "uri", Value: wire.Quote(uri)})
}

// openListen sends subscriptions/listen; key is the resource, "" for the lists. The caller holds mu.
func (l *link) openListen(c upstream.Conn, key string, notifications []byte) {
	l.listenAgain(&listening{l: l, c: c, key: key, notifications: notifications})
}

// listenAgain is openListen for a stream that may have been open before. The caller holds mu.
func (l *link) listenAgain(s *listening) {
	params := fmt.Appendf(nil, `{"notifications":%s,"_meta":%s}`, s.notifications, upstream.ModernMeta(l.identity()))
	s.began = time.Now()
	up, err := s.c.Begin(upstream.Request{Method: "subscriptions/listen", Params: params}, s)
	if err != nil {
		return // it has just ended
	}
	s.Call = up
	if l.listens == nil {
		l.listens = map[string]*listening{}
	}
	l.listens[s.key] = s
}

// listening is a subscriptions/listen towards a server, and the sink of its end.
type listening struct {
	discard
	upstream.Call
	l             *link
	c             upstream.Conn
	key           string
	notifications []byte
	began         time.Time
	short         int // streams in a row that ended soon
}

const (
	longListen    = time.Minute // a stream this long was a good one
	firstRelisten = time.Second
)

// Done implements upstream.Sink: a stream that ends, while its server does not, is opened again. A server
// that refuses it has none.
func (s *listening) Done(m wire.Msg, err error) {
	if m.Err == nil {
		s.l.r.background.start(s.reopen)
	}
}

func (s *listening) reopen() {
	if time.Since(s.began) > longListen {
		s.short = 0
	}
	wait := min(firstRelisten<<min(s.short, 10), longListen)
	s.short++
	select {
	case <-time.After(wait):
	case <-s.c.Done():
		return // the next connection has its own
	case <-s.l.r.ctx.Done():
		return
	}
	s.l.mu.Lock()
	still := s.l.listens[s.key] == s
	if still {
		s.l.listenAgain(s)
	}
	s.l.mu.Unlock()
	if still && s.key == "" {
		for _, f := range features[:3] { // what changed meanwhile, nobody has told
			s.l.reload(s.c, f.changed)
		}
	}
}

// attend opens what a fresh connection has to tell of by itself: changes of lists, and what clients
// have subscribed to and asked for already.
func (l *link) attend(c upstream.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listens = nil
	if l.level = l.lowest(); l.level != "" {
		l.sendLevel(c, l.level)
	}
	if l.modern.Load() {
		l.openListen(c, "", []byte(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`))
	}
	for own := range l.watched {
		l.watchOn(c, own)
	}
}
