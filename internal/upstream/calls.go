package upstream

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"sync"

	"mcp-gateway/internal/wire"
)

// calls are the requests in flight on one connection.
type calls struct {
	mu      sync.Mutex
	pending map[int64]*call
	leaving map[int64]*call  // cancelled, and not answered since
	lasting map[int64]*call  // answered, with progress still to come
	tokens  map[string]*call // by the progress token that the server was given
	next    int64
	gone    bool  // nothing is taken any more
	reason  error // why those that are left are ended, where somebody wants that
}

// call is one request in flight.
type call struct {
	calls *calls
	by    canceller
	id    int64
	sink  Sink
	token []byte // as the client wrote it, nil for none
	given []byte // the token that the server was given instead, nil for the client's
	key   string // under which it stands in tokens, "" for not at all
	// lingers makes the call, where it is cancelled, stay among those that a message of the server's
	// may belong to.
	lingers bool
	lasts   bool // its progress goes on after its answer
}

// canceller tells a server that nobody waits for a call, which has been taken out.
type canceller interface{ cancelled(k *call, params []byte) }

// add registers a call. Where the server's notifications can only be told apart by their progress
// tokens, claim makes the call's token one of its own.
func (cs *calls) add(by canceller, sink Sink, r Request, claim bool) (*call, error) {
	k := &call{calls: cs, by: by, sink: sink, token: r.Token, lasts: r.Task && r.Token != nil}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.gone {
		return nil, ErrGone
	}
	cs.next++
	k.id = cs.next
	if cs.pending == nil {
		cs.pending = map[int64]*call{}
	}
	cs.pending[k.id] = k
	if claim && k.token != nil {
		cs.claim(k)
	}
	return k, nil
}

// claim registers the call's progress token, or one of our own where that is taken.
func (cs *calls) claim(k *call) {
	if cs.tokens == nil {
		cs.tokens = map[string]*call{}
	}
	k.key = tokenKey(k.token)
	for cs.tokens[k.key] != nil {
		k.given = wire.Quote("mcp-gateway-" + strconv.FormatInt(k.id, 10) + "-" + rand.Text()[:8])
		k.key = tokenKey(k.given)
	}
	cs.tokens[k.key] = k
}

// tokenKey makes equal tokens equal, however they are written. Strings begin with a quote, which no
// number does.
func tokenKey(token []byte) string {
	if s, ok := wire.String(token); ok {
		return `"` + s
	}
	return string(token)
}

// params are the request's, with the progress token that the server is to be given.
func (k *call) params(params []byte) []byte {
	if k.given == nil {
		return params
	}
	meta := wire.Edit(wire.Get(params, "_meta"), wire.Change{Key: "progressToken", Value: k.given})
	return wire.Edit(params, wire.Change{Key: "_meta", Value: meta})
}

// Cancel implements Call.
func (k *call) Cancel(params []byte) {
	if k.leave() {
		k.by.cancelled(k, params)
	}
}

// leave takes a call out that is cancelled. One that lingers keeps its progress token and its sink, since
// the server may speak for it until it has read the cancellation.
func (k *call) leave() bool {
	cs := k.calls
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.lasting[k.id] == k {
		delete(cs.lasting, k.id)
		cs.free(k)
		return false
	}
	if !k.lingers {
		return cs.drop(k)
	}
	if _, ok := cs.pending[k.id]; !ok {
		return false
	}
	delete(cs.pending, k.id)
	if cs.leaving == nil {
		cs.leaving = map[int64]*call{}
	}
	cs.leaving[k.id] = k
	return true
}

// heard notes that the server has read the cancellation: it asks nothing for the call any more. Progress
// may still be on its way, so the token stays taken.
func (k *call) heard() {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	k.sink = nil
}

// settle forgets a call that lingered.
func (k *call) settle() {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	k.calls.settle(k)
}

// settle forgets a call that lingered. The caller holds mu.
func (cs *calls) settle(k *call) {
	if cs.leaving[k.id] != k {
		return
	}
	delete(cs.leaving, k.id)
	cs.free(k)
}

