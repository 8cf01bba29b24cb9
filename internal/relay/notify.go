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
	case "notifications/initialized":
		// The gateway has made its own handshake with each server.
	}
}

// Closed implements downstream.Handler.
func (r *Relay) Closed(s *downstream.Session) {}

// announce tells every session that lists have changed.
func (r *Relay) announce(methods ...string) {
	if r.down == nil {
		return
	}
	for _, method := range methods {
		message := wire.Notification(method, nil)
		r.down.Sessions(func(s *downstream.Session) { s.Send(message, true) })
		r.tell(method, nil)
	}
}

// Notified implements upstream.Handler: what a server says by itself.
func (l *link) Notified(c upstream.Conn, m wire.Msg) {
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		l.reload(m.Method)
	default:
		l.r.o.Log.Debug("notification of a server not passed on", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, m.Method)
	}
}

// Asked implements upstream.Handler: what a server wants of a client.
func (l *link) Asked(c upstream.Conn, m wire.Msg) {
	_ = c.Answer(wire.ErrorReply(m.ID, (&wire.Error{Code: wire.CodeMethodNotFound, Message: "not yet"}).Object()))
}

// lost notes that the server's connection has ended.
func (l *link) lost(c upstream.Conn) {}

// restore asks a server that was started again for what it had been asked for.
func (l *link) restore(c upstream.Conn) {}

type listener struct{}

func (r *Relay) tell(method string, params []byte) {}

func (r *Relay) readResource(ctx context.Context, x *downstream.Exchange, t *table) {
	r.notFound(ctx, x)
}
func (r *Relay) subscribe(ctx context.Context, x *downstream.Exchange, t *table) { r.notFound(ctx, x) }
func (r *Relay) complete(ctx context.Context, x *downstream.Exchange, t *table)  { r.notFound(ctx, x) }
func (r *Relay) setLevel(ctx context.Context, x *downstream.Exchange)            { r.notFound(ctx, x) }
func (r *Relay) listen(ctx context.Context, x *downstream.Exchange, t *table)    { r.notFound(ctx, x) }
func (t *table) exposeLinks(server, method string, result []byte) []byte         { return result }
