package relay

import (
	"context"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// Notified implements downstream.Handler: what a client says.
func (r *Relay) Notified(ctx context.Context, s *downstream.Session, m wire.Msg) {
	switch m.Method {
	case "notifications/cancelled":
		if s == nil {
			return // in 2026-07-28 a client cancels by closing the stream
		}
		if x := s.Find(wire.Get(m.Params, "requestId")); x != nil {
			x.Cancel(m.Params)
		}
	case "notifications/tasks/status":
		if s != nil {
			r.clientTaskStatus(s, m)
		}
	case "notifications/initialized":
		// The gateway has made its own handshake with each server.
	default:
		r.passOn(s, m)
	}
}

// passOn gives a client's other notifications to the servers that are its own, and to a server that
// is the only one.
func (r *Relay) passOn(s *downstream.Session, m wire.Msg) {
	if s == nil {
		return
	}
	own := stateOf(s).links()
	if only := r.tables[legacy].Load().alone(); only != nil && len(own) == 0 {
		own = []*link{only.member.links[legacy]}
	}
	for _, l := range own {
		if c := l.server.Live(); c != nil && !l.modern.Load() {
			// A server that has just ended need not be told.
			_ = c.Notify(m.Method, m.Params)
		}
	}
}

// announce tells every session, and who listens, that lists have changed.
func (r *Relay) announce(methods ...string) {
	if r.down == nil {
		return
	}
	for _, method := range methods {
		message := wire.Notification(method, nil)
		r.down.Sessions(func(s *downstream.Session) { s.Send(message, true) })
		r.tell(method, "", nil)
	}
}

// Notified implements upstream.Handler: what a server says by itself.
func (l *link) Notified(c upstream.Conn, m wire.Msg) {
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		l.reload(upstream.Whole(c), m.Method)
	case "notifications/resources/updated":
		l.updated(m)
	case "notifications/message":
		l.deliver(c, m, rank(levelOf(m)))
	case "notifications/cancelled":
		l.withdraw(upstream.Whole(c), m)
	case "notifications/elicitation/complete":
		l.elicitationComplete(upstream.Whole(c), m)
	case "notifications/tasks/status":
		l.taskStatus(c, m)
	case "notifications/tasks":
		l.taskChanged(m)
	case "notifications/subscriptions/acknowledged":
	default:
		l.once(m.Method)
		l.deliver(c, m, rankAll)
	}
}

// maxUnknown bounds how many unknown kinds of notifications of one server are logged.
const maxUnknown = 20

// once logs the first notification of a kind that is not known.
func (l *link) once(method string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unknown[method] || len(l.unknown) >= maxUnknown {
		return
	}
	if l.unknown == nil {
		l.unknown = map[string]bool{}
	}
	l.unknown[method] = true
	l.r.o.Log.Info("notification of an unknown kind is passed on", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, method)
}

// deliver brings a server's notification to those whom it concerns: the one client whose calls are in
// flight, else every session, as far as the log level that each has asked for lets it.
func (l *link) deliver(c upstream.Conn, m wire.Msg, severity int) {
	if l.session != nil {
		l.toSession(c, l.session, m, severity)
		return
	}
	if t, m := l.ofTask(m); t != nil {
		if s := t.session(); s != nil {
			l.toSession(c, s, m, severity)
		}
		return
	}
	calls := live(callsOf(c))
	if owner, one := onlyOwner(calls); one {
		if s, ok := owner.(*downstream.Session); ok {
			l.toSession(c, s, m, severity)
			return
		}
		if x := latest(calls, owner); x != nil && wanted(x, severity) {
			x.Send(m.Raw)
		}
		return
	}
	l.r.down.Sessions(func(s *downstream.Session) {
		if severity >= stateOf(s).rank() {
			s.Send(m.Raw, false)
		}
	})
}

// toSession sends on the session's latest call in flight here, else on its own stream.
func (l *link) toSession(c upstream.Conn, s *downstream.Session, m wire.Msg, severity int) {
	if severity < stateOf(s).rank() {
		return
	}
	if x := latest(live(callsOf(c)), s); x != nil && x.Send(m.Raw) {
		return
	}
	s.Send(m.Raw, false)
}
