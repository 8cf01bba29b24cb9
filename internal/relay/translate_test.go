package relay_test

import (
	"testing"

	"mcp-gateway/internal/mcptest"
)

// answering is a server that answers all calls with an error, whatever the client has declared.
func answering(modern bool, object string) server {
	s := flags("-answer=tools/call="+`{"jsonrpc":"2.0","id":$ID,"error":`+object+`}`, "-answer=resources/read="+`{"jsonrpc":"2.0","id":$ID,"error":`+object+`}`)
	if modern {
		s.flags = append(s.flags, "-modern-only")
		s.options = modernOption
	}
	return s
}

func TestErrorCodesOfEachEra(t *testing.T) {
	const read = "resources/read"
	for _, c := range []struct {
		server         string // its era
		method, object string
		legacy, modern int
	}{
		{"modern", "tools/call", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`, -32600, -32021},
		{"modern", "tools/call", `{"code":-32020,"message":"m"}`, -32603, -32020},
		{"modern", "tools/call", `{"code":-32022,"message":"m"}`, -32603, -32022},
		{"modern", "tools/call", `{"code":-32602,"message":"m","data":{"uri":"x:"}}`, -32602, -32602},
		{"modern", read, `{"code":-32602,"message":"m","data":{"uri":"x:"}}`, -32002, -32602},
		{"modern", read, `{"code":-32602,"message":"m"}`, -32602, -32602},
		{"legacy", read, `{"code":-32002,"message":"m"}`, -32002, -32602},
		{"legacy", "tools/call", `{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"?"}]}}`, -32042, -32021},
		{"legacy", "tools/call", `{"code":-32000,"message":"m"}`, -32000, -32000},
		{"legacy", "tools/call", `{"code":1.5,"message":"m","data":12345678901234567890}`, 0, 0},
	} {
		t.Run(c.server+" "+c.method+" "+c.object, func(t *testing.T) {
			g := start(t, map[string]server{"one": answering(c.server == "modern", c.object)})
			params := map[string]string{"tools/call": mcptest.CallParams("echo", "{}"), read: `{"uri":"fake://text/1"}`}[c.method]
			for client, want := range map[*mcptest.Client]int{g.legacy(): c.legacy, g.modern(): c.modern} {
				r := client.Request(c.method, params)
				if want == 0 {
					equal(t, "error", string(r.Error), c.object)
					continue
				}
				refused(t, r, want, "m")
			}
		})
	}
}

// A server of 2025-11-25 that wants an elicitation by URL first has a client of 2026-07-28 asked for it.
func TestURLElicitationBeforeACall(t *testing.T) {
	g := start(t, map[string]server{"one": answering(false, `{"code":-32042,"message":"sign in","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"?"},{"elicitationId":"f","url":"https://y","message":"!"}]}}`)})
	c := g.modern(mcptest.ClientOptions{Capabilities: `{"elicitation":{"url":{}}}`})
	want := `{"resultType":"input_required","inputRequests":{"url-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"?"}},"url-2":{"method":"elicitation/create","params":{"url":"https://y","message":"!","mode":"url"}}}}`
	equal(t, "result", string(c.Call("echo", "{}").Result), want)
}

// A read that is tried at several servers can be cancelled while one of them is busy.
func TestB46_CancelWhileServersAreTried(t *testing.T) {
	g := start(t, map[string]server{"a": flags("-hang-in=resources/read"), "b": flags("-prefix=b_")})
	c, other := g.legacy(), g.legacy()
	read := c.Begin("resources/read", `{"uri":"nobody:knows"}`)
	other.Call("received", `{"method":"resources/read","wait":1}`)
	read.Cancel("enough")
	if r, err := read.Wait(); err == nil {
		t.Errorf("a cancelled read was answered: %s", r.Raw)
	}
	contains(t, other.Call("cancelled", `{"wait":1}`).Text(), `"requestId"`)
	equal(t, "the other server is not asked", other.Call("b_received", `{"method":"resources/read"}`).Text(), "")
}