// free gives up a call's progress token. The caller holds mu.
func (cs *calls) free(k *call) {
	if k.key != "" {
		delete(cs.tokens, k.key)
	}
}

// cancellation is the notification for a cancelled call, with the client's params.
func (k *call) cancellation(params []byte) []byte {
	return wire.Edit(params, wire.Change{Key: "requestId", Value: strconv.AppendInt(nil, k.id, 10)})
}

// forget takes the call out; false where it was not there any more.
func (k *call) forget() bool {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	return k.calls.drop(k)
}

// drop takes a call out. The caller holds mu.
func (cs *calls) drop(k *call) bool {
	if _, ok := cs.pending[k.id]; !ok {
		return false
	}
	delete(cs.pending, k.id)
	cs.free(k)
	return true
}

// take takes out the call with the id as a server writes it: some make a string of it, or a float.
func (cs *calls) take(written []byte) *call {
	text := string(bytes.Trim(written, `"`))
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(text, 64)
		if id = int64(f); err != nil || float64(id) != f {
			return nil
		}
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if late := cs.leaving[id]; late != nil {
		cs.settle(late)
	}
	k := cs.pending[id]
	switch {
	case k == nil:
	case k.lasts:
		delete(cs.pending, id)
		if cs.lasting == nil {
			cs.lasting = map[int64]*call{}
		}
		cs.lasting[id] = k
	default:
		cs.drop(k)
	}
	return k
}

// progress finds the call of a progress notification by its token, and gives it the notification.
func (cs *calls) progress(m wire.Msg) {
	token := wire.Get(m.Params, "progressToken")
	if token == nil {
		return
	}
	cs.mu.Lock()
	k := cs.tokens[tokenKey(token)]
	var sink Sink
	if k != nil && (cs.pending[k.id] == k || cs.lasting[k.id] == k) {
		sink = k.sink
	}
	cs.mu.Unlock()
	if sink == nil {
		return
	}
	if k.given != nil {
		m.Raw = m.ParamsWith(wire.Edit(m.Params, wire.Change{Key: "progressToken", Value: k.token}))
		m, _ = wire.ParseServer(m.Raw)
	}
	sink.Progress(m)
}

// withToken finds the sink of the one call with a progress token, nil where there is none or several.
func (cs *calls) withToken(token []byte) (found Sink) {
	if token == nil {
		return nil
	}
	key := tokenKey(token)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, in := range []map[int64]*call{cs.pending, cs.lasting} {
		for _, k := range in {
			if k.token != nil && tokenKey(k.token) == key {
				if found != nil {
					return nil
				}
				found = k.sink
			}
		}
	}
	return found
}

// sinks lists those of the calls in flight, and of those whose cancellation the server may not have read.
func (cs *calls) sinks() []Sink {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	sinks := make([]Sink, 0, len(cs.pending))
	for _, k := range cs.pending {
		sinks = append(sinks, k.sink)
	}
	for _, k := range cs.leaving {
		if k.sink != nil {
			sinks = append(sinks, k.sink)
		}
	}
	return sinks
}

// refuse takes no call any more.
func (cs *calls) refuse() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.gone = true
}

// live tells whether the call is in flight.
func (k *call) live() bool {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	return k.calls.pending[k.id] == k
}

// alone tells whether the call is the only one in flight.
func (k *call) alone() bool {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	return k.calls.pending[k.id] == k && len(k.calls.pending) == 1
}

// because notes why the connection is about to be closed.
func (cs *calls) because(reason error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.reason = reason
}

// why is the reason for which the connection was closed, or else the error given.
func (cs *calls) why(otherwise error) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.reason != nil {
		return cs.reason
	}
	return otherwise
}

// end takes no call any more and returns those in flight, taken out.
func (cs *calls) end() []*call {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.gone = true
	lost := make([]*call, 0, len(cs.pending))
	for _, k := range cs.pending {
		lost = append(lost, k)
	}
	cs.pending, cs.leaving, cs.lasting, cs.tokens = nil, nil, nil, nil
	return lost
}
