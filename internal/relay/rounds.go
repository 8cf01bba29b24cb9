package relay

import (
	"fmt"
	"sync"

	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// maxRounds bounds how often a server of 2026-07-28 may want more input for one request of an older
// client.
const maxRounds = 32

// needsInput tells whether a server of 2026-07-28 wants more input before it answers.
func needsInput(m *wire.Msg) bool {
	kind, _ := wire.GetString(m.Result, "resultType")
	return kind == "input_required"
}

// round asks an older client for what the server's answer wants, and sends the request again with it.
func (k *call) round(m wire.Msg) {
	k.mu.Lock()
	k.rounds++
	x := k.x
	tooMany := k.rounds > maxRounds
	k.mu.Unlock()
	if x == nil {
		return
	}
	if tooMany {
		x.Fail(&wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("server %q wants more input for the %dth time", k.link.m.Name, maxRounds)})
		return
	}
	asks := map[string]wire.Msg{}
	for key, request := range wire.Members(wire.Get(m.Result, "inputRequests")) {
		ask := wire.Msg{Params: wire.Get(request, "params")}
		ask.Method, _ = wire.GetString(request, "method")
		if e := lacking(k.session.Capabilities, clientCapability[ask.Method], ask); e != nil {
			x.Fail(e)
			return
		}
		asks[key] = ask
	}
	g := &gathering{left: len(asks), responses: []byte("{}"), done: func(responses, refusal []byte) {
		if refusal != nil {
			x.FailRaw(refusal)
			return
		}
		k.again(responses, wire.Get(m.Result, "requestState"))
	}}
	if len(asks) == 0 {
		g.done(g.responses, nil)
	}
	for key, ask := range asks {
		k.session.Ask(x, ask.Method, ask.Params, func(reply wire.Msg, err error) {
			switch {
			case err != nil:
				g.add(key, nil, serverError(k.link.m.Name, err).Object())
			case reply.Err != nil:
				g.add(key, nil, reply.Err)
			default:
				g.add(key, reply.Result, nil)
			}
		})
	}
}

// gathering collects a client's answers to several requests.
type gathering struct {
	done func(responses, refusal []byte)

	mu        sync.Mutex
	left      int
	responses []byte
	refusal   []byte
}

func (g *gathering) add(key string, response, refusal []byte) {
	g.mu.Lock()
	if refusal != nil {
		g.refusal = refusal
	} else {
		g.responses = wire.Edit(g.responses, wire.Change{Key: key, Value: response})
	}
	g.left--
	last := g.left == 0
	responses, refused := g.responses, g.refusal
	g.mu.Unlock()
	if last {
		g.done(responses, refused)
	}
}

// again sends the request with the client's input.
func (k *call) again(responses, state []byte) {
	changes := []wire.Change{{Key: "inputResponses", Value: responses}}
	if state != nil {
		changes = append(changes, wire.Change{Key: "requestState", Value: state})
	}
	x := k.exchange()
	if x == nil {
		return
	}
	c := k.link.server.Live()
	if c == nil {
		x.Fail(serverError(k.link.m.Name, upstream.ErrGone))
		return
	}
	up, err := c.Begin(upstream.Request{Method: x.Msg.Method, Params: wire.Edit(k.params, changes...), Token: wire.Get(x.Msg.Meta, "progressToken")}, k)
	if err != nil {
		x.Fail(serverError(k.link.m.Name, err))
		return
	}
	k.sent(up)
}
