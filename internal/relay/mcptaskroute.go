package relay

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// requestor is who asks for tasks: the session, or for a client without one nil, since there the id is all
// that tells whose a task is.
func requestor(s *downstream.Session) any {
	if s == nil {
		return nil
	}
	return s
}

// taskSpace is that within which the ids of the server's tasks are told apart: the process, or for a
// remote server all that is behind its URL.
func (l *link) taskSpace() any {
	if l.m.Remote {
		return l.m
	}
	return l
}

// taskCapability is what the server says of its tasks, nil where it has none.
func (l *link) taskCapability() []byte {
	listing := l.listing.Load()
	if listing == nil {
		return nil
	}
	capability := wire.Get(listing.capabilities, "tasks")
	if l.modern.Load() {
		capability = wire.Get(wire.Get(listing.capabilities, "extensions"), tasksExtension)
	}
	if wire.Kind(capability) != '{' {
		return nil
	}
	return capability
}

// taskServers lists the servers with tasks for clients of an era. The tasks of the older revisions are
// nothing that a client of 2026-07-28 knows.
func (r *Relay) taskServers(e int) []*member {
	var with []*member
	for _, listing := range r.tables[e].Load().listings {
		m := listing.member
		if l := m.links[e]; l.taskCapability() != nil && (e == legacy || l.modern.Load()) {
			with = append(with, m)
		}
	}
	return with
}

// taskCapabilities merges what the servers say of their tasks: nil where none has them.
func (r *Relay) taskCapabilities(e int) []byte {
	var merged []byte
	for _, m := range r.taskServers(e) {
		if l := m.links[e]; l.modern.Load() == (e == modern) {
			merged = mergeObjects(merged, l.taskCapability())
		}
	}
	return merged
}

// mergeObjects adds the members of b to a, those of objects that both have too.
func mergeObjects(a, b []byte) []byte {
	if a == nil {
		return b
	}
	for key, value := range wire.Members(b) {
		switch had := wire.Get(a, key); {
		case had == nil:
			a = wire.Edit(a, wire.Change{Key: key, Value: value})
		case wire.Kind(had) == '{' && wire.Kind(value) == '{':
			a = wire.Edit(a, wire.Change{Key: key, Value: mergeObjects(had, value)})
		}
	}
	return a
}

// task brings a request for a task to the server that runs it.
func (r *Relay) task(ctx context.Context, x *downstream.Exchange, t *table) {
	id, ok := wire.GetString(x.Msg.Params, "taskId")
	servers := r.taskServers(era(x))
	switch {
	case len(servers) == 0:
		r.other(ctx, x, t)
		return
	case !ok && len(servers) > 1:
		r.fail(ctx, x, wire.CodeInvalidParams, `%s needs params with a string "taskId"`, x.Msg.Method)
		return
	}
	m, own := r.taskServer(ctx, x, servers, id)
	if m == nil {
		r.noTask(ctx, x)
		return
	}
	params := x.Msg.Params
	if own != id {
		params = wire.Edit(params, wire.Change{Key: "taskId", Value: wire.Quote(own)})
	}
	r.forward(ctx, x, m, params)
}

// noTask refuses a request for a task that no server has for this client.
func (r *Relay) noTask(ctx context.Context, x *downstream.Exchange) {
	if x.Modern() && !declaresTasks(x) {
		x.Fail(missingTasks)
		_ = x.Wait(ctx)
		return
	}
	r.fail(ctx, x, wire.CodeInvalidParams, "failed to retrieve task: task %.80s not found", wire.Get(x.Msg.Params, "taskId"))
}

// declaresTasks tells whether a client of 2026-07-28 has declared that it knows tasks.
func declaresTasks(x *downstream.Exchange) bool {
	extensions := wire.Get(wire.Get(x.Msg.Meta, downstream.MetaCapabilities), "extensions")
	return wire.Kind(wire.Get(extensions, tasksExtension)) == '{'
}

// missingTasks is for a client that has not.
var missingTasks = &wire.Error{
	Code: wire.CodeMissingCapability, Message: "missing required client capability: the extension " + tasksExtension,
	Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
}

// taskServer finds the server of a task, and the id that it is known by there. A task that was never seen
// here is asked for at each server, where no other client has it; it may be older than the gateway. Of one
// server alone, its own error says it best.
func (r *Relay) taskServer(ctx context.Context, x *downstream.Exchange, servers []*member, id string) (m *member, own string) {
	who := requestor(x.Session)
	if t := r.book.find(who, id); t != nil {
		if l, ok := t.receiver.(*link); ok && slices.Contains(servers, l.m) {
			return l.m, t.own
		}
	}
	own = id
	if o, ours := parseOwnURI(id); ours {
		servers = slices.DeleteFunc(slices.Clone(servers), func(m *member) bool { return m.Name != o.server })
		own = o.name
	}
	servers = slices.DeleteFunc(slices.Clone(servers), func(m *member) bool {
		l := r.taskLink(x, m)
		if l == nil {
			return true
		}
		t := r.book.in(l.taskSpace(), own)
		return t != nil && !t.mine(who)
	})
	switch len(servers) {
	case 0:
		return nil, ""
	case 1:
		return servers[0], own
	}
	if m = r.whoKnows(ctx, x, servers, own); m != nil {
		l := r.taskLink(x, m)
		r.book.add(&mcpTask{requestor: who, receiver: l, space: l.taskSpace(), own: own}, func(int64) string { return id })
	}
	return m, own
}

