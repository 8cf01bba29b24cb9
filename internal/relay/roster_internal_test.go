package relay

import (
	"errors"
	"log/slog"
	"testing"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
)

// A call may have found its server just before that is removed, and its session's connection after: then
// nothing may be started for it any more, since nobody would end it.
func TestSessionMakesNoConnectionToARemovedServer(t *testing.T) {
	r := New(t.Context(), Options{Log: slog.New(slog.DiscardHandler)})
	m := r.newMember(Member{Name: "x", Dial: func(bool, upstream.Handler, upstream.Identity) upstream.Dialer { return nil }})
	removed := errors.New("removed")
	m.left.Store(&removed)
	st := &state{}
	l := st.own(r, m, &downstream.Session{})
	if _, err := l.server.Conn(t.Context()); err != removed {
		t.Errorf("error %v", err)
	}
	if st.ownOf(m) != nil {
		t.Error("the session keeps it")
	}
}

func TestSessionForgetsARemovedServer(t *testing.T) {
	r := New(t.Context(), Options{Log: slog.New(slog.DiscardHandler)})
	dial := func(bool, upstream.Handler, upstream.Identity) upstream.Dialer { return nil }
	x, y := r.newMember(Member{Name: "x", Dial: dial}), r.newMember(Member{Name: "y", Dial: dial})
	st := &state{}
	own := st.own(r, x, &downstream.Session{})
	kept := watch{y.links[legacy], "u"}
	for _, w := range []watch{{x.links[legacy], "u"}, {own, "u"}, kept} {
		st.add(w, "u")
	}
	if l := st.forget(x); l != own || st.ownOf(x) != nil {
		t.Errorf("its own connection is %p, not %p", l, own)
	}
	if _, there := st.watched[kept]; len(st.watched) != 1 || !there {
		t.Errorf("%d subscriptions are left", len(st.watched))
	}
}
