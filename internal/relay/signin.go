package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// A remote server may take requests only after a user has signed in to it. Who calls it before is given the
// address to show to the user, in the form that the client understands best; while nothing is known of the
// server, one tool of the gateway's own stands for it.

// StateSignInRequired is the state of a server that takes nothing before a user has signed in to it.
const StateSignInRequired = "sign_in_required"

// SignIn returns the sign-in to a server that waits for a user: the one that is pending, or a new one.
type SignIn func(ctx context.Context) (Invitation, error)

// Invitation is a sign-in that waits for a user.
type Invitation struct {
	ID  string // of the attempt
	URL string // for the user's browser, and for no log
}

// signInLimit bounds how long it takes until there is a URL to show, which may have to be found out by
// asking the authorization server.
const signInLimit = 30 * time.Second

// invite asks for an invitation to a member's server.
func (m *member) invite(ctx context.Context) (*invited, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, signInLimit, fmt.Errorf("the limit of %s has passed", signInLimit))
	defer cancel()
	i, err := m.SignIn(ctx)
	if err != nil {
		return nil, fmt.Errorf("server %q takes requests only after a sign-in, which cannot be begun: %w", m.Name, err)
	}
	return &invited{m, i}, nil
}

// invited is the error of a call whose client is given an invitation.
type invited struct {
	m *member
	Invitation
}

// Error names the server, and not the URL.
func (i *invited) Error() string {
	return fmt.Sprintf("server %q takes requests only after a user has signed in to it", i.m.Name)
}

// awaitsSignIn tells an error that a sign-in mends, and notes it.
func (m *member) awaitsSignIn(err error) bool {
	var required *upstream.SignInRequiredError
	if m.SignIn == nil || !errors.As(err, &required) {
		return false
	}
	m.unsigned.Store(true)
	return true
}

// invite gives the call's client an invitation; it is false where something else is the matter. Getting it
// may take a while, so the caller goes on.
func (k *call) invite(err error) bool {
	if err == nil || !k.link.m.awaitsSignIn(err) {
		return false
	}
	ctx, cancel := context.WithCancel(k.link.r.ctx)
	k.mu.Lock()
	k.land()
	k.giveUp = cancel
	over := k.over
	k.mu.Unlock()
	started := !over && k.link.r.background.start(func() {
		defer cancel()
		i, err := k.link.m.invite(ctx)
		if err != nil {
			k.Done(wire.Msg{}, err)
			return
		}
		k.Done(wire.Msg{}, i)
	})
	if !started {
		cancel()
		k.Done(wire.Msg{}, errStopping)
	}
	return true
}

// signInState is the requestState of a client of 2026-07-28 that was given an invitation: its next request
// is a new one. signInKey is what it answers.
const (
	signInState = "mcp-gateway-sign-in"
	signInKey   = "sign-in"
)

// answer gives the invitation to the client of an exchange.
func (i *invited) answer(x *downstream.Exchange) {
	tool := x.Msg.Method == "tools/call"
	switch {
	case x.Modern() && holdable(x.Msg.Method) && opensURLs(wire.Get(x.Msg.Meta, downstream.MetaCapabilities)):
		x.Result(fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":{%q:{"method":"elicitation/create","params":%s}},"requestState":%q}`,
			signInKey, i.elicitation(), signInState))
	case !x.Modern() && x.Version >= downstream.V20251125 && opensURLs(x.Session.Capabilities):
		i.m.remember(x.Session, i.ID)
		x.Fail(&wire.Error{Code: wire.CodeURLElicitation, Message: i.Error(), Data: fmt.Appendf(nil, `{"elicitations":[%s]}`, i.elicitation())})
	case tool:
		x.Result(toolError(x, i.text()))
	default:
		x.Fail(&wire.Error{Code: wire.CodeInternal, Message: i.text(), Data: serverData(i.m.Name)})
	}
}

// opensURLs tells whether a client with these capabilities can show a URL to its user.
func opensURLs(capabilities []byte) bool {
	return wire.Get(wire.Get(capabilities, "elicitation"), "url") != nil
}

func (i *invited) elicitation() []byte {
	return fmt.Appendf(nil, `{"mode":"url","elicitationId":%s,"url":%s,"message":%s}`, wire.Quote(i.ID), wire.Quote(i.URL), wire.Quote(i.Error()))
}

func (i *invited) text() string {
	return i.Error() + ". Show this address to the user, and try again once the sign-in is complete: " + i.URL
}

