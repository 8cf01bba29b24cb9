package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// reply is an answer of the control side.
type reply struct {
	status int
	body   string
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// refusal reads an answer that must be an error.
func (r reply) refusal(t *testing.T, status int, code control.Code, parts ...string) control.Error {
	t.Helper()
	var e control.Error
	r.into(t, &e)
	if r.status != status || e.Code != code {
		t.Errorf("%d %s, want %d %s", r.status, r.body, status, code)
	}
	contains(t, e.Message, parts...)
	return e
}

// base is the door's address.
func (g *testGateway) base() string { return strings.TrimSuffix(g.ready.URL, "/mcp") }

// api asks the control side with the token; body may be empty.
func (g *testGateway) api(method, path, body string) reply {
	g.t.Helper()
	r, err := g.ask(method, path, body, token)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// ask may be called from any goroutine.
func (g *testGateway) ask(method, path, body, bearer string) (reply, error) {
	req, err := http.NewRequest(method, g.base()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := (&http.Client{Timeout: 2 * mcptest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, string(text)}, err
}

const gatewayPath = "/v1/sandboxes/-/mcp-gateway"

// gateway reads the resource, which must be there.
func (g *testGateway) gateway() control.Gateway {
	g.t.Helper()
	r := g.api("GET", gatewayPath, "")
	if r.status != http.StatusOK {
		g.t.Fatalf("get the gateway: %d %s", r.status, r.body)
	}
	var out control.Gateway
	r.into(g.t, &out)
	return out
}

// until waits for a state of the resource.
func (g *testGateway) until(state control.GatewayState) control.Gateway {
	g.t.Helper()
	eventually(g.t, "state "+string(state), func() bool { return g.gateway().State == state })
	return g.gateway()
}

func (g *testGateway) report() control.ConfigurationReport {
	g.t.Helper()
	r := g.api("GET", gatewayPath+"/report", "")
	var out control.ConfigurationReport
	r.into(g.t, &out)
	return out
}

func (g *testGateway) add(server, registration string) reply {
	g.t.Helper()
	return g.api("POST", gatewayPath+"/servers", addBody(server, registration))
}

func addBody(server, registration string) string {
	if registration == "" {
		return `{"server":` + quoted(server) + `}`
	}
	return `{"server":` + quoted(server) + `,"registration":` + registration + `}`
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// fake is a registration of a fake server with these flags.
func (g *testGateway) fake(name string, flags ...string) string {
	g.t.Helper()
	args := append([]string{"-id=" + name, "-pid-file=" + g.pids}, flags...)
	text, err := json.Marshal(map[string]any{name: map[string]any{"command": mcptest.Build(g.t), "args": args}})
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// started counts the processes that were started.
func (g *testGateway) started() int {
	text, _ := os.ReadFile(g.pids)
	return len(strings.Fields(string(text)))
}

// names lists the servers of the resource.
func names(servers []control.ServerRef) string {
	var out []string
	for _, s := range servers {
		out = append(out, s.Name+":"+string(s.Type))
	}
	return strings.Join(out, " ")
}

// outcomes lists those of a report.
func outcomes(r control.ConfigurationReport) string {
	var out []string
	for _, s := range r.Servers {
		out = append(out, s.Server.Name+"="+string(s.Outcome))
	}
	return strings.Join(out, " ")
}

// details returns the one detail of that kind.
func details[T any](t *testing.T, e control.Error, kind string) (out T) {
	t.Helper()
	for _, raw := range e.Details {
		var head struct {
			Type string `json:"@type"`
		}
		if json.Unmarshal(raw, &head) == nil && head.Type == kind {
			if err := json.Unmarshal(raw, &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Errorf("no %s in %s", kind, e.Details)
	return out
}

// withCatalog gives the gateway a catalogue of fake servers: quick needs nothing, choosy needs a name.
func (g *testGateway) withCatalog() *testGateway {
	g.t.Helper()
	program, pids := quoted(mcptest.Build(g.t)), quoted("-pid-file="+g.pids)
	cat, err := catalog.Parse([]byte(`{
		"quick": {"description": "Answers fast.", "runs": "command", "command": ` + program + `, "args": [["-id=quick"], [` + pids + `], ["-tool=quick_tool"]]},
		"choosy": {"description": "Wants a name.", "runs": "command", "command": ` + program + `, "args": [["-id={{name}}"], [` + pids + `], ["-tool=choosy_tool"]],
			"env": {"CHOOSY_KEY": "{{key}}"},
			"properties": {"name": {"type": "string", "required": true, "description": "Who it is."}, "key": {"type": "string", "secret": true}}}}`))
	if err != nil {
		g.t.Fatal(err)
	}
	g.o.Catalog = cat
	return g
}

// up runs a prepared gateway, which must succeed.
func (g *testGateway) up() *testGateway {
	g.t.Helper()
	if err := g.run(); err != nil {
		g.t.Fatal(err)
	}
	return g
}

// early is a gateway that serves before its servers are ready.
func early(t *testing.T, servers map[string]entry) *testGateway {
	t.Helper()
	g := prepare(t, servers)
	g.o.Early = true
	return g
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func temporary(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(t.TempDir(), name)
}
