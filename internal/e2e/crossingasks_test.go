package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

// journey is one call of the tool "steps" and what it is to be asked.
type journey struct {
	s         crossServer
	nonce     string
	token     string // "" for none
	steps     []string
	progress  int
	nonces    []string // of the questions
	questions []*question
}

// methods are what a server asks.
var methods = []string{"sampling/createMessage", "elicitation/create", "roots/list"}

// questionParams are those of a question, with its nonce.
func questionParams(method, nonce string) string {
	meta := fmt.Sprintf(`"_meta":{"nonce":%q}`, nonce)
	switch method {
	case "sampling/createMessage":
		return fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%q}}],%s,"maxTokens":10}`, nonce, meta)
	case "elicitation/create":
		return fmt.Sprintf(`{%s,"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{"nonce":{"type":"string"}}}}`, meta, nonce)
	}
	return "{" + meta + "}"
}

// question adds a step in which the server asks.
func (j *journey) question(w *worker, do string, q *question) {
	q.method = methods[w.r.IntN(len(methods))]
	nonce := fmt.Sprintf("%s?%d", j.nonce, len(j.questions))
	w.p.expect(nonce, q)
	j.nonces = append(j.nonces, nonce)
	j.questions = append(j.questions, q)
	j.steps = append(j.steps, fmt.Sprintf(`{"do":%q,"ms":%d,"method":%q,"params":%s}`, do, w.r.IntN(4), q.method, questionParams(q.method, nonce)))
}

// step adds a step without a question.
func (j *journey) step(do string, ms int) {
	if do == "progress" && j.token != "" {
		j.progress++
	}
	j.steps = append(j.steps, fmt.Sprintf(`{"do":%q,"ms":%d}`, do, ms))
}

func (j *journey) arguments() string {
	return fmt.Sprintf(`{"nonce":%q,"steps":[%s]}`, j.nonce, strings.Join(j.steps, ","))
}

func (j *journey) options() (options []mcptest.RequestOption) {
	if j.token != "" {
		options = append(options, mcptest.WithToken(j.token))
	}
	return options
}

// bridged tells that the server process speaks 2026-07-28: its questions are answers, which belong to
// their call.
func (j *journey) bridged(p *player) bool { return j.s.modern || j.s.both && p.modern() }

// journey makes up a call with progress and questions.
func (w *worker) journey(s crossServer) *journey {
	j := &journey{s: s, nonce: w.nonce()}
	if w.r.IntN(3) > 0 {
		j.token = w.token()
	}
	for range 1 + w.r.IntN(3) {
		if w.r.IntN(2) == 0 {
			j.step("progress", 0)
		}
		if w.r.IntN(3) == 0 {
			j.step("sleep", w.r.IntN(3))
		}
		j.question(w, "ask", &question{fails: !w.p.modern() && w.r.IntN(8) == 0})
	}
	j.step("progress", 0)
	return j
}

// steps makes such a call while others are in flight.
func (w *worker) steps() error {
	j := w.journey(w.server())
	defer w.p.forget(j.nonces)
	leave := w.board(j.s, j.nonce)
	r, err := w.tool(j.s, "steps", j.arguments(), j.options()...)
	return w.check(j, r, err, leave())
}

// alone makes such calls while no other client has one in flight at the same process, so that every
// question must come; a session has several at once.
func (w *worker) alone() error {
	s := w.server()
	pr := w.g.process(s, w.p)
	pr.gate.Lock()
	defer pr.gate.Unlock()
	n := 1
	if !w.p.modern() {
		n += w.r.IntN(3)
	}
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		j := w.journey(s)
		if j.token != "" {
			j.token = fmt.Sprintf(`"%d.%d"`, w.n, i)
		}
		wait.Go(func() {
			defer w.p.forget(j.nonces)
			f := pr.takeOff(w.p.owner(j.nonce))
			r, err := w.tool(s, "steps", j.arguments(), j.options()...)
			errs[i] = w.check(j, r, err, f.land())
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// check compares the answer to a call of "steps" with what it was to be asked and what was answered.
func (w *worker) check(j *journey, r mcptest.Reply, err error, shared bool) error {
	if err != nil {
		return fmt.Errorf("call %s: %w", j.nonce, err)
	}
	if err := checkProgress(r.Interim, j.token, j.nonce, j.progress, r.Error == nil); err != nil {
		return err
	}
	if r.Error != nil {
		return w.checkFailed(j, r)
	}
	var text struct {
		Nonce   string
		Answers []json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.Text()), &text); err != nil || text.Nonce != j.nonce || len(text.Answers) != len(j.questions) {
		return fmt.Errorf("the call %s was answered by %s", j.nonce, r.Result)
	}
	for i, q := range j.questions {
		if err := w.judge(q, string(text.Answers[i]), shared && !j.bridged(w.p)); err != nil {
			return fmt.Errorf("call %s at %s, question %d: %w", j.nonce, j.s.name, i, err)
		}
	}
	return nil
}

// judge decides whether the server was given the right answer to one question.
func (w *worker) judge(q *question, answer string, shared bool) error {
	w.p.mu.Lock()
	given := q.given
	w.p.mu.Unlock()
	failure := wire.Get([]byte(answer), "error")
	message, _ := wire.GetString(failure, "message")
	code := string(wire.Get(failure, "code"))
	switch {
	case given != "" && answer == given && q.fails:
		w.g.count("asked and answered with an error")
	case given != "" && answer == given:
		w.g.count("asked and answered")
	case given == "" && shared && code == "-32600" && strings.Contains(message, "calls of several clients"):
		w.g.count("refused for calls of others")
	case given == "" && !w.p.can(q.method) && code == "-32601":
		w.g.count("refused for want of a capability")
	default:
		return fmt.Errorf("%s: the server got %s, the client gave %q, others had calls in flight: %v", q.method, answer, given, shared)
	}
	return nil
}

// checkFailed looks at a call that failed as a whole: only one to a server of 2026-07-28 may, since its
// client cannot, or will not, give what it needs.
func (w *worker) checkFailed(j *journey, r mcptest.Reply) error {
	code, lacks := string(wire.Get(r.Error, "code")), "-32600"
	if w.p.modern() {
		lacks = "-32021"
	}
	for _, q := range j.questions {
		w.p.mu.Lock()
		given := q.given
		w.p.mu.Unlock()
		switch {
		case !j.bridged(w.p):
		case !w.p.can(q.method) && given == "" && code == lacks:
			w.g.count("refused for want of a capability")
			return nil
		case q.fails && given == `{"error":`+string(r.Error)+`}`:
			w.g.count("asked and answered with an error")
			return nil
		}
	}
	return fmt.Errorf("call %s at %s failed: %s", j.nonce, j.s.name, r.Error)
}
