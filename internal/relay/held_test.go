package relay_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/wire"
)

// A modern client over an older server that asks: the call is held between the client's requests.

// inputs reads an answer that wants input: the questions by key, and the state to come back with.
func inputs(t *testing.T, r mcptest.Reply) (questions map[string]json.RawMessage, state string) {
	t.Helper()
	var result struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  json.RawMessage
	}
	if err := json.Unmarshal(r.Result, &result); err != nil || result.ResultType != "input_required" {
		t.Fatalf("no input is wanted: %s", r.Raw)
	}
	return result.InputRequests, string(result.RequestState)
}

// retry are the params of a call that goes on with answers.
func retry(tool, state, responses string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{},"requestState":%s,"inputResponses":%s}`, tool, state, responses)
}

func modernAsker() mcptest.ClientOptions {
	return mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")}
}

func TestHeldCalls(t *testing.T) {
	g := one(t)
	c := g.modern(modernAsker())
	t.Run("each kind of question", func(t *testing.T) {
		for _, a := range askTools {
			r := c.Call(a.tool, "{}")
			questions, state := inputs(t, r)
			if len(questions) != 1 || !strings.HasPrefix(string(questions["input-1"]), `{"method":"`+a.method+`","params":{`) {
				t.Errorf("questions %s", r.Result)
			}
			want, _ := answers("me")(mcptest.Message{Method: a.method})
			r = c.Request("tools/call", retry(a.tool, state, `{"input-1":`+want+`}`))
			equal(t, a.tool, r.Text(), asked(want))
			contains(t, string(r.Result), `"resultType":"complete"`)
		}
	})
	t.Run("several in a row", func(t *testing.T) {
		r, err := c.Complete("tools/call", mcptest.CallParams("ask_many", `{"n":4,"parallel":false}`))
		if err != nil {
			t.Fatal(err)
		}
		one, _ := answers("me")(mcptest.Message{Method: "elicitation/create"})
		equal(t, "answers", r.Text(), "["+strings.Join([]string{asked(one), asked(one), asked(one), asked(one)}, ",")+"]")
	})
	t.Run("several at once, answered one by one: what is missing is asked again", func(t *testing.T) {
		r := c.Call("ask_many", `{"n":3,"parallel":true}`)
		open := map[string]bool{}
		for rounds := 0; ; rounds++ {
			if kind, _ := wire.GetString(r.Result, "resultType"); kind != "input_required" {
				equal(t, "answers", r.Text(), `[{"result":{"n":1}},{"result":{"n":2}},{"result":{"n":3}}]`)
				break
			}
			questions, state := inputs(t, r)
			if rounds > 10 || len(questions) == 0 {
				t.Fatalf("round %d asks %s", rounds, r.Result)
			}
			responses := ""
			for key, question := range questions {
				open[key] = true
				n := string(wire.Get(wire.Get(question, "params"), "n"))
				responses = fmt.Sprintf(`{%q:{"n":%s},"unknown":{}}`, key, n)
				break
			}
			r = c.Request("tools/call", retry("ask_many", state, responses))
		}
		if len(open) != 3 {
			t.Errorf("keys %v", open)
		}
	})
	t.Run("a state serves once", func(t *testing.T) {
		_, state := inputs(t, c.Call("ask_roots", "{}"))
		c.Request("tools/call", retry("ask_roots", state, `{"input-1":{"roots":[]}}`))
		refused(t, c.Request("tools/call", retry("ask_roots", state, `{"input-1":{"roots":[]}}`)), wire.CodeInvalidParams, "requestState")
		refused(t, c.Request("tools/call", retry("ask_roots", `"made up"`, `{}`)), wire.CodeInvalidParams, "requestState")
		if n := strings.Count(c.Call("received", `{"method":"tools/call"}`).Text(), "ask_roots"); n != 2 {
			t.Errorf("the tool was called %d times", n) // once here, once above
		}
	})
	t.Run("a state is for the request that it was given to", func(t *testing.T) {
		_, state := inputs(t, c.Call("ask_roots", "{}"))
		refused(t, c.Request("prompts/get", `{"name":"plain","requestState":`+state+`}`), wire.CodeInvalidParams, "requestState")
		equal(t, "it still serves", c.Request("tools/call", retry("ask_roots", state, `{"input-1":{"roots":[]}}`)).Text(), asked(`{"roots":[]}`))
	})
	t.Run("progress comes on the current request, under its token", func(t *testing.T) {
		r := c.Call("ask_progress", "{}", mcptest.WithToken(`"first"`))
		if len(r.Interim) != 1 {
			t.Errorf("%d notifications", len(r.Interim))
		}
		contains(t, string(r.Interim[0].Params), `"progressToken":"first"`)
		_, state := inputs(t, r)
		r = c.Request("tools/call", retry("ask_progress", state, `{"input-1":{"roots":[]}}`), mcptest.WithToken(`2`))
		if len(r.Interim) != 1 {
			t.Fatalf("%d notifications", len(r.Interim))
		}
		contains(t, string(r.Interim[0].Params), `"progressToken":2,`)
	})
	t.Run("only requests whose answers may want input are held", func(t *testing.T) {
		g := start(t, map[string]server{"one": flags("-ask-in=completion/complete", "-ask-in=prompts/get")})
		c := g.modern(modernAsker())
		r := c.Request("completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"al"}}`)
		contains(t, string(r.Result), `"values":["alan","alice"]`)
		contains(t, c.Call("received", `{"method":""}`).Text(), "cannot be asked in completion/complete")
		_, state := inputs(t, c.Request("prompts/get", `{"name":"plain"}`))
		contains(t, string(c.Result("prompts/get", `{"name":"plain","requestState":`+state+`,"inputResponses":{"input-1":{"roots":[]}}}`)), "one/plain")
	})
}

