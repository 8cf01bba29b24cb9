package relay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/wire"
)

func TestB28_B29_MergedTools(t *testing.T) {
	// The one that sorts first is ready last.
	gate := file(t)
	g := newRig(t, map[string]server{
		"a": flags("-tool=x", "-tool=only", "-start-gate="+gate),
		"b": flags("-tool=x", "-tool=repo:list.all"),
	}, rigOptions{})
	done := make(chan bool)
	go func() {
		g.relay.Start(t.Context(), g.members)
		close(done)
	}()
	eventually(t, "b is ready", func() bool { return g.state("b").State == "ready" })
	create(t, gate)
	<-done
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		if got := c.Tools(); !slices.Equal(got, []string{"x", "only", "b_x", "b_repo_list.all"}) {
			t.Errorf("tools %q", got)
		}
		for exposed, want := range map[string]string{"x": "a/x {}", "only": "a/only {}", "b_x": "b/x {}", "b_repo_list.all": "b/repo:list.all {}"} {
			equal(t, exposed, c.Call(exposed, "{}").Text(), want)
		}
	})
	var mapping []string
	for _, tool := range g.relay.Tools() {
		mapping = append(mapping, fmt.Sprintf("%s=%s/%s", tool.Name, tool.Server, tool.OriginalName))
	}
	if want := []string{"x=a/x", "only=a/only", "b_x=b/x", "b_repo_list.all=b/repo:list.all"}; !slices.Equal(mapping, want) {
		t.Errorf("mapping %q", mapping)
	}
	g.legacy().Call("x", "{}")
	if n := strings.Count(g.logged(), `tool \"x\" is exposed as \"b_x\"`); n != 1 {
		t.Errorf("the renaming is logged %d times", n)
	}
}

func TestB30_EveryPageIsRead(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-page=2", "-prompts=6", "-resources=5", "-templates=6", "-tool=1", "-tool=2", "-tool=3", "-tool=4", "-tool=5", "-tool=6")})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		for list, member := range map[string]string{"tools": "tools", "prompts": "prompts", "resources": "resources", "resources/templates": "resourceTemplates"} {
			if got := c.Names(list+"/list", member, "name"); len(got) != 6 {
				t.Errorf("%s: %q", list, got)
			}
		}
		// The merged list is one page.
		refused(t, c.Request("tools/list", `{"cursor":"page-at-2"}`), wire.CodeInvalidParams, "cursor")
		for _, none := range []string{`{"cursor":null}`, `{"cursor":""}`, `{}`} {
			if r := c.Request("tools/list", none); r.Error != nil {
				t.Errorf("%s: %s", none, r.Error)
			}
		}
	})
}

func TestB31_Instructions(t *testing.T) {
	t.Run("one server's stay as they are", func(t *testing.T) {
		g := one(t, "-instructions=use metres")
		equal(t, "instructions", instructions(g.legacy().Hello), "use metres")
		equal(t, "instructions", instructions(g.modern().Result("server/discover", "")), "use metres")
	})
	t.Run("several", func(t *testing.T) {
		g := start(t, map[string]server{"b": flags("-instructions=use feet"), "a": flags("-instructions=use metres"), "c": flags(),
			"d": flags("-instructions=" + strings.Repeat("é", 20_000))})
		for _, hello := range []json.RawMessage{g.legacy().Hello, g.modern().Result("server/discover", "")} {
			got := instructions(hello)
			if !strings.HasPrefix(got, "# a\n\nuse metres\n\n# b\n\nuse feet\n\n# d\n\né") || len(got) > 17_000 || strings.ContainsRune(got, '\uFFFD') {
				t.Errorf("%d bytes of instructions: %.100q", len(got), got)
			}
		}
	})
}

func instructions(hello json.RawMessage) string {
	text, _ := wire.GetString(hello, "instructions")
	return text
}

// listener is a modern client's subscriptions/listen.
func listen(c *mcptest.Client, notifications string) *mcptest.Exchange {
	x := c.Begin("subscriptions/listen", `{"notifications":`+notifications+`}`)
	x.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
	return x
}

