package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"mcp-gateway/internal/mcptest/payload"
)

// builtins are the tools of a server without flags.
func builtins() []tool {
	return []tool{
		plainTool("echo", "Returns its arguments, byte for byte, as text and as structured content.", echo),
		plainTool("raw", "Returns the params of the request, byte for byte, as text.", raw),
		plainTool("line", "Returns the whole request line, byte for byte, as text.", line),
		plainTool("strict", "Fails unless arguments is an object.", strict),
		schemaTool("add", "Adds two numbers.", `{"a":{"type":"number"},"b":{"type":"number"}}`, add),
		plainTool("whoami", "Says which server this is.", func(_ context.Context, s *server, _ *call) (string, string) {
			return textResult(s.o.id), ""
		}),
		plainTool("unicode", "Returns characters outside ASCII.", fixed(textResult("“≤” ≠ 日本語 🎉"))),
		plainTool("fail", "Answers isError.", fixed(`{"content":[{"type":"text","text":"it did not work"}],"isError":true}`)),
		plainTool("error", "Answers a JSON-RPC error with data.", func(context.Context, *server, *call) (string, string) {
			return "", payload.ErrorAnswer
		}),
		plainTool("content", "Returns every known kind of content.", fixed(payload.ContentResult)),
		{name: "rich", def: payload.RichTool, do: fixed(payload.RichResult)},
		schemaTool("big", "Returns a text of so many bytes.", `{"bytes":{"type":"integer"}}`, big),
		schemaTool("sleep", "Answers its tag after ms milliseconds, with progress each progress_ms.",
			`{"ms":{"type":"integer"},"tag":{},"progress_ms":{"type":"integer"}}`, sleep),
		schemaTool("wait_for", "Answers once the file path exists; sends one progress first.", `{"path":{"type":"string"}}`, waitFor),
		schemaTool("progress", "Sends n progress notifications, then answers the token.", `{"n":{"type":"integer"}}`, progress),
		plainTool("cancellable", "Sends one progress, then waits to be cancelled.", cancellable),
		schemaTool("cancelled", "Returns the params of each cancellation seen, once there are at least wait.", `{"wait":{"type":"integer"}}`, cancelled),
		schemaTool("received", "Returns the lines received, of one method if given, once there are at least wait.",
			`{"method":{"type":"string"},"wait":{"type":"integer"}}`, received),
		schemaTool("steps", "Does its steps in order: progress, sleep, ask, withdraw, hang; returns the client's answers.",
			`{"nonce":{"type":"string"},"steps":{"type":"array"}}`, steps),
		schemaTool("runs", "Says how often the steps of a nonce were called, where so asked once they have ended.", `{"of":{"type":"string"},"ended":{"type":"boolean"}}`, runsOf),
		schemaTool("log", "Sends n log messages.", `{"level":{"type":"string"},"data":{},"n":{"type":"integer"}}`, logTool),
		plainTool("noise", "Prints junk to stdout, then answers.", noise),
		plainTool("odd_notification", "Sends notifications of unknown methods, then answers.", func(_ context.Context, s *server, _ *call) (string, string) {
			s.oddNotifications()
			return textResult("sent"), ""
		}),
		schemaTool("add_tool", "Adds a tool and sends list_changed, times times.", `{"name":{"type":"string"},"times":{"type":"integer"}}`, addTool),
		schemaTool("remove_tool", "Removes a tool and sends list_changed.", `{"name":{"type":"string"}}`, removeTool),
		schemaTool("add_prompt", "Adds a prompt and sends list_changed.", `{"name":{"type":"string"}}`, addFeature("prompts")),
		schemaTool("add_resource", "Adds a resource and sends list_changed.", `{"name":{"type":"string"}}`, addFeature("resources")),
		schemaTool("touch", "Sends resources/updated for a URI that was subscribed to.", `{"uri":{"type":"string"}}`, touch),
		plainTool("subscriptions", "Returns the URIs subscribed to.", subscriptions),
		plainTool("ask_sampling", "Asks the client to sample; returns its answer.", asks("sampling/createMessage",
			`{"messages":[{"role":"user","content":{"type":"text","text":"say hi"}}],"maxTokens":10}`)),
		plainTool("ask_elicitation", "Asks the client for input; returns its answer.", asks("elicitation/create",
			`{"mode":"form","message":"what is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`)),
		plainTool("ask_roots", "Asks for the client's roots; returns its answer.", asks("roots/list", `{}`)),
		schemaTool("ask", "Sends any request to the client; returns its answer.", `{"method":{"type":"string"},"params":{"type":"object"},"id":{}}`, askAnything),
		schemaTool("ask_many", "Asks the client for input n times, one after another or all at once; returns its answers.",
			`{"n":{"type":"integer"},"parallel":{"type":"boolean"}}`, askMany),
		schemaTool("ask_progress", "Sends progress, asks for roots, sends progress again, and may wait to be cancelled.", `{"wait":{"type":"boolean"}}`, askProgress),
		schemaTool("ask_withdrawn", "Asks for roots, cancels that request (when the file is there), and answers.", `{"path":{"type":"string"}}`, askWithdrawn),
		schemaTool("ask_rounds", "Under 2026-07-28 wants two more answers, so many rounds.", `{"rounds":{"type":"integer"}}`, askRounds),
		plainTool("env", "Returns the environment as a JSON object.", env),
		plainTool("process", "Returns ids, arguments and directory of the process as a JSON object.", process),
		schemaTool("boom", "Writes to stderr and ends the process.", `{"code":{"type":"integer"}}`, boom),
		schemaTool("spawn_setsid", "Leaves a process behind in a session of its own; returns its id.",
			`{"hold":{"type":"boolean"},"stubborn":{"type":"boolean"}}`, spawnTool),
		schemaTool("orphans", "Leaves n orphans behind that end at once.", `{"n":{"type":"integer"}}`, orphans),
		schemaTool("steal_stdin", "Lets a child eat so many lines of stdin, 0 meaning all to come.", `{"lines":{"type":"integer"}}`, stealStdin),
		plainTool("endless", "Writes a line that never ends.", func(_ context.Context, s *server, _ *call) (string, string) {
			endless(s)
			return "", ""
		}),
		plainTool("close_stdout", "Closes stdout and lives on.", func(context.Context, *server, *call) (string, string) {
			os.Stdout.Close()
			return "", ""
		}),
	}
}

