package relay

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// A task of MCP outlives the request that began it: whoever began it asks for it by an id that the other
// side has given it. So the gateway remembers whose each id is. Servers run tasks for clients (mcptaskroute.go),
// and up to 2025-11-25 clients run tasks for servers (mcptaskasks.go).

// mcpTask is a task of one side that the other has begun. What is in it does not change, but for what is
// marked.
type mcpTask struct {
	requestor any // may use it: a *downstream.Session, a *link, or nil for any client of 2026-07-28
	receiver  any // runs it: a *link or a *downstream.Session
	space     any // no two tasks in it have the same id
	own       string
	exposed   string // under which the requestor knows it
	number    int64
	ends      time.Time  // when it may be forgotten, zero for never; under the book's mu
	hold      *tokenHold // keeps its progress token; nil for none
}

// taskKey is an id as a requestor or a space knows it.
type taskKey struct {
	of any
	id string
}

// taskBook remembers tasks, for as long as they live and its bounds allow.
type taskBook struct {
	mu    sync.Mutex
	known map[taskKey]*mcpTask // by requestor and exposed id
	held  map[taskKey]*mcpTask // by space and own id
	next  int64
	sweep int // how many held ones there may be until it is looked through
}

const (
	maxTasks = 10_000
	// taskMargin is how long a task is remembered beyond the time to live that its receiver gave it.
	taskMargin = time.Minute
	// guessable ids are shorter than this: receivers that tell their requestors apart by connections may
	// number tasks, and all clients have one connection to a shared server.
	guessable = 16
)

// over stands for a session that has ended: its tasks are nobody's.
type over struct{}

// add remembers a task and gives it the id that its requestor is to know. alias makes one where the
// requestor knows another task by its own id. A task that is there already is returned; one of another
// requestor with the same id has ended with the process that ran it.
func (b *taskBook) add(t *mcpTask, alias func(number int64) string) *mcpTask {
	if len(t.own) > maxID { // too long to remember, and to guess
		t.exposed = t.own
		t.hold.release()
		return t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.held[taskKey{t.space, t.own}]; old != nil {
		if old.requestor == t.requestor && old.receiver == t.receiver && t.hold == nil {
			old.ends = t.ends
			return old
		}
		b.drop(old)
	}
	if b.known == nil {
		b.known, b.held = map[taskKey]*mcpTask{}, map[taskKey]*mcpTask{}
	}
	b.next++
	t.number, t.exposed = b.next, t.own
	if b.known[taskKey{t.requestor, t.own}] != nil || strings.HasPrefix(t.own, ownScheme) {
		t.exposed = alias(t.number)
	}
	b.bound()
	b.known[taskKey{t.requestor, t.exposed}] = t
	b.held[taskKey{t.space, t.own}] = t
	return t
}

// drop forgets a task. The caller holds mu.
func (b *taskBook) drop(t *mcpTask) {
	if key := (taskKey{t.requestor, t.exposed}); b.known[key] == t {
		delete(b.known, key)
	}
	if key := (taskKey{t.space, t.own}); b.held[key] == t {
		delete(b.held, key)
	}
	t.hold.release()
}

// bound forgets what has ended, and the oldest where there is too much. The caller holds mu.
func (b *taskBook) bound() {
	if len(b.held) < b.sweep {
		return
	}
	now := time.Now()
	var left []*mcpTask
	for _, t := range b.held {
		if t.ended(now) {
			b.drop(t)
		} else {
			left = append(left, t)
		}
	}
	if len(left) >= maxTasks {
		slices.SortFunc(left, func(a, b *mcpTask) int { return cmp.Compare(a.number, b.number) })
		for _, t := range left[:len(left)-maxTasks*3/4] {
			b.drop(t)
		}
	}
	b.sweep = min(max(64, 2*len(b.held)), maxTasks)
}

// ended tells whether the task has outlived its time.
func (t *mcpTask) ended(now time.Time) bool { return !t.ends.IsZero() && now.After(t.ends) }

// find returns the task that a requestor knows by an id, nil for none.
func (b *taskBook) find(requestor any, exposed string) *mcpTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live(b.known[taskKey{requestor, exposed}])
}

// in returns the task that has an id in a space, nil for none.
func (b *taskBook) in(space any, own string) *mcpTask {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live(b.held[taskKey{space, own}])
}

