package relay

import (
	"bytes"

	"mcp-gateway/internal/wire"
)

// mayRename tells whether a server's result can hold URIs that clients know under others, so that it
// has to be looked through.
func (t *table) mayRename(server, method string, result []byte) bool {
	if len(t.sources) < 2 || !t.sources[server] {
		return false
	}
	switch method {
	case "tools/call", "prompts/get", "tasks/result", "tasks/get":
		return bytes.Contains(result, []byte(`"resource`)) // the beginning of both types of content
	case "resources/read":
		return true
	}
	return false
}

// exposeLinks exchanges the URIs inside a server's result for those that its resources are exposed
// under: in links and embedded resources of a tool's or prompt's content, and in what was read.
func (t *table) exposeLinks(server, method string, result []byte) []byte {
	switch method {
	case "tools/call", "tasks/result":
		return t.exposeIn(server, result, "content", t.block)
	case "tasks/get": // in 2026-07-28 it holds the tool's answer
		if done := wire.Get(result, "result"); done != nil {
			return wire.Edit(result, wire.Change{Key: "result", Value: t.exposeLinks(server, "tools/call", done)})
		}
	case "resources/read":
		return t.exposeIn(server, result, "contents", t.uriOf)
	case "prompts/get":
		return t.exposeIn(server, result, "messages", func(server string, message []byte) []byte {
			content := wire.Get(message, "content")
			if changed := t.block(server, content); !bytes.Equal(changed, content) {
				return wire.Edit(message, wire.Change{Key: "content", Value: changed})
			}
			return message
		})
	}
	return result
}

// exposeIn applies change to each element of an array member.
func (t *table) exposeIn(server string, result []byte, member string, change func(string, []byte) []byte) []byte {
	var out [][]byte
	changed := false
	for element := range wire.Elements(wire.Get(result, member)) {
		other := change(server, element)
		changed = changed || !bytes.Equal(other, element)
		out = append(out, other)
	}
	if !changed {
		return result
	}
	return wire.Edit(result, wire.Change{Key: member, Value: array(out)})
}

// block exchanges the URI of one content block.
func (t *table) block(server string, block []byte) []byte {
	switch kind, _ := wire.GetString(block, "type"); kind {
	case "resource_link":
		return t.uriOf(server, block)
	case "resource":
		resource := wire.Get(block, "resource")
		if changed := t.uriOf(server, resource); !bytes.Equal(changed, resource) {
			return wire.Edit(block, wire.Change{Key: "resource", Value: changed})
		}
	}
	return block
}

// uriOf exchanges the member "uri" where clients know the resource under another one.
func (t *table) uriOf(server string, object []byte) []byte {
	own, ok := wire.GetString(object, "uri")
	if !ok {
		return object
	}
	if uri := t.exposedURI(server, own); uri != own {
		return wire.Edit(object, wire.Change{Key: "uri", Value: wire.Quote(uri)})
	}
	return object
}

// exposedURI is the URI under which clients reach a server's resource: its own one, unless that would
// lead them to another server.
func (t *table) exposedURI(server, own string) string {
	if uri, listed := t.uris[origin{server, own}]; listed {
		return uri
	}
	if other, _, known := t.resource(own); known && other != server {
		return ownURI(origin{server, own})
	}
	return own
}
