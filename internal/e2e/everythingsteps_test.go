package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// called is a tools/call.
func called(name, tool, arguments string) step {
	return step{method: "tools/call", name: strings.TrimSpace(tool + " " + name), params: mcptest.CallParams(tool, arguments)}
}

// varies is the step with what the server makes anew each time.
func (s step) varies(vary func(string) string) step {
	s.vary = vary
	return s
}

// causes is the step with the notification that comes of it.
func (s step) causes(notification string) step {
	s.then = notification
	return s
}

// with is the step with another member in its params.
func (s step) with(member string) step {
	s.params = strings.TrimSuffix(s.params, "}") + "," + member + "}"
	return s
}

// readStep is a resources/read.
func readStep(name, uri string) step {
	return step{method: "resources/read", name: name, params: fmt.Sprintf(`{"uri":%q}`, uri)}
}

func prompt(name, prompt, arguments string) step {
	return step{method: "prompts/get", name: strings.TrimSpace(prompt + " " + name), params: fmt.Sprintf(`{"name":%q,"arguments":%s}`, prompt, arguments)}
}

func completion(name, params string) step {
	return step{method: "completion/complete", name: name, params: params}
}

// everythingSteps are the single requests: every list, tool, prompt, resource, template, completion and
// log level of the server, and its errors.
var everythingSteps = []step{
	{method: "ping"},
	{method: "tools/list"},
	{method: "prompts/list"},
	{method: "resources/list"},
	{method: "resources/templates/list"},

	called("", "echo", `{"message":"“≤” 🎉 \u0041 <&> \/ \u2028"}`),
	called("with unknown arguments and _meta", "echo", `{"z":12345678901234567890,"message":"m","a":[1.0,null]}`),
	called("without a required argument", "echo", `{}`),
	called("without arguments", "echo", ""),
	called("with an argument of another type", "echo", `{"message":1}`),
	called("that is not there", "no-such-tool", `{"message":"m"}`),
	called("success", "get-annotated-message", `{"messageType":"success","includeImage":true}`),
	called("error", "get-annotated-message", `{"messageType":"error"}`),
	called("debug", "get-annotated-message", `{"messageType":"debug"}`),
	called("of another value", "get-annotated-message", `{"messageType":"other"}`),
	called("", "get-env", `{}`).varies(withoutMark),
	called("3", "get-resource-links", `{}`),
	called("10", "get-resource-links", `{"count":10}`),
	called("too many", "get-resource-links", `{"count":11}`),
	called("text", "get-resource-reference", `{"resourceType":"Text","resourceId":3}`).varies(withoutTime),
	called("blob", "get-resource-reference", `{"resourceType":"Blob","resourceId":4}`).varies(withoutTimeInBlob),
	called("that is not there", "get-resource-reference", `{"resourceId":-1}`),
	called("", "get-structured-content", `{"location":"New York"}`),
	called("of another value", "get-structured-content", `{"location":"Mars"}`),
	called("", "get-sum", `{"a":12345678901234567890,"b":-0.5e-3}`),
	called("of strings", "get-sum", `{"a":"1","b":"2"}`),
	called("", "get-tiny-image", `{}`),
	called("as a resource", "gzip-file-as-resource", `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}`).causes("notifications/resources/list_changed"),
	called("that is no URL", "gzip-file-as-resource", `{"data":"nonsense"}`),
	called("of another scheme", "gzip-file-as-resource", `{"data":"ftp://localhost/x"}`),
	called("with progress", "trigger-long-running-operation", `{"duration":0.3,"steps":3}`).with(`"_meta":{"progressToken":"p-1","a/b":1.0}`),
	called("with a number as token", "trigger-long-running-operation", `{"duration":0.1,"steps":2}`).with(`"_meta":{"progressToken":7}`),
	called("without progress", "trigger-long-running-operation", `{"duration":0.1,"steps":2}`),
	called("before the client has any", "get-roots-list", `{}`),
	called("", "trigger-sampling-request", `{"prompt":"say “hi”","maxTokens":10}`),
	called("refused by the client", "trigger-sampling-request", `{"prompt":"refuse"}`),
	called("without a prompt", "trigger-sampling-request", `{}`),
	called("", "trigger-elicitation-request", `{}`),
	called("as a task of the client", "trigger-sampling-request-async", `{"prompt":"say “hi”"}`),
	called("as a task of the client", "trigger-elicitation-request-async", `{}`),
	called("with an id", "trigger-url-elicitation", `{"url":"https://example.com/a?b=c","elicitationId":"e-1"}`),
	called("with an id of the server's", "trigger-url-elicitation", `{"url":"https://example.com/"}`).varies(withoutID),
	called("by an error", "trigger-url-elicitation", `{"url":"https://example.com/","errorPath":true}`).varies(withoutID),
	called("again after the error", "trigger-url-elicitation", `{"url":"https://example.com/","errorPath":true}`).varies(withoutID),
	called("that wants to be a task", "simulate-research-query", `{"topic":"gateways"}`),
	called("on", "toggle-simulated-logging", `{}`),
	called("off", "toggle-simulated-logging", `{}`),
	called("on", "toggle-subscriber-updates", `{}`),
	called("off", "toggle-subscriber-updates", `{}`),

	prompt("", "simple-prompt", `{}`),
	prompt("", "args-prompt", `{"city":"Köln","state":"NW"}`),
	prompt("without an optional argument", "args-prompt", `{"city":"Köln"}`),
	prompt("without a required argument", "args-prompt", `{}`),
	prompt("", "completable-prompt", `{"department":"Sales","name":"Eve"}`),
	prompt("text", "resource-prompt", `{"resourceType":"Text","resourceId":"1"}`).varies(withoutTime),
	prompt("blob", "resource-prompt", `{"resourceType":"Blob","resourceId":"2"}`).varies(withoutTimeInBlob),
	prompt("of another value", "resource-prompt", `{"resourceType":"Other","resourceId":"1"}`),
	prompt("that is not there", "no-such-prompt", `{}`),

	readStep("listed", "demo://resource/static/document/architecture.md"),
	readStep("listed too", "demo://resource/static/document/features.md"),
	readStep("of a template, text", "demo://resource/dynamic/text/1").varies(withoutTime),
	readStep("of a template, blob", "demo://resource/dynamic/blob/2").varies(withoutTimeInBlob),
	readStep("of a template, refused", "demo://resource/dynamic/text/zero"),
	readStep("of the session", "demo://resource/session/a.gz"),
	readStep("that is not there", "demo://resource/none"),
	readStep("of another scheme", "file:///etc/hostname"),

	completion("of a prompt", `{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"S"}}`),
	completion("with a context", `{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"name","value":""},"context":{"arguments":{"department":"Support"}}}`),
	completion("of an argument that has none", `{"ref":{"type":"ref/prompt","name":"args-prompt"},"argument":{"name":"city","value":"K"}}`),
	completion("of a prompt that is not there", `{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"x","value":""}}`),
	completion("of a template", `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"12"}}`),
	completion("of a template, none", `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/blob/{resourceId}"},"argument":{"name":"resourceId","value":"x"}}`),
	completion("of a resource that is not there", `{"ref":{"type":"ref/resource","uri":"demo://none"},"argument":{"name":"x","value":""}}`),
	completion("without a reference", `{"argument":{"name":"x","value":""}}`),

	{method: "logging/setLevel", name: "debug", params: `{"level":"debug"}`},
	{method: "logging/setLevel", name: "notice", params: `{"level":"notice"}`},
	{method: "logging/setLevel", name: "emergency", params: `{"level":"emergency"}`},
	{method: "logging/setLevel", name: "info", params: `{"level":"info"}`},

	{method: "resources/subscribe", name: "listed", params: `{"uri":"demo://resource/static/document/architecture.md"}`},
	{method: "resources/unsubscribe", name: "listed", params: `{"uri":"demo://resource/static/document/architecture.md"}`},
	{method: "resources/subscribe", name: "not listed", params: `{"uri":"demo://anything"}`},
	{method: "resources/unsubscribe", name: "not subscribed to", params: `{"uri":"demo://something/else"}`},

	{method: "tasks/list"},
	{method: "tasks/get", name: "that is not there", params: `{"taskId":"none"}`},
	{method: "tasks/cancel", name: "that is not there", params: `{"taskId":"none"}`},
	{method: "no/such/method", params: `{"x":1}`},
}

