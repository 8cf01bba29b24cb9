package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/upstream"
)

// Member describes one server to relay for.
type Member struct {
	Name    string
	Options catalog.Options
	Remote  bool // it is reached by its URL, and says itself which revision it speaks
	// SignIn begins a sign-in to a remote server; nil where there is none.
	SignIn SignIn
	// Dial makes the dialer for connections to it: of 2026-07-28 where modern is set, if it is a process.
	Dial func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer
}

// member is one server: a link for each era of clients, which is the same one unless the entry asks
// for both.
type member struct {
	Member
	links  [2]*link
	routed atomic.Bool           // it is in use, so that clients are shown what it has
	left   atomic.Pointer[error] // why it is no member any more, nil while it is one

	unsigned atomic.Bool // it wanted a sign-in last
	invitations
}

// each calls f for the links that all clients share, once for each.
func (m *member) each(f func(*link)) {
	f(m.links[legacy])
	if m.links[modern] != m.links[legacy] {
		f(m.links[modern])
	}
}

// gone says why the member has left, nil while it has not.
func (m *member) gone() error {
	if reason := m.left.Load(); reason != nil {
		return *reason
	}
	return nil
}

// roster is the servers at one time: made whole, published, never changed.
type roster struct {
	members map[string]*member
	names   []string // sorted
}

func newRoster(members map[string]*member) *roster {
	return &roster{members, slices.Sorted(maps.Keys(members))}
}

// with is the roster and one member more.
func (r *roster) with(m *member) *roster {
	members := map[string]*member{m.Name: m}
	maps.Copy(members, r.members)
	return newRoster(members)
}

// without is the roster and one member less.
func (r *roster) without(m *member) *roster {
	members := maps.Clone(r.members)
	delete(members, m.Name)
	return newRoster(members)
}

// each calls f for every link once that all clients share.
func (r *Relay) each(f func(*link)) {
	for _, m := range r.roster.Load().members {
		m.each(f)
	}
}

// join takes a member in; false where there is one of that name.
func (r *Relay) join(m *member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.roster.Load()
	if now.members[m.Name] != nil {
		return false
	}
	r.roster.Store(now.with(m))
	return true
}

// leave takes a member out, if it is the one of its name still.
func (r *Relay) leave(m *member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.roster.Load()
	if now.members[m.Name] != m {
		return false
	}
	r.roster.Store(now.without(m))
	return true
}

// Start starts all servers side by side and publishes the table once all are ready. It returns a
// fault for each server that is not, when ctx ends at the latest; clients are then shown nothing, and what
// has started is left to Close.
func (r *Relay) Start(ctx context.Context, members []Member) []*fault.Fault {
	var faults []*fault.Fault
	var all []*member
	for _, described := range members {
		m := r.newMember(described)
		if !r.join(m) {
			faults = append(faults, present(m.Name))
			continue
		}
		all = append(all, m)
	}
	if faults = append(faults, r.startAll(ctx, all)...); len(faults) > 0 {
		return distinct(faults)
	}
	r.show(all)
	return nil
}

func present(name string) *fault.Fault {
	return &fault.Fault{Server: name, Cause: fault.BadConfig, Err: errors.New("a server of that name is there already")}
}

// startAll starts the members' servers side by side and waits for all.
func (r *Relay) startAll(ctx context.Context, members []*member) []*fault.Fault {
	var mu sync.Mutex
	var faults []*fault.Fault
	var starts sync.WaitGroup
	for _, m := range members {
		m.each(func(l *link) {
			starts.Go(func() {
				if err := l.server.Start(ctx); err != nil && !m.awaitsSignIn(err) {
					mu.Lock()
					defer mu.Unlock()
					faults = append(faults, l.fault(err))
				}
			})
		})
	}
	starts.Wait()
	return distinct(faults)
}

// show routes to members that are ready, and tells the clients.
func (r *Relay) show(members []*member) {
	for _, m := range members {
		m.routed.Store(true)
	}
	r.rebuild()
	r.announce(changedBy(members...)...)
}

