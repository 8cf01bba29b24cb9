package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mcp-gateway/internal/wire"
)

// Identity is what the gateway says of itself to servers.
type Identity struct {
	ClientInfo   []byte // raw JSON: name, version
	Capabilities []byte // raw JSON: client capabilities announced
}

// versions that a server may choose in its answer to initialize.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// errInvalid marks an answer that is no handshake of MCP.
var errInvalid = errors.New("invalid handshake")

// initialize opens a connection of the revisions before 2026-07-28.
func initialize(ctx context.Context, c Conn, id Identity) (Hello, error) {
	h, err := greet(ctx, c, id)
	if err != nil {
		return h, err
	}
	return h, c.Notify("notifications/initialized", nil)
}

// greet agrees on a revision; notifications/initialized comes next.
func greet(ctx context.Context, c Conn, id Identity) (Hello, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, Legacy, id.Capabilities, id.ClientInfo)
	result, err := Ask(ctx, c, "initialize", params)
	if err != nil {
		return Hello{}, handshakeError(err)
	}
	h, err := readHello(result)
	if err != nil {
		return h, err
	}
	version, ok := wire.GetString(result, "protocolVersion")
	if !ok || !slices.Contains(versions, version) {
		return h, fmt.Errorf("%w: it wants protocol version %s; known are %v", errInvalid, wire.Get(result, "protocolVersion"), versions)
	}
	h.Version = version
	return h, nil
}

// discover opens a connection of 2026-07-28, where nothing is agreed on beyond what the server says
// of itself.
func discover(ctx context.Context, c Conn, id Identity) (Hello, error) {
	params := wire.Edit(nil, wire.Change{Key: "_meta", Value: ModernMeta(id)})
	result, err := Ask(ctx, c, "server/discover", params)
	if err != nil {
		return Hello{}, handshakeError(err)
	}
	h, err := readHello(result)
	if err != nil {
		return h, err
	}
	for v := range wire.Elements(wire.Get(result, "supportedVersions")) {
		if s, _ := wire.String(v); s == Modern {
			h.Version = Modern
			return h, nil
		}
	}
	return h, fmt.Errorf("%w: it supports the protocol versions %.100s, not %s", errInvalid, wire.Get(result, "supportedVersions"), Modern)
}

// ModernMeta is the _meta that every request of 2026-07-28 carries.
func ModernMeta(id Identity) []byte {
	return fmt.Appendf(nil, `{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":%s,"io.modelcontextprotocol/clientCapabilities":%s}`, Modern, id.ClientInfo, id.Capabilities)
}

func readHello(result []byte) (Hello, error) {
	if wire.Kind(result) != '{' {
		return Hello{}, fmt.Errorf("%w: its result is no object: %.100s", errInvalid, result)
	}
	h := Hello{Raw: result, Capabilities: wire.Get(result, "capabilities"), ServerInfo: wire.Get(result, "serverInfo")}
	h.Instructions, _ = wire.GetString(result, "instructions")
	if wire.Kind(h.Capabilities) != '{' {
		h.Capabilities = []byte("{}")
	}
	return h, nil
}

// handshakeError tells a server's refusal from its end and from a time-out.
func handshakeError(err error) error {
	var refused *ResponseError
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	return err
}
