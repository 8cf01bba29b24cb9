package relay

import (
	"slices"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
)

// A message that a server of the older revisions sends by itself names no call. It is whose calls are
// in flight, if they are all one client's: a session's, or one exchange of 2026-07-28.

// callsOf lists the clients' calls in flight on a connection, and the cancelled ones for which the server
// may still speak; the gateway's own do not count.
func callsOf(c upstream.Conn) []*call {
	var calls []*call
	for _, sink := range c.InFlight() {
		if k, ok := sink.(*call); ok {
			calls = append(calls, k)
		}
	}
	slices.SortFunc(calls, func(a, b *call) int { return int(a.number - b.number) })
	return calls
}

// live leaves out the calls that are over for their clients.
func live(calls []*call) (out []*call) {
	for _, k := range calls {
		if !k.isOver() {
			out = append(out, k)
		}
	}
	return out
}

// owner is the session, or for a client without one the call itself.
func (k *call) owner() any {
	if k.session != nil {
		return k.session
	}
	return k
}

// onlyOwner returns the one owner of all calls; false where there is none or several.
func onlyOwner(calls []*call) (any, bool) {
	var owner any
	for _, k := range calls {
		if owner != nil && owner != k.owner() {
			return nil, false
		}
		owner = k.owner()
	}
	return owner, owner != nil
}

// latest returns the exchange of the owner's newest call that has one.
func latest(calls []*call, owner any) *downstream.Exchange {
	for _, k := range slices.Backward(calls) {
		if k.owner() == owner {
			if x := k.exchange(); x != nil {
				return x
			}
		}
	}
	return nil
}
