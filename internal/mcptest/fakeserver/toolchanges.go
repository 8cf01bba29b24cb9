package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// levels are the log levels, the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

func logTool(_ context.Context, s *server, c *call) (string, string) {
	a := struct {
		Level string
		Data  json.RawMessage
		N     int
	}{Level: "info", Data: json.RawMessage(`"a log line"`), N: 1}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	quiet := s.logLevel != "" && slices.Index(levels, a.Level) < slices.Index(levels, s.logLevel)
	s.mu.Unlock()
	if quiet {
		return textResult("below the level"), ""
	}
	for range a.N {
		s.out.notify("notifications/message", fmt.Sprintf(`{"level":%s,"logger":"fake","data":%s}`, quote(a.Level), a.Data))
	}
	return textResult("sent"), ""
}

func addTool(_ context.Context, s *server, c *call) (string, string) {
	a := struct {
		Name  string
		Times int
	}{Name: "added", Times: 1}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	delete(s.removed, a.Name)
	if !slices.ContainsFunc(s.added, func(t tool) bool { return t.name == a.Name }) {
		s.added = append(s.added, plainTool(a.Name, "Was added later.", sayName))
	}
	s.mu.Unlock()
	for range a.Times {
		s.out.notify("notifications/tools/list_changed", "{}")
	}
	return textResult("added"), ""
}

func removeTool(_ context.Context, s *server, c *call) (string, string) {
	var a struct{ Name string }
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	s.removed[a.Name] = true
	s.added = slices.DeleteFunc(s.added, func(t tool) bool { return t.name == a.Name })
	s.mu.Unlock()
	s.out.notify("notifications/tools/list_changed", "{}")
	return textResult("removed"), ""
}

// addFeature adds a prompt or a resource.
func addFeature(kind string) handler {
	return func(_ context.Context, s *server, c *call) (string, string) {
		a := struct{ Name string }{Name: "added"}
		if err := c.into(&a); err != nil {
			return "", rpcError(-32602, err.Error())
		}
		s.mu.Lock()
		if kind == "prompts" {
			s.extra.prompts = append(s.extra.prompts, a.Name)
		} else {
			s.extra.resources = append(s.extra.resources, a.Name)
		}
		s.mu.Unlock()
		s.out.notify("notifications/"+kind+"/list_changed", "{}")
		return textResult("added"), ""
	}
}

func touch(_ context.Context, s *server, c *call) (string, string) {
	a := struct{ URI string }{URI: "fake://text/1"}
	if err := c.into(&a); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	wanted := s.subscribed[a.URI]
	s.mu.Unlock()
	if !wanted {
		return textResult("nobody subscribed"), ""
	}
	s.out.notify("notifications/resources/updated", `{"uri":`+quote(a.URI)+`}`)
	return textResult("sent"), ""
}

func subscriptions(_ context.Context, s *server, _ *call) (string, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uris := slices.Sorted(maps.Keys(s.subscribed))
	text, err := json.Marshal(append([]string{}, uris...))
	if err != nil {
		return "", rpcError(-32603, err.Error())
	}
	return textResult(string(text)), ""
}