// leavesNothingOut fails for each name in a list that no step asks for.
func leavesNothingOut(t *testing.T, p peer, method, member string) {
	t.Helper()
	list := p.begin(method, "")().answer
	found := regexp.MustCompile(`"`+member+`":"([^"]+)","title"`).FindAllStringSubmatch(list, -1)
	if len(found) == 0 {
		t.Fatalf("no %s in %s", member, list)
	}
	for _, name := range found {
		if !slices.ContainsFunc(everythingSteps, func(s step) bool { return strings.Contains(s.params, fmt.Sprintf(`"name":%q`, name[1])) }) {
			t.Errorf("%s: nothing asks for %q", method, name[1])
		}
	}
}

// both does something with either side and compares what it returns.
func both(t *testing.T, sides [2]*side, what string, do func(*side) string) {
	t.Helper()
	var got [2]string
	for i, s := range sides {
		got[i] = do(s)
	}
	same(t, what, got[0], got[1])
}

// changeRoots has a call in flight when the client says that its roots are others, so that the server's
// question for them has a client.
func changeRoots(t *testing.T, sides [2]*side) {
	both(t, sides, "answer", func(s *side) string {
		for len(s.heard) > 0 {
			<-s.heard
		}
		s.mu.Lock()
		s.held = make(chan struct{})
		s.roots = `{"roots":[{"uri":"file:///somewhere","name":"“one”","_meta":{"a/b":1}}]}`
		s.mu.Unlock()
		wait := s.begin("tools/call", mcptest.CallParams("trigger-sampling-request", `{"prompt":"wait"}`))
		<-s.heard
		s.notify("notifications/roots/list_changed", "")
		if method := <-s.heard; method != "roots/list" {
			t.Errorf("asked for %s", method)
		}
		s.mu.Lock()
		close(s.held)
		s.held = nil
		s.mu.Unlock()
		return wait().answer + s.begin("tools/call", mcptest.CallParams("get-roots-list", ""))().answer
	})
}

