package relay

import (
	"errors"
	"fmt"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// asked is a server's request that a client has been given.
type asked struct {
	session *downstream.Session
	id      int64
}

// Asked implements upstream.Handler: a server wants something of a client. The client is the one
// whose calls are in flight; where that is not clear, nobody is asked, since a guess could show one
// client's question to another.
func (l *link) Asked(c upstream.Conn, m wire.Msg) {
	capability, known := clientCapability[m.Method]
	if !known {
		l.refuse(c, m, wire.CodeMethodNotFound, "method %q is none that a client of MCP has", m.Method)
		return
	}
	calls := callsOf(c)
	owner, one := onlyOwner(calls)
	if l.session != nil {
		owner, one = l.session, true
	}
	switch o := owner.(type) {
	case *downstream.Session:
		if e := lacking(o.Capabilities, capability, m); e != nil {
			l.refuseWith(c, m, e)
			return
		}
		l.askSession(c, o, latest(calls, o), m)
	case *call:
		if e := lacking(o.capabilities(), capability, m); e != nil {
			l.refuseWith(c, m, e)
			return
		}
		o.hold(c, m)
	default:
		switch {
		case !one && len(calls) > 0:
			l.refuse(c, m, wire.CodeInvalidRequest, "calls of several clients are in flight, so it is not clear whom %s is for; \"gateway\": {\"isolated\": true} in the server's entry gives each client a process of its own", m.Method)
		case m.Method == "roots/list":
			l.answer(c, wire.Reply(m.ID, []byte(`{"roots":[]}`)))
		default:
			l.refuse(c, m, wire.CodeInvalidRequest, "no client's call is in flight, so there is nobody for %s", m.Method)
		}
	}
}

// clientCapability says what a client must have declared to be asked.
var clientCapability = map[string]string{
	"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation",
}

// lacking refuses a request for which the client has not declared the capability.
func lacking(capabilities []byte, capability string, m wire.Msg) *wire.Error {
	have := wire.Get(capabilities, capability)
	if wire.Kind(have) != '{' {
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("the client does not support %s (it has not declared the capability %q)", m.Method, capability)}
	}
	switch mode, _ := wire.GetString(m.Params, "mode"); {
	case capability == "elicitation" && mode == "url" && wire.Get(have, "url") == nil:
		return &wire.Error{Code: wire.CodeInvalidParams, Message: "the client does not support URL elicitation"}
	case capability == "elicitation" && mode != "url" && wire.Get(have, "form") == nil && wire.Get(have, "url") != nil:
		return &wire.Error{Code: wire.CodeInvalidParams, Message: "the client does not support form elicitation"}
	case capability == "sampling" && wire.Get(m.Params, "tools") != nil && wire.Get(have, "tools") == nil:
		return &wire.Error{Code: wire.CodeInvalidParams, Message: "the client does not support sampling with tools"}
	}
	return nil
}

// askSession gives a request to a session's client and its answer to the server.
func (l *link) askSession(c upstream.Conn, s *downstream.Session, x *downstream.Exchange, m wire.Msg) {
	key := string(m.ID)
	id := s.Ask(x, m.Method, m.Params, func(reply wire.Msg, err error) {
		l.mu.Lock()
		delete(l.asks, key)
		l.mu.Unlock()
		switch {
		case err != nil:
			l.refuse(c, m, wire.CodeInternal, "the client gave no answer: %v", err)
		case reply.Err != nil:
			l.answer(c, wire.ErrorReply(m.ID, reply.Err))
		default:
			l.answer(c, wire.Reply(m.ID, reply.Result))
		}
	})
	if id == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asks == nil {
		l.asks = map[string]asked{}
	}
	l.asks[key] = asked{s, id}
}

// withdraw passes on that a server no longer waits for a client's answer.
func (l *link) withdraw(m wire.Msg) {
	key := string(wire.Get(m.Params, "requestId"))
	l.mu.Lock()
	a, ok := l.asks[key]
	delete(l.asks, key)
	l.mu.Unlock()
	if !ok {
		return
	}
	a.session.Withdraw(a.id, wire.Edit(m.Params, wire.Change{Key: "requestId", Value: fmt.Appendf(nil, "%d", a.id)}))
}

func (l *link) refuse(c upstream.Conn, m wire.Msg, code int, format string, args ...any) {
	l.refuseWith(c, m, &wire.Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

func (l *link) refuseWith(c upstream.Conn, m wire.Msg, e *wire.Error) {
	l.r.o.Log.Debug("request of a server refused", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, m.Method, telemetry.KeyError, e)
	l.answer(c, wire.ErrorReply(m.ID, e.Object()))
}

func (l *link) answer(c upstream.Conn, response []byte) {
	if err := c.Answer(response); err != nil && !errors.Is(err, upstream.ErrGone) {
		l.r.o.Log.Debug("answer to a server not written", telemetry.KeyServer, l.m.Name, telemetry.KeyError, err)
	}
}
