package relay

import (
	"errors"
	"fmt"
	"sync"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// A server of 2026-07-28 that needs input answers with what it wants to know. An older client is asked
// for that, and its request goes to the server again with the answers: a round.

// maxRounds bounds how often a server may want more input for one request.
const maxRounds = 32

// needsInput tells whether a server of 2026-07-28 wants more input before it answers.
func needsInput(m wire.Msg) bool {
	kind, _ := wire.GetString(m.Result, "resultType")
	return kind == "input_required"
}

// input is one thing that a server wants to know.
type input struct {
	key string
	ask wire.Msg
}

// round asks an older client for what the server's answer wants, and sends the request again with it.
func (k *call) round(m wire.Msg) {
	k.mu.Lock()
	k.rounds++
	round, x, over := k.rounds, k.x, k.over
	k.land()
	k.mu.Unlock()
	switch {
	case over:
		return
	case round > maxRounds:
		k.Done(wire.Msg{}, fmt.Errorf("it wants more input for the %dth time", maxRounds+1))
		return
	}
	inputs, e := k.inputs(wire.Get(m.Result, "inputRequests"))
	if e != nil {
		k.Done(wire.Msg{}, e)
		return
	}
	state := wire.Get(m.Result, "requestState")
	g := &gathering{left: len(inputs), responses: []byte("{}"), done: func(responses []byte, err error) {
		k.link.roundOver(k)
		if err != nil {
			k.Done(wire.Msg{}, err)
			return
		}
		k.again(round, responses, state)
	}}
	if len(inputs) == 0 {
		g.done(g.responses, nil)
		return
	}
	k.link.roundBegun(k, g)
	for _, i := range inputs {
		g.asked(k.session.Ask(x, i.ask.Method, i.ask.Params, func(reply wire.Msg, err error) {
			if err == nil && reply.Err != nil {
				err = refusal(reply.Err)
			}
			g.add(i.key, reply.Result, err)
		}))
	}
	if reason := k.link.m.gone(); reason != nil {
		k.link.endRounds(reason)
	}
	if k.isOver() { // the server was ended meanwhile, which withdrew what had been asked by then
		g.withdraw(k.session)
	}
}

// roundBegun notes that a call's client is asked, while nothing is in flight.
func (l *link) roundBegun(k *call, g *gathering) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rounds == nil {
		l.rounds = map[*call]*gathering{}
	}
	l.rounds[k] = g
}

func (l *link) roundOver(k *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rounds, k)
}

// endRounds fails the calls whose clients are being asked, since the server is not there any more for the
// answers.
func (l *link) endRounds(reason error) {
	l.mu.Lock()
	all := l.rounds
	l.rounds = nil
	l.mu.Unlock()
	for k, g := range all {
		k.Done(wire.Msg{}, reason)
		g.withdraw(k.session)
	}
}

// inputs reads what a server wants to know; an error where the client cannot be asked for it.
func (k *call) inputs(requests []byte) ([]input, error) {
	var all []input
	for key, request := range wire.Members(requests) {
		ask := wire.Msg{Params: wire.Get(request, "params")}
		ask.Method, _ = wire.GetString(request, "method")
		capability, known := clientCapability[ask.Method]
		if !known {
			return nil, fmt.Errorf("it wants %.80q of the client, which is nothing that MCP has", ask.Method)
		}
		if e := lacking(k.session.Capabilities, capability, ask); e != nil {
			return nil, e
		}
		all = append(all, input{key, ask})
	}
	return all, nil
}

// refusal is an error object that a client answered with.
type refusal []byte

// Error gives its message.
func (r refusal) Error() string {
	message, _ := wire.GetString(r, "message")
	return message
}

// gathering collects a client's answers to several requests.
type gathering struct {
	done func(responses []byte, err error)

	mu        sync.Mutex
	left      int
	responses []byte
	err       error
	asks      []int64 // by which the client's session knows them
}

func (g *gathering) asked(id int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks = append(g.asks, id)
}

// withdraw tells the client that its answers are not needed any more.
func (g *gathering) withdraw(s *downstream.Session) {
	g.mu.Lock()
	asks := g.asks
	g.asks = nil
	g.mu.Unlock()
	for _, id := range asks {
		s.Withdraw(id, fmt.Appendf(nil, `{"requestId":%d,"reason":"the server has ended"}`, id))
	}
}

func (g *gathering) add(key string, response []byte, err error) {
	g.mu.Lock()
	if err != nil {
		g.err = err
	} else {
		g.responses = wire.Edit(g.responses, wire.Change{Key: key, Value: response})
	}
	g.left--
	last, responses, failed := g.left == 0, g.responses, g.err
	g.mu.Unlock()
	if last {
		g.done(responses, failed)
	}
}

// again sends the request with the client's input.
func (k *call) again(round int, responses, state []byte) {
	changes := []wire.Change{{Key: "inputResponses", Value: responses}}
	if state != nil {
		changes = append(changes, wire.Change{Key: "requestState", Value: state})
	}
	if k.isOver() {
		return // the client has left meanwhile
	}
	c := k.link.server.Live()
	if c == nil {
		k.Done(wire.Msg{}, errors.New("it ended while the client was asked"))
		return
	}
	up, err := c.Begin(upstream.Request{Method: k.method, Params: wire.Edit(k.params, changes...), Token: k.token}, k)
	if err != nil {
		k.Done(wire.Msg{}, err)
		return
	}
	k.sent(up, round)
}
