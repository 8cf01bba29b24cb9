package relay

import (
	"context"
	"fmt"
	"strings"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/wire"
)

// Initialize implements downstream.Handler.
func (r *Relay) Initialize(s *downstream.Session) []byte {
	s.Data = &state{}
	t := r.tables[legacy].Load()
	out := fmt.Appendf(nil, `{"protocolVersion":%s,"capabilities":%s,"serverInfo":%s`, wire.Quote(s.Version), r.capabilities(legacy), r.serverInfo())
	if t.instructions != "" {
		out = append(append(out, `,"instructions":`...), wire.Quote(t.instructions)...)
	}
	return append(out, '}')
}

func (r *Relay) serverInfo() []byte {
	return fmt.Appendf(nil, `{"name":"mcp-gateway","title":"MCP Gateway","version":%s}`, wire.Quote(r.o.Version))
}

// capabilities merges what the servers can do. Lists may change at any time, so all say so.
func (r *Relay) capabilities(e int) []byte {
	out := []byte(`{"tools":{"listChanged":true}`)
	if !r.o.ToolsOnly {
		if r.capable(e, "prompts") {
			out = append(out, `,"prompts":{"listChanged":true}`...)
		}
		if r.capable(e, "resources") {
			out = append(out, `,"resources":{"subscribe":true,"listChanged":true}`...)
		}
		if r.capable(e, "completions") {
			out = append(out, `,"completions":{}`...)
		}
	}
	if r.capable(e, "logging") {
		out = append(out, `,"logging":{}`...)
	}
	switch tasks := r.taskCapabilities(e); {
	case tasks == nil:
	case e == modern:
		out = fmt.Appendf(out, `,"extensions":{%q:%s}`, tasksExtension, tasks)
	default:
		out = append(append(out, `,"tasks":`...), tasks...)
	}
	return append(out, '}')
}

// Knows implements downstream.Handler: the methods of 2026-07-28.
func (r *Relay) Knows(method string) bool {
	switch method {
	case "server/discover", "tools/list", "tools/call", "subscriptions/listen":
		return true
	case "prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read", "completion/complete":
		return !r.o.ToolsOnly
	}
	return (method == "tasks/get" || method == "tasks/update" || method == "tasks/cancel") && len(r.taskServers(modern)) > 0
}

// ParamHeaders implements downstream.Handler.
func (r *Relay) ParamHeaders(tool string) []downstream.ParamHeader {
	if route := r.tables[modern].Load().tools[tool]; route != nil {
		return route.headers
	}
	return nil
}

// Serve implements downstream.Handler.
func (r *Relay) Serve(ctx context.Context, x *downstream.Exchange) {
	t := r.tables[era(x)].Load()
	if r.o.ToolsOnly && !strings.HasPrefix(x.Msg.Method, "tools/") && beyondTools(x.Msg.Method) {
		r.notFound(ctx, x)
		return
	}
	if x.Modern() && r.resume(ctx, x) {
		return
	}
	switch x.Msg.Method {
	case "tools/call":
		r.callTool(ctx, x, t)
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		r.list(ctx, x, t)
	case "ping":
		r.reply(ctx, x, []byte("{}"))
	case "server/discover":
		r.discover(ctx, x, t)
	case "prompts/get":
		r.getPrompt(ctx, x, t)
	case "resources/read":
		r.readResource(ctx, x, t)
	case "resources/subscribe", "resources/unsubscribe":
		r.subscribe(ctx, x, t)
	case "completion/complete":
		r.complete(ctx, x, t)
	case "logging/setLevel":
		r.setLevel(ctx, x)
	case "subscriptions/listen":
		r.listen(ctx, x, t)
	case "tasks/get", "tasks/result", "tasks/update", "tasks/cancel":
		r.task(ctx, x, t)
	case "tasks/list":
		r.listTasks(ctx, x, t)
	default:
		r.other(ctx, x, t)
	}
}

func beyondTools(method string) bool {
	for _, family := range []string{"prompts/", "resources/", "completion/"} {
		if strings.HasPrefix(method, family) {
			return true
		}
	}
	return false
}

func (r *Relay) reply(ctx context.Context, x *downstream.Exchange, result []byte) {
	x.Result(result)
	// A client that has gone meanwhile misses nothing that is ours to clean up.
	_ = x.Wait(ctx)
}