// addResource makes the server add a resource, and lists, reads and subscribes to it.
func addResource(t *testing.T, sides [2]*side) {
	both(t, sides, "answers", func(s *side) string {
		const uri = `{"uri":"demo://resource/session/b.gz"}`
		answers := []string{s.begin("tools/call", mcptest.CallParams("gzip-file-as-resource", `{"name":"b.gz","data":"data:text/plain,hello"}`))().answer}
		s.await("notifications/resources/list_changed")
		for _, r := range [][2]string{{"resources/list", ""}, {"resources/read", uri}, {"resources/subscribe", uri},
			{"tools/call", mcptest.CallParams("toggle-subscriber-updates", "")}} {
			answers = append(answers, s.begin(r[0], r[1])().answer)
		}
		answers = append(answers, s.await("notifications/resources/updated"),
			s.begin("tools/call", mcptest.CallParams("toggle-subscriber-updates", ""))().answer,
			s.begin("resources/unsubscribe", uri)().answer)
		return strings.Join(answers, "\n")
	})
}

// runTask has a tool run as a task, which asks for something on the way.
func runTask(t *testing.T, sides [2]*side) {
	both(t, sides, "answers", func(s *side) string {
		s.takeAsked()
		created := s.begin("tools/call", `{"name":"simulate-research-query","arguments":{"topic":"python","ambiguous":true},"task":{"ttl":60000}}`)().answer
		id := randomID.FindString(created)
		if !strings.Contains(id, "taskId") {
			t.Fatalf("no task was made: %s", created)
		}
		answers := []string{created}
		for _, method := range []string{"tasks/result", "tasks/get", "tasks/cancel"} {
			answers = append(answers, s.begin(method, "{"+id+"}")().answer)
		}
		answers = append(answers, s.begin("tasks/list", "")().answer)
		return withoutID(strings.Join(append(answers, s.takeAsked()...), "\n"))
	})
}
