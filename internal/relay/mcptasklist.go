package relay

import (
	"bytes"
	"context"
	"sync"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// ownTasks leaves in a server's list what is the requestor's. On a connection of its own, that is what
// nobody else is known to have.
func (l *link) ownTasks(who any, result []byte) []byte {
	var kept [][]byte
	changed := false
	for element := range wire.Elements(wire.Get(result, "tasks")) {
		own, _ := wire.GetString(element, "taskId")
		t := l.r.book.in(l.taskSpace(), own)
		if t == nil && l.session == nil || t != nil && t.requestor != who {
			changed = true
			continue
		}
		if t != nil && t.exposed != own {
			element = renameTask(element, own, t.exposed)
			changed = true
		}
		kept = append(kept, element)
	}
	if !changed {
		return result
	}
	return wire.Edit(result, wire.Change{Key: "tasks", Value: array(kept)})
}

func array(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte(","))...), ']')
}

// listTasks answers with the session's tasks on all servers, as one page. A single server's list is passed
// on.
func (r *Relay) listTasks(ctx context.Context, x *downstream.Exchange, t *table) {
	var servers []*member
	for _, m := range r.taskServers(era(x)) {
		if wire.Get(m.links[era(x)].taskCapability(), "list") != nil {
			servers = append(servers, m)
		}
	}
	cursor := wire.Get(x.Msg.Params, "cursor")
	switch {
	case x.Session == nil || len(servers) == 0:
		r.other(ctx, x, t)
		return
	case len(servers) == 1:
		r.forward(ctx, x, servers[0], x.Msg.Params)
		return
	case cursor != nil && wire.Kind(cursor) != 'n':
		r.fail(ctx, x, wire.CodeInvalidParams, "cursor %.80s is not one of this list, which is given in one page", cursor)
		return
	}
	r.aside(ctx, x, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, probeLimit)
		defer cancel()
		lists := make([][]byte, len(servers))
		var all sync.WaitGroup
		for i, m := range servers {
			if l := r.taskLink(x, m); l != nil && !l.modern.Load() {
				all.Go(func() { lists[i] = r.readTasks(ctx, x, l) })
			}
		}
		all.Wait()
		var tasks [][]byte
		for _, list := range lists {
			for element := range wire.Elements(wire.Get(list, "tasks")) {
				tasks = append(tasks, element)
			}
		}
		x.Result(wire.Edit(nil, wire.Change{Key: "tasks", Value: array(tasks)}))
	})
}

// readTasks reads a server's list; one that cannot be read is empty, since the others' tasks are there.
func (r *Relay) readTasks(ctx context.Context, x *downstream.Exchange, l *link) []byte {
	c, err := l.server.Conn(ctx)
	var all [][]byte
	if err == nil {
		all, err = upstream.ListAll(ctx, c, "tasks/list", "tasks", nil)
	}
	if err != nil {
		l.r.o.Log.Warn("list not read", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, "tasks/list", telemetry.KeyError, err)
	}
	return l.ownTasks(requestor(x.Session), wire.Edit(nil, wire.Change{Key: "tasks", Value: array(all)}))
}