func (r *Relay) fail(ctx context.Context, x *downstream.Exchange, code int, format string, args ...any) {
	x.Fail(&wire.Error{Code: code, Message: fmt.Sprintf(format, args...)})
	_ = x.Wait(ctx)
}

func (r *Relay) notFound(ctx context.Context, x *downstream.Exchange) {
	r.fail(ctx, x, wire.CodeMethodNotFound, "method %q not found", x.Msg.Method)
}

// list answers with the ready-made list: one page, so any cursor is not one of ours.
func (r *Relay) list(ctx context.Context, x *downstream.Exchange, t *table) {
	if cursor := wire.Get(x.Msg.Params, "cursor"); cursor != nil && wire.Kind(cursor) != 'n' && string(cursor) != `""` {
		r.fail(ctx, x, wire.CodeInvalidParams, "cursor %.80s is not one of this list, which is given in one page", cursor)
		return
	}
	r.reply(ctx, x, t.lists[era(x)][x.Msg.Method])
}

func (r *Relay) discover(ctx context.Context, x *downstream.Exchange, t *table) {
	out := []byte(`{"resultType":"complete","supportedVersions":["` + strings.Join(downstream.Versions, `","`) + `"],"capabilities":`)
	out = append(out, r.capabilities(modern)...)
	if t.instructions != "" {
		out = append(append(out, `,"instructions":`...), wire.Quote(t.instructions)...)
	}
	out = append(out, `,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`...)
	out = append(append(out, r.serverInfo()...), `}}`...)
	r.reply(ctx, x, out)
}

// callTool brings a call to its server under the tool's own name. Arguments pass as they came.
func (r *Relay) callTool(ctx context.Context, x *downstream.Exchange, t *table) {
	name, ok := wire.String(x.Msg.Name)
	if !ok {
		r.fail(ctx, x, wire.CodeInvalidParams, `tools/call needs params with a string "name"`)
		return
	}
	params := x.Msg.Params
	switch kind := wire.Kind(x.Msg.Arguments); kind {
	case '{':
	case 0, 'n':
		// Strict servers refuse a call without arguments, or with null.
		params = wire.Edit(params, wire.Change{Key: "arguments", Value: []byte("{}")})
	default:
		r.fail(ctx, x, wire.CodeInvalidParams, `the "arguments" of tool %q are an object, not %.80s`, name, x.Msg.Arguments)
		return
	}
	route := t.tools[name]
	switch {
	case route == nil:
		r.unknownTool(ctx, x, t, name, params)
	case route.own != nil:
		route.own(ctx, x)
	default:
		if route.name != name {
			params = wire.Edit(params, wire.Change{Key: "name", Value: wire.Quote(route.name)})
		}
		r.forward(ctx, x, route.member, params)
	}
}

func (r *Relay) unknownTool(ctx context.Context, x *downstream.Exchange, t *table, name string, params []byte) {
	if r.authorized(ctx, x, name) {
		return
	}
	if l := t.alone(); l != nil && len(l.options.Allow) == 0 && len(l.options.Deny) == 0 && !r.keptForOther(givenTools, name, l.server) {
		r.forward(ctx, x, l.member, params) // the server's own error says it best
		return
	}
	hint := ""
	if near := t.nearest(name); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	r.fail(ctx, x, wire.CodeInvalidParams, "unknown tool %q%s", name, hint)
}

// keptForOther tells whether clients know a name as another server's, which has left.
func (r *Relay) keptForOther(names func(*given) map[string]origin, name, server string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	holder, known := names(r.given)[name]
	return known && holder.server != server
}

func (r *Relay) getPrompt(ctx context.Context, x *downstream.Exchange, t *table) {
	name, _ := wire.String(x.Msg.Name)
	params := x.Msg.Params
	if route := t.prompts[name]; route != nil {
		if route.name != name {
			params = wire.Edit(params, wire.Change{Key: "name", Value: wire.Quote(route.name)})
		}
		r.forward(ctx, x, route.member, params)
		return
	}
	if m := t.only("prompts"); m != nil && !r.keptForOther(givenPrompts, name, m.Name) {
		r.forward(ctx, x, m, params)
		return
	}
	r.fail(ctx, x, wire.CodeInvalidParams, "unknown prompt %q", name)
}

// other passes on a method that we know nothing of, where it is clear to whom.
func (r *Relay) other(ctx context.Context, x *downstream.Exchange, t *table) {
	if l := t.alone(); l != nil {
		r.forward(ctx, x, l.member, x.Msg.Params)
		return
	}
	r.notFound(ctx, x)
}
