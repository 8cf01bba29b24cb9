package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// featureMethods answers prompts, resources, completion, subscriptions and logging.
func (s *server) featureMethods(_ context.Context, m *message) (result, failure string, known bool) {
	part, _, _ := strings.Cut(m.Method, "/")
	part = strings.Replace(part, "completion", "completions", 1)
	if !s.o.serves(part) {
		return "", "", false
	}
	switch m.Method {
	case "prompts/list":
		result, failure = s.listPage(m, "prompts", s.promptDefs())
	case "prompts/get":
		result, failure = s.getPrompt(m)
	case "resources/list":
		result, failure = s.listPage(m, "resources", s.resourceDefs())
	case "resources/templates/list":
		result, failure = s.listPage(m, "resourceTemplates", s.templateDefs())
	case "resources/read":
		result, failure = s.readResource(m)
	case "resources/subscribe", "resources/unsubscribe":
		result = s.subscribe(m)
	case "completion/complete":
		result, failure = complete(m)
	case "logging/setLevel":
		result, failure = s.setLevel(m)
	default:
		return "", "", false
	}
	return result, failure, true
}

func (s *server) promptNames() []string {
	names := []string{"greet", "plain"}
	for i := 3; i <= s.o.prompts; i++ {
		names = append(names, fmt.Sprintf("prompt_%d", i))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(names[:max(s.o.prompts, 0)], s.extra.prompts...)
}

func (s *server) promptDefs() []string {
	var defs []string
	for _, n := range s.promptNames() {
		args := ""
		if n == "greet" {
			args = `,"arguments":[{"name":"name","description":"whom to greet","required":true}]`
		}
		defs = append(defs, fmt.Sprintf(`{"name":%s,"description":"A prompt for tests."%s}`, quote(s.o.prefix+n), args))
	}
	return defs
}

func (s *server) getPrompt(m *message) (result, failure string) {
	var p struct {
		Name      string
		Arguments map[string]string
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	for _, n := range s.promptNames() {
		if s.o.prefix+n != p.Name {
			continue
		}
		text := s.o.id + "/" + n
		if n == "greet" {
			text = "Greet " + p.Arguments["name"] + "."
		}
		return s.finish(m, fmt.Sprintf(`{"description":"A prompt for tests.","messages":[{"role":"user","content":{"type":"text","text":%s}}]}`, quote(text))), ""
	}
	return "", rpcError(-32602, "unknown prompt: "+p.Name)
}

// finish marks a result as complete where the revision wants that.
func (s *server) finish(m *message, result string) string {
	if s.isModern(m.Params) {
		return `{"resultType":"complete",` + result[1:]
	}
	return result
}

func (s *server) resourceDefs() []string {
	var defs []string
	for i := 1; i <= s.o.resources; i++ {
		defs = append(defs, fmt.Sprintf(`{"uri":"fake://text/%d","name":"text_%d","mimeType":"text/plain"}`, i, i))
	}
	if s.o.resources > 0 {
		defs = append(defs, `{"uri":"fake://blob","name":"blob","mimeType":"application/octet-stream","size":4}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.extra.resources {
		defs = append(defs, fmt.Sprintf(`{"uri":%s,"name":%s}`, quote("fake://added/"+n), quote(n)))
	}
	return defs
}

func (s *server) templateDefs() []string {
	var defs []string
	for i := 1; i <= s.o.templates; i++ {
		n := ""
		if i > 1 {
			n = fmt.Sprint(i)
		}
		defs = append(defs, fmt.Sprintf(`{"uriTemplate":"fake://item%s/{id}","name":"item%s","mimeType":"text/plain"}`, n, n))
	}
	return defs
}

func (s *server) readResource(m *message) (result, failure string) {
	var p struct{ URI string }
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	body := ""
	switch {
	case p.URI == "fake://blob":
		body = `"mimeType":"application/octet-stream","blob":"AAECAw=="`
	case strings.HasPrefix(p.URI, "fake://"):
		body = `"mimeType":"text/plain","text":` + quote(s.o.id+": "+strings.TrimPrefix(p.URI, "fake://"))
	default:
		return "", fmt.Sprintf(`{"code":-32002,"message":"resource not found","data":{"uri":%s}}`, quote(p.URI))
	}
	result = fmt.Sprintf(`{"contents":[{"uri":%s,%s}]}`, quote(p.URI), body)
	if s.isModern(m.Params) {
		result = `{"ttlMs":0,"cacheScope":"public",` + result[1:]
	}
	return s.finish(m, result), ""
}

func (s *server) subscribe(m *message) string {
	var p struct{ URI string }
	_ = json.Unmarshal(m.Params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == "resources/subscribe" {
		s.subscribed[p.URI] = true
	} else {
		delete(s.subscribed, p.URI)
	}
	return "{}"
}

func complete(m *message) (result, failure string) {
	var p struct {
		Ref      struct{ Type string }
		Argument struct{ Value string }
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	all := []string{"alan", "alice", "bob"}
	if p.Ref.Type == "ref/resource" {
		all = []string{"1", "10", "2"}
	}
	var found []string
	for _, v := range all {
		if strings.HasPrefix(v, p.Argument.Value) {
			found = append(found, quote(v))
		}
	}
	return fmt.Sprintf(`{"completion":{"values":[%s],"total":%d,"hasMore":false}}`, strings.Join(found, ","), len(found)), ""
}

func (s *server) setLevel(m *message) (result, failure string) {
	var p struct{ Level string }
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return "", rpcError(-32602, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLevel = p.Level
	return "{}", ""
}
