package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// TestB1_B2_B3_Endpoint asks as a sandbox's proxy does: over loopback, with the public Host.
func TestB1_B2_B3_Endpoint(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": {"-tool=one"}}))
	for _, c := range []struct {
		name, method, path, token, origin string
		status                            int
		header, value, body               string
	}{
		{name: "B1 no token", method: "POST", path: "/mcp", status: 401, header: "WWW-Authenticate", value: "Bearer"},
		{name: "B1 wrong token", method: "POST", path: "/mcp", token: testToken + "x", status: 401, header: "WWW-Authenticate", value: "Bearer"},
		{name: "B2 B56 foreign Host", method: "POST", path: "/mcp", token: testToken, status: 200, body: `"serverInfo"`},
		{name: "B3 health needs no token", method: "GET", path: "/health", status: 200, body: `^\{"status":"ok","servers":1,"tools":1\}\s*$`},
		{name: "B3 a page of another origin", method: "POST", path: "/mcp", token: testToken, origin: "https://evil.example", status: 403},
		{name: "B62 wrong path", method: "POST", path: "/sse", token: testToken, status: 404, body: "/mcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, strings.TrimSuffix(g.url, "/mcp")+c.path,
				strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "50005-i3f9.sandbox.example"
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body := read(t, res)
			if res.StatusCode != c.status || !strings.HasPrefix(res.Header.Get(c.header), c.value) || !regexp.MustCompile(c.body).MatchString(body) {
				t.Errorf("%s, %s %q, body %q", res.Status, c.header, res.Header.Get(c.header), body)
			}
		})
	}
}

// TestA9_LargeConfiguration gives more than Linux takes as one argument, on standard input.
func TestA9_LargeConfiguration(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(t.TempDir(), "config.json")
	config := fmt.Sprintf(`{"fake":{"command":%q,"args":["-tool=one"],"env":{"LARGE":%q}}}`, mcptest.Build(t), strings.Repeat("x", 120<<10))
	config = config[:len(config)-1] + strings.Repeat(" ", 16<<10) + "}"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = p.command(t, "stop") })
	line := fmt.Sprintf("mcp-gateway --root %s --listen 127.0.0.1:0 - <%s", p.root, file)
	if exit, _, stderr := p.shell(t, line); exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	if s := p.status(t); s.State != "ready" || s.Tools != 1 {
		t.Errorf("status %+v", s)
	}
}
