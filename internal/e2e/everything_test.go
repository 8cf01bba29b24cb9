package e2e_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// answered is the answer to a request, "result" or "error" with the bytes that it has, and the params of
// the progress notifications before it.
type answered struct {
	answer   string
	progress []string
}

// peer is the reference server, directly or through the gateway.
type peer interface {
	begin(method, params string) (wait func() answered)
	notify(method, params string)
	await(method string) (params string)
}

// through is the reference server through the gateway.
type through struct{ c *mcptest.Client }

func (p through) begin(method, params string) func() answered {
	x := p.c.Begin(method, params)
	return func() answered {
		r := x.Must()
		out := answered{answer: outcomeOf(r.Message)}
		for _, m := range r.Interim {
			if m.Method == "notifications/progress" {
				out.progress = append(out.progress, string(m.Params))
			}
		}
		return out
	}
}

func (p through) notify(method, params string) { p.c.Notify(method, params) }

func (p through) await(method string) string {
	return string(p.c.Await(mcptest.IsMethod(method)).Params)
}

// side is one of the two, with what its server has asked.
type side struct {
	peer
	mu    sync.Mutex
	asked []string
	held  chan struct{} // what is asked waits for it to be closed, where it is not nil
	roots string
	heard chan string // methods asked
}

// respond answers what the server asks, always with the same bytes.
func (s *side) respond(ask mcptest.Message) (result, failure string) {
	s.mu.Lock()
	s.asked = append(s.asked, ask.Method+" "+string(ask.Params))
	roots, held := s.roots, s.held
	s.mu.Unlock()
	s.heard <- ask.Method
	if strings.Contains(string(ask.Params), `"task":{`) || strings.HasPrefix(ask.Method, "tasks/") {
		return respondAsTask(ask), ""
	}
	switch ask.Method {
	case "roots/list":
		return roots, ""
	case "sampling/createMessage":
		if held != nil {
			<-held
		}
		if strings.Contains(string(ask.Params), "refuse") {
			return "", `{"code":-1,"message":"the user rejected it","data":{"z":1,"a":[12345678901234567890]}}`
		}
		return `{"stopReason":"endTurn","model":"none","role":"assistant","content":{"type":"text","text":"≤ hi <b>"},"_meta":{"x/y":1.0}}`, ""
	case "elicitation/create":
		if mode := strings.Contains(string(ask.Params), `"mode":"url"`); mode {
			return `{"action":"accept"}`, ""
		}
		if strings.Contains(string(ask.Params), "interpretation") {
			return `{"action":"accept","content":{"interpretation":"historical"}}`, ""
		}
		return `{"action":"accept","content":{"name":"Ada","check":true,"integer":7,"number":3.5,"email":"ada@example.com"}}`, ""
	}
	return "", `{"code":-32601,"message":"not known"}`
}

// respondAsTask does as a task what the server asks, and answers what it asks of the task.
func respondAsTask(ask mcptest.Message) string {
	const task = `{"taskId":"made by the client","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"z":12345678901234567890}`
	switch ask.Method {
	case "tasks/get":
		return fmt.Sprintf(task, "completed")
	case "tasks/result":
		return `{"action":"accept","content":{"name":"Ada"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"made by the client"}}}`
	}
	return `{"task":` + fmt.Sprintf(task, "working") + `}`
}

