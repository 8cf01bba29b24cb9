package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

// remote reads a server that is reached by its URL.
func (e *entry) remote(variables map[string]secret.Value) catalog.Launch {
	launch := catalog.Launch{Kind: catalog.Remote}
	before := len(e.problems)
	launch.URL = e.program("url")
	if message := catalog.CheckURL(launch.URL); message != "" && len(e.problems) == before {
		e.problem("url", message, "")
	}
	launch.Headers = e.headers(variables)
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

// headers reads what is sent with every request. ${NAME} in a value is the entry's own variable; the
// gateway's environment has no part in it, and any other $ is itself.
func (e *entry) headers(variables map[string]secret.Value) map[string]secret.Value {
	headers := map[string]secret.Value{}
	raw, ok := e.take("headers")
	if !ok {
		return headers
	}
	seen := map[string]bool{}
	for _, member := range e.object("headers", raw, " of strings") {
		at := document.Field("headers", member.Name)
		before := len(e.problems)
		text := e.fill(at, e.oneText(at, member.Value), variables)
		if message := catalog.CheckHeader(member.Name, text); message != "" && len(e.problems) == before {
			e.problem(at, message, "")
		}
		if key := strings.ToLower(member.Name); seen[key] && !member.Repeated {
			e.problem(at, "is there twice, since capitals do not count", "")
		} else {
			seen[key] = true
		}
		headers[member.Name] = secret.Value(text)
	}
	return headers
}

// reference is a variable in a header's value, or what looks like one of another program's.
var reference = regexp.MustCompile(`\$\{[^{}]*\}`)

// fill replaces the references to variables. One that is not set is a mistake: the server would be sent
// the text itself, or nothing.
func (e *entry) fill(at, text string, variables map[string]secret.Value) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		name := found[2 : len(found)-1]
		value, set := variables[name]
		switch {
		case set:
			e.referred[name] = true
		case catalog.CheckEnvName(name) == "":
			e.problem(at, fmt.Sprintf("names the variable %q, which is not in the entry's envs", name), fmt.Sprintf(`give it as "envs": {%q: "…"}; the gateway's own environment is not looked at`, name))
		default:
			e.problem(at, "holds ${…} around what is not the name of a variable", "${NAME} stands for a variable of the entry's envs")
		}
		return value.Reveal()
	})
}

func hasAuthorization(headers map[string]secret.Value) bool {
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// checkRemote warns of what has no effect on a server that the gateway does not start.
func (e *entry) checkRemote(server *Server, variables map[string]secret.Value) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !e.referred[name] {
			e.warn("the variable %q has no effect on a remote server, as no header names it", name)
		}
	}
	if e.signsIn && hasAuthorization(server.Launch.Headers) {
		e.warn("gateway.oauth has no effect, as headers has an Authorization of its own")
	}
	if server.Options.User != "" {
		e.warn("gateway.user has no effect on a remote server")
	}
}
