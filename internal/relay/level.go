package relay

import (
	"context"
	"slices"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// levels are the severities of RFC 5424 that MCP uses, the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// rankAll is the severity of what no log level holds back.
const rankAll = 100

func rank(level string) int { return slices.Index(levels, level) }

func levelOf(m wire.Msg) string {
	level, _ := wire.GetString(m.Params, "level")
	return level
}

// rank is the least severity that the session wants: everything, until it has set a level.
func (st *state) rank() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return rank(st.level)
}

// wanted tells whether a request of 2026-07-28, which names its own level, wants the message.
func wanted(x *downstream.Exchange, severity int) bool {
	level, ok := wire.GetString(x.Msg.Meta, downstream.MetaLogLevel)
	return severity == rankAll || ok && severity >= rank(level)
}

// setLevel notes a session's level and asks the servers for the lowest one that anybody wants.
func (r *Relay) setLevel(ctx context.Context, x *downstream.Exchange) {
	level, _ := wire.GetString(x.Msg.Params, "level")
	if rank(level) < 0 {
		r.fail(ctx, x, wire.CodeInvalidParams, "log level %.80s is none of %v", wire.Get(x.Msg.Params, "level"), levels)
		return
	}
	if x.Session == nil || !r.capable(era(x), "logging") {
		r.notFound(ctx, x)
		return
	}
	st := stateOf(x.Session)
	st.mu.Lock()
	st.level = level
	st.mu.Unlock()
	lowest := r.lowest()
	r.each(func(l *link) { l.askLevel(lowest) })
	for _, l := range st.links() {
		l.askLevel(level)
	}
	r.reply(ctx, x, []byte("{}"))
}

// lowest is the least severe level that a session has asked for, "" where none has.
func (r *Relay) lowest() string {
	low := len(levels)
	r.down.Sessions(func(s *downstream.Session) {
		if n := stateOf(s).rank(); n >= 0 {
			low = min(low, n)
		}
	})
	if low == len(levels) {
		return ""
	}
	return levels[low]
}

// askLevel asks a live server for a level, where it is another one than before. The request is on its
// way before this returns, so that it is there before the client's next call.
func (l *link) askLevel(level string) {
	l.mu.Lock()
	same := l.level == level || level == ""
	if !same {
		l.level = level
	}
	l.mu.Unlock()
	if c := l.server.Live(); c != nil && !same {
		l.sendLevel(c, level)
	}
}

// wantLevel makes a shared server at least as talkative as one request wants.
func (l *link) wantLevel(level string) {
	l.mu.Lock()
	now := l.level
	l.mu.Unlock()
	if n := rank(level); n >= 0 && (now == "" || n < rank(now)) {
		l.askLevel(level)
	}
}

func (l *link) sendLevel(c upstream.Conn, level string) {
	hello := c.Hello()
	if l.modern || level == "" || !hello.Can("logging") {
		return
	}
	// A server that ends now is asked again when it is started again.
	_, _ = c.Begin(upstream.Request{Method: "logging/setLevel", Params: wire.Edit(nil, wire.Change{Key: "level", Value: wire.Quote(level)})}, discard{})
}

// discard is the sink of requests whose answers say nothing.
type discard struct{}

func (discard) Progress(wire.Msg)    {}
func (discard) Done(wire.Msg, error) {}