func fixed(result string) handler {
	return func(context.Context, *server, *call) (string, string) { return result, "" }
}

func echo(_ context.Context, _ *server, c *call) (string, string) {
	if len(c.Arguments) == 0 {
		return textResult(""), ""
	}
	result := textResult(string(c.Arguments))
	if c.Arguments[0] == '{' {
		result = strings.TrimSuffix(result, "}") + `,"structuredContent":` + string(c.Arguments) + "}"
	}
	return result, ""
}

func raw(_ context.Context, _ *server, c *call) (string, string) {
	return textResult(string(c.m.Params)), ""
}

func line(_ context.Context, _ *server, c *call) (string, string) {
	return textResult(c.m.line), ""
}

func strict(_ context.Context, _ *server, c *call) (string, string) {
	if len(c.Arguments) == 0 || c.Arguments[0] != '{' {
		return "", rpcError(-32602, fmt.Sprintf("arguments is not an object: %q", c.Arguments))
	}
	return textResult("ok"), ""
}

func add(_ context.Context, _ *server, c *call) (string, string) {
	var a struct{ A, B float64 }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	return textResult(fmt.Sprint(a.A + a.B)), ""
}

func big(_ context.Context, _ *server, c *call) (string, string) {
	var a struct{ Bytes int }
	if err := c.into(&a); err != nil || a.Bytes < 0 {
		return "", rpcError(-32602, "bytes is not a number")
	}
	return `{"content":[{"type":"text","text":"` + strings.Repeat("x", a.Bytes) + `"}]}`, ""
}

// step sends one progress notification if the call asked for them.
func (c *call) step(s *server, n, total int) {
	if c.Meta.Token != nil {
		s.out.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d,"message":"step %d"}`, c.Meta.Token, n, total, n))
	}
}

func sleep(ctx context.Context, s *server, c *call) (string, string) {
	a := struct {
		MS       int             `json:"ms"`
		Tag      json.RawMessage `json:"tag"`
		Progress int             `json:"progress_ms"`
	}{Tag: json.RawMessage(`"slept"`)}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	end := time.After(time.Duration(a.MS) * time.Millisecond)
	var tick <-chan time.Time
	if a.Progress > 0 {
		t := time.NewTicker(time.Duration(a.Progress) * time.Millisecond)
		defer t.Stop()
		tick = t.C
	}
	for n := 1; ; n++ {
		select {
		case <-tick:
			c.step(s, n, a.MS/a.Progress)
		case <-end:
			return textResult(string(a.Tag)), ""
		case <-ctx.Done():
			return textResult("cancelled"), ""
		}
	}
}

func waitFor(ctx context.Context, s *server, c *call) (string, string) {
	var a struct{ Path string }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	c.step(s, 1, 1)
	waitForFile(a.Path, ctx.Done())
	return textResult("it is there"), ""
}

func progress(_ context.Context, s *server, c *call) (string, string) {
	a := struct{ N int }{N: 3}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	for i := 1; i <= a.N; i++ {
		c.step(s, i, a.N)
	}
	return textResult(fmt.Sprintf("%d steps, token %s", a.N, c.Meta.Token)), ""
}

func cancellable(ctx context.Context, s *server, c *call) (string, string) {
	c.step(s, 1, 1)
	fmt.Fprintln(os.Stderr, "cancellable: waiting")
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "cancellable: cancelled", c.m.key())
	return textResult("cancelled"), ""
}

// until waits under the server's lock for a condition, or for the end of the call.
func (s *server) until(ctx context.Context, ok func() bool) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for !ok() && ctx.Err() == nil {
		s.changed.Wait()
	}
}

func cancelled(ctx context.Context, s *server, c *call) (string, string) {
	var a struct{ Wait int }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until(ctx, func() bool { return len(s.cancelled) >= a.Wait })
	parts := make([]string, len(s.cancelled))
	for i, p := range s.cancelled {
		parts[i] = string(p)
	}
	return textResult("[" + strings.Join(parts, ",") + "]"), ""
}

func received(ctx context.Context, s *server, c *call) (string, string) {
	var a struct {
		Method string
		Wait   int
	}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	s.until(ctx, func() bool {
		lines = lines[:0]
		for _, m := range s.received {
			if a.Method == "" || m.Method == a.Method {
				lines = append(lines, m.line)
			}
		}
		return len(lines) >= a.Wait
	})
	return textResult(strings.Join(lines, "\n")), ""
}

func noise(_ context.Context, s *server, _ *call) (string, string) {
	s.out.raw("parsing…\n{\n  \"files\": 3,\n  \"ok\": true\n}\n")
	return textResult("answered"), ""
}
