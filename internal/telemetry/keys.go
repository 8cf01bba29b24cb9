package telemetry

// The attribute keys of log records. Where OpenTelemetry's conventions for MCP have a name, it is that
// one; "server" is the contract's, and is on every line about a server.
const (
	KeyServer    = "server"
	KeyPid       = "pid"
	KeyMethod    = "mcp.method.name"
	KeyProtocol  = "mcp.protocol.version"
	KeyTool      = "gen_ai.tool.name"
	KeyTransport = "network.transport"
	KeyPeer      = "network.peer.address"
	KeyError     = "error"
	KeyCause     = "cause"
	KeyLine      = "line"
	KeyCommand   = "command"
	KeyURL       = "url"
	KeyListen    = "listen"
	KeyEnded     = "ended"
	KeyDuration  = "duration"
	KeyServers   = "servers"
	KeyTools     = "tools"
	KeyCount     = "count"
	KeyBytes     = "bytes"
	KeyLimit     = "limit"
	KeyVersion   = "version"
	KeyPath      = "path"
	KeyHint      = "hint"
)
