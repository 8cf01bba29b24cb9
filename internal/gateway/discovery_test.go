package gateway_test

import (
	"encoding/json"
	"slices"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// dynamic is a gateway whose agents find and add servers.
func dynamic(t *testing.T) *testGateway {
	t.Helper()
	g := prepare(t, map[string]entry{"a": {Args: []string{"-tool=x"}}}).withCatalog()
	g.o.Dynamic = true
	return g.up()
}

// says is the result of a tool of the gateway's own, which must fail or not.
func says(t *testing.T, c *mcptest.Client, tool, arguments string, fails bool) string {
	t.Helper()
	raw := c.Result("tools/call", mcptest.CallParams(tool, arguments))
	var result struct {
		Content    []struct{ Text string }
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool
	}
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) != 1 || result.IsError != fails || fails != (result.Structured == nil) {
		t.Errorf("%s %s: %s", tool, arguments, raw)
		return ""
	}
	return result.Content[0].Text
}

func TestDiscovery_AgentsFindAddAndRemove(t *testing.T) {
	g := dynamic(t)
	for _, version := range []string{mcptest.Legacy, mcptest.Modern} {
		c := g.client(version)
		if version == mcptest.Legacy {
			c.Listen()
		}
		equal(t, "found", says(t, c, "mcp-find", `{"query":"fast"}`, false), `{"servers":[{"name":"quick","description":"Answers fast.","added":false}],"total":1}`)
		contains(t, says(t, c, "mcp-find", `{}`, false), `"choosy"`, `"quick"`, `"required":true`, `"total":2`)
		contains(t, says(t, c, "mcp-find", `{"limit":1}`, false), `"choosy"`, `"total":2`)

		contains(t, says(t, c, "mcp-add", `{"server":"quick"}`, false), `{"server":"quick","tools":["quick_tool"]}`)
		if version == mcptest.Legacy {
			c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
		}
		contains(t, says(t, c, "mcp-add", `{"server":"quick"}`, false), "quick_tool")
		contains(t, says(t, c, "mcp-find", `{"query":"fast"}`, false), `"added":true`)
		contains(t, c.Call("quick_tool", "{}").Text(), "quick")

		contains(t, says(t, c, "mcp-add", `{"server":"choosy"}`, true), "name", "is missing")
		contains(t, says(t, c, "mcp-add", `{"server":"choosy","properties":{"name":"me","key":"s3cr3t-key"}}`, false), "choosy_tool")
		contains(t, c.Call("choosy_tool", "{}").Text(), "me")
		if r := g.add("choosy", ""); r.status != 200 { // it is there, whoever has asked for it
			t.Errorf("add what an agent has added: %d %s", r.status, r.body)
		}

		for _, server := range []string{"quick", "choosy"} {
			contains(t, says(t, c, "mcp-remove", `{"server":"`+server+`"}`, false), server)
		}
		if tools := c.Tools(); !slices.Equal(tools, []string{"mcp-find", "mcp-add", "mcp-remove", "x"}) {
			t.Errorf("tools %v", tools)
		}
	}
	equal(t, "servers", names(g.gateway().Servers), "a:stdio")
}

// A tool's result is read by a model: signs stand as they are.
func TestDiscovery_SignsAreNotEscaped(t *testing.T) {
	cat, err := catalog.Parse([]byte(`{"page": {"description": "Reads <b> & more.", "runs": "command", "command": "/bin/false"}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := prepare(t, map[string]entry{"a": {}})
	g.o.Dynamic, g.o.Catalog = true, cat
	g.up()
	answer := g.client("").Call("mcp-find", "{}")
	contains(t, answer.Text(), "Reads <b> & more.")
	contains(t, string(answer.Raw), "Reads <b> & more.")
}

// An agent can remove what it has added after another start too.
func TestDiscovery_WhatAnAgentHasAddedStaysItsOwn(t *testing.T) {
	g := dynamic(t)
	says(t, g.client(""), "mcp-add", `{"server":"quick"}`, false)
	g.stopGateway()
	g.api("POST", gatewayPath+"/start", `{}`)
	g.until(control.GatewayReady)
	contains(t, says(t, g.client(""), "mcp-remove", `{"server":"quick"}`, false), "quick")
	equal(t, "servers", names(g.gateway().Servers), "a:stdio")
}

// What is run, and what an operator has asked for, is not the agents' affair.
// An operator's definition, which may hold secrets, is gone for agents when the operator has removed it.
func TestDiscovery_AgentsDoNotBringBackWhatAnOperatorRemoved(t *testing.T) {
	g := dynamic(t)
	if r := g.add("choosy", `{"choosy":{"name":"the operator's"}}`); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := g.api("DELETE", gatewayPath+"/servers/choosy", ""); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	contains(t, says(t, g.client(""), "mcp-add", `{"server":"choosy"}`, true), "name: is missing")
	if r := g.add("choosy", ""); r.status != 200 {
		t.Errorf("the operator cannot bring it back: %d %s", r.status, r.body)
	}
}

func TestDiscovery_AgentsReachNoFurther(t *testing.T) {
	g := dynamic(t)
	c := g.client("")
	for arguments, part := range map[string]string{
		`{"server":"quik"}`: `did you mean "quick"`,
		`{"server":"a"}`:    "not in the catalogue",
		`{"server":"quick","properties":{"command":"/bin/sh","args":["-c","x"]}}`: `no property "args"`,
		`{"server":"quick","properties":{"runCmd":"x"}}`:                          `no property "runCmd"`,
		`{"server":"choosy","properties":{"name":"me","envs":{"A":"b"}}}`:         `no property "envs"`,
		`{"server":"choosy","properties":{"name":7}}`:                             "must be a string",
		`{"server":"quick","registration":{}}`:                                    "do not fit",
		`{}`:                                                                      "server is missing",
		`{"server":7}`:                                                            "server cannot be a number",
		`{"server":"choosy"}`:                                                     `name: is missing, must be a string; properties has to hold name (Who it is): ask the user`,
		`{"server":"choosy","properties":{"key":7}}`:                              `properties has to hold name (Who it is)`,
	} {
		contains(t, says(t, c, "mcp-add", arguments, true), part)
	}
	contains(t, says(t, c, "mcp-remove", `{"server":"a"}`, true), "operator")
	contains(t, says(t, c, "mcp-remove", `{"server":"quik"}`, true), `"quik"`)
	contains(t, says(t, c, "mcp-remove", `{}`, true), "missing")
	if r := g.add("quick", ""); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	contains(t, says(t, c, "mcp-remove", `{"server":"quick"}`, true), "operator")
	equal(t, "servers", names(g.gateway().Servers), "a:stdio quick:stdio")
	equal(t, "mode", string(g.report().Mode), string(control.ModeDynamic))
}
