package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/relay"
)

// discovery is what agents get in a dynamic gateway: they find servers in the catalogue, add them, and
// remove what agents have added. What an operator has asked for stays out of their reach.
func (f *fleet) discovery() []relay.BuiltIn {
	return []relay.BuiltIn{
		builtIn(`{"name":"mcp-find","title":"Find MCP servers","description":"Search the catalogue of MCP servers by words. Each hit has the name to give to mcp-add and the properties that it takes there.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"words that all have to match; without any, everything is listed"},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"at most so many hits, 10 by default"}},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, f.agentFinds),
		builtIn(`{"name":"mcp-add","title":"Add an MCP server","description":"Add a server of the catalogue to this gateway and start it. Its tools are in tools/list afterwards.","inputSchema":{"type":"object","properties":{"server":{"type":"string","description":"its name as mcp-find gives it"},"properties":{"type":"object","description":"values for the properties that mcp-find lists"}},"required":["server"],"additionalProperties":false},"annotations":{"destructiveHint":false,"idempotentHint":true}}`, f.agentAdds),
		builtIn(`{"name":"mcp-remove","title":"Remove an MCP server","description":"Remove a server that was added with mcp-add, and its tools. Calls that it is working on end with an error.","inputSchema":{"type":"object","properties":{"server":{"type":"string"}},"required":["server"],"additionalProperties":false},"annotations":{"idempotentHint":true,"openWorldHint":false}}`, f.agentRemoves),
	}
}

// builtIn makes a tool of a function with typed arguments.
func builtIn[A any](tool string, call func(ctx context.Context, arguments A) (any, error)) relay.BuiltIn {
	return relay.BuiltIn{Tool: []byte(tool), Call: func(ctx context.Context, _ *downstream.Exchange, raw []byte) []byte {
		var arguments A
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&arguments); err != nil {
			return failedCall(misfit(err))
		}
		found, err := call(ctx, arguments)
		if err != nil {
			return failedCall(err)
		}
		return toolResult{Structured: found}.encode()
	}}
}

// misfit says what is wrong with arguments, in the words of the tool's schema.
func misfit(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		return fmt.Errorf("the arguments do not fit the tool's schema: %s cannot be a %s", kind.Field, kind.Value)
	}
	return fmt.Errorf("the arguments do not fit the tool's schema: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// toolResult is a CallToolResult. Clients that know no structured content read it as text.
type toolResult struct {
	Content    []textContent `json:"content"`
	Structured any           `json:"structuredContent,omitempty"`
	IsError    bool          `json:"isError,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (r toolResult) encode() []byte {
	if r.Structured != nil {
		text, err := control.JSON(r.Structured)
		if err != nil {
			return failedCall(err)
		}
		r.Content = []textContent{{"text", string(text)}}
	}
	out, _ := control.JSON(r) // of texts and what was encoded above
	return out
}

func failedCall(err error) []byte {
	return toolResult{Content: []textContent{{"text", err.Error()}}, IsError: true}.encode()
}

type findArguments struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

type foundServers struct {
	Servers []foundServer `json:"servers"`
	Total   int           `json:"total"`
}

type foundServer struct {
	Name        string                      `json:"name"`
	Description string                      `json:"description"`
	Added       bool                        `json:"added"`
	Properties  map[string]catalog.Property `json:"properties,omitempty"`
}

// agentFinds searches the catalogue for what can be run here.
func (f *fleet) agentFinds(_ context.Context, q findArguments) (any, error) {
	if q.Limit <= 0 || q.Limit > 100 {
		q.Limit = 10
	}
	entries := f.g.o.Catalog.Entries()
	if q.Query != "" {
		entries = f.g.o.Catalog.Search(q.Query)
	}
	entries = slices.DeleteFunc(entries, func(e *catalog.Entry) bool { return e.Runs == catalog.None })
	out := foundServers{Servers: []foundServer{}, Total: len(entries)}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range entries[:min(len(entries), q.Limit)] {
		a := f.find(e.Name)
		out.Servers = append(out.Servers, foundServer{
			Name: e.Name, Description: e.Description, Properties: e.Properties,
			Added: a != nil && a.outcome == control.OutcomeApplied,
		})
	}
	return out, nil
}

type addArguments struct {
	Server     string                     `json:"server"`
	Properties map[string]json.RawMessage `json:"properties"`
}

type addedServer struct {
	Server string   `json:"server"`
	Tools  []string `json:"tools"`
	Hint   string   `json:"hint,omitempty"`
}

// agentAdds adds a server of the catalogue. Of its definition an agent sets the declared properties alone:
// not what is run, nor with which variables.
func (f *fleet) agentAdds(ctx context.Context, q addArguments) (any, error) {
	request := control.AddRequest{Server: q.Server}
	entry, ok := f.g.o.Catalog.Lookup(q.Server)
	switch {
	case q.Server == "":
		return nil, errors.New("server is missing: it is a name that mcp-find gives")
	case !ok:
		return nil, fmt.Errorf("server %q is not in the catalogue%s", q.Server, didYouMean(q.Server, f.g.o.Catalog.Names()))
	case len(q.Properties) > 0:
		for _, name := range slices.Sorted(maps.Keys(q.Properties)) {
			if _, declared := entry.Properties[name]; !declared {
				return nil, fmt.Errorf("server %q has no property %q%s", q.Server, name, didYouMean(name, slices.Collect(maps.Keys(entry.Properties))))
			}
		}
		var err error
		if request.Registration, err = json.Marshal(map[string]any{q.Server: q.Properties}); err != nil {
			return nil, err
		}
	}
	if _, err := f.add(ctx, request, true); err != nil {
		return nil, wanting(err, entry)
	}
	out := addedServer{Server: q.Server, Tools: []string{}}
	signIn := relay.AuthorizeTool(q.Server)
	for _, tool := range f.g.Tools() {
		switch {
		case tool.Server == q.Server:
			out.Tools = append(out.Tools, tool.Name)
		case tool.Name == signIn && entry.Runs == catalog.Remote:
			out.Hint = "a user has to sign in to it before its tools are there: call " + signIn
		}
	}
	return out, nil
}

// wanting adds to the refusal of an addition what the server's required properties are.
func wanting(err error, entry *catalog.Entry) error {
	var refusal *control.Error
	if !errors.As(err, &refusal) || refusal.Code != control.InvalidArgument {
		return err
	}
	var needed []string
	for _, name := range slices.Sorted(maps.Keys(entry.Properties)) {
		if property := entry.Properties[name]; property.Required && property.Default == nil {
			needed = append(needed, fmt.Sprintf("%s (%s)", name, strings.TrimSuffix(property.Description, ".")))
		}
	}
	if len(needed) == 0 {
		return err
	}
	return fmt.Errorf("%w; properties has to hold %s: ask the user for what you do not know", err, strings.Join(needed, ", "))
}

type removeArguments struct {
	Server string `json:"server"`
}

type removedServer struct {
	Removed string `json:"removed"`
}

func (f *fleet) agentRemoves(ctx context.Context, q removeArguments) (any, error) {
	if q.Server == "" {
		return nil, errors.New("server is missing")
	}
	if err := f.remove(ctx, q.Server, true); err != nil {
		return nil, err
	}
	return removedServer{q.Server}, nil
}
