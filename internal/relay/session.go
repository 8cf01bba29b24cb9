package relay

import (
	"context"
	"sync"

	"mcp-gateway/internal/downstream"
)

// state is what the relay keeps with a session.
type state struct {
	mu       sync.Mutex
	level    string            // the log level asked for, "" for none
	watched  map[watch]string  // subscriptions, with the URI that the client knows
	isolated map[*member]*link // connections of the session's own
	closed   bool
}

func stateOf(s *downstream.Session) *state { return s.Data.(*state) }

// ended tells whether the session has ended, so that nothing is to be remembered for it.
func (st *state) ended() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.closed
}

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
	l := st.isolated[m]
	if l != nil {
		return l
	}
	l = r.newLink(m, m.links[legacy].modern.Load(), s)
	if gone := m.gone(); st.closed || gone != nil { // just now: the call will see that
		l.server.Refuse(gone)
		return l
	}
	if st.isolated == nil {
		st.isolated = map[*member]*link{}
	}
	st.isolated[m] = l
	return l
}

// ownOf returns the session's own connection line to a server, nil where there is none.
func (st *state) ownOf(m *member) *link {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.isolated[m]
}

// forget drops what the session has of a server that has left, and returns its own connection line, nil
// where there is none.
func (st *state) forget(m *member) *link {
	st.mu.Lock()
	defer st.mu.Unlock()
	for w := range st.watched {
		if w.l.m == m {
			delete(st.watched, w)
		}
	}
	l := st.isolated[m]
	delete(st.isolated, m)
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
		end := func() { l.server.Close(context.WithoutCancel(r.ctx), nil) }
		if !r.background.start(end) {
			end()
		}
	}
	r.book.forget(s)
	for _, m := range r.roster.Load().members {
		m.invitations.forgetSession(s)
	}
	r.each(func(l *link) {
		l.forgetSession(s)
		if level != "" {
			l.relevel()
		}
	})
}
