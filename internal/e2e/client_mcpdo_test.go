package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// runMcpdo drives the Inspector's other command line, at 2026-07-28 where the server has it.
func runMcpdo(t *testing.T, url, token string, capabilities []string) []outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	i := newInspector(t, "mcpdo/build/mcp-bin.js", url, token)
	_, err := i.run(ctx, append(slices.Clone(i.before), "connect", "gateway", "--era", "auto")...)
	defer func() {
		if _, err := i.run(context.WithoutCancel(ctx), "daemon", "stop"); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		return runSteps(ctx, capabilities, func(string) map[string]action { return broken(capabilities, err) })
	}
	i.before = []string{"--format", "json", "--connection", "gateway"}
	return runSteps(ctx, capabilities, func(argument string) map[string]action {
		steps := i.steps(argument)
		steps["connect"] = func(ctx context.Context) (string, error) {
			var got inspected
			err := i.request(ctx, &got, "connections/show")
			return got.ProtocolVersion, err
		}
		steps["completion"] = func(ctx context.Context) (string, error) {
			var got inspected
			err := i.request(ctx, &got, "prompts/complete", "--complete-ref-type", "ref/prompt", "--complete-ref", "greet",
				"--complete-arg-name", "name", "--complete-arg-value", "al")
			return want(strings.Join(got.Values, ","), "alan,alice", err)
		}
		steps["subscription"] = i.subscription
		steps["logging"] = i.logging
		steps["elicitation"] = i.elicitation
		return steps
	})
}

// stream runs a command that prints until it is stopped. It hands each object on.
func (i *inspector) stream(ctx context.Context, args ...string) (objects <-chan json.RawMessage, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c := i.command(ctx, append(slices.Clone(i.before), args...)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	stdout, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	ch := make(chan json.RawMessage, 100)
	go func() {
		defer close(ch)
		for d := json.NewDecoder(stdout); ; {
			var object json.RawMessage
			if d.Decode(&object) != nil {
				return
			}
			ch <- object
		}
	}()
	return ch, func() {
		cancel()
		for range ch {
		}
		_ = c.Wait()
	}, nil
}

func (i *inspector) subscription(ctx context.Context) (string, error) {
	objects, stop, err := i.stream(ctx, "resources/subscribe", "fake://text/1")
	if err != nil {
		return "", err
	}
	defer stop()
	if first, err := receive(ctx, objects); err != nil || !strings.Contains(string(first), `"subscribed"`) {
		return "", fmt.Errorf("the stream begins with %s, %w", first, err)
	}
	if _, err := i.tool(ctx, "touch", `{"uri":"fake://text/1"}`); err != nil {
		return "", err
	}
	var update struct{ Type, URI string }
	object, err := receive(ctx, objects)
	if err == nil {
		err = json.Unmarshal(object, &update)
	}
	return want(update.Type+" "+update.URI, "resources/updated fake://text/1", err)
}

// logging sends messages until one is shown, since the command does not say when it has begun.
func (i *inspector) logging(ctx context.Context) (string, error) {
	objects, stop, err := i.stream(ctx, "logging/tail")
	if err != nil {
		return "", err
	}
	defer stop()
	for {
		if _, err := i.tool(ctx, "log", "{}"); err != nil {
			return "", err
		}
		select {
		case object := <-objects:
			var entry struct {
				Message struct{ Params struct{ Data string } }
			}
			err := json.Unmarshal(object, &entry)
			return want(entry.Message.Params.Data, "a log line", err)
		default:
		}
	}
}

// elicitation answers with a command of its own; the call stays open meanwhile.
func (i *inspector) elicitation(ctx context.Context) (string, error) {
	var got inspected
	if err := i.request(ctx, &got, "tools/call", "ask_elicitation"); err != nil {
		return "", err
	}
	if got.Pending.ElicitationID == "" {
		return "", fmt.Errorf("nothing is asked: %+v", got)
	}
	var answered inspected
	if err := i.request(ctx, &answered, "elicitation/respond", got.Pending.ElicitationID, "name:=Ada"); err != nil {
		return "", err
	}
	if len(answered.Content) == 0 || !strings.Contains(answered.Content[0].Text, "Ada") {
		return "", fmt.Errorf("our answer is not in %+v", answered)
	}
	return "answered", nil
}