// changedBy lists the notifications of the lists that the members have something in.
func changedBy(members ...*member) (methods []string) {
	for _, m := range members {
		if m.SignIn != nil { // a tool may stand for it
			methods = append(methods, features[0].changed)
		}
		m.each(func(l *link) {
			if listing := l.listing.Load(); listing != nil {
				methods = append(methods, featuresOf(listing.capabilities)...)
			}
		})
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// distinct sorts the faults by server. A server with a process for each era fails in both for one cause.
func distinct(faults []*fault.Fault) []*fault.Fault {
	slices.SortFunc(faults, func(a, b *fault.Fault) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(string(a.Cause), string(b.Cause)))
	})
	return slices.CompactFunc(faults, func(a, b *fault.Fault) bool { return a.Server == b.Server && a.Cause == b.Cause })
}

// Add starts one more server. Once it is ready its tools are routed and the clients told; where it fails,
// it is gone again. A name that is there already is a mistake of the caller.
func (r *Relay) Add(ctx context.Context, described Member) *fault.Fault {
	m := r.newMember(described)
	if !r.join(m) {
		return present(m.Name)
	}
	if faults := r.startAll(ctx, []*member{m}); len(faults) > 0 {
		if r.leave(m) {
			r.dismiss(context.WithoutCancel(r.ctx), m, faults[0])
		}
		return faults[0]
	}
	r.show([]*member{m})
	if reason := m.gone(); reason != nil { // somebody was quick to remove it
		return m.links[legacy].fault(reason)
	}
	return nil
}

// Remove takes a server away: its tools go at once, calls in flight end with an error, its processes are
// gone when it returns, which ctx hurries. False where there is none of that name.
func (r *Relay) Remove(ctx context.Context, name string) bool {
	m := r.roster.Load().members[name]
	if m == nil || !r.leave(m) {
		return false
	}
	r.dismiss(ctx, m, fmt.Errorf("server %q was removed from the gateway", name))
	return true
}

// dismiss ends all that has to do with a member that has left the roster.
func (r *Relay) dismiss(ctx context.Context, m *member, reason error) {
	m.left.Store(&reason)
	if m.routed.Load() {
		r.rebuild()
		r.announce(changedBy(m)...)
	}
	var ending sync.WaitGroup
	end := func(l *link) {
		ending.Go(func() {
			l.server.Close(ctx, reason)
			l.endRounds(reason)
			r.book.forget(l)
		})
	}
	m.each(end)
	r.sessions(func(s *downstream.Session) {
		if l := stateOf(s).forget(m); l != nil {
			end(l)
		}
	})
	ending.Wait()
}

// sessions calls f for each session, where there is an endpoint.
func (r *Relay) sessions(f func(*downstream.Session)) {
	if r.down != nil {
		r.down.Sessions(f)
	}
}

// Restart ends a server's processes and makes it ready again, those of sessions' own included. Calls in
// flight end with an error; how often it had failed before is forgotten.
func (r *Relay) Restart(ctx context.Context, name string) *fault.Fault {
	m := r.roster.Load().members[name]
	if m == nil {
		return absent(name)
	}
	reason := fmt.Errorf("server %q was restarted before it answered", name)
	return r.onAll(m, func(l *link) error {
		l.endRounds(reason)
		return l.server.Restart(ctx, reason)
	})
}

func absent(name string) *fault.Fault {
	return &fault.Fault{Server: name, Cause: fault.BadConfig, Err: errors.New("there is no server of that name")}
}

// onAll does something to all of a member's connections side by side, those of sessions' own included, and
// waits. Trouble with a session's own shows at its next call.
func (r *Relay) onAll(m *member, do func(l *link) error) *fault.Fault {
	var mu sync.Mutex
	var faults []*fault.Fault
	var all sync.WaitGroup
	begin := func(l *link) {
		all.Go(func() {
			if err := do(l); err != nil && !m.awaitsSignIn(err) && l.session == nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, l.fault(err))
			}
		})
	}
	m.each(begin)
	r.sessions(func(s *downstream.Session) {
		if l := stateOf(s).ownOf(m); l != nil {
			begin(l)
		}
	})
	all.Wait()
	if faults = distinct(faults); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// Close ends every server, as Remove does, and waits until all processes are gone, which ctx hurries.
func (r *Relay) Close(ctx context.Context) {
	r.cancel()
	r.mu.Lock()
	all := r.roster.Swap(newRoster(nil)).members
	r.mu.Unlock()
	var ending sync.WaitGroup
	for _, m := range all {
		ending.Go(func() { r.dismiss(ctx, m, errStopping) })
	}
	ending.Wait()
	r.background.end()
}
