package e2e_test

import (
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// TestB4_EqualNamesForEveryClient puts two servers with equal tools, prompts, resources and templates
// behind one gateway: every client sees the same names, and each of them leads to its own server.
func TestB4_EqualNamesForEveryClient(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{
		"b.second": {"-id=b.second", "-tool=ping", "-tool=repo:list.all"},
		"a-first":  {"-id=a-first", "-tool=ping", "-start-delay=200ms"},
	}))
	wants := []struct{ step, want string }{
		{"list", `["b.second_ping","b.second_repo_list.all","ping"]`},
		{"tool=ping", "a-first/ping {}"},
		{"tool=b.second_ping", "b.second/ping {}"},
		{"tool=b.second_repo_list.all", "b.second/repo:list.all {}"},
		{"prompt_names", `["b.second_greet","b.second_plain","greet","plain"]`},
		{"get=plain", "a-first/plain"},
		{"get=b.second_plain", "b.second/plain"},
		{"uris", `["fake://blob","fake://text/1","fake://text/2","mcp-gateway://b.second/fake://blob",` +
			`"mcp-gateway://b.second/fake://text/1","mcp-gateway://b.second/fake://text/2"]`},
		{"read=fake://text/2", "a-first: text/2"},
		{"read=mcp-gateway://b.second/fake://text/2", "b.second: text/2"},
		{"template_uris", `["fake://item/{id}","mcp-gateway://b.second/fake://item/{id}"]`},
		{"read=fake://item/7", "a-first: item/7"},
		{"read=mcp-gateway://b.second/fake://item/7", "b.second: item/7"},
	}
	var steps []string
	for _, w := range wants {
		steps = append(steps, w.step)
	}
	for _, c := range clients() {
		if c.program {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := passed(t, c, c.run(t, g.url, testToken, steps), steps)
			for _, w := range wants {
				// Python puts a space after a comma.
				if text := strings.ReplaceAll(got[w.step], `", "`, `","`); text != w.want {
					t.Errorf("%s gave %s, want %s", w.step, text, w.want)
				}
			}
		})
	}
}
