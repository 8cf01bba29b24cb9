package relay

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// asked is a server's request that a client has been given.
type asked struct {
	withdraw func(params []byte) // tells the client that nobody waits for its answer any more
}

// askKey tells a server's requests apart: a new connection numbers them anew.
type askKey struct {
	c  upstream.Conn
	id string
}

// Asked implements upstream.Handler: a server wants something of a client. The client is the one
// whose calls are in flight; where that is not clear, nobody is asked, since a guess could show one
// client's question to another.
func (l *link) Asked(c upstream.Conn, m wire.Msg) {
	if strings.HasPrefix(m.Method, "tasks/") && m.Method != "tasks/list" {
		l.askedTask(c, m)
		return
	}
	capability, known := clientCapability[m.Method]
	if !known {
		l.refuse(c, m, wire.CodeMethodNotFound, "method %q is none that a client of MCP has", m.Method)
		return
	}
	calls := callsOf(c)
	t, m := l.ofTask(m)
	if t != nil {
		calls = ofSession(calls, t.session()) // none where that has ended
	}
	c = upstream.Whole(c)
	count := len(calls)
	owner, one := onlyOwner(calls)
	if calls = live(calls); one && len(calls) == 0 { // whose call it was is not waiting any more
		owner, one, count = nil, false, 0
	}
	switch {
	case l.session != nil:
		owner, one = l.session, true
	case t != nil && t.session() != nil:
		owner, one = t.session(), true
	}
	var capabilities []byte
	switch o := owner.(type) {
	case *downstream.Session:
		capabilities = o.Capabilities
	case *call:
		capabilities = o.caps
	}
	if one {
		if e := lacking(capabilities, capability, m); e != nil {
			l.refuseWith(c, m, e)
			return
		}
	}
	switch o := owner.(type) {
	case *downstream.Session:
		l.askSession(c, o, calls, m)
	case *call:
		if !holdable(o.method) {
			l.refuse(c, m, wire.CodeInvalidRequest, "a client of %s cannot be asked in %s", upstream.Modern, o.method)
			return
		}
		o.hold(c, m)
	default:
		l.refuseAmbiguous(c, m, count)
	}
}

// refuseAmbiguous answers where no single client can be asked.
func (l *link) refuseAmbiguous(c upstream.Conn, m wire.Msg, calls int) {
	switch {
	case calls > 0:
		l.refuse(c, m, wire.CodeInvalidRequest, "calls of several clients are in flight, so it is not clear whom %s is for; \"gateway\": {\"isolated\": true} in the server's entry gives each client a process of its own", m.Method)
	case m.Method == "roots/list":
		l.reply(c, wire.Reply(m.ID, []byte(`{"roots":[]}`)))
	default:
		l.refuse(c, m, wire.CodeInvalidRequest, "no client's call is in flight, so there is nobody for %s", m.Method)
	}
}

// clientCapability says what a client must have declared to be asked.
var clientCapability = map[string]string{
	"roots/list": "roots", "sampling/createMessage": "sampling", "elicitation/create": "elicitation",
	"tasks/list": "tasks",
}

// lacking refuses a request for which the client has not declared the capability.
func lacking(capabilities []byte, capability string, m wire.Msg) *wire.Error {
	have := wire.Get(capabilities, capability)
	if wire.Kind(have) != '{' {
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("the client does not support %s (it has not declared the capability %q)", m.Method, capability)}
	}
	if e := lacksTasks(capabilities, m); e != nil {
		return e
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

// askSession gives a request to a session's client, on its latest call, and its answer to the server.
func (l *link) askSession(c upstream.Conn, s *downstream.Session, calls []*call, m wire.Msg) {
	l.noteElicitation(s, m)
	for _, k := range calls {
		k.ask(1)
	}
	rest := sync.OnceFunc(func() {
		for _, k := range calls {
			k.ask(-1)
		}
	})
	a := l.noteAsk(c, m, nil)
	ask := s.Ask
	if len(calls) > 1 {
		ask = s.AskAside
	}
	id := ask(latest(calls, s), m.Method, m.Params, func(reply wire.Msg, err error) {
		l.settleAsk(c, m)
		rest()
		switch {
		case err != nil:
			l.refuse(c, m, wire.CodeInternal, "the client gave no answer: %v", err)
		case reply.Err != nil:
			l.reply(c, wire.ErrorReply(m.ID, reply.Err))
		default:
			l.reply(c, wire.Reply(m.ID, l.taskReply(s, m, reply.Result)))
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	a.withdraw = func(params []byte) {
		rest()
		s.Withdraw(id, wire.Edit(params, wire.Change{Key: "requestId", Value: fmt.Appendf(nil, "%d", id)}))
	}
}

// noteAsk remembers that a client has been given a request.
func (l *link) noteAsk(c upstream.Conn, m wire.Msg, withdraw func(params []byte)) *asked {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asks == nil {
		l.asks = map[askKey]*asked{}
	}
	a := &asked{withdraw}
	l.asks[askKey{c, string(m.ID)}] = a
	return a
}

// settleAsk forgets a request that the client has answered.
func (l *link) settleAsk(c upstream.Conn, m wire.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asks, askKey{c, string(m.ID)})
}

// withdraw passes on that a server no longer waits for a client's answer.
func (l *link) withdraw(c upstream.Conn, m wire.Msg) {
	l.withdrawAsks(m.Params, func(key askKey) bool {
		return key == askKey{c, string(wire.Get(m.Params, "requestId"))}
	})
}

// withdrawAsks withdraws the chosen requests to clients.
func (l *link) withdrawAsks(params []byte, chosen func(askKey) bool) {
	var all []func([]byte)
	l.mu.Lock()
	for key, a := range l.asks {
		if chosen(key) && a.withdraw != nil {
			all = append(all, a.withdraw)
			delete(l.asks, key)
		}
	}
	l.mu.Unlock()
	for _, withdraw := range all {
		withdraw(params)
	}
}

// ended is called when a connection has ended: nobody waits for answers to what it asked.
func (l *link) ended(c upstream.Conn) {
	l.withdrawAsks([]byte(`{"reason":"the server has ended"}`), func(key askKey) bool { return key.c == c })
}

func (l *link) refuse(c upstream.Conn, m wire.Msg, code int, format string, args ...any) {
	l.refuseWith(c, m, &wire.Error{Code: code, Message: fmt.Sprintf(format, args...)})
}

func (l *link) refuseWith(c upstream.Conn, m wire.Msg, e *wire.Error) {
	l.r.o.Log.Debug("request of a server refused", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, m.Method, telemetry.KeyError, e)
	l.reply(c, wire.ErrorReply(m.ID, e.Object()))
}

func (l *link) reply(c upstream.Conn, response []byte) {
	if err := c.Answer(response); err != nil && !errors.Is(err, upstream.ErrGone) {
		l.r.o.Log.Debug("answer to a server not written", telemetry.KeyServer, l.m.Name, telemetry.KeyError, err)
	}
}
