package relay

import (
	"context"
	"fmt"
	"strings"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// Up to 2025-11-25 a server may ask its client for something as a task, which it then asks for by the id that
// the client has given it.

// askedTask gives a client a server's request for a task of that client's.
func (l *link) askedTask(c upstream.Conn, m wire.Msg) {
	id, _ := wire.GetString(m.Params, "taskId")
	t := l.r.book.find(l, id)
	whole := upstream.Whole(c)
	if t == nil {
		l.refuse(whole, m, wire.CodeInvalidParams, "failed to retrieve task: no client has a task %.80q of this server", id)
		return
	}
	s := t.receiver.(*downstream.Session)
	if e := lacking(s.Capabilities, "tasks", m); e != nil {
		l.refuseWith(whole, m, e)
		return
	}
	m.Params = renameTask(m.Params, t.exposed, t.own)
	l.askSession(whole, s, ofSession(live(callsOf(c)), s), m)
}

// ofSession leaves only a session's calls.
func ofSession(calls []*call, s *downstream.Session) (out []*call) {
	for _, k := range calls {
		if s != nil && k.session == s {
			out = append(out, k)
		}
	}
	return out
}

// lacksTasks refuses a request that belongs to tasks where the client has not declared it.
func lacksTasks(capabilities []byte, m wire.Msg) *wire.Error {
	tasks := wire.Get(capabilities, "tasks")
	family, operation, _ := strings.Cut(m.Method, "/")
	switch {
	case family != "tasks" && wire.Get(m.Params, "task") == nil:
		return nil
	case family != "tasks" && wire.Get(wire.Get(wire.Get(tasks, "requests"), family), operation) == nil:
		return &wire.Error{Code: wire.CodeInvalidParams, Message: "the client does not support " + m.Method + " as a task"}
	case (operation == "list" || operation == "cancel") && wire.Get(tasks, operation) == nil:
		return &wire.Error{Code: wire.CodeMethodNotFound, Message: fmt.Sprintf("the client does not support %s (it has not declared the capability \"tasks.%s\")", m.Method, operation)}
	}
	return nil
}

// taskReply gives a client's answer to a server's request the ids that the server knows, and remembers the
// task that it may be.
func (l *link) taskReply(s *downstream.Session, m wire.Msg, result []byte) []byte {
	book := &l.r.book
	if id := relatedTo(result); id != "" {
		if t := book.find(s, id); t != nil && t.receiver == l {
			result = renameTask(result, id, t.own)
		}
	}
	switch {
	case m.Method == "tasks/list":
		return l.clientTasks(s, result)
	case strings.HasPrefix(m.Method, "tasks/"):
		own, _ := wire.GetString(m.Params, "taskId")
		if t := book.in(s, own); t != nil {
			result = renameTask(result, own, t.exposed)
		}
	case wire.Get(m.Params, "task") != nil:
		state := wire.Get(result, "task")
		if own, ok := wire.GetString(state, "taskId"); ok {
			t := book.add(&mcpTask{requestor: l, receiver: s, space: s, own: own, ends: taskEnds(state)},
				func(number int64) string { return ownURI(origin{fmt.Sprint("client-", number), own}) })
			result = renameTask(result, own, t.exposed)
		}
	}
	return result
}

// clientTasks leaves in a client's list what this server has begun.
func (l *link) clientTasks(s *downstream.Session, result []byte) []byte {
	kept := [][]byte{}
	for element := range wire.Elements(wire.Get(result, "tasks")) {
		own, _ := wire.GetString(element, "taskId")
		if t := l.r.book.in(s, own); t != nil && t.requestor == l {
			kept = append(kept, renameTask(element, own, t.exposed))
		}
	}
	return wire.Edit(result, wire.Change{Key: "tasks", Value: array(kept)})
}

// clientTaskStatus tells the server that has begun it of a task of a client's.
func (r *Relay) clientTaskStatus(s *downstream.Session, m wire.Msg) {
	own, _ := wire.GetString(m.Params, "taskId")
	t := r.book.in(s, own)
	if t == nil {
		return
	}
	if c := t.requestor.(*link).server.Live(); c != nil { // clients' tasks are begun by servers
		// A server that has just ended need not be told.
		_ = c.Notify(m.Method, renameTask(m.Params, own, t.exposed))
	}
}

// taskWatch begins the key of a subscription to a task's state, beside those of resources by their URIs.
const taskWatch = "task\x00"

// watchTasks finds the servers of the tasks that a client of 2026-07-28 wants to know of.
func (r *Relay) watchTasks(ctx context.Context, x *downstream.Exchange, ids []byte) (watches []watch, keys []string) {
	servers := r.taskServers(modern)
	for v := range wire.Elements(ids) {
		id, ok := wire.String(v)
		if !ok || len(servers) == 0 {
			continue
		}
		if m, own := r.taskServer(ctx, x, servers, id); m != nil {
			watches = append(watches, watch{m.links[modern], taskWatch + own})
			keys = append(keys, taskWatch+id)
		}
	}
	return watches, keys
}

// taskChanged tells those who listen for it of a task's state.
func (l *link) taskChanged(m wire.Msg) {
	own, _ := wire.GetString(m.Params, "taskId")
	exposed := own
	if t := l.r.book.in(l.taskSpace(), own); t != nil {
		l.r.book.heard(t, m.Params)
		exposed = t.exposed
	}
	l.r.tell(m.Method, taskWatch+exposed, renameTask(m.Params, own, exposed))
}
