package relay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/wire"
)

// workers are two servers with tasks, whose ids are random or numbers with something before.
func workers(ids string) map[string]server {
	return map[string]server{"a": flags("-tasks", "-task-ids="+ids), "b": flags("-tasks", "-task-ids="+ids, "-prefix=b_")}
}

// asTask are the params of a call that is to be made as a task.
func asTask(tool, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"task":{"ttl":60000}}`, tool, arguments)
}

// begun makes a task and returns its id.
func begun(t *testing.T, c *mcptest.Client, tool, arguments string) string {
	t.Helper()
	result := c.Result("tools/call", asTask(tool, arguments))
	contains(t, string(result), `"n":12345678901234567890`, `"status":"working"`)
	return taskID(t, wire.Get(result, "task"))
}

func taskID(t *testing.T, state []byte) string {
	t.Helper()
	id, ok := wire.GetString(state, "taskId")
	if !ok {
		t.Fatalf("no task: %s", state)
	}
	return id
}

func ofTask(id string) string { return args("taskId", quoted(id)) }

// relatedTo is the text of a tool's result with the task that it belongs to.
func relatedTo(r mcptest.Reply) string {
	id, _ := wire.GetString(wire.Get(wire.Get(r.Result, "_meta"), "io.modelcontextprotocol/related-task"), "taskId")
	return r.Text() + " of " + id
}

func TestTasksOfTwoServersInTwoSessions(t *testing.T) {
	for _, ids := range []string{"", "task-"} {
		t.Run("ids "+ids, func(t *testing.T) {
			g := start(t, workers(ids))
			var clients [2]*mcptest.Client
			var made [2][]string
			for i := range clients {
				clients[i] = g.legacy()
				contains(t, string(clients[i].Hello), `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
				for _, tool := range []string{"work", "b_work"} {
					made[i] = append(made[i], begun(t, clients[i], tool, args("text", quoted(fmt.Sprint("for ", i)))))
				}
			}
			for i, c := range clients {
				for n, id := range made[i] {
					text := fmt.Sprintf("%c for %d of %s", 'a'+n, i, id)
					equal(t, "result", relatedTo(c.Request("tasks/result", ofTask(id))), text)
					state := c.Result("tasks/get", ofTask(id))
					equal(t, "id", taskID(t, state), id)
					contains(t, string(state), `"n":12345678901234567890`, `"status":"completed"`)
					equal(t, "id", taskID(t, c.Result("tasks/cancel", ofTask(id))), id)
				}
				if got := c.Names("tasks/list", "tasks", "taskId"); !slices.Equal(got, made[i]) {
					t.Errorf("tasks %v, want %v", got, made[i])
				}
				refused(t, c.Request("tasks/list", `{"cursor":"x"}`), -32602, "cursor")
				refused(t, c.Request("tasks/get", ofTask("none")), -32602, "not found")
				refused(t, c.Request("tasks/get", `{}`), -32602, "taskId")
			}
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
				for n, id := range made[0] { // equal numbers are tasks of two servers
					if !slices.Contains(made[1], id) {
						refused(t, clients[1].Request(method, ofTask(id)), -32602, "not found")
						refused(t, clients[1].Request(method, ofTask(fmt.Sprintf("mcp-gateway://%c/%s", 'a'+n, id))), -32602, "not found")
					}
				}
			}
			t.Run("a tool that is called as usual", func(t *testing.T) {
				equal(t, "result", clients[0].Call("work", `{"text":"x"}`).Text(), "a x")
			})
		})
	}
}

// Numbered ids can be guessed, so what a session has begun is nobody's when it has ended.
func TestTasksOfASessionThatHasEnded(t *testing.T) {
	for ids, found := range map[string]bool{"": true, "n": false} {
		g := start(t, workers(ids))
		first := g.legacy()
		id := begun(t, first, "b_work", "{}")
		first.Close()
		second := g.legacy()
		r := second.Request("tasks/result", ofTask(id))
		if !found {
			refused(t, r, -32602)
			continue
		}
		equal(t, "result", relatedTo(r), "b of "+id) // whoever knows the id may ask
		equal(t, "again", taskID(t, second.Result("tasks/get", ofTask(id))), id)
		refused(t, g.legacy().Request("tasks/get", ofTask(id)), -32602, "not found") // now it is the second one's
	}
}