func TestHeldCallEnds(t *testing.T) {
	t.Run("trap 15 when its client does not come back", func(t *testing.T) {
		g := start(t, map[string]server{"one": flags()}, rigOptions{relay: relay.Options{HeldFor: time.Millisecond}})
		c := g.modern(modernAsker())
		_, state := inputs(t, c.Call("ask_sampling", "{}"))
		contains(t, c.Call("cancelled", `{"wait":1}`).Text(), "the client has not answered")
		refused(t, c.Request("tools/call", retry("ask_sampling", state, `{}`)), wire.CodeInvalidParams, "requestState")
	})
	t.Run("when its client hangs up", func(t *testing.T) {
		c := one(t).modern(modernAsker())
		r := c.Call("ask_progress", `{"wait":true}`, mcptest.WithToken(`1`))
		_, state := inputs(t, r)
		x := c.Begin("tools/call", retry("ask_progress", state, `{"input-1":{"roots":[]}}`), mcptest.WithToken(`1`))
		x.Await(isProgress)
		x.HangUp()
		c.Call("cancelled", `{"wait":1}`)
	})
	t.Run("when the server ends", func(t *testing.T) {
		g := one(t)
		c := g.modern(modernAsker())
		_, state := inputs(t, c.Call("ask_sampling", "{}"))
		g.kill("one")
		eventually(t, "its end", func() bool { return g.state("one").State != "ready" })
		refused(t, c.Request("tools/call", retry("ask_sampling", state, `{"input-1":{}}`)), wire.CodeInternal, "signal: killed")
		equal(t, "next call", c.Call("whoami", "{}").Text(), "one")
	})
	t.Run("when the server does not wait any more", func(t *testing.T) {
		c := one(t).modern(modernAsker())
		r := c.Call("ask_withdrawn", "{}")
		for r.Text() == "" { // as long as the gateway has not heard of it, it asks again
			_, state := inputs(t, r)
			r = c.Request("tools/call", retry("ask_withdrawn", state, `{}`))
		}
		equal(t, "result", r.Text(), "withdrawn")
	})
	t.Run("B54 the call limit rests while the client is asked", func(t *testing.T) {
		g := start(t, map[string]server{"one": {options: catalog.Options{CallTimeout: 250 * time.Millisecond}}})
		slow := func(m mcptest.Message) (string, string) {
			<-time.After(600 * time.Millisecond) // a person thinks
			return answers("me")(m)
		}
		want, _ := answers("me")(mcptest.Message{Method: "roots/list"})
		r, err := g.modern(mcptest.ClientOptions{Capabilities: everything, Answer: slow}).Complete("tools/call", mcptest.CallParams("ask_roots", "{}"))
		if err != nil {
			t.Error(err)
		}
		equal(t, "modern", r.Text(), asked(want))
		r = g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: slow}).Call("ask_roots", "{}")
		equal(t, "legacy", r.Text(), asked(want))
	})
}

func TestWithdrawnQuestion(t *testing.T) {
	c := one(t).legacy(mcptest.ClientOptions{Capabilities: everything, Answer: func(mcptest.Message) (string, string) { return "", "" }})
	seen := filepath.Join(t.TempDir(), "seen")
	x := c.BeginCall("ask_withdrawn", fmt.Sprintf(`{"path":%q}`, seen))
	ask := x.Await(mcptest.IsMethod("roots/list"))
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := x.Await(mcptest.IsMethod("notifications/cancelled"))
	equal(t, "cancelled", string(wire.Get(m.Params, "requestId")), string(ask.ID))
	contains(t, string(m.Params), "changed its mind")
	equal(t, "result", x.Must().Text(), "withdrawn")
}

