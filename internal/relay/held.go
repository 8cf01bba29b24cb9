package relay

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// In 2026-07-28 a server does not ask: its answer says what input it needs, and the client sends the
// request again with that. When a client of 2026-07-28 calls a server that asks, the call to the server
// is held: its client gets what is asked as the answer, and its next request goes on with the call.

// defaultHeldFor is how long a held call waits for its client. While it waits, what the server asks for
// other clients cannot be told apart, so it is short.
const defaultHeldFor = 2 * time.Minute

// held is what a call needs for its client of 2026-07-28 to come back to it.
type held struct {
	open      []question // what the client has to answer
	questions int        // numbers them
	parked    *time.Timer
	token     []byte // the progress token of the client's newest request, where it is another one
	final     *final // the answer, where it came while the client was away
}

// final is how a call ended.
type final struct {
	m   wire.Msg
	err error
}

// question is a server's request that a held call's client has to answer.
type question struct {
	key string
	c   upstream.Conn
	m   wire.Msg
}

// holdable are the methods whose answers may want input in 2026-07-28.
func holdable(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// hold adds a question and, where the client is there, answers it with all that are open.
func (k *call) hold(c upstream.Conn, m wire.Msg) {
	k.link.noteAsk(c, m, func([]byte) { k.unask(c, m) })
	k.ask(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held.questions++
	k.held.open = append(k.held.open, question{"input-" + strconv.Itoa(k.held.questions), c, m})
	if k.x != nil {
		k.inquire()
	}
}

// unask forgets a question whose server does not wait for the answer any more.
func (k *call) unask(c upstream.Conn, m wire.Msg) {
	k.mu.Lock()
	before := len(k.held.open)
	k.held.open = slices.DeleteFunc(k.held.open, func(q question) bool { return q.c == c && string(q.m.ID) == string(m.ID) })
	gone := before - len(k.held.open)
	k.mu.Unlock()
	k.ask(-gone)
}

// inquire answers the client's request with the open questions and parks the call. The caller holds mu.
func (k *call) inquire() {
	state := rand.Text()
	requests := []byte("{}")
	for _, q := range k.held.open {
		request := fmt.Appendf(nil, `{"method":%s`, wire.Quote(q.m.Method))
		if q.m.Params != nil {
			request = append(append(request, `,"params":`...), q.m.Params...)
		}
		requests = wire.Edit(requests, wire.Change{Key: q.key, Value: append(request, '}')})
	}
	x := k.x
	k.x = nil
	k.held.parked = time.AfterFunc(k.link.r.o.HeldFor, func() { k.abandon(state) })
	k.link.r.held.Store(state, k)
	x.Result(fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s,"requestState":%s}`, requests, wire.Quote(state)))
}

// abandon cancels a held call whose client has not come back.
func (k *call) abandon(state string) {
	if _, there := k.link.r.held.LoadAndDelete(state); there {
		k.cancel([]byte(`{"reason":"the client has not answered what the server asked"}`))
	}
}

// resume goes on with a held call, if the request carries the state of one. A state serves once.
func (r *Relay) resume(ctx context.Context, x *downstream.Exchange) bool {
	state, ok := wire.GetString(x.Msg.Params, "requestState")
	if !ok {
		return false
	}
	if state == signInState {
		return r.invitationAnswered(ctx, x)
	}
	found, there := r.held.Load(state)
	if !there {
		return false
	}
	k := found.(*call)
	if k.method != x.Msg.Method {
		r.fail(ctx, x, wire.CodeInvalidParams, "the requestState belongs to a request of %q", k.method)
		return true
	}
	if _, there = r.held.LoadAndDelete(state); !there {
		return false // another request with it was quicker
	}
	x.OnAbandon(func() { k.cancel(nil) })
	k.adopt(x, wire.Get(x.Msg.Params, "inputResponses"))
	k.wait(ctx, x)
	return true
}

// adopt takes the client's answers to the server. What they lack is asked again.
func (k *call) adopt(x *downstream.Exchange, responses []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held.parked.Stop()
	k.x = x
	if token := wire.Get(x.Msg.Meta, "progressToken"); string(token) != string(k.token) {
		k.held.token = token
	}
	if k.held.final != nil {
		k.finish(k.held.final.m, k.held.final.err)
		return
	}
	k.held.open = slices.DeleteFunc(k.held.open, func(q question) bool {
		response := wire.Get(responses, q.key)
		if response == nil {
			return false
		}
		k.link.settleAsk(q.c, q.m)
		k.link.reply(q.c, wire.Reply(q.m.ID, response))
		k.asking--
		return true
	})
	if len(k.held.open) > 0 {
		k.inquire()
		return
	}
	k.alive()
}