func TestTasksOfOneServer(t *testing.T) {
	g := one(t, "-tasks", "-task-ids=n")
	first, second := g.legacy(), g.legacy()
	id := begun(t, first, "work", "{}")
	refused(t, second.Request("tasks/get", ofTask(id)), -32602, "not found")
	refused(t, second.Request("tasks/get", ofTask("none")), -32602, "one: task not found") // the server's own words
	equal(t, "tasks", string(second.Result("tasks/list", "")), `{"tasks":[]}`)
	equal(t, "tasks", fmt.Sprint(first.Names("tasks/list", "tasks", "taskId")), "["+id+"]")
}

func TestTasksOfIsolatedServers(t *testing.T) {
	isolated := catalog.Options{Isolated: true}
	servers := workers("n")
	for name, s := range servers {
		s.options = isolated
		servers[name] = s
	}
	g := start(t, servers)
	first, second := g.legacy(), g.legacy()
	mine, other := begun(t, first, "work", `{"text":"1"}`), begun(t, second, "work", `{"text":"2"}`)
	equal(t, "ids", mine, other)
	equal(t, "first", first.Request("tasks/result", ofTask(mine)).Text(), "a 1")
	equal(t, "second", second.Request("tasks/result", ofTask(other)).Text(), "a 2")
	equal(t, "tasks", fmt.Sprint(first.Names("tasks/list", "tasks", "taskId")), "["+mine+"]")
}

