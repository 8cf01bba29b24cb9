package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"mcp-gateway/internal/mcptest"
)

// cancel cancels a call that goes on for ever, and waits until the server has ended it.
func (w *worker) cancel() error {
	j := &journey{s: w.server(), nonce: w.nonce(), token: w.token()}
	defer w.board(j.s, j.nonce)()
	j.step("progress", 0)
	j.step("hang", 0)
	x := w.hang(j)
	if err := w.begun(x, j); err != nil {
		return err
	}
	if w.p.modern() {
		x.HangUp()
	} else if err := w.cancelNow(x, j); err != nil {
		return err
	}
	return w.ended(j)
}

// hang begins a call whose id is its nonce.
func (w *worker) hang(j *journey) *mcptest.Exchange {
	w.g.left.Add(-1)
	options := append(j.options(), mcptest.WithID(fmt.Sprintf("%q", j.nonce)))
	return w.p.client.BeginCall(j.s.prefix+"steps", j.arguments(), options...)
}

// begun waits for the first progress of a call.
func (w *worker) begun(x *mcptest.Exchange, j *journey) error {
	m, err := x.Expect(mcptest.IsMethod("notifications/progress"))
	if err != nil {
		return fmt.Errorf("call %s has not begun: %w", j.nonce, err)
	}
	return checkProgress([]mcptest.Message{m}, j.token, j.nonce, 1, true)
}

// cancellation is the notification for a request whose id is the nonce.
func cancellation(nonce string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q,"reason":"enough"}}`, nonce)
}

// cancelNow sends the notification and wants the call's stream to end without an answer.
func (w *worker) cancelNow(x *mcptest.Exchange, j *journey) error {
	if err := w.p.client.Post(cancellation(j.nonce)); err != nil {
		return err
	}
	if r, err := x.Wait(); !errors.Is(err, mcptest.ErrNoResponse) {
		return fmt.Errorf("the cancelled call %s was answered: %s, %v", j.nonce, r.Raw, err)
	}
	return nil
}

// ended waits until the server has ended a call, which it must have received once.
func (w *worker) ended(j *journey) error { return w.once(j, true) }

func (w *worker) once(j *journey, ended bool) error {
	f := w.g.process(j.s, w.p).takeOff(w.p.owner(j.nonce + "!"))
	defer f.land()
	r, err := w.tool(j.s, "runs", fmt.Sprintf(`{"of":%q,"ended":%v}`, j.nonce, ended))
	if err != nil {
		return fmt.Errorf("runs of the call %s: %w", j.nonce, err)
	}
	return wantText(r, err, r.Text(), "1")
}

// cancelSoon cancels a call that makes progress and asks, wherever it is. It may be answered before.
func (w *worker) cancelSoon() error {
	j := &journey{s: w.server(), nonce: w.nonce(), token: w.token()}
	leave := sync.OnceValue(w.board(j.s, j.nonce))
	defer leave()
	j.step("progress", 0)
	for range 3 + w.r.IntN(5) {
		switch n := w.r.IntN(4); {
		case n == 0:
			j.step("sleep", w.r.IntN(2))
		case n == 1 && !w.p.modern() && !j.bridged(w.p):
			// It is not forgotten: it may come when nobody waits for it any more.
			j.question(w, "ask", &question{})
		default:
			j.step("progress", 0)
		}
	}
	x := w.hang(j)
	if err := w.begun(x, j); err != nil {
		return err
	}
	if w.p.modern() {
		x.HangUp()
	} else if err := w.p.client.Post(cancellation(j.nonce)); err != nil {
		return err
	}
	r, err := x.Wait()
	switch {
	case err == nil:
		w.g.count("cancelled too late")
		return w.check(j, r, nil, leave())
	case !w.p.modern() && !errors.Is(err, mcptest.ErrNoResponse):
		return err
	}
	w.g.count("cancelled on its way")
	if err := checkProgress(r.Interim, j.token, j.nonce, j.progress, false); err != nil {
		return err
	}
	return w.ended(j)
}

// cancelAsked cancels a call whose server waits for the client's answer, and gives that late.
func (w *worker) cancelAsked() error {
	j := &journey{s: w.server(), nonce: w.nonce()}
	leave := sync.OnceValue(w.board(j.s, j.nonce))
	defer leave()
	q := &question{silent: true}
	j.question(w, "ask", q)
	defer w.p.forget(j.nonces)
	x := w.hang(j)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = x.Wait()
	}()
	defer func() { <-answered }()
	select {
	case ask := <-q.arrived:
		if err := w.cancelNow(x, j); err != nil {
			return err
		}
		if err := w.p.client.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, ask.ID, w.p.answerTo(ask.Method, j.nonces[0]))); err != nil {
			return err
		}
		if j.bridged(w.p) {
			return w.once(j, false) // the late answer must not send the request again
		}
		return w.ended(j)
	case <-answered:
		r, err := x.Wait()
		return w.check(j, r, err, leave())
	}
}

// withdrawn has a server take its question back.
func (w *worker) withdrawn() error {
	j := &journey{s: w.server(), nonce: w.nonce(), token: w.token()}
	if j.bridged(w.p) {
		j.s = crossServers[0] // that can take one back
	}
	defer w.board(j.s, j.nonce)()
	// It is not forgotten: on the stream of a newer call it may come after this one's answer, or not at
	// all where nobody had read it yet.
	q := &question{silent: true}
	j.question(w, "withdraw", q)
	defer w.p.remember(q)
	j.step("progress", 0)
	r, err := w.tool(j.s, "steps", j.arguments(), j.options()...)
	if err := wantText(r, err, r.Text(), fmt.Sprintf(`{"nonce":%q,"answers":[]}`, j.nonce)); err != nil {
		return err
	}
	return checkProgress(r.Interim, j.token, j.nonce, 1, true)
}

// restart ends the session while it has calls in flight, which must end too, and opens another.
func (w *worker) restart() error {
	var journeys []*journey
	var calls []*mcptest.Exchange
	for i, s := range crossServers {
		if s.isolated || w.r.IntN(2) == 0 {
			continue // a session's own process ends with it
		}
		j := &journey{s: s, nonce: w.nonce(), token: fmt.Sprintf(`"%d.%d"`, w.n, i)}
		defer w.board(s, j.nonce)()
		j.step("progress", 0)
		j.step("hang", 0)
		x := w.hang(j)
		if err := w.begun(x, j); err != nil {
			return err
		}
		journeys, calls = append(journeys, j), append(calls, x)
	}
	if err := w.p.client.End(); err != nil {
		return err
	}
	for i, x := range calls {
		if r, err := x.Wait(); !errors.Is(err, mcptest.ErrNoResponse) && (err != nil || !bytes.Contains(r.Error, []byte("ended its session"))) {
			return fmt.Errorf("the session of the call %s has ended, but it was answered: %s, %v", journeys[i].nonce, r.Raw, err)
		}
	}
	w.p.quiet()
	w.p.client.Vanish()
	if err := w.p.connect(); err != nil {
		return err
	}
	for _, j := range journeys {
		if err := w.ended(j); err != nil {
			return err
		}
	}
	return nil
}