func TestB32_ListChanged(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-tool=y")})
	calling, idle, m := g.legacy(), g.legacy(), g.modern()
	calling.Listen()
	idle.Listen()
	x := listen(m, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	for _, c := range []struct{ tool, kind, list, member string }{
		{"add_tool", "tools", "tools/list", "tools"},
		{"add_prompt", "prompts", "prompts/list", "prompts"},
		{"add_resource", "resources", "resources/list", "resources"},
	} {
		calling.Call(c.tool, `{"name":"fresh"}`)
		method := "notifications/" + c.kind + "/list_changed"
		for _, client := range []*mcptest.Client{calling, idle} {
			client.Await(mcptest.IsMethod(method))
			if names := client.Names(c.list, c.member, "name"); !slices.Contains(names, "fresh") {
				t.Errorf("%s: the list was told of before it was read: %q", c.list, names)
			}
		}
		told := x.Await(mcptest.IsMethod(method))
		contains(t, string(told.Params), `"io.modelcontextprotocol/subscriptionId":`)
	}
	equal(t, "a tool that was added", idle.Call("fresh", "{}").Text(), "a/fresh {}")

	t.Run("trap 13 an equal list is told of too", func(t *testing.T) {
		calling.Call("add_tool", `{"name":"fresh"}`)
		idle.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	})
	t.Run("once for a burst", func(t *testing.T) {
		lists := func() int {
			return strings.Count(calling.Call("received", `{"method":"tools/list"}`).Text(), `"tools/list"`)
		}
		before := lists()
		calling.Call("add_tool", `{"name":"burst","times":50}`)
		idle.Await(mcptest.IsMethod("notifications/tools/list_changed"))
		eventually(t, "burst is listed", func() bool { return slices.Contains(idle.Tools(), "burst") })
		if n := lists() - before; n > 10 {
			t.Errorf("50 notifications made %d lists", n)
		}
	})
	t.Run("a removed tool is not called any more", func(t *testing.T) {
		calling.Call("remove_tool", `{"name":"fresh"}`)
		eventually(t, "fresh is gone", func() bool { return !slices.Contains(idle.Tools(), "fresh") })
		refused(t, idle.Request("tools/call", mcptest.CallParams("fresh", "{}")), wire.CodeInvalidParams, "unknown tool")
	})
}

// A server that changes its lists as soon as it is initialized must not be left with the old ones.
func TestListThatChangesWhileItIsFirstRead(t *testing.T) {
	tools := file(t)
	write := func(text string) {
		if err := os.WriteFile(tools, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`["old"]`)
	// The notification comes with the answer to prompts/list, which is read after the tools.
	g := newRig(t, map[string]server{"a": flags("-tools-file="+tools,
		`-answer=prompts/list={"jsonrpc":"2.0","method":"notifications/tools/list_changed"} {"jsonrpc":"2.0","id":$ID,"result":{"prompts":[]}}`)}, rigOptions{})
	if faults := g.relay.Start(t.Context(), g.members); len(faults) > 0 {
		t.Fatal(faults)
	}
	write(`["new"]`)
	c := g.legacy()
	eventually(t, "the new list", func() bool { return slices.Equal(c.Tools(), []string{"new"}) })
}

func TestB33_B35_ListsAfterARestart(t *testing.T) {
	tools := file(t)
	write := func(text string) {
		if err := os.WriteFile(tools, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`["whoami","old"]`)
	g := start(t, map[string]server{"a": flags("-tools-file=" + tools), "b": flags("-tool=y")})
	c, m := g.legacy(), g.modern()
	c.Listen()
	x := listen(m, `{"toolsListChanged":true}`)
	g.kill("a")
	eventually(t, "its end", func() bool { return g.state("a").State != "ready" })
	write(`["whoami","new"]`)
	equal(t, "next call", c.Call("whoami", "{}").Text(), "a")
	c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	x.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	if got := c.Tools(); !slices.Equal(got, []string{"whoami", "new", "y"}) {
		t.Errorf("tools %q", got)
	}
}

func TestB36_ToolListedTwice(t *testing.T) {
	g := one(t, "-duplicate")
	c := g.legacy()
	n := 0
	for element := range wire.Elements(wire.Get(c.Result("tools/list", ""), "tools")) {
		if name, _ := wire.GetString(element, "name"); name == "ping" {
			n++
			contains(t, string(element), "The first of two.")
		}
	}
	if n != 1 {
		t.Errorf("ping is listed %d times", n)
	}
	contains(t, g.logged(), `\"ping\" is listed twice`)
	equal(t, "call", c.Call("ping", "{}").Text(), "one/ping {}")
}

// Whatever a server lists is listed; what typed clients refuse the whole list for is made acceptable.
func TestB37_to_B44_Schemas(t *testing.T) {
	g := one(t, "-odd-schemas", `-tool-json={"name":"boolean","inputSchema":true,"outputSchema":false}`,
		`-tool-json={"inputSchema":{}}`, `-tool-json="no object"`)
	listed := map[string]string{}
	for element := range wire.Elements(wire.Get(g.legacy().Result("tools/list", ""), "tools")) {
		name, _ := wire.GetString(element, "name")
		listed[name] = string(element)
	}
	want := map[string]string{
		"boolean":         `{"name":"boolean","inputSchema":{"type":"object"}}`,
		"invalid_type":    `{"name":"invalid_type","inputSchema":{"type":"object"}}`,    // B43
		"dangling_output": `{"name":"dangling_output","inputSchema":{"type":"object"}}`, // B39
		"null_schema":     `{"name":"null_schema","inputSchema":{"type":"object"}}`,     // B41
		"no_schema":       `{"name":"no_schema","inputSchema":{"type":"object"}}`,
		"rich":            payload.RichTool, // B42
	}
	for name, def := range payload.OddTools { // B37, B38, B39, B40, B43, B44
		if want[name] == "" {
			want[name] = def
		}
	}
	for name, def := range want {
		equal(t, name, listed[name], def)
	}
	if len(listed) < len(want)+20 {
		t.Errorf("an odd tool hides others: %d are listed", len(listed))
	}
	contains(t, g.logged(), `tool \"null_schema\" has no inputSchema`)
	c := g.modern()
	for name := range want {
		c.Call(name, "{}")
	}
	t.Run("B42 under another name", func(t *testing.T) {
		g := start(t, map[string]server{"a": flags(), "b": flags()})
		for element := range wire.Elements(wire.Get(g.legacy().Result("tools/list", ""), "tools")) {
			if name, _ := wire.GetString(element, "name"); name == "b_rich" {
				equal(t, "definition", string(element), strings.Replace(payload.RichTool, `"name":"rich"`, `"name":"b_rich"`, 1))
				return
			}
		}
		t.Error("b_rich is not listed")
	})
}

func TestModernLists(t *testing.T) {
	c := one(t, "-tool=x").modern()
	equal(t, "tools/list", string(c.Result("tools/list", "")),
		`{"tools":[{"name":"x","description":"Says which server and tool it is.","inputSchema":{"type":"object","properties":{}}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	equal(t, "prompts/list", string(c.Result("prompts/list", "")[:12]), `{"prompts":[`)
	equal(t, "resource", string(c.Result("resources/read", `{"uri":"fake://text/1"}`)),
		`{"contents":[{"uri":"fake://text/1","mimeType":"text/plain","text":"one: text/1"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	hello := string(c.Result("server/discover", ""))
	contains(t, hello, `"supportedVersions":["2026-07-28","2025-11-25"`, `"resources":{"subscribe":true`, `"name":"mcp-gateway"`)
}

func TestPromptsMerged(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags()})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		if got := c.Names("prompts/list", "prompts", "name"); !slices.Equal(got, []string{"greet", "plain", "b_greet", "b_plain"}) {
			t.Errorf("prompts %q", got)
		}
		contains(t, string(c.Result("prompts/get", `{"name":"plain"}`)), `"text":"a/plain"`)
		contains(t, string(c.Result("prompts/get", `{"name":"b_plain"}`)), `"text":"b/plain"`)
		contains(t, string(c.Result("prompts/get", `{"name":"b_greet","arguments":{"name":"Ann"}}`)), "Greet Ann.")
		refused(t, c.Request("prompts/get", `{"name":"none"}`), wire.CodeInvalidParams, `unknown prompt "none"`)
		contains(t, string(c.Result("completion/complete", `{"ref":{"type":"ref/prompt","name":"b_greet"},"argument":{"name":"name","value":"al"}}`)), `["alan","alice"]`)
		refused(t, c.Request("completion/complete", `{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"name","value":"al"}}`), wire.CodeInvalidParams, "no prompt or resource fits")
	})
}

// Equal URIs of two servers are told apart, in lists, reads, templates, completion and links.
func TestResourcesMerged(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-prefix=a_"), "b/1": flags("-prefix=b_")})
	other := "mcp-gateway://b%2F1/"
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		want := []string{"fake://text/1", "fake://text/2", "fake://blob", other + "fake://text/1", other + "fake://text/2", other + "fake://blob"}
		if got := c.Names("resources/list", "resources", "uri"); !slices.Equal(got, want) {
			t.Errorf("resources %q", got)
		}
		if got := c.Names("resources/templates/list", "resourceTemplates", "uriTemplate"); !slices.Equal(got, []string{"fake://item/{id}", other + "fake://item/{id}"}) {
			t.Errorf("templates %q", got)
		}
		for uri, text := range map[string]string{
			"fake://text/1": "a: text/1", other + "fake://text/1": "b/1: text/1",
			"fake://item/7": "a: item/7", other + "fake://item/7": "b/1: item/7",
			"fake://unlisted": "a: unlisted", other + "fake://unlisted": "b/1: unlisted",
		} {
			r := c.Result("resources/read", args("uri", quoted(uri)))
			contains(t, string(r), `"text":`+quoted(text))
			if !strings.HasPrefix(uri, other+"fake://unlisted") { // a client gets back the URI that it has asked for
				contains(t, string(r), `"uri":`+quoted(uri))
			}
		}
		code, _ := errorOf(t, c.Request("resources/read", `{"uri":"file:///nowhere"}`))
		want1 := wire.CodeNotFound
		if c.SessionID() == "" {
			want1 = wire.CodeInvalidParams
		}
		if code != want1 {
			t.Errorf("not found is %d", code)
		}
		for _, uri := range []string{"fake://item/{id}", other + "fake://item/{id}"} {
			contains(t, string(c.Result("completion/complete", args("ref", args("type", `"ref/resource"`, "uri", quoted(uri)), "argument", `{"name":"id","value":"1"}`))), `["1","10"]`)
		}
		t.Run("links in results", func(t *testing.T) {
			a, b := string(c.Call("a_content", "{}").Result), string(c.Call("b_content", "{}").Result)
			contains(t, a, `"uri":"fake://text/1"`)
			if strings.Contains(a, other) || strings.Contains(b, `"uri":"fake://text/1"`) || strings.Count(b, `"uri":"`+other+`fake://text/1"`) != 2 {
				t.Errorf("links\n%s\n%s", a, b)
			}
		})
	})
	equal(t, "the first server's result is untouched", string(g.legacy().Call("a_content", "{}").Result), payload.ContentResult)
}

// A URI that nobody lists is tried at each server with resources.
func TestUnlistedResources(t *testing.T) {
	t.Run("the first one that has it answers", func(t *testing.T) {
		g := start(t, map[string]server{
			"a": flags(`-answer=resources/read={"jsonrpc":"2.0","id":$ID,"error":{"code":-32002,"message":"not here"}}`),
			"b": flags(), "c": flags("-only=tools", "-exit-on-unknown-request")})
		bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
			contains(t, string(c.Result("resources/read", `{"uri":"fake://unlisted","x":12345678901234567890}`)), `"text":"b: unlisted"`, `"uri":"fake://unlisted"`)
			code, _ := errorOf(t, c.Request("resources/read", `{"uri":"http://x"}`))
			if code != wire.CodeNotFound && code != wire.CodeInvalidParams {
				t.Errorf("code %d", code)
			}
		})
	})
	t.Run("a server that does not answer holds up its client only", func(t *testing.T) {
		g := start(t, map[string]server{"a": flags(`-answer=resources/read={"jsonrpc":"2.0","method":"x/read"}`), "b": flags("-prefix=b_")})
		c := g.legacy()
		c.Listen()
		x := c.Begin("resources/read", `{"uri":"fake://unlisted"}`)
		c.Await(mcptest.IsMethod("x/read"))
		x.Cancel("")
		if r, err := x.Wait(); err == nil {
			t.Errorf("a cancelled request was answered %s", r.Raw)
		}
		c.Call("cancelled", `{"wait":1}`)
	})
	t.Run("nobody has resources", func(t *testing.T) {
		c := one(t, "-only=tools").legacy()
		refused(t, c.Request("resources/read", `{"uri":"fake://x"}`), wire.CodeNotFound, "no server has resources")
		refused(t, c.Request("resources/read", `{}`), wire.CodeInvalidParams, "uri")
	})
}

func TestExposeToolsOnly(t *testing.T) {
	g := start(t, map[string]server{"one": flags()}, rigOptions{relay: relay.Options{ToolsOnly: true}})
	bothEras(t, g, func(t *testing.T, c *mcptest.Client) {
		for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "resources/read", "prompts/get", "completion/complete"} {
			refused(t, c.Request(method, `{"name":"x","uri":"x"}`), wire.CodeMethodNotFound)
		}
		equal(t, "call", c.Call("whoami", "{}").Text(), "one")
	})
	contains(t, string(g.legacy().Hello), `"capabilities":{"tools":{"listChanged":true},"logging":{}}`)
}

