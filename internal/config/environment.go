package config

import (
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

func holdsNUL(text string) bool { return strings.ContainsRune(text, 0) }

// environment reads envs, and env, which is its name in clients' files.
func (e *entry) environment() map[string]secret.Value {
	values := map[string]secret.Value{}
	for _, field := range []string{"envs", "env"} {
		raw, ok := e.take(field)
		if !ok {
			continue
		}
		for _, member := range e.object(field, raw, " of strings") {
			at := document.Field(field, member.Name)
			if message := catalog.CheckEnvName(member.Name); message != "" {
				e.problem(at, message, "")
			}
			if _, both := values[member.Name]; both && !member.Repeated {
				e.problem(at, "is in envs as well", "")
			}
			values[member.Name] = secret.Value(e.oneText(at, member.Value))
		}
	}
	return values
}
