package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
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

// A client may have left just before it is given something that others would be told the end of.
func TestNothingIsRememberedForASessionThatHasEnded(t *testing.T) {
	r := New(t.Context(), Options{Log: slog.New(slog.DiscardHandler)})
	m := r.newMember(Member{Name: "x", Dial: func(bool, upstream.Handler, upstream.Identity) upstream.Dialer { return nil }})
	l := m.links[legacy]
	for _, ended := range []bool{false, true} {
		s := &downstream.Session{Data: &state{closed: ended}}
		m.remember(s, "attempt")
		l.rememberElicitation(s, []byte(`{"elicitationId":"`+fmt.Sprint(ended)+`"}`))
		if len(m.given) != 1 || len(l.elicited) != 1 {
			t.Errorf("ended %v: %d invitations and %d elicitations", ended, len(m.given), len(l.elicited))
		}
	}
}

func TestEarlyMessagesOfTasksAreBounded(t *testing.T) {
	r := New(t.Context(), Options{Log: slog.New(slog.DiscardHandler)})
	l := r.newMember(Member{Name: "x", Dial: func(bool, upstream.Handler, upstream.Identity) upstream.Dialer { return nil }}).links[legacy]
	for n := range 2 * maxEarly {
		for _, padding := range []string{"", strings.Repeat("x", maxEarlySize)} {
			l.taskStatus(nil, wire.Msg{Params: fmt.Appendf(nil, `{"taskId":"%d","statusMessage":"%s"}`, n, padding)})
		}
	}
	if len(l.early) != maxEarly || len(l.takeEarly(fmt.Sprint(2*maxEarly-1))) != 1 {
		t.Errorf("%d messages are kept, and not the newest of a fitting size", len(l.early))
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
