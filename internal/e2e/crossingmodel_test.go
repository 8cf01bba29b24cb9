package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

// process is the test's own model of one server process: who has calls in flight there.
type process struct {
	// gate is held by everyone who has a call in flight, and by one alone who wants to be sure of being
	// asked.
	gate sync.RWMutex

	mu     sync.Mutex
	flying map[*flight]bool
}

// flight is a call from before it is sent until after it is known to have ended.
type flight struct {
	p      *process
	owner  string // a session, or a single call of a client without one
	shared bool   // another owner had a call in flight meanwhile
}

// process is the one that serves the player.
func (g *game) process(s crossServer, p *player) *process {
	name := s.name
	switch {
	case s.isolated && !p.modern():
		name += "/" + p.name
	case s.both && p.modern():
		name += "/modern"
	}
	found, _ := g.processes.LoadOrStore(name, &process{flying: map[*flight]bool{}})
	return found.(*process)
}

// takeOff notes a call.
func (p *process) takeOff(owner string) *flight {
	f := &flight{p: p, owner: owner}
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.flying {
		if other.owner != owner {
			other.shared, f.shared = true, true
		}
	}
	p.flying[f] = true
	return f
}

// land notes the end of a call and says whether another owner had one meanwhile.
func (f *flight) land() (shared bool) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	delete(f.p.flying, f)
	return f.shared
}

// player is one client.
type player struct {
	g            *game
	name         string
	version      string
	capabilities string

	// session is held by everyone who uses the client, and by one alone who exchanges it.
	session    sync.RWMutex
	client     *mcptest.Client
	generation int

	mu        sync.Mutex
	changed   sync.Cond // signalled when withdrawn grows
	questions map[string]*question
	withdrawn map[string]bool // by the ids of what was asked
	retracted []*question     // that servers have taken back
}

// question is what a call of the player's will be asked.
type question struct {
	method string
	silent bool // it is not answered
	fails  bool // it is answered with an error

	arrived chan mcptest.Message
	given   string // the answer, as the server is to see it
}

func (p *player) modern() bool { return p.version == mcptest.Modern }

// can tells whether the player has declared the capability that a request needs.
func (p *player) can(method string) bool {
	return strings.Contains(p.capabilities, map[string]string{
		"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}[method])
}

func (g *game) newPlayer(i int) (*player, error) {
	p := &player{g: g, name: fmt.Sprintf("player-%d", i), version: players[i].version, capabilities: players[i].capabilities,
		questions: map[string]*question{}}
	p.changed.L = &p.mu
	return p, p.connect()
}

// connect opens a session, and its own stream.
func (p *player) connect() error {
	capabilities := map[string]any{}
	for _, name := range strings.Fields(p.capabilities) {
		capabilities[name] = map[string]any{}
	}
	text, err := json.Marshal(capabilities)
	if err != nil {
		return err
	}
	p.generation++
	p.mu.Lock()
	p.withdrawn = map[string]bool{} // ids begin anew
	p.mu.Unlock()
	client, err := mcptest.Dial(p.g.url, mcptest.ClientOptions{
		Version: p.version, Token: testToken, Capabilities: string(text), Name: p.name, Answer: p.respond, Notified: p.notified})
	if err != nil {
		return err
	}
	p.client = client
	if p.modern() {
		return nil
	}
	return client.Attend()
}

// owner is whose calls in flight the player's are; n tells single calls apart.
func (p *player) owner(n string) string {
	if p.modern() {
		return p.name + "/" + n
	}
	return fmt.Sprintf("%s#%d", p.name, p.generation)
}

// expect notes what a call will be asked, under its nonce.
func (p *player) expect(nonce string, q *question) {
	q.arrived = make(chan mcptest.Message, 10)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.questions[nonce] = q
}

// forget takes questions out that have been dealt with.
func (p *player) forget(nonces []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nonces {
		delete(p.questions, n)
	}
}

// respond answers what a server asks. It may only be what a call of the player's own is to be asked.
func (p *player) respond(ask mcptest.Message) (result, failure string) {
	nonce, _ := wire.GetString(wire.Get(ask.Params, "_meta"), "nonce")
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.questions[nonce]
	switch {
	case q == nil:
		p.g.report("%s (%s) was asked what none of its calls is to be asked: %s %s", p.name, p.version, ask.Method, ask.Params)
		return "", `{"code":-1,"message":"not mine"}`
	case q.method != ask.Method:
		p.g.report("%s: %s came as %s", p.name, q.method, ask.Method)
	case q.given != "":
		p.g.report("%s was asked twice: %s %s", p.name, ask.Method, ask.Params)
	case !p.can(ask.Method):
		p.g.report("%s was asked %s without having declared the capability", p.name, ask.Method)
	}
	q.arrived <- ask
	switch {
	case q.silent:
		return "", ""
	case q.fails:
		failure = fmt.Sprintf(`{"code":-4711,"message":%q,"data":{"by":%q,"n":12345678901234567890}}`, nonce, p.name)
		q.given = `{"error":` + failure + `}`
		return "", failure
	}
	result = p.answerTo(ask.Method, nonce)
	q.given = `{"result":` + result + `}`
	return result, ""
}

// notified notes what is withdrawn.
func (p *player) notified(m mcptest.Message) {
	if m.Method != "notifications/cancelled" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn[string(wire.Get(m.Params, "requestId"))] = true
	p.changed.Broadcast()
}

// remember notes a question that its server has taken back.
func (p *player) remember(q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retracted = append(p.retracted, q)
}

// awaitWithdrawals wants every question that has come and was taken back to be withdrawn.
func (p *player) awaitWithdrawals() error {
	p.mu.Lock()
	all := p.retracted
	p.retracted = nil
	p.mu.Unlock()
	for _, q := range all {
		select {
		case ask := <-q.arrived:
			if err := p.awaitWithdrawal(ask); err != nil {
				return err
			}
			p.g.count("asked and withdrawn")
		default:
		}
	}
	return nil
}

// awaitWithdrawal waits until a question has been withdrawn.
func (p *player) awaitWithdrawal(ask mcptest.Message) error {
	late := false
	defer time.AfterFunc(mcptest.Patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		p.changed.Broadcast()
	}).Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.withdrawn[string(ask.ID)] {
		if late {
			return fmt.Errorf("the question %s was not withdrawn", ask.Raw)
		}
		p.changed.Wait()
	}
	return nil
}

// answerTo is an answer that no other player gives, nor this one to another question.
func (p *player) answerTo(method, nonce string) string {
	switch method {
	case "sampling/createMessage":
		return fmt.Sprintf(`{"model":%q,"role":"assistant","content":{"text":%q,"type":"text"},"n":1.0}`, p.name, nonce)
	case "elicitation/create":
		return fmt.Sprintf(`{"content":{"by":%q,"nonce":%q},"action":"accept"}`, p.name, nonce)
	}
	return fmt.Sprintf(`{"roots":[{"name":%q,"uri":"file:///%s"}]}`, p.name, nonce)
}

// quiet looks at the session before it ends. No message that belongs to a call may have come on its own
// stream, but for a question whose call was cancelled meanwhile.
func (p *player) quiet() {
	for _, m := range p.client.Seen() {
		if m.Method != "notifications/cancelled" && m.ID == nil {
			p.g.report("%s (%s) got this on its session's stream: %s", p.name, p.version, m.Raw)
		}
	}
	if err := p.awaitWithdrawals(); err != nil {
		p.g.report("%s (%s): %v", p.name, p.version, err)
	}
}