// takeAsked returns what was asked since the last call.
func (s *side) takeAsked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// TestEverythingServer asks the reference server of the protocol directly and through the gateway, and
// wants every answer to have the same bytes. What the server makes anew each time is named at the step.
func TestEverythingServer(t *testing.T) {
	root := mcptest.Root(t)
	node := filepath.Join(root, suiteNode)
	script := filepath.Join(root, ".cache/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	need(t, node)
	need(t, script)
	g := newPlace(t).start(t, fmt.Sprintf(`{"everything":{"command":%q,"args":[%q]}}`, node, script))
	var sides [2]*side
	for i := range sides {
		sides[i] = &side{roots: `{"roots":[]}`, heard: make(chan string, 100)}
	}
	sides[0].peer = startDirect(t, environment(t, g.status(t).Servers[0].Pid), sides[0].respond, node, script)
	// A while after the handshake the server asks for roots; through the gateway there is no client yet.
	<-sides[0].heard
	sides[0].takeAsked()
	c := mcptest.Connect(t, g.url, mcptest.ClientOptions{Token: testToken, Capabilities: announced, Answer: sides[1].respond})
	c.Listen()
	sides[1].peer = through{c}

	leavesNothingOut(t, sides[0], "tools/list", "name")
	leavesNothingOut(t, sides[0], "prompts/list", "name")
	for _, s := range everythingSteps {
		t.Run(strings.TrimSpace(s.method+" "+s.name), func(t *testing.T) { s.compare(t, sides) })
	}
	t.Run("roots that change while a call is in flight", func(t *testing.T) { changeRoots(t, sides) })
	t.Run("a resource that comes and is subscribed to", func(t *testing.T) { addResource(t, sides) })
	t.Run("a task", func(t *testing.T) { runTask(t, sides) })
}

// environment is that of the server behind the gateway, but for the mark of its process tree.
func environment(t *testing.T, pid int) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "MCP_GATEWAY_TREE=") })
}

// step is one request. vary takes out of both answers what the server makes anew each time; then is the
// notification that comes of it.
type step struct {
	method, name, params string
	vary                 func(string) string
	then                 string
}

func (s step) compare(t *testing.T, sides [2]*side) {
	t.Helper()
	var got [2]answered
	var asked [2][]string
	for i, side := range sides {
		got[i] = side.begin(s.method, s.params)()
		asked[i] = side.takeAsked()
		if s.then != "" {
			side.await(s.then)
		}
		if s.vary != nil {
			got[i].answer = s.vary(got[i].answer)
			for j := range asked[i] {
				asked[i][j] = s.vary(asked[i][j])
			}
		}
	}
	same(t, "answer", got[0].answer, got[1].answer)
	same(t, "progress", strings.Join(got[0].progress, "\n"), strings.Join(got[1].progress, "\n"))
	same(t, "what the server asks", strings.Join(asked[0], "\n"), strings.Join(asked[1], "\n"))
}

// same compares byte for byte.
func same(t *testing.T, what, direct, through string) {
	t.Helper()
	if direct != through {
		t.Errorf("%s: directly\n%s\nthrough the gateway\n%s", what, direct, through)
	}
}

// The server writes the time of day into its dynamic resources.
var clockTime = regexp.MustCompile(`created at \d{1,2}:\d{2}:\d{2}[^"A-Z]*[AP]M`)

func withoutTime(answer string) string { return clockTime.ReplaceAllString(answer, "created at TIME") }

// In a blob the time is inside of base64.
var blob = regexp.MustCompile(`"blob":"([^"]*)"`)

func withoutTimeInBlob(answer string) string {
	return blob.ReplaceAllStringFunc(answer, func(member string) string {
		text, err := base64.StdEncoding.DecodeString(blob.FindStringSubmatch(member)[1])
		if err != nil {
			return member
		}
		return fmt.Sprintf(`"blob":%q`, withoutTime(string(text)))
	})
}

// The server makes up an id for an elicitation or a task, and notes when a task changed.
var (
	randomID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"taskId":"[0-9a-f]{32}"`)
	timestamp = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z`)
)

func withoutID(answer string) string {
	return timestamp.ReplaceAllString(randomID.ReplaceAllString(answer, "ID"), "TIMESTAMP")
}

// The gateway marks a server by an environment variable, where it has no other way to find the server's
// descendants.
var treeMark = regexp.MustCompile(`,\\n  \\"MCP_GATEWAY_TREE\\": \\"[^"]*\\"`)

func withoutMark(answer string) string { return treeMark.ReplaceAllString(answer, "") }
