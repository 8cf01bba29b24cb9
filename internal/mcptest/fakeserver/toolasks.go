package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// asks is a tool that sends one request to the client; an argument "params" replaces the request's
// own. Under 2026-07-28 it answers input_required and finds the client's answer in the retry.
func asks(method, params string) handler {
	return func(ctx context.Context, s *server, c *call) (string, string) {
		a := struct{ Params json.RawMessage }{Params: json.RawMessage(params)}
		if err := c.into(&a); err != nil {
			return "", rpcError(-32602, err.Error())
		}
		if !c.modern {
			return textResult(s.ask(ctx, "", method, string(a.Params))), ""
		}
		if answer, ok := c.InputResponses["ask"]; ok {
			return textResult(`{"result":` + string(answer) + `}`), ""
		}
		return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"ask":{"method":%q,"params":%s}},"requestState":"asked"}`, method, a.Params), ""
	}
}

func askAnything(ctx context.Context, s *server, c *call) (string, string) {
	a := struct {
		Method     string
		Params, ID json.RawMessage
	}{Method: "ping", Params: json.RawMessage(`{}`)}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	return textResult(s.ask(ctx, string(a.ID), a.Method, string(a.Params))), ""
}

// askMany asks n times, one after another or all at once.
func askMany(ctx context.Context, s *server, c *call) (string, string) {
	a := struct {
		N        int
		Parallel bool
	}{N: 2}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	answers := make([]string, a.N)
	var all sync.WaitGroup
	for i := range a.N {
		ask := func() {
			answers[i] = s.ask(ctx, "", "elicitation/create", fmt.Sprintf(`{"mode":"form","message":"what?","requestedSchema":{"type":"object","properties":{}},"n":%d}`, i+1))
		}
		if a.Parallel {
			all.Go(ask)
		} else {
			ask()
		}
	}
	all.Wait()
	return textResult("[" + strings.Join(answers, ",") + "]"), ""
}

// askProgress sends progress before and after a question, then answers or waits to be cancelled.
func askProgress(ctx context.Context, s *server, c *call) (string, string) {
	var a struct{ Wait bool }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	c.step(s, 1, 2)
	answer := s.ask(ctx, "", "roots/list", "{}")
	c.step(s, 2, 2)
	if a.Wait {
		<-ctx.Done()
	}
	return textResult(answer), ""
}

// askWithdrawn asks, cancels its request, where a path is given once that file is there, and answers.
func askWithdrawn(done context.Context, s *server, c *call) (string, string) {
	var a struct{ Path string }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	id := "withdrawn-" + strconv.Itoa(s.number())
	s.ask(ctx, quote(id), "roots/list", "{}")
	if a.Path != "" {
		waitForFile(a.Path, done.Done())
	}
	s.out.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%q,"reason":"changed its mind"}`, id))
	return textResult("withdrawn"), ""
}

// number counts up.
func (s *server) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextAsk++
	return s.nextAsk
}

// askRounds is for 2026-07-28: it wants two more answers so many times.
func askRounds(_ context.Context, _ *server, c *call) (string, string) {
	a := struct{ Rounds int }{Rounds: 1}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	round, _ := strconv.Atoi(strings.TrimPrefix(c.RequestState, "state-"))
	if round >= a.Rounds {
		return textResult(fmt.Sprintf(`round %d with {"first":%s,"second":%s}, state %q`, round, c.InputResponses["first"], c.InputResponses["second"], c.RequestState)), ""
	}
	ask := func(key string) string {
		return fmt.Sprintf(`%q:{"method":"elicitation/create","params":{"mode":"form","message":"round %d","requestedSchema":{"type":"object","properties":{}}}}`, key, round+1)
	}
	return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%s,%s},"requestState":"state-%d"}`, ask("first"), ask("second"), round+1), ""
}
