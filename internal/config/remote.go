package config

import (
	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

// remote reads a server that is reached by its URL.
func (e *entry) remote() catalog.Launch {
	launch := catalog.Launch{Kind: catalog.Remote}
	before := len(e.problems)
	launch.URL = e.program("url")
	if message := catalog.CheckURL(launch.URL); message != "" && len(e.problems) == before {
		e.problem("url", message, "")
	}
	launch.Headers = e.headers()
	// Clients name the transport in one of two fields; only the old one has to be known.
	for _, field := range []string{"type", "transport"} {
		if text, ok := document.String(e.fields[field]); ok && text == "sse" {
			e.used[field] = true
			launch.Transport = "sse"
		}
	}
	e.warnUnknown("field", "url", "headers", "envs", "env", "gateway")
	return launch
}

func (e *entry) headers() map[string]secret.Value {
	headers := map[string]secret.Value{}
	raw, ok := e.take("headers")
	if !ok {
		return headers
	}
	for _, member := range e.object("headers", raw, " of strings") {
		at := document.Field("headers", member.Name)
		before := len(e.problems)
		text := e.oneText(at, member.Value)
		if message := catalog.CheckHeader(member.Name, text); message != "" && len(e.problems) == before {
			e.problem(at, message, "")
		}
		headers[member.Name] = secret.Value(text)
	}
	return headers
}

// checkRemote warns of what has no effect on a server that the gateway does not start.
func (e *entry) checkRemote(server *Server, hasEnvironment bool) {
	if hasEnvironment {
		e.warn("environment variables have no effect on a remote server")
	}
	if server.Options.User != "" {
		e.warn("gateway.user has no effect on a remote server")
	}
}