// taskLink is linkFor where a client may have tasks at all: nil where a process of its own is not there,
// which would know of none.
func (r *Relay) taskLink(x *downstream.Exchange, m *member) *link {
	if x.Session != nil && m.Options.Isolated && !m.Remote && stateOf(x.Session).ownOf(m) == nil {
		return nil
	}
	return r.linkFor(x, m)
}

// probeLimit bounds how long servers are asked side by side for what may be theirs.
const probeLimit = 10 * time.Second

// whoKnows asks servers for a task and returns the first by name that has it, nil for none.
func (r *Relay) whoKnows(ctx context.Context, x *downstream.Exchange, servers []*member, own string) *member {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	x.OnAbandon(cancel)
	params := wire.Edit(nil, wire.Change{Key: "taskId", Value: wire.Quote(own)})
	if x.Modern() {
		params = wire.Edit(params, wire.Change{Key: "_meta", Value: x.Msg.Meta})
	}
	knows := make([]bool, len(servers))
	var all sync.WaitGroup
	for i, m := range servers {
		all.Go(func() {
			l := r.linkFor(x, m)
			c, err := l.server.Conn(ctx)
			if err == nil {
				_, err = upstream.Ask(ctx, c, "tasks/get", l.outgoing(x, params))
			}
			knows[i] = err == nil
		})
	}
	all.Wait()
	if i := slices.Index(knows, true); i >= 0 {
		return servers[i]
	}
	return nil
}

// taskResult notes the task that an answer tells of, and exchanges ids where the client knows others. The
// caller holds mu.
func (k *call) taskResult(m wire.Msg) wire.Msg {
	l := k.link
	result := m.Result
	switch {
	case k.method == "tools/call" && (k.asTask != nil || l.modern.Load() && bytes.Contains(m.Result, []byte(`"task"`))):
		result = k.newTask(m)
	case m.Result == nil || !strings.HasPrefix(k.method, "tasks/"):
		return m
	case k.method == "tasks/list":
		result = l.ownTasks(requestor(k.session), result)
	default:
		own, _ := wire.GetString(k.params, "taskId")
		t := l.r.book.in(l.taskSpace(), own)
		if t == nil || !t.mine(requestor(k.session)) {
			return m
		}
		if k.method != "tasks/result" { // which holds the answer of the tool
			l.r.book.heard(t, result)
		}
		result = renameTask(result, own, t.exposed)
	}
	if bytes.Equal(result, m.Result) {
		return m
	}
	changed, err := wire.ParseServer(wire.Reply(m.ID, result))
	if err != nil {
		return m
	}
	return changed
}

// newTask remembers the task that a tool's answer is, if it is one, and returns the result for the client.
func (k *call) newTask(m wire.Msg) []byte {
	l, state := k.link, []byte(nil)
	switch kind, _ := wire.GetString(m.Result, "resultType"); {
	case l.modern.Load() && kind == "task":
		state = m.Result
	case !l.modern.Load():
		state = wire.Get(m.Result, "task")
	}
	own, ok := wire.GetString(state, "taskId")
	if !ok {
		if m.Result != nil || m.Err != nil { // else the call is about to be cancelled
			k.asTask.release()
		}
		return m.Result
	}
	t := l.r.book.add(&mcpTask{
		requestor: requestor(k.session), receiver: l, space: l.taskSpace(), own: own, ends: taskEnds(state), hold: k.asTask,
	}, func(int64) string { return ownURI(origin{l.m.Name, own}) })
	for _, early := range l.takeEarly(own) {
		l.r.book.heard(t, early.Params)
		if k.x != nil {
			k.x.Send(early.ParamsWith(renameTask(early.Params, own, t.exposed)))
		}
	}
	return renameTask(m.Result, own, t.exposed)
}

// These bound what a server has said of tasks before it has given them out: messages, and bytes of each.
const (
	maxEarly     = 64
	maxEarlySize = 64 << 10
)

// taskStatus tells the session whose task it is of its state. What comes before the answer that the task is,
// waits for that.
func (l *link) taskStatus(c upstream.Conn, m wire.Msg) {
	own, _ := wire.GetString(m.Params, "taskId")
	l.mu.Lock()
	t := l.r.book.in(l.taskSpace(), own)
	if t == nil && len(m.Params) <= maxEarlySize {
		l.early = append(l.early[max(0, len(l.early)+1-maxEarly):], m)
	}
	l.mu.Unlock()
	if t == nil {
		return
	}
	l.r.book.heard(t, m.Params)
	if s := t.session(); s != nil {
		m.Raw = m.ParamsWith(renameTask(m.Params, own, t.exposed))
		l.toSession(c, s, m, rankAll)
	}
}

// takeEarly returns what was said of a task before it was known.
func (l *link) takeEarly(own string) (about []wire.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = slices.DeleteFunc(l.early, func(m wire.Msg) bool {
		id, _ := wire.GetString(m.Params, "taskId")
		if id == own {
			about = append(about, m)
		}
		return id == own
	})
	return about
}

// ofTask finds the task that a server's message says it is about, and gives the message the id that the
// client knows.
func (l *link) ofTask(m wire.Msg) (*mcpTask, wire.Msg) {
	if !bytes.Contains(m.Params, []byte(relatedTask)) {
		return nil, m
	}
	own := relatedTo(m.Params)
	t := l.r.book.in(l.taskSpace(), own)
	if t != nil && t.exposed != own {
		params := renameTask(m.Params, own, t.exposed)
		m.Raw = m.ParamsWith(params)
		m.Params = params
	}
	return t, m
}
