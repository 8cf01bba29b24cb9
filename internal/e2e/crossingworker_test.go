package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
	"mcp-gateway/internal/wire"
)

// worker does one thing after the other in the name of a player.
type worker struct {
	g    *game
	p    *player
	n    int
	r    *rand.Rand
	made int // nonces
}

// operations are what a worker does, and how often.
var operations = []struct {
	often int
	name  string
	do    func(*worker) error
	only  func(*player) bool // nil means every player
	alone bool               // nothing else of the player's is in flight meanwhile
}{
	{often: 22, name: "call", do: (*worker).call},
	{often: 10, name: "feature", do: (*worker).feature},
	{often: 20, name: "steps", do: (*worker).steps},
	{often: 14, name: "steps with nobody else in flight", do: (*worker).alone},
	{often: 6, name: "cancelled", do: (*worker).cancel},
	{often: 12, name: "cancelled soon", do: (*worker).cancelSoon},
	{often: 8, name: "cancelled while asked", do: (*worker).cancelAsked, only: legacyPlayer},
	{often: 5, name: "question withdrawn", do: (*worker).withdrawn, only: legacyPlayer},
	{often: 12, name: "batch", do: (*worker).batch, only: func(p *player) bool { return p.version == "2025-03-26" }},
	{often: 1, name: "session ended with calls in flight", do: (*worker).restart, only: legacyPlayer, alone: true},
}

func legacyPlayer(p *player) bool { return !p.modern() }

// mustHappen must have been counted when the test ends, or it proves nothing.
var mustHappen = []string{
	"call", "feature", "steps", "steps with nobody else in flight", "cancelled", "cancelled on its way", "cancelled while asked",
	"question withdrawn", "batch", "session ended with calls in flight",
	"asked and answered", "asked and withdrawn", "asked and answered with an error", "refused for calls of others", "refused for want of a capability",
}

// run goes on until as many requests have been made as are wanted.
func (w *worker) run() {
	total := 0
	for _, o := range operations {
		total += o.often
	}
	for w.g.left.Load() > 0 {
		n := w.r.IntN(total)
		for _, o := range operations {
			if n -= o.often; n >= 0 {
				continue
			}
			if o.only == nil || o.only(w.p) {
				w.do(o.name, o.do, o.alone)
			}
			break
		}
	}
}

func (w *worker) do(name string, do func(*worker) error, alone bool) {
	if alone {
		w.p.session.Lock()
		defer w.p.session.Unlock()
	} else {
		w.p.session.RLock()
		defer w.p.session.RUnlock()
	}
	w.g.count(name)
	if err := do(w); err != nil {
		w.g.report("%s (%s), %s: %v", w.p.name, w.p.version, name, err)
	}
}

// nonce is a text that is nowhere else.
func (w *worker) nonce() string {
	w.made++
	return fmt.Sprintf("%s-%d-%d", w.p.name, w.n, w.made)
}

// token is a progress token that other sessions use at the same time, but this one only once.
func (w *worker) token() string {
	if w.r.IntN(2) == 0 {
		return fmt.Sprint(w.n)
	}
	return fmt.Sprintf(`"%d"`, w.n)
}

func (w *worker) server() crossServer { return crossServers[w.r.IntN(len(crossServers))] }

// request makes a request; for a client without sessions as often as the answer wants input. What came
// before the answer comes with it.
func (w *worker) request(method, params string, options ...mcptest.RequestOption) (mcptest.Reply, error) {
	w.g.left.Add(-1)
	if !w.p.modern() {
		r, err := w.p.client.Do(method, params, options...)
		return r, told(err, method, params)
	}
	var before []mcptest.Message
	now := params
	for {
		r, err := w.p.client.Do(method, now, options...)
		r.Interim = append(before, r.Interim...)
		if kind, _ := wire.GetString(r.Result, "resultType"); err != nil || kind != "input_required" {
			return r, told(err, method, now)
		}
		before = r.Interim
		responses := []byte("{}")
		for key, request := range wire.Members(wire.Get(r.Result, "inputRequests")) {
			ask := mcptest.Message{Params: wire.Get(request, "params")}
			ask.Method, _ = wire.GetString(request, "method")
			result, _ := w.p.respond(ask)
			responses = wire.Edit(responses, wire.Change{Key: key, Value: []byte(result)})
		}
		now = string(wire.Edit([]byte(params), wire.Change{Key: "inputResponses", Value: responses},
			wire.Change{Key: "requestState", Value: wire.Get(r.Result, "requestState")}))
	}
}

// told says to which request there is no answer.
func told(err error, method, params string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %.300s: %w", method, params, err)
}

// tool calls a tool of a server.
func (w *worker) tool(s crossServer, name, arguments string, options ...mcptest.RequestOption) (mcptest.Reply, error) {
	return w.request("tools/call", mcptest.CallParams(s.prefix+name, arguments), options...)
}

// board waits until the process lets others in and notes a call there.
func (w *worker) board(s crossServer, nonce string) (leave func() (shared bool)) {
	pr := w.g.process(s, w.p)
	pr.gate.RLock()
	f := pr.takeOff(w.p.owner(nonce))
	return func() bool {
		defer pr.gate.RUnlock()
		return f.land()
	}
}

