package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// step is one thing that the tool "steps" does.
type step struct {
	Do     string          `json:"do"` // progress, sleep, ask, withdraw, hang
	MS     int             `json:"ms"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// taken is how far a call of the tool "steps" has come. Under 2026-07-28 the client carries it.
type taken struct {
	At       int               `json:"at"`
	Progress int               `json:"progress"`
	Answers  []json.RawMessage `json:"answers"`
}

// steps does what its arguments say, in their order, and returns its nonce with the client's answers.
// Each progress notification has the nonce as its message.
func steps(ctx context.Context, s *server, c *call) (string, string) {
	var a struct {
		Nonce string `json:"nonce"`
		Steps []step `json:"steps"`
	}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	t := taken{Answers: []json.RawMessage{}}
	if c.RequestState != "" {
		if err := json.Unmarshal([]byte(c.RequestState), &t); err != nil {
			return "", rpcError(-32602, "this is no state of mine")
		}
	}
	for ; t.At < len(a.Steps) && ctx.Err() == nil; t.At++ {
		if result, failure := a.Steps[t.At].take(ctx, s, c, a.Nonce, &t); result != "" || failure != "" {
			return result, failure
		}
	}
	s.mu.Lock()
	s.ended[a.Nonce] = true
	s.changed.Broadcast()
	s.mu.Unlock()
	answers := make([]string, len(t.Answers))
	for i, answer := range t.Answers {
		answers[i] = string(answer)
	}
	return textResult(fmt.Sprintf(`{"nonce":%s,"answers":[%s]}`, quote(a.Nonce), strings.Join(answers, ","))), ""
}

// take does one step. A result or a failure ends the call.
func (st step) take(ctx context.Context, s *server, c *call, nonce string, t *taken) (result, failure string) {
	switch st.Do {
	case "progress":
		if t.Progress++; c.Meta.Token != nil {
			s.out.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":%s}`, c.Meta.Token, t.Progress, quote(nonce)))
		}
	case "sleep":
		select {
		case <-time.After(time.Duration(st.MS) * time.Millisecond):
		case <-ctx.Done():
		}
	case "hang":
		<-ctx.Done()
	case "withdraw":
		s.askAndWithdraw(ctx, st)
	case "ask":
		if c.modern {
			return st.askModern(c, t)
		}
		t.Answers = append(t.Answers, json.RawMessage(s.ask(ctx, "", st.Method, string(st.Params))))
	default:
		return "", rpcError(-32602, "there is no step "+st.Do)
	}
	return "", ""
}

// capabilityFor says what a client must have declared to be asked.
var capabilityFor = map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}

// askModern finds the client's answer in the request, or answers that it is needed.
func (st step) askModern(c *call, t *taken) (result, failure string) {
	key := fmt.Sprintf("ask-%d", t.At)
	if answer, ok := c.InputResponses[key]; ok {
		t.Answers = append(t.Answers, json.RawMessage(`{"result":`+string(answer)+`}`))
		return "", ""
	}
	if need := capabilityFor[st.Method]; c.Meta.Capabilities[need] == nil {
		return "", fmt.Sprintf(`{"code":-32021,"message":"the client lacks a capability","data":{"requiredCapabilities":{%q:{}}}}`, need)
	}
	state, err := json.Marshal(t)
	if err != nil {
		return "", rpcError(-32603, err.Error())
	}
	return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%q:{"method":%q,"params":%s}},"requestState":%s}`, key, st.Method, st.Params, quote(string(state))), ""
}

// askAndWithdraw sends a request to the client and takes it back after a moment.
func (s *server) askAndWithdraw(ctx context.Context, st step) {
	s.mu.Lock()
	if ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	s.nextAsk++
	id := fmt.Sprint(s.nextAsk)
	s.out.request(id, st.Method, string(st.Params))
	s.mu.Unlock()
	time.Sleep(time.Duration(st.MS) * time.Millisecond)
	s.out.notify("notifications/cancelled", fmt.Sprintf(`{"requestId":%s,"reason":"not needed"}`, id))
}

// nonceIn finds the nonce of a call.
var nonceIn = regexp.MustCompile(`"nonce":"([^"]*)"`)

// countRun counts the calls of "steps" as they come. The caller holds mu.
func (s *server) countRun(m *message) {
	if m.Method != "tools/call" || !strings.Contains(m.line, `steps"`) {
		return
	}
	if nonce := nonceIn.FindStringSubmatch(m.line); nonce != nil {
		s.runs[nonce[1]]++
	}
}

// runsOf says how many calls of "steps" with the nonce have come, where so asked once they have ended.
func runsOf(ctx context.Context, s *server, c *call) (string, string) {
	var a struct {
		Of    string
		Ended bool
	}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until(ctx, func() bool { return s.ended[a.Of] || !a.Ended })
	return textResult(fmt.Sprint(s.runs[a.Of])), ""
}
