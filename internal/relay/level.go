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
	r.each((*link).relevel)
	for _, l := range st.links() {
		l.relevel()
	}
	r.reply(ctx, x, []byte("{}"))
}

// relevel asks a live server for the lowest level that anybody wants, where it is another one than
// before. The request is on its way before this returns, so that it is there before the client's next
// call.
func (l *link) relevel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	level := l.lowest()
	if level == l.level || level == "" {
		return
	}
	l.level = level
	if c := l.server.Live(); c != nil {
		l.sendLevel(c, level)
	}
}

// lowest is the least severe level that is wanted of the server, "" where nobody has asked for one. The
// caller holds mu.
func (l *link) lowest() string {
	low := len(levels)
	if n := rank(l.single); n >= 0 {
		low = n
	}
	wants := func(s *downstream.Session) {
		if n := stateOf(s).rank(); n >= 0 {
			low = min(low, n)
		}
	}
	if l.session != nil {
		wants(l.session)
	} else {
		l.r.down.Sessions(wants)
	}
	if low == len(levels) {
		return ""
	}
	return levels[low]
}

// wantLevel makes a shared server at least as talkative as one request wants, for good: requests of
// 2026-07-28 do not say when they want no more.
func (l *link) wantLevel(level string) {
	n := rank(level)
	l.mu.Lock()
	more := n >= 0 && (l.single == "" || n < rank(l.single))
	if more {
		l.single = level
	}
	l.mu.Unlock()
	if more {
		l.relevel()
	}
}

func (l *link) sendLevel(c upstream.Conn, level string) {
	hello := c.Hello()
	if l.modern.Load() || level == "" || !hello.Can("logging") {
		return
	}
	// A server that ends now is asked again when it is started again.
	_, _ = c.Begin(upstream.Request{Method: "logging/setLevel", Params: wire.Edit(nil, wire.Change{Key: "level", Value: wire.Quote(level)})}, discard{})
}

// discard is the sink of requests whose answers say nothing.
type discard struct{}

func (discard) Progress(wire.Msg)    {}
func (discard) Done(wire.Msg, error) {}