func (b *taskBook) live(t *mcpTask) *mcpTask {
	if t != nil && t.ended(time.Now()) {
		b.drop(t)
		return nil
	}
	return t
}

// heard notes what a receiver has said of a task: its time to live, and that it has come to its end.
func (b *taskBook) heard(t *mcpTask, state []byte) {
	status, _ := wire.GetString(state, "status")
	if status == "" {
		return
	}
	b.mu.Lock()
	t.ends = taskEnds(state)
	b.mu.Unlock()
	if status == "completed" || status == "failed" || status == "cancelled" {
		t.hold.release()
	}
}

// taskEnds is when a task with this state may be forgotten.
func taskEnds(state []byte) time.Time {
	ttl := wire.Get(state, "ttl")
	if ttl == nil {
		ttl = wire.Get(state, "ttlMs")
	}
	ms, err := strconv.ParseFloat(string(ttl), 64)
	if err != nil || ms < 0 || ms > float64(maxTTL.Milliseconds()) {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ms)*time.Millisecond + taskMargin)
}

// maxTTL is a time to live that is as good as none.
const maxTTL = 365 * 24 * time.Hour

// forget takes out what a party that has ended had begun or was running. Where somebody could guess the
// id of a task that goes on, it is still known as nobody's.
func (b *taskBook) forget(party any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.held {
		_, session := t.requestor.(*downstream.Session)
		switch {
		case t.requestor == party && session && len(t.own) < guessable:
			b.drop(t)
			b.held[taskKey{t.space, t.own}] = &mcpTask{requestor: over{}, receiver: t.receiver, space: t.space, own: t.own, number: t.number, ends: t.ends}
		case t.requestor == party || t.receiver == party:
			b.drop(t)
		}
	}
}

// mine tells whether a requestor may use the task: it has begun it, or it was begun by a client of
// 2026-07-28, which has nothing but the id.
func (t *mcpTask) mine(requestor any) bool { return t.requestor == requestor || t.requestor == nil }

// session is the client that has begun the task, nil where that is none with a session.
func (t *mcpTask) session() *downstream.Session {
	s, _ := t.requestor.(*downstream.Session)
	return s
}

// tokenHold keeps the progress token of the call that began a task taken until that has come to its end.
type tokenHold struct {
	mu       sync.Mutex
	up       upstream.Call
	released bool
}

// take is told the call.
func (h *tokenHold) take(up upstream.Call) {
	h.mu.Lock()
	h.up = up
	released := h.released
	h.mu.Unlock()
	if released {
		up.Cancel(nil) // it is answered, so nothing is sent
	}
}

// release gives the token free.
func (h *tokenHold) release() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.released = true
	up := h.up
	h.mu.Unlock()
	if up != nil {
		up.Cancel(nil)
	}
}

// Keys and members by which messages name tasks.
const (
	relatedTask    = "io.modelcontextprotocol/related-task"
	tasksExtension = "io.modelcontextprotocol/tasks"
)

// renameTask exchanges a task's id wherever a result or params of tasks hold it: as their own, in the task
// that was begun, and in _meta.
func renameTask(object []byte, from, to string) []byte {
	if from == to {
		return object
	}
	for _, path := range [][]string{{"taskId"}, {"task", "taskId"}, {"_meta", relatedTask, "taskId"}} {
		object = renameAt(object, path, from, to)
	}
	return object
}

func renameAt(object []byte, path []string, from, to string) []byte {
	if len(path) == 1 {
		if id, ok := wire.GetString(object, path[0]); ok && id == from {
			return wire.Edit(object, wire.Change{Key: path[0], Value: wire.Quote(to)})
		}
		return object
	}
	inner := wire.Get(object, path[0])
	if wire.Kind(inner) != '{' {
		return object
	}
	if changed := renameAt(inner, path[1:], from, to); string(changed) != string(inner) {
		return wire.Edit(object, wire.Change{Key: path[0], Value: changed})
	}
	return object
}

// relatedTo is the id of the task that a message is about, "" where it names none.
func relatedTo(params []byte) string {
	id, _ := wire.GetString(wire.Get(wire.Get(params, "_meta"), relatedTask), "taskId")
	return id
}