// What a server says of a task is for the session that has begun it, whoever else has calls in flight, and
// comes after the answer that the task is, or before it in its stream.
func TestTaskMessagesReachTheirSession(t *testing.T) {
	for _, ids := range []string{"", "n"} {
		g := start(t, workers(ids))
		gate := file(t)
		type party struct {
			*mcptest.Client
			made []string
		}
		var parties []*party
		for i := range 2 {
			p := &party{}
			p.Client = g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: func(ask mcptest.Message) (string, string) {
				related, _ := wire.GetString(wire.Get(wire.Get(ask.Params, "_meta"), "io.modelcontextprotocol/related-task"), "taskId")
				return fmt.Sprintf(`{"action":"accept","content":{"name":"%d of %s"},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, i, related, related), ""
			}})
			p.Listen()
			parties = append(parties, p)
		}
		for i, p := range parties {
			for _, tool := range []string{"work", "b_work"} {
				r := p.Request("tools/call", asTask(tool, args("until", quoted(gate), "ask", "true", "early", "true", "text", quoted(fmt.Sprint(i)))), mcptest.WithToken(`"same"`))
				id := taskID(t, wire.Get(r.Result, "task"))
				if len(r.Interim) != 1 || taskID(t, r.Interim[0].Params) != id {
					t.Errorf("before the answer came %v", r.Interim)
				}
				p.made = append(p.made, id)
			}
		}
		var all sync.WaitGroup
		for i, p := range parties {
			for n, id := range p.made {
				result := p.Begin("tasks/result", ofTask(id))
				all.Go(func() {
					r, err := result.Wait()
					asked := fmt.Sprintf(`"name":"%d of %s"`, i, id)
					if err != nil || !strings.HasPrefix(r.Text(), fmt.Sprintf("%c %d ", 'a'+n, i)) || !strings.Contains(r.Text(), asked) {
						t.Errorf("the task of %d at %c: %s, %v", i, 'a'+n, r.Raw, err)
					}
					for _, m := range r.Interim {
						if m.Method == "notifications/progress" && !strings.Contains(string(m.Params), `"progressToken":"same"`) {
							t.Errorf("progress %s", m.Params)
						}
					}
				})
			}
		}
		create(t, gate)
		all.Wait()
		for _, p := range parties {
			for _, m := range p.Seen() {
				id, _ := wire.GetString(m.Params, "taskId")
				if m.Method == "notifications/tasks/status" && !slices.Contains(p.made, id) {
					t.Errorf("a task that is not there: %s", m.Params)
				}
			}
		}
	}
}

func TestTaskProgressGoesOnAfterTheAnswer(t *testing.T) {
	g := start(t, workers("n"))
	gate := file(t)
	var clients []*mcptest.Client
	var made []string
	for range 2 {
		c := g.legacy()
		c.Listen()
		c.Result("tools/call", asTask("work", "{}"), mcptest.WithToken(`1`)) // its token is free again
		made = append(made, taskID(t, wire.Get(c.Result("tools/call", asTask("b_work", args("until", quoted(gate))), mcptest.WithToken(`1`)), "task")))
		clients = append(clients, c)
	}
	create(t, gate)
	for i, c := range clients {
		m := c.Await(func(m mcptest.Message) bool {
			return isProgress(m) && strings.Contains(string(m.Params), quoted(made[i]))
		})
		contains(t, string(m.Params), `"progressToken":1`)
		c.Await(func(m mcptest.Message) bool {
			id, _ := wire.GetString(m.Params, "taskId")
			return m.Method == "notifications/tasks/status" && id == made[i]
		})
	}
}

const knowsTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func TestTasksExtension(t *testing.T) {
	for _, ids := range []string{"", "n"} {
		g := start(t, map[string]server{
			"a": {flags: []string{"-tasks", "-modern-only", "-task-ids=" + ids}, options: modernOption},
			"b": {flags: []string{"-tasks", "-modern-only", "-task-ids=" + ids, "-prefix=b_"}, options: modernOption},
			"c": flags("-prefix=c_"),
		})
		c := g.modern(mcptest.ClientOptions{Capabilities: knowsTasks})
		contains(t, string(c.Result("server/discover", "")), `"extensions":{"io.modelcontextprotocol/tasks":{}}`)
		gate := file(t)
		var made []string
		for _, tool := range []string{"work", "b_work"} {
			state := c.Call(tool, args("until", quoted(gate), "ask", "true")).Result
			contains(t, string(state), `"resultType":"task"`, `"n":12345678901234567890`)
			made = append(made, taskID(t, state))
		}
		listening := c.Begin("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q,%q]}}`, made[0], made[1]))
		acknowledged := listening.Await(mcptest.IsMethod("notifications/subscriptions/acknowledged"))
		contains(t, string(acknowledged.Params), fmt.Sprintf(`"taskIds":[%q,%q]`, made[0], made[1]))
		create(t, gate)
		told := func(status string) {
			t.Helper()
			left := slices.Clone(made)
			for len(left) > 0 {
				m := listening.Await(mcptest.IsMethod("notifications/tasks"))
				contains(t, string(m.Params), `"status":"`+status+`"`, "subscriptionId")
				left = slices.DeleteFunc(left, func(id string) bool { return id == taskID(t, m.Params) })
			}
		}
		told("input_required")
		for i, id := range made {
			state := c.Result("tasks/get", ofTask(id))
			contains(t, string(state), `"inputRequests":{"name":`, `"resultType":"complete"`)
			equal(t, "id", taskID(t, state), id)
			equal(t, "update", string(c.Result("tasks/update", args("taskId", quoted(id), "inputResponses", fmt.Sprintf(`{"name":{"me":%d}}`, i)))), `{"resultType":"complete"}`)
		}
		told("completed")
		for i, id := range made {
			state := g.modern(mcptest.ClientOptions{Capabilities: knowsTasks}).Result("tasks/get", ofTask(id)) // the id is the key
			contains(t, string(state), fmt.Sprintf(`%c`, 'a'+i), fmt.Sprintf(`{\"me\":%d}`, i))
			c.Result("tasks/cancel", ofTask(id))
		}
		refused(t, c.Request("tasks/get", ofTask("none")), -32602, "not found")
		for _, method := range []string{"tasks/list", "tasks/result"} {
			if r := c.Request(method, ofTask(made[0])); r.Status != 404 {
				t.Errorf("%s: %s", method, r.Raw)
			}
		}
		plain := g.modern()
		equal(t, "without the extension", plain.Call("work", `{"text":"x"}`).Text(), "a x")
		for _, r := range []mcptest.Reply{
			plain.Request("tasks/get", ofTask(made[0])), plain.Request("tasks/get", ofTask("none")),
			plain.Request("subscriptions/listen", `{"notifications":{"taskIds":["x"]}}`),
		} {
			refused(t, r, -32021)
			contains(t, string(r.Error), `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		}
	}
}

// A client of 2026-07-28 has only the id, but not for what a session has begun.
func TestTasksOfSessionsAreNotForOthers(t *testing.T) {
	g := start(t, map[string]server{"a": {flags: []string{"-tasks", "-modern-only", "-task-ids=n"}, options: modernOption}, "b": flags()})
	session := g.legacy(mcptest.ClientOptions{Capabilities: knowsTasks})
	id := taskID(t, session.Call("work", "{}").Result)
	c := g.modern(mcptest.ClientOptions{Capabilities: knowsTasks})
	refused(t, c.Request("tasks/get", ofTask(id)), -32602, "not found")
	contains(t, string(session.Result("tasks/get", ofTask(id))), id)
	other := taskID(t, c.Call("work", "{}").Result)
	contains(t, string(session.Result("tasks/get", ofTask(other))), other)
}

// Servers ask clients for tasks too.
func TestTasksOfClients(t *testing.T) {
	g := start(t, map[string]server{"a": flags(), "b": flags("-prefix=b_")})
	const able = `{"sampling":{},"elicitation":{},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}}}}}`
	client := func(who string) *mcptest.Client {
		var made atomic.Int64
		return g.legacy(mcptest.ClientOptions{Capabilities: able, Answer: func(ask mcptest.Message) (string, string) {
			state := func(id string) string {
				return `"taskId":` + quoted(id) + `,"status":"working","ttl":null,"who":"` + who + `"`
			}
			switch ask.Method {
			case "sampling/createMessage":
				return `{"task":{` + state(fmt.Sprint("t", made.Add(1))) + `}}`, ""
			case "tasks/list":
				return `{"tasks":[{` + state("t1") + `},{` + state("t2") + `},{"taskId":"other"}]}`, ""
			}
			id, _ := wire.GetString(ask.Params, "taskId")
			return `{` + state(id) + `,"as":` + quoted(id) + `,"method":` + quoted(ask.Method) + `}`, ""
		}})
	}
	ask := func(c *mcptest.Client, tool, method, params string) []byte {
		t.Helper()
		var answer struct{ Result, Error json.RawMessage }
		if err := json.Unmarshal([]byte(c.Call(tool, args("method", quoted(method), "params", params)).Text()), &answer); err != nil {
			t.Fatal(err)
		}
		return append(answer.Result, answer.Error...)
	}
	sample := `{"messages":[],"task":{"ttl":1000}}`
	clients := []*mcptest.Client{client("x"), client("y")}
	for _, c := range clients {
		c.Listen()
	}
	ids := map[string]string{}
	for i, c := range clients {
		for _, tool := range []string{"ask", "b_ask"} {
			ids[fmt.Sprint(i, tool)] = taskID(t, wire.Get(ask(c, tool, "sampling/createMessage", sample), "task"))
		}
	}
	if ids["0ask"] == ids["1ask"] {
		t.Errorf("two clients' tasks have the id %s at one server", ids["0ask"])
	}
	for i, c := range clients {
		id := ofTask(ids[fmt.Sprint(i, "ask")])
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			// The other client's call is in flight, but the task says whose it is.
			contains(t, string(ask(clients[1-i], "ask", method, id)), fmt.Sprintf(`"who":"%c","as":"t1"`, 'x'+i), ids[fmt.Sprint(i, "ask")], method)
		}
		list := ask(c, "ask", "tasks/list", "{}")
		equal(t, "list", string(list), fmt.Sprintf(`{"tasks":[{"taskId":%q,"status":"working","ttl":null,"who":"%c"}]}`, ids[fmt.Sprint(i, "ask")], 'x'+i))
	}
	contains(t, string(ask(clients[0], "ask", "tasks/get", ofTask("none"))), `"code":-32602`, "no client has a task")
	contains(t, string(ask(clients[0], "ask", "elicitation/create", `{"message":"?","task":{}}`)), `"code":-32602`, "as a task")
	poor := g.legacy(mcptest.ClientOptions{Capabilities: everything, Answer: answers("z")})
	contains(t, string(ask(poor, "ask", "sampling/createMessage", sample)), `"code":-32602`, "as a task")
	contains(t, string(ask(poor, "ask", "tasks/list", "{}")), `"code":-32601`, "does not support tasks/list")
	t.Run("a client tells of its task", func(t *testing.T) {
		clients[1].Notify("notifications/tasks/status", `{"taskId":"t1","status":"completed","x":1}`)
		line := clients[0].Call("received", `{"method":"notifications/tasks/status","wait":1}`).Text()
		contains(t, line, fmt.Sprintf(`"taskId":%q`, ids["1ask"]))
	})
	t.Run("of a session that has ended", func(t *testing.T) {
		clients[1].Close()
		contains(t, string(ask(clients[0], "ask", "tasks/get", ofTask(ids["1ask"]))), `"code":-32602`)
	})
}
