package relay

import (
	"context"
	"strings"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/wire"
)

// listener is a subscriptions/listen of a client of 2026-07-28.
type listener struct {
	x       *downstream.Exchange
	methods map[string]bool // list_changed notifications wanted
	uris    map[string]bool // resources wanted, by the URI that the client knows
	meta    []byte          // that marks its notifications
}

// listenFor maps the members of the request's "notifications" to what is sent.
var listenFor = []struct{ key, method string }{
	{"toolsListChanged", "notifications/tools/list_changed"},
	{"promptsListChanged", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "notifications/resources/list_changed"},
}

// listen serves subscriptions/listen: first what is agreed to, then what happens, until the client
// leaves or the gateway ends.
func (r *Relay) listen(ctx context.Context, x *downstream.Exchange, t *table) {
	wants := wire.Get(x.Msg.Params, "notifications")
	if wire.Kind(wants) != '{' {
		r.fail(ctx, x, wire.CodeInvalidParams, `subscriptions/listen needs params with an object "notifications"`)
		return
	}
	n := &listener{x: x, methods: map[string]bool{}, uris: map[string]bool{},
		meta: wire.Edit(nil, wire.Change{Key: downstream.MetaSubscriptionID, Value: x.Msg.ID})}
	agreed := []byte("{}")
	for i, to := range listenFor {
		if string(wire.Get(wants, to.key)) == "true" && (i == 0 || !r.o.ToolsOnly) {
			n.methods[to.method] = true
			agreed = wire.Edit(agreed, wire.Change{Key: to.key, Value: []byte("true")})
		}
	}
	var watches []watch
	if uris := wire.Get(wants, "resourceSubscriptions"); uris != nil && !r.o.ToolsOnly {
		agreed = wire.Edit(agreed, wire.Change{Key: "resourceSubscriptions", Value: uris})
		for v := range wire.Elements(uris) {
			uri, _ := wire.String(v)
			n.uris[uri] = true
			if w, ok := r.watchFor(uri, t); ok {
				watches = append(watches, w)
			}
		}
	}
	if ids := wire.Get(wants, "taskIds"); ids != nil && len(r.taskServers(modern)) > 0 {
		if !declaresTasks(x) {
			x.Fail(missingTasks)
			_ = x.Wait(ctx)
			return
		}
		tasks, keys := r.watchTasks(ctx, x, ids)
		agreedIDs := [][]byte{}
		for _, key := range keys {
			n.uris[key] = true
			agreedIDs = append(agreedIDs, wire.Quote(strings.TrimPrefix(key, taskWatch)))
		}
		watches = append(watches, tasks...)
		agreed = wire.Edit(agreed, wire.Change{Key: "taskIds", Value: array(agreedIDs)})
	}
	x.Require(wire.Notification("notifications/subscriptions/acknowledged", n.params(wire.Edit(nil, wire.Change{Key: "notifications", Value: agreed}))))
	r.mu.Lock()
	silent := r.silent
	r.listeners[n] = struct{}{}
	r.mu.Unlock()
	if silent {
		n.end()
	}
	for _, w := range watches {
		w.l.watch(w.own)
	}
	_ = x.Wait(ctx) // however it ends, the listener has left
	r.mu.Lock()
	delete(r.listeners, n)
	r.mu.Unlock()
	for _, w := range watches {
		w.l.unwatch(w.own)
	}
}

// watchFor finds the server of a URI that a client of 2026-07-28 wants to know of.
func (r *Relay) watchFor(uri string, t *table) (watch, bool) {
	server, own, known := t.resource(uri)
	m := t.only("resources")
	if known {
		m = t.members[server]
	}
	if m == nil {
		return watch{}, false
	}
	return watch{m.links[modern], own}, true
}

// params marks a notification's params with the listener's id.
func (n *listener) params(params []byte) []byte {
	meta := wire.Edit(wire.Get(params, "_meta"), wire.Change{Key: downstream.MetaSubscriptionID, Value: n.x.Msg.ID})
	return wire.Edit(params, wire.Change{Key: "_meta", Value: meta})
}

// tell sends a notification to the listeners that want it: one of a list by its method, one of a
// resource by its URI.
func (r *Relay) tell(method, uri string, params []byte) {
	r.mu.Lock()
	var to []*listener
	for n := range r.listeners {
		if n.methods[method] && uri == "" || uri != "" && n.uris[uri] {
			to = append(to, n)
		}
	}
	r.mu.Unlock()
	for _, n := range to {
		n.x.Require(wire.Notification(method, n.params(params)))
	}
}

// EndListening answers all subscriptions/listen: the gateway is being stopped.
func (r *Relay) EndListening() {
	r.mu.Lock()
	r.silent = true
	var all []*listener
	for n := range r.listeners {
		all = append(all, n)
	}
	r.mu.Unlock()
	for _, n := range all {
		n.end()
	}
}

func (n *listener) end() {
	n.x.Result(wire.Edit([]byte(`{"resultType":"complete"}`), wire.Change{Key: "_meta", Value: n.meta}))
}
