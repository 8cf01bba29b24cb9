package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"mcp-gateway/internal/mcptest/payload"
)

// tool is one tool: the definition as it is listed, and what a call does.
type tool struct {
	name string
	def  string
	do   handler
}

// handler runs one call. It returns the JSON text of the result or of the error; neither means
// that the call is never answered.
type handler func(ctx context.Context, s *server, c *call) (result, failure string)

// call is a tools/call; the raw parts are as they came.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      struct {
		Token        json.RawMessage            `json:"progressToken"`
		Capabilities map[string]json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
	Task           json.RawMessage            `json:"task"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	RequestState   string                     `json:"requestState"`

	m      *message
	modern bool
}

// into decodes the arguments that a tool knows.
func (c *call) into(args any) error {
	if len(c.Arguments) == 0 {
		return nil
	}
	return json.Unmarshal(c.Arguments, args)
}

func (s *server) toolMethods(ctx context.Context, m *message) (result, failure string, known bool) {
	if !s.o.serves("tools") {
		return "", "", false
	}
	switch m.Method {
	case "tools/list":
		tools, err := s.tools()
		if err != nil {
			return "", rpcError(-32603, err.Error()), true
		}
		defs := make([]string, len(tools))
		for i, t := range tools {
			defs[i] = t.def
		}
		result, failure = s.listPage(m, "tools", defs)
		return result, failure, true
	case "tools/call":
		result, failure = s.callTool(ctx, m)
		return result, failure, true
	}
	return "", "", false
}

func (s *server) callTool(ctx context.Context, m *message) (result, failure string) {
	c := &call{m: m, modern: s.isModern(m.Params)}
	if err := json.Unmarshal(m.Params, c); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	tools, err := s.tools()
	if err != nil {
		return "", rpcError(-32603, err.Error())
	}
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == c.Name })
	if i < 0 {
		return "", rpcError(-32602, "unknown tool: "+c.Name)
	}
	result, failure = tools[i].do(ctx, s, c)
	if c.modern && result != "" && !strings.HasPrefix(result, `{"resultType"`) {
		result = `{"resultType":"complete",` + result[1:]
	}
	return result, failure
}

// tools is what tools/list shows now.
func (s *server) tools() ([]tool, error) {
	var list []tool
	switch {
	case s.o.toolsFile != "":
		var err error
		if list, err = toolsFromFile(s.o.toolsFile); err != nil {
			return nil, err
		}
	case len(s.o.tools) > 0:
		for _, name := range s.o.tools {
			list = append(list, toolNamed(name))
		}
	default:
		list = builtins()
		if s.o.tasks {
			list = append(list, tool{name: "work", def: `{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`, do: work})
		}
	}
	for _, def := range s.o.toolJSON {
		list = append(list, toolFromJSON(def))
	}
	if s.o.oddSchemas {
		for _, name := range slices.Sorted(maps.Keys(payload.OddTools)) {
			list = append(list, toolFromJSON(payload.OddTools[name]))
		}
	}
	if s.o.duplicate {
		list = append(list, plainTool("ping", "The first of two.", sayName), plainTool("ping", "The second of two.", sayName))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list = append(list, s.added...)
	list = slices.DeleteFunc(list, func(t tool) bool { return s.removed[t.name] })
	for i, t := range list {
		list[i] = t.prefixed(s.o.prefix)
	}
	return list, nil
}

// prefixed is the tool with another name in its definition.
func (t tool) prefixed(prefix string) tool {
	if prefix == "" {
		return t
	}
	name, long := quote(t.name), quote(prefix+t.name)
	t.def = strings.Replace(t.def, `"name":`+name, `"name":`+long, 1)
	t.name = prefix + t.name
	return t
}

// toolNamed is a normal tool of that name if there is one, else one that says its name.
func toolNamed(name string) tool {
	for _, t := range builtins() {
		if t.name == name {
			return t
		}
	}
	return plainTool(name, "Says which server and tool it is.", sayName)
}

func toolFromJSON(def string) tool {
	var t struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal([]byte(def), &t)
	return tool{name: t.Name, def: def, do: sayName}
}

func toolsFromFile(path string) ([]tool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	var list []tool
	for _, e := range entries {
		var name string
		if json.Unmarshal(e, &name) == nil {
			list = append(list, toolNamed(name))
		} else {
			list = append(list, toolFromJSON(string(e)))
		}
	}
	return list, nil
}

// plainTool is a tool that takes any arguments.
func plainTool(name, description string, do handler) tool {
	return schemaTool(name, description, `{}`, do)
}

// schemaTool is a tool whose input schema has these properties.
func schemaTool(name, description, properties string, do handler) tool {
	def := fmt.Sprintf(`{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":%s}}`, quote(name), quote(description), properties)
	return tool{name: name, def: def, do: do}
}

// sayName answers with the server, the tool and the arguments.
func sayName(_ context.Context, s *server, c *call) (string, string) {
	return textResult(strings.TrimSpace(fmt.Sprintf("%s/%s %s", s.o.id, c.Name, c.Arguments))), ""
}

// listPage is the page of a list that the request's cursor names.
func (s *server) listPage(m *message, member string, entries []string) (result, failure string) {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(m.Params, &p)
	from, size := 0, len(entries)
	if p.Cursor != nil {
		n, err := strconv.Atoi(strings.TrimPrefix(*p.Cursor, "page-at-"))
		if err != nil || n > len(entries) {
			return "", rpcError(-32602, "invalid cursor")
		}
		from = n
	}
	if s.o.page > 0 {
		size = s.o.page
	}
	to := min(from+size, len(entries))
	var b bytes.Buffer
	b.WriteString("{")
	if s.isModern(m.Params) {
		b.WriteString(`"resultType":"complete","ttlMs":0,"cacheScope":"public",`)
	}
	fmt.Fprintf(&b, "%q:[%s]", member, strings.Join(entries[from:to], ","))
	switch {
	case to < len(entries):
		fmt.Fprintf(&b, `,"nextCursor":"page-at-%d"`, to)
	case s.o.cursorLoop:
		fmt.Fprintf(&b, `,"nextCursor":"page-at-%d"`, from)
	}
	b.WriteString("}")
	return b.String(), ""
}
