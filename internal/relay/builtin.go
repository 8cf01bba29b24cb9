package relay

import (
	"context"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/wire"
)

// ownName is the server that the gateway's own tools are shown with.
const ownName = "mcp-gateway"

// BuiltIn is a tool of the gateway's own.
type BuiltIn struct {
	Tool []byte // as listed: name, description, inputSchema
	// Call answers with a CallToolResult, raw. It may ask the exchange's client. Its context ends when the
	// client does not wait any more.
	Call func(ctx context.Context, x *downstream.Exchange, arguments []byte) []byte
}

// SetBuiltIns replaces the gateway's own tools, and tells the clients of the change. They stand before
// those of the servers and are always exposed under their own names.
func (r *Relay) SetBuiltIns(tools []BuiltIn) {
	r.mu.Lock()
	r.builtIns = tools
	r.mu.Unlock()
	r.rebuild()
	r.announce(features[0].changed)
}

// handler answers a call of one of the gateway's own tools.
type handler func(ctx context.Context, x *downstream.Exchange)

// ownListing lists the gateway's own tools. The caller holds mu.
func (r *Relay) ownListing(now *roster) *listing {
	l := &listing{own: map[string]handler{}}
	for _, b := range r.builtIns {
		name, _ := wire.GetString(b.Tool, "name")
		l.tools = append(l.tools, b.Tool)
		l.own[name] = func(ctx context.Context, x *downstream.Exchange) { r.callBuiltIn(ctx, x, b) }
	}
	now.listAuthorizing(l)
	return l
}

func (r *Relay) callBuiltIn(ctx context.Context, x *downstream.Exchange, b BuiltIn) {
	arguments := orEmpty(x.Msg.Arguments, []byte("{}"))
	r.aside(ctx, x, func(ctx context.Context) { x.Result(completed(x, b.Call(ctx, x, arguments))) })
}

// completed marks a result of the gateway's own as a final one, for the clients that want that.
func completed(x *downstream.Exchange, result []byte) []byte {
	if !x.Modern() || wire.Get(result, "resultType") != nil {
		return result
	}
	return wire.Edit(result, wire.Change{Key: "resultType", Value: []byte(`"complete"`)})
}