func TestOtherMethods(t *testing.T) {
	t.Run("go to the only server", func(t *testing.T) {
		c := one(t, `-answer=x/y={"jsonrpc":"2.0","id":$ID,"result":{"n":12345678901234567890}}`).legacy()
		equal(t, "result", string(c.Result("x/y", `{"a":1}`)), `{"n":12345678901234567890}`)
		refused(t, c.Request("x/z", ""), wire.CodeMethodNotFound, "x/z")
	})
	t.Run("but not to one of several", func(t *testing.T) {
		c := start(t, map[string]server{"a": flags(), "b": flags()}).legacy()
		refused(t, c.Request("x/y", ""), wire.CodeMethodNotFound, `"x/y"`)
	})
}

func TestPrefixOption(t *testing.T) {
	g := start(t, map[string]server{"a": {flags: []string{"-tool=x", "-tool=y"}, options: catalog.Options{Prefix: "p.", Deny: []string{"y"}}}, "b": flags("-tool=x")})
	c := g.legacy()
	if got := c.Tools(); !slices.Equal(got, []string{"p.x", "x"}) {
		t.Errorf("tools %q", got)
	}
	equal(t, "prefixed", c.Call("p.x", "{}").Text(), "a/x {}")
	equal(t, "plain", c.Call("x", "{}").Text(), "b/x {}")
}
