package relay

import (
	"strconv"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// An elicitation by URL goes on in a browser after the client has answered; its end is told by a
// notification that names it. These are for the session that was given the URL, and no other.

// maxElicitations bounds how many ends are waited for on one link.
const maxElicitations = 1000

// maxID bounds an id of somebody else's that is remembered, in bytes.
const maxID = 1024

// noteElicitation remembers whom a request for an elicitation by URL was given to.
func (l *link) noteElicitation(s *downstream.Session, m wire.Msg) {
	if m.Method == "elicitation/create" {
		l.rememberElicitation(s, m.Params)
	}
}

// noteElicitations does so for the error that wants some before the call is made again.
func (k *call) noteElicitations(object []byte) {
	if k.session == nil || string(wire.Get(object, "code")) != strconv.Itoa(wire.CodeURLElicitation) {
		return
	}
	for e := range wire.Elements(wire.Get(wire.Get(object, "data"), "elicitations")) {
		k.link.rememberElicitation(k.session, e)
	}
}

func (l *link) rememberElicitation(s *downstream.Session, params []byte) {
	id, ok := wire.GetString(params, "elicitationId")
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.elicited == nil {
		l.elicited = map[string]*downstream.Session{}
	}
	if len(l.elicited) < maxElicitations && len(id) <= maxID && !stateOf(s).ended() {
		l.elicited[id] = s
	}
}

// elicitationComplete tells the session that the elicitation was for.
func (l *link) elicitationComplete(c upstream.Conn, m wire.Msg) {
	id, _ := wire.GetString(m.Params, "elicitationId")
	l.mu.Lock()
	s := l.elicited[id]
	delete(l.elicited, id)
	l.mu.Unlock()
	if s != nil {
		l.toSession(c, s, m, rankAll)
	}
}

// forgetSession forgets what a session that has ended was waiting for.
func (l *link) forgetSession(s *downstream.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, of := range l.elicited {
		if of == s {
			delete(l.elicited, id)
		}
	}
}
