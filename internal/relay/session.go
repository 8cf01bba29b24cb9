package relay

import (
	"context"
	"sync"

	"mcp-gateway/internal/downstream"
)

// state is what the relay keeps with a session.
type state struct {
	mu       sync.Mutex
	level    string           // the log level asked for, "" for none
	watched  map[watch]string // subscriptions, with the URI that the client knows
	isolated map[string]*link // connections of the session's own, by server
	closed   bool
}

func stateOf(s *downstream.Session) *state { return s.Data.(*state) }

// add notes a subscription; false where it was there, or the session has ended.
func (st *state) add(w watch, uri string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, there := st.watched[w]; there || st.closed {
		return false
	}
	if st.watched == nil {
		st.watched = map[watch]string{}
	}
	st.watched[w] = uri
	return true
}

// drop forgets a subscription; false where there was none.
func (st *state) drop(w watch) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	_, there := st.watched[w]
	delete(st.watched, w)
	return there
}

// watches tells whether the session has subscribed to a resource, and under which URI.
func (st *state) watches(w watch) (uri string, yes bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	uri, yes = st.watched[w]
	return uri, yes
}

// links lists the session's own connections.
func (st *state) links() []*link {
	st.mu.Lock()
	defer st.mu.Unlock()
	var out []*link
	for _, l := range st.isolated {
		out = append(out, l)
	}
	return out
}

// own returns the session's own connection line to a server, and makes it at the first call.
func (st *state) own(r *Relay, m *member, s *downstream.Session) *link {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := st.isolated[m.Name]
	if l == nil {
		l = r.newLink(m, m.links[legacy].modern.Load(), s)
		if st.closed {
			l.server.Refuse() // the session has just ended: the call will see that
		}
		if st.isolated == nil {
			st.isolated = map[string]*link{}
		}
		st.isolated[m.Name] = l
	}
	return l
}

// Closed implements downstream.Handler: what the session had is given back.
func (r *Relay) Closed(s *downstream.Session) {
	st := stateOf(s)
	st.mu.Lock()
	st.closed = true
	watched, own, level := st.watched, st.isolated, st.level
	st.watched, st.isolated = nil, nil
	st.mu.Unlock()
	for w := range watched {
		w.l.unwatch(w.own)
	}
	for _, l := range own {
		end := func() { l.server.Close(context.WithoutCancel(r.ctx)) }
		if !r.tasks.start(end) {
			end()
		}
	}
	r.each(func(l *link) {
		l.forgetSession(s)
		if level != "" {
			l.relevel()
		}
	})
}
