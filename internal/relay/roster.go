package relay

import (
	"context"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
)

// BuiltIn is a tool of the gateway's own.
type BuiltIn struct {
	Tool []byte // as listed: name, description, inputSchema
	// Call answers with a CallToolResult, raw. It may ask the exchange's client.
	Call func(ctx context.Context, x *downstream.Exchange, arguments []byte) []byte
}

// SetBuiltIns replaces the gateway's own tools, and tells the clients of the change.
func (r *Relay) SetBuiltIns([]BuiltIn) {}

// Add starts one more server. Once it is ready its tools are routed and the clients told; where it fails,
// it is gone again. A name that is there already is a mistake of the caller.
func (r *Relay) Add(context.Context, Member) *fault.Fault { return nil }

// Remove takes a server away: its tools go at once, calls in flight end with an error, its processes are
// gone when it returns. False where there is none of that name.
func (r *Relay) Remove(_ context.Context, name string) bool { return false }

// Restart ends a server's processes and makes it ready again.
func (r *Relay) Restart(_ context.Context, name string) *fault.Fault { return nil }