// A legacy client over a server of 2026-07-28: it is asked, and the request is made again.
func TestRounds(t *testing.T) {
	g := start(t, map[string]server{"one": {flags: []string{"-modern-only"}, options: modernOption}})
	t.Run("each kind of question", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		for _, a := range askTools {
			want, _ := answers("me")(mcptest.Message{Method: a.method})
			r := c.Call(a.tool, "{}")
			equal(t, a.tool, r.Text(), asked(want))
			if len(r.Interim) != 1 || r.Interim[0].Method != a.method {
				t.Errorf("questions %v", r.Interim)
			}
		}
	})
	t.Run("several rounds, with several questions each", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		r := c.Call("ask_rounds", `{"rounds":3}`, mcptest.WithToken(`"t"`))
		one, _ := answers("me")(mcptest.Message{Method: "elicitation/create"})
		equal(t, "result", r.Text(), fmt.Sprintf(`round 3 with {"first":%s,"second":%s}, state "state-3"`, one, one))
		questions := 0
		for _, m := range r.Interim {
			if m.Method == "elicitation/create" {
				questions++
			}
		}
		if questions != 6 {
			t.Errorf("%d questions", questions)
		}
	})
	t.Run("a server that never has enough", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: answers("me")})
		refused(t, c.Request("tools/call", mcptest.CallParams("ask_rounds", `{"rounds":1000}`)), wire.CodeInternal, `server "one"`, "more input")
	})
	t.Run("what the client has not declared", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{})
		refused(t, c.Request("tools/call", mcptest.CallParams("ask_sampling", "{}")), wire.CodeMethodNotFound, "sampling")
	})
	t.Run("the client refuses", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: func(mcptest.Message) (string, string) {
			return "", `{"code":-1,"message":"rejected","data":[1.0]}`
		}})
		equal(t, "error", string(c.Request("tools/call", mcptest.CallParams("ask_sampling", "{}")).Error), `{"code":-1,"message":"rejected","data":[1.0]}`)
	})
	t.Run("the client cancels meanwhile", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Capabilities: everything, Answer: func(mcptest.Message) (string, string) { return "", "" }})
		calls := func() int {
			return strings.Count(c.Call("received", `{"method":"tools/call"}`).Text(), `"ask_elicitation"`)
		}
		before := calls()
		x := c.BeginCall("ask_elicitation", "{}")
		x.Await(mcptest.IsMethod("elicitation/create"))
		x.Cancel("")
		_, _ = x.Wait()
		if n := calls() - before; n != 1 {
			t.Errorf("the request was sent %d times", n)
		}
	})
	t.Run("modern clients answer themselves, and states pass untouched", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Version: mcptest.Modern, Capabilities: everything, Answer: answers("me")})
		r := c.Call("ask_roots", "{}")
		questions, state := inputs(t, r)
		if len(questions) != 1 || questions["ask"] == nil || state != `"asked"` {
			t.Errorf("answer %s", r.Result)
		}
		r, err := c.Complete("tools/call", mcptest.CallParams("ask_rounds", `{"rounds":2}`))
		if err != nil {
			t.Error(err)
		}
		contains(t, r.Text(), "round 2 with")
	})
	t.Run("what an older client is given", func(t *testing.T) {
		c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Name: "the old one"})
		r := c.Call("raw", `{"n":12345678901234567890}`)
		contains(t, r.Text(), `{"name":"raw","arguments":{"n":12345678901234567890},"_meta":{`, `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"name":"the old one"`)
		if strings.Contains(r.Text(), "logLevel") {
			t.Errorf("a level that nobody asked for: %s", r.Text())
		}
		c.Result("logging/setLevel", `{"level":"warning"}`)
		contains(t, c.Call("raw", "{}").Text(), `"io.modelcontextprotocol/logLevel":"warning"`)
		contains(t, c.Call("raw", `{}`, mcptest.WithToken(`"t"`)).Text(), `"_meta":{"progressToken":"t",`)
	})
}

// With "both" each era of clients has a process of its own.
func TestProtocolBoth(t *testing.T) {
	g := start(t, map[string]server{"one": {flags: []string{"-exit-on-unknown-request"}, modern: []string{"-modern-only"}, options: bothOption}})
	pid := func(c *mcptest.Client) string { return string(wire.Get([]byte(c.Call("process", "{}").Text()), "pid")) }
	old, new := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("old")}), g.modern(mcptest.ClientOptions{Capabilities: everything, Answer: answers("new")})
	if pid(old) == pid(new) || len(g.started()) != 2 {
		t.Errorf("processes %v", g.started())
	}
	// Both ask at once, and nothing is ambiguous.
	x := old.BeginCall("cancellable", "{}", mcptest.WithToken("1"))
	x.Await(isProgress)
	r, err := new.Complete("tools/call", mcptest.CallParams("ask_roots", "{}"))
	if err != nil || !strings.Contains(r.Text(), "file:///new") {
		t.Errorf("%s %v", r.Raw, err)
	}
	contains(t, old.Call("ask_roots", "{}").Text(), "file:///old")
	x.Cancel("")
}
