package e2e_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
)

// moreOddTools are what no revision allows, beside those of payload.OddTools.
var moreOddTools = map[string]string{
	"boolean":     `{"name":"boolean","inputSchema":true}`,
	"no_type":     `{"name":"no_type","inputSchema":{"properties":{"a":{"type":"string"}}}}`,
	"null_output": `{"name":"null_output","inputSchema":{"type":"object"},"outputSchema":null}`,
	"root_ref":    `{"name":"root_ref","inputSchema":{"$ref":"#/$defs/args","$defs":{"args":{"type":"object"}}}}`,
}

// refusal is what a client itself does not take of a list that it gets as the servers wrote it.
type refusal struct {
	// list are tools for which the client refuses the whole list, those of other servers included. What
	// it says names each of them.
	list []string
	// then are tools for which it does so once the ones before are gone, and what it says then.
	then     []string
	thenSays string
	// alone are tools that it leaves out, and takes the others.
	alone []string
}

// notObjects are the tools whose inputSchema does not have "type":"object" itself, which all revisions
// want: the typed clients check the whole list before they look at any tool.
var notObjects = []string{"boolean", "invalid_type", "no_type", "root_ref"}

// nullToo are those that zod does not take: an optional member may be missing, and not be null.
var nullToo = []string{"boolean", "invalid_type", "no_type", "null_output", "root_ref"}

// refusals are exact: a client that refuses more, or less, fails the test.
var refusals = map[string]refusal{
	"py1":            {list: []string{"boolean"}}, // the schema is any dictionary to it
	"py2":            {list: notObjects},
	"fastmcp":        {list: notObjects},
	"fastmcp-legacy": {list: notObjects},
	"ts1": {list: nullToo,
		// It compiles all output schemas when it lists.
		then: []string{"dangling_output"}, thenSays: "can't resolve reference #/$defs/missing"},
	"ts2":       {list: nullToo},
	"inspector": {alone: nullToo},
	"mcpdo":     {alone: nullToo},
}

// oddPlaces are gateways before a server with every odd tool and one without, by the odd tools that the
// entry's option hides.
type oddPlaces map[string]*running

func (p oddPlaces) without(t *testing.T, hidden []string) *running {
	t.Helper()
	key := strings.Join(hidden, ",")
	if p[key] != nil {
		return p[key]
	}
	flags := []string{"-id=odd", "-tool=odd_ping", "-odd-schemas"}
	for _, name := range slices.Sorted(maps.Keys(moreOddTools)) {
		flags = append(flags, "-tool-json="+moreOddTools[name])
	}
	type object map[string]any
	config, err := json.Marshal(object{
		"odd":  object{"command": mcptest.Build(t), "args": flags, "gateway": object{"tools": object{"deny": append([]string{}, hidden...)}}},
		"sane": object{"command": mcptest.Build(t), "args": []string{"-id=sane", "-tool=ping"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p[key] = newPlace(t).start(t, string(config))
	return p[key]
}

// TestB37_to_B44_OddSchemasForEveryClient wants each client to list all that it can, and to call tools
// of both servers. Where it refuses the list for some tools, hiding these gives it all others.
func TestB37_to_B44_OddSchemasForEveryClient(t *testing.T) {
	places := oddPlaces{}
	order := places.without(t, nil).openRaw(t).tools()
	if want := len(payload.OddTools) + len(moreOddTools) + len([]string{"odd_ping", "ping"}); len(order) != want {
		t.Fatalf("%d tools are listed of %d: %v", len(order), want, order)
	}
	for _, c := range clients() {
		r := refusals[c.name]
		all, some := places.without(t, nil), places.without(t, r.list)
		rest := places.without(t, slices.Concat(r.list, r.then))
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if r.list != nil {
				refuses(t, c, all, func(says string) bool { return slices.Equal(named(says, order), r.list) })
			}
			if r.then != nil {
				refuses(t, c, some, func(says string) bool { return strings.Contains(says, r.thenSays) })
			}
			steps := []string{"list", "tool=ping", "tool=refs", "tool=no_schema"}
			got := passed(t, c, c.run(t, rest.url, testToken, steps), steps)
			var names []string
			if err := json.Unmarshal([]byte(got["list"]), &names); err != nil {
				t.Fatalf("listed %q: %v", got["list"], err)
			}
			want := slices.DeleteFunc(slices.Sorted(slices.Values(order)), func(name string) bool {
				return slices.Contains(slices.Concat(r.list, r.then, r.alone), name)
			})
			if !slices.Equal(names, want) {
				t.Errorf("listed\n%v, want\n%v", names, want)
			}
			for step, want := range map[string]string{"tool=ping": "sane/ping {}", "tool=refs": "odd/refs {}", "tool=no_schema": "odd/no_schema {}"} {
				if got[step] != want {
					t.Errorf("%s gave %q", step, got[step])
				}
			}
		})
	}
}

// refuses fails the test unless the client refuses the list, and says why.
func refuses(t *testing.T, c client, g *running, why func(says string) bool) {
	t.Helper()
	for _, o := range c.run(t, g.url, testToken, []string{"list"}) {
		if o.OK == nil || *o.OK || !why(o.Detail) {
			t.Errorf("%s does not refuse the list as it is known to: %s", c.name, o.Detail)
		}
	}
}

// indexed is a tool in the complaints of pydantic and of zod: its index in the list.
var indexed = regexp.MustCompile(`tools\W+(\d+)\W`)

// named are the tools that a complaint names.
func named(says string, order []string) []string {
	var names []string
	for _, m := range indexed.FindAllStringSubmatch(says, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n < len(order) {
			names = append(names, order[n])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// tools are the names in the order of the list.
func (r *raw) tools() []string {
	r.t.Helper()
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	answer := r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		r.t.Fatalf("decode %s: %v", answer, err)
	}
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}