// call calls a tool that asks nothing.
func (w *worker) call() error {
	s, nonce := w.server(), w.nonce()
	defer w.board(s, nonce)()
	arguments := fmt.Sprintf(`{"nonce":%q,"z":12345678901234567890,"a":1.0}`, nonce)
	switch w.r.IntN(6) {
	case 0:
		r, err := w.tool(s, "error", arguments)
		return wantText(r, err, string(r.Error), payload.ErrorAnswer)
	case 1:
		r, err := w.tool(s, "fail", arguments)
		return wantText(r, err, r.Text(), "it did not work")
	case 2:
		r, err := w.tool(s, nonce, arguments) // which is not there
		message, _ := wire.GetString(r.Error, "message")
		if err == nil && !strings.Contains(message, s.prefix+nonce) {
			err = fmt.Errorf("an unknown tool is answered by %s%s", r.Result, r.Error)
		}
		return err
	case 3:
		n := w.r.IntN(50_000)
		r, err := w.tool(s, "big", fmt.Sprintf(`{"bytes":%d}`, n))
		return wantText(r, err, fmt.Sprint(len(r.Text())), fmt.Sprint(n))
	}
	r, err := w.tool(s, "echo", arguments)
	if err == nil && string(wire.Get(r.Result, "structuredContent")) != arguments {
		err = fmt.Errorf("echo gave %s", r.Result)
	}
	return wantText(r, err, r.Text(), arguments)
}

// wantText wants an answer's part to be as it should.
func wantText(r mcptest.Reply, err error, got, want string) error {
	if err == nil && got != want {
		err = fmt.Errorf("got %q, want %q: %.300s%s", got, want, r.Result, r.Error)
	}
	return err
}

// feature asks for something else than a tool.
func (w *worker) feature() error {
	s, nonce := w.server(), w.nonce()
	switch w.r.IntN(5) {
	case 0:
		defer w.board(s, nonce)()
		r, err := w.request("prompts/get", fmt.Sprintf(`{"name":%q,"arguments":{"name":%q}}`, s.prefix+"greet", nonce))
		return wantPart(r, err, "Greet "+nonce+".")
	case 1:
		defer w.board(crossServers[0], nonce)() // whose URIs these are
		r, err := w.request("resources/read", fmt.Sprintf(`{"uri":"fake://item/%s"}`, nonce))
		return wantPart(r, err, crossServers[0].name+": item/"+nonce)
	case 2:
		defer w.board(s, nonce)()
		r, err := w.request("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"name","value":"al"}}`, s.prefix+"greet"))
		return wantPart(r, err, `["alan","alice"]`)
	case 3:
		if w.p.modern() {
			return nil // where there is no ping
		}
		r, err := w.request("ping", "")
		return wantText(r, err, string(r.Result), "{}")
	}
	r, err := w.request("tools/list", "")
	first, _ := w.g.lists.LoadOrStore(w.p.modern(), string(r.Result))
	return wantText(r, err, string(r.Result), first.(string))
}

func wantPart(r mcptest.Reply, err error, want string) error {
	if err == nil && !strings.Contains(string(r.Result), want) {
		err = fmt.Errorf("got %s%s, want %q in it", r.Result, r.Error, want)
	}
	return err
}

// batch sends requests to several servers in one array, which only 2025-03-26 has. One of them has
// progress.
func (w *worker) batch() error {
	var body []string
	want := map[string]string{} // texts, by the ids as written
	token, steps := w.token(), ""
	for _, s := range crossServers {
		if w.r.IntN(2) == 0 {
			continue
		}
		nonce, tool := w.nonce(), "echo"
		defer w.board(s, nonce)()
		arguments := fmt.Sprintf(`{"nonce":%q}`, nonce)
		text := arguments
		if steps == "" {
			steps, tool = nonce, "steps"
			arguments = fmt.Sprintf(`{"nonce":%q,"steps":[{"do":"progress"}]}`, nonce)
			text = fmt.Sprintf(`{"nonce":%q,"answers":[]}`, nonce)
		}
		id := fmt.Sprintf("%q", nonce)
		want[id] = text
		params := wire.Edit([]byte(mcptest.CallParams(s.prefix+tool, arguments)), wire.Change{Key: "_meta", Value: fmt.Appendf(nil, `{"progressToken":%s}`, token)})
		body = append(body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`, id, params))
		w.g.left.Add(-1)
	}
	if len(body) == 0 {
		return nil
	}
	answers, before, err := w.p.client.Batch("[" + strings.Join(body, ",") + "]")
	if err != nil {
		return err
	}
	if err := checkProgress(before, token, steps, 1, true); err != nil {
		return err
	}
	for _, m := range answers {
		r := mcptest.Reply{Message: m}
		if r.Text() != want[string(m.ID)] {
			return fmt.Errorf("in a batch %s is answered by %s", m.ID, m.Raw)
		}
		delete(want, string(m.ID))
	}
	if len(want) > 0 {
		return fmt.Errorf("in a batch there is no answer to %v", want)
	}
	return nil
}

// checkProgress wants the progress of one call: with its token, its nonce, in order; all of it, or as
// far as the call came.
func checkProgress(before []mcptest.Message, token, nonce string, steps int, whole bool) error {
	n := 0
	for _, m := range before {
		if m.Method != "notifications/progress" {
			continue
		}
		var p struct {
			ProgressToken json.RawMessage
			Progress      int
			Message       string
		}
		n++
		if err := json.Unmarshal(m.Params, &p); err != nil || string(p.ProgressToken) != token || p.Progress != n || p.Message != nonce {
			return fmt.Errorf("step %d of the call %s with the token %s is %s", n, nonce, token, m.Raw)
		}
	}
	if n > steps || whole && n < steps {
		return fmt.Errorf("the call %s has %d of %d steps", nonce, n, steps)
	}
	return nil
}
