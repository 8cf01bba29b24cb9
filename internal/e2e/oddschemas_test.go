package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
)

// moreOddTools are what no revision allows, beside those of payload.OddTools. Each is one for which at
// least one typed client refuses the whole list when it gets it as the server wrote it.
var moreOddTools = map[string]string{
	"array_output": `{"name":"array_output","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`,
	"boolean":      `{"name":"boolean","inputSchema":true}`,
	"no_type":      `{"name":"no_type","inputSchema":{"properties":{"a":{"type":"string"}}}}`,
	"null_output":  `{"name":"null_output","inputSchema":{"type":"object"},"outputSchema":null}`,
	"root_ref":     `{"name":"root_ref","inputSchema":{"$ref":"#/$defs/args","$defs":{"args":{"type":"object"}}}}`,
}

// One odd tool hides nothing: each client lists all tools of both servers, the odd ones included, and
// calls what it likes.
func TestB37_to_B44_OddSchemasForEveryClient(t *testing.T) {
	flags := []string{"-id=odd", "-tool=odd_ping", "-odd-schemas"}
	for _, name := range slices.Sorted(maps.Keys(moreOddTools)) {
		flags = append(flags, "-tool-json="+moreOddTools[name])
	}
	type object map[string]any
	config, err := json.Marshal(object{
		"odd":  object{"command": mcptest.Build(t), "args": flags},
		"sane": object{"command": mcptest.Build(t), "args": []string{"-id=sane", "-tool=ping"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newPlace(t).start(t, string(config))
	want := g.openRaw(t).tools()
	slices.Sort(want)
	if all := len(payload.OddTools) + len(moreOddTools) + len([]string{"odd_ping", "ping"}); len(want) != all {
		t.Fatalf("%d tools are listed of %d: %v", len(want), all, want)
	}
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps := []string{"list", "tool=ping", "tool=refs", "tool=no_schema"}
			got := passed(t, c, c.run(t, g.url, testToken, steps), steps)
			var names []string
			if err := json.Unmarshal([]byte(got["list"]), &names); err != nil {
				t.Fatalf("listed %q: %v", got["list"], err)
			}
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