// toolError is the result of a tool that says what went wrong.
func toolError(x *downstream.Exchange, text string) []byte {
	return completed(x, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"isError":true}`, wire.Quote(text)))
}

// invitationAnswered takes the request of a client of 2026-07-28 that comes back from an invitation: it is
// served as a new one, unless the user did not want to. It is true where the request is answered.
func (r *Relay) invitationAnswered(ctx context.Context, x *downstream.Exchange) bool {
	response := wire.Get(wire.Get(x.Msg.Params, "inputResponses"), signInKey)
	action, _ := wire.GetString(response, "action")
	if action == "accept" {
		x.Msg.Params = wire.Edit(x.Msg.Params, wire.Change{Key: "inputResponses"}, wire.Change{Key: "requestState"})
		return false
	}
	const text = "the user did not agree to sign in"
	if x.Msg.Method != "tools/call" {
		r.fail(ctx, x, wire.CodeInternal, text)
		return true
	}
	r.reply(ctx, x, toolError(x, text))
	return true
}

// invitations are the sessions that were given some, to be told of their end.
type invitations struct {
	mu    sync.Mutex
	given map[*downstream.Session][]string // ids of attempts, the oldest first
}

// maxInvitations bounds what is remembered for one session.
const maxInvitations = 8

func (n *invitations) remember(s *downstream.Session, id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := n.given[s]
	if slices.Contains(ids, id) || stateOf(s).ended() {
		return
	}
	if n.given == nil {
		n.given = map[*downstream.Session][]string{}
	}
	n.given[s] = append(ids[max(0, len(ids)+1-maxInvitations):], id)
}

func (n *invitations) forgetSession(s *downstream.Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.given, s)
}

// complete tells the sessions that what they were given is done.
func (n *invitations) complete() {
	n.mu.Lock()
	given := n.given
	n.given = nil
	n.mu.Unlock()
	for s, ids := range given {
		for _, id := range ids {
			s.Send(wire.Notification("notifications/elicitation/complete", fmt.Appendf(nil, `{"elicitationId":%s}`, wire.Quote(id))), true)
		}
	}
}

// SignedIn tells that a user has signed in to a server. It is connected, where it is not, and its lists are
// read; then the clients that were given an invitation are told of its end. Calls in flight go on.
func (r *Relay) SignedIn(ctx context.Context, name string) *fault.Fault {
	m := r.roster.Load().members[name]
	if m == nil {
		return absent(name)
	}
	m.unsigned.Store(false)
	f := r.onAll(m, func(l *link) error {
		live := l.server.Live()
		err := l.server.Retry(ctx)
		if err != nil && m.awaitsSignIn(err) { // it may have been tried just before
			err = l.server.Retry(ctx)
		}
		if live != nil && err == nil && l.session == nil {
			for _, f := range features[:3] { // a user may be shown more
				l.reload(live, f.changed)
			}
		}
		return err
	})
	m.complete()
	return f
}

// authorizing is the end of the name of a tool that stands for a server.
const authorizing = "-authorize"

// AuthorizeTool names the tool that stands for a server.
func AuthorizeTool(server string) string {
	name := clean(server) + authorizing
	if clean(server) != server || len(name) > maxName {
		return shorten(name, origin{server, authorizing}, "")
	}
	return name
}

// listAuthorizing adds the tools that stand for servers of which nothing is known before a sign-in.
func (now *roster) listAuthorizing(l *listing) {
	for _, server := range now.names {
		m := now.members[server]
		if m.SignIn == nil || !m.routed.Load() || m.links[legacy].listing.Load() != nil {
			continue
		}
		name := AuthorizeTool(server)
		description := fmt.Sprintf("Signs in to the server %q, which takes requests only after that. The answer has the address to show to the user. The server's own tools are listed once the sign-in is complete.", server)
		l.tools = append(l.tools, fmt.Appendf(nil, `{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":{}}}`, wire.Quote(name), wire.Quote(description)))
		l.own[name] = m.authorize
	}
}

// authorize answers a call of the tool that stands for a server.
func (m *member) authorize(ctx context.Context, x *downstream.Exchange) {
	r := m.links[legacy].r
	r.aside(ctx, x, func(ctx context.Context) {
		i, err := m.invite(ctx)
		if err != nil {
			r.o.Log.Warn("sign-in not begun", telemetry.KeyServer, m.Name, telemetry.KeyError, err)
			x.Result(toolError(x, err.Error()))
			return
		}
		i.answer(x)
	})
}

// authorized answers a call of such a tool after the sign-in; false where the name is none of these.
func (r *Relay) authorized(ctx context.Context, x *downstream.Exchange, name string) bool {
	now := r.roster.Load()
	for _, server := range now.names {
		if now.members[server].SignIn != nil && name == AuthorizeTool(server) {
			text := fmt.Sprintf("A user has signed in to the server %q, and its tools are listed.", server)
			r.reply(ctx, x, completed(x, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, wire.Quote(text))))
			return true
		}
	}
	return false
}
