package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// task is a call that goes on after its answer.
type task struct {
	id      string
	number  int
	status  string
	result  string
	input   chan json.RawMessage // 2026-07-28: what the client answers
	stop    context.CancelFunc
	done    chan struct{}
	updated func(t *task) // the server's mutex is held
}

// watching is a subscriptions/listen for tasks.
type watching struct {
	id  string
	ids []string
}

// taskMethods serves tasks in the form of 2025-11-25, and of 2026-07-28 where the request is of that.
func (s *server) taskMethods(ctx context.Context, m *message) (result, failure string, known bool) {
	if !s.o.tasks {
		return "", "", false
	}
	var p struct {
		TaskID         string                     `json:"taskId"`
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
		Notifications  struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
	}
	_ = json.Unmarshal(m.Params, &p)
	modern := s.isModern(m.Params)
	switch {
	case m.Method == "subscriptions/listen" && p.Notifications.TaskIDs != nil:
		s.watchTasks(m.key(), p.Notifications.TaskIDs)
		<-ctx.Done()
		return "", "", true
	case m.Method == "tasks/list" && !modern:
		return s.listTasks(), "", true
	case m.Method != "tasks/get" && m.Method != "tasks/result" && m.Method != "tasks/cancel" && m.Method != "tasks/update":
		return "", "", false
	}
	if modern && !strings.Contains(string(m.Params), `"io.modelcontextprotocol/tasks"`) {
		return "", `{"code":-32021,"message":"missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`, true
	}
	s.mu.Lock()
	t := s.tasks[p.TaskID]
	s.mu.Unlock()
	if t == nil {
		return "", rpcError(-32602, s.o.id+": task not found"), true
	}
	switch m.Method {
	case "tasks/result":
		select {
		case <-t.done:
		case <-ctx.Done():
			return "", "", true
		}
		return strings.TrimSuffix(t.result, "}") + fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%s}}}`, quote(t.id)), "", true
	case "tasks/cancel":
		t.stop()
		<-t.done
	case "tasks/update":
		t.input <- p.InputResponses["name"]
	}
	if modern && m.Method != "tasks/get" {
		return `{"resultType":"complete"}`, "", true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if modern {
		return `{"resultType":"complete",` + t.modernState()[1:], "", true
	}
	return t.state(), "", true
}

func (s *server) watchTasks(id string, ids []string) {
	s.out.notify("notifications/subscriptions/acknowledged", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{}}`, id))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = append(s.watching, watching{id, ids})
	for _, of := range ids {
		if t := s.tasks[of]; t != nil && t.status != "working" {
			t.updated(t)
		}
	}
}

func (s *server) listTasks() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*task
	for _, t := range s.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *task) int { return a.number - b.number })
	var states []string
	for _, t := range all {
		states = append(states, t.state())
	}
	return `{"tasks":[` + strings.Join(states, ",") + `]}`
}

// state is a Task of 2025-11-25.
func (t *task) state() string {
	return fmt.Sprintf(`{"taskId":%s,"status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"n":12345678901234567890}`, quote(t.id), t.status)
}

// modernState is a DetailedTask of 2026-07-28.
func (t *task) modernState() string {
	state := strings.Replace(t.state(), `"ttl"`, `"ttlMs"`, 1)
	switch t.status {
	case "input_required":
		return strings.TrimSuffix(state, "}") + `,"inputRequests":{"name":{"method":"elicitation/create","params":{"message":"who?"}}}}`
	case "completed":
		return strings.TrimSuffix(state, "}") + `,"result":` + t.result + `}`
	}
	return state
}

// work is the tool that can be a task.
func work(ctx context.Context, s *server, c *call) (string, string) {
	var a struct {
		Until, Text string
		Ask, Early  bool
	}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	asTask := c.Task != nil
	if c.modern {
		asTask = strings.Contains(string(c.m.Params), `"io.modelcontextprotocol/tasks"`)
	}
	if !asTask {
		return textResult(s.o.id + " " + a.Text), ""
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	number := len(s.tasks) + 1
	id := rand.Text()
	if s.o.taskIDs != "" {
		id = fmt.Sprint(s.o.taskIDs, number)
	}
	t := &task{id: id, number: number, status: "working", input: make(chan json.RawMessage, 1), stop: stop, done: make(chan struct{})}
	t.updated = func(t *task) { s.tell(c.modern, t) }
	s.tasks[id] = t
	first := t.state()
	if c.modern {
		first = `{"resultType":"task",` + t.modernState()[1:]
	} else {
		first = `{"task":` + first + `}`
	}
	if a.Early {
		t.updated(t)
	}
	s.mu.Unlock()
	go func() {
		defer close(t.done)
		if a.Until != "" {
			waitForFile(a.Until, ctx.Done())
		}
		answer := ""
		if a.Ask && ctx.Err() == nil {
			answer = s.askForTask(ctx, c, t)
		}
		if c.Meta.Token != nil {
			s.out.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%s}}}`, c.Meta.Token, quote(t.id)))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		t.status, t.result = "completed", textResult(strings.TrimSpace(s.o.id+" "+a.Text+" "+answer))
		if ctx.Err() != nil {
			t.status = "cancelled"
		}
		t.updated(t)
	}()
	return first, ""
}

// tell tells the client of a task's state. The caller holds mu.
func (s *server) tell(modern bool, t *task) {
	if !modern {
		s.out.notify("notifications/tasks/status", t.state())
		return
	}
	for _, w := range s.watching {
		if slices.Contains(w.ids, t.id) {
			s.out.notify("notifications/tasks", strings.TrimSuffix(t.modernState(), "}")+`,"_meta":{"io.modelcontextprotocol/subscriptionId":`+w.id+`}}`)
		}
	}
}

// askForTask asks the client for something that the task needs.
func (s *server) askForTask(ctx context.Context, c *call, t *task) string {
	s.mu.Lock()
	t.status = "input_required"
	t.updated(t)
	s.mu.Unlock()
	var answer string
	if c.modern {
		select {
		case given := <-t.input:
			answer = string(given)
		case <-ctx.Done():
		}
	} else {
		answer = s.ask(ctx, "", "elicitation/create", fmt.Sprintf(`{"message":"who?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":%s}}}`, quote(t.id)))
	}
	s.mu.Lock()
	t.status = "working"
	s.mu.Unlock()
	return answer
}
