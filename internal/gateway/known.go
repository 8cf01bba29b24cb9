package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/telemetry"
)

// lookup says what a key stands for: its registration, where one comes with it, else what was asked for
// under it, else what it was in the configuration or an earlier registration, else the catalogue's entry.
// What an operator has taken away again, secrets included, is none of an agent's. The caller holds mu.
func (f *fleet) lookup(name string, registration json.RawMessage, agent bool) (config.Server, error) {
	if !document.IsNull(registration) {
		return f.register(name, registration)
	}
	if a := f.find(name); a != nil {
		return a.server, nil
	}
	if server, ok := f.known[name]; ok && !agent {
		return server, nil
	}
	if _, ok := f.g.o.Catalog.Lookup(name); !ok {
		return config.Server{}, f.unknown(name)
	}
	key, err := json.Marshal(name)
	if err != nil {
		return config.Server{}, invalid("server", err.Error())
	}
	return f.parse(name, fmt.Appendf(nil, `{%s:{}}`, key))
}

// registers tells whether a request brings a definition.
func registers(q control.AddRequest) bool { return !document.IsNull(q.Registration) }

// register reads a registration, which has to be of that key alone.
func (f *fleet) register(name string, registration json.RawMessage) (config.Server, error) {
	raw, wrong := document.Check(registration)
	if wrong != nil {
		return config.Server{}, invalid("registration", wrong.Error())
	}
	members, ok := document.Object(raw)
	if !ok {
		return config.Server{}, invalid("registration", "must be an object with the server's key, is "+document.Kind(raw))
	}
	if len(members) != 1 || members[0].Name != name {
		return config.Server{}, refused("the registration must define %s and nothing else", document.Quote(name))
	}
	return f.parse(name, raw)
}

// parse checks a configuration of one server.
func (f *fleet) parse(name string, text []byte) (config.Server, error) {
	checked, err := config.Parse(text, f.g.o.Catalog)
	var problems *config.Error
	switch {
	case errors.As(err, &problems):
		return config.Server{}, unusable(problems)
	case err != nil:
		return config.Server{}, invalid("registration", err.Error())
	case len(checked.Servers) == 0:
		return config.Server{}, invalid("registration", "leaves the server out: it is disabled")
	case len(checked.Servers) != 1 || checked.Servers[0].Name != name:
		return config.Server{}, refused("the registration must define %s and nothing else", document.Quote(name))
	}
	for _, warning := range checked.Warnings {
		f.g.log.Warn("configuration", telemetry.KeyLine, warning)
	}
	return checked.Servers[0], nil
}

// invalid is the error of one wrong field.
func invalid(field, description string) *control.Error {
	return control.BadRequest(field+": "+description, control.Violation{Field: field, Description: description})
}

// unusable is the error of a definition that cannot work.
func unusable(problems *config.Error) *control.Error {
	var wrong []control.Violation
	for _, p := range problems.Problems {
		v := control.Violation{Field: "registration", Description: p.Message}
		if p.Field != "" {
			v.Field += "." + p.Field
		}
		if p.Hint != "" {
			v.Description += " (" + p.Hint + ")"
		}
		wrong = append(wrong, v)
	}
	return control.BadRequest(problems.Error(), wrong...)
}

// unknown is the error about a key that stands for nothing.
func (f *fleet) unknown(name string) error {
	if strings.HasPrefix(name, "github/") {
		return notFound("server %q is not known; a repository needs a registration with its runCmd", name)
	}
	names := slices.Concat(slices.Collect(maps.Keys(f.known)), f.g.o.Catalog.Names())
	return notFound("server %q is neither configured, nor registered, nor in the catalogue%s", name, didYouMean(name, names))
}

func notFound(format string, args ...any) *control.Error {
	return control.Errorf(control.NotFound, format, args...)
}

// didYouMean ends a message with the names that name may have been meant for.
func didYouMean(name string, names []string) string {
	slices.Sort(names)
	near := catalog.Nearest(name, slices.Compact(names))
	if len(near) == 0 {
		return ""
	}
	for i := range near {
		near[i] = document.Quote(near[i])
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// same tells whether two definitions are equal.
func same(a, b config.Server) bool { return reflect.DeepEqual(a, b) }
