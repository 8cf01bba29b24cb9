package relay

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// In 2026-07-28 a server does not ask: its answer says what input it needs, and the client sends the
// request again with that. When a client of 2026-07-28 calls a server that asks, the call to the server
// is held: its client gets what is asked as the answer, and its next request goes on with the call.

// heldFor is how long a held call waits for its client. While it waits, what the server asks for other
// clients cannot be told apart, so it is short.
const heldFor = 2 * time.Minute

// question is a server's request that a held call's client has to answer.
type question struct {
	c upstream.Conn
	m wire.Msg
}

// hold adds a question and, where the client is there, answers it with all that are open.
func (k *call) hold(c upstream.Conn, m wire.Msg) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open == nil {
		k.open = map[string]question{}
	}
	k.questions++
	k.open["input-"+strconv.Itoa(k.questions)] = question{c, m}
	if k.x != nil {
		k.inquire()
	}
}

// inquire answers the client's request with the open questions and parks the call. The caller holds mu.
func (k *call) inquire() {
	state := rand.Text()
	requests := []byte("{}")
	for key, q := range k.open {
		request := fmt.Appendf(nil, `{"method":%s`, wire.Quote(q.m.Method))
		if q.m.Params != nil {
			request = append(append(request, `,"params":`...), q.m.Params...)
		}
		requests = wire.Edit(requests, wire.Change{Key: key, Value: append(request, '}')})
	}
	x := k.x
	k.x = nil
	k.state = state
	k.parked = time.AfterFunc(heldFor, func() { k.giveUp(state) })
	k.link.r.held.Store(state, k)
	x.Result(fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s,"requestState":%s}`, requests, wire.Quote(state)))
}

// giveUp cancels a held call whose client has not come back.
func (k *call) giveUp(state string) {
	if _, there := k.link.r.held.LoadAndDelete(state); there {
		k.cancel([]byte(`{"reason":"the client has not answered what the server asked"}`))
	}
}

// resume goes on with a held call, if the request carries the state of one.
func (r *Relay) resume(ctx context.Context, x *downstream.Exchange) bool {
	state, ok := wire.GetString(x.Msg.Params, "requestState")
	if !ok {
		return false
	}
	found, there := r.held.LoadAndDelete(state)
	if !there {
		return false
	}
	k := found.(*call)
	k.adopt(x, wire.Get(x.Msg.Params, "inputResponses"))
	x.OnAbandon(func() { k.cancel(nil) })
	if err := x.Wait(ctx); err != nil {
		k.cancel(nil)
	}
	return true
}

// adopt takes the client's answers to the server. What they lack is asked again.
func (k *call) adopt(x *downstream.Exchange, responses []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parked.Stop()
	k.x = x
	for key, response := range wire.Members(responses) {
		if q, open := k.open[key]; open {
			delete(k.open, key)
			k.link.answer(q.c, wire.Reply(q.m.ID, response))
		}
	}
	switch {
	case k.final != nil:
		k.finish(k.final.m, k.final.err)
	case len(k.open) > 0:
		k.inquire()
	}
}
