package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// TestD2_PulledServersNeedNoNetwork pulls one server of each big registry as an image build does, and
// starts them where every way out leads to a closed port.
func TestD2_PulledServersNeedNoNetwork(t *testing.T) {
	need(t, filepath.Join(mcptest.Root(t), ".cache", "uv", "bin", "uv"))
	need(t, "npm")
	p := newPlace(t)
	exit, stdout, stderr := p.shell(t, "mcp-gateway --root "+p.root+" pull time memory --json")
	if exit != 0 || stderr != "" {
		t.Fatalf("pull: exit %d, %s%s", exit, stdout, stderr)
	}
	var result struct {
		Servers []struct {
			Name, State, Version string
			Command              []string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || len(result.Servers) != 2 {
		t.Fatalf("%s: %v", stdout, err)
	}
	for _, s := range result.Servers {
		if s.State != "installed" || s.Version == "" || !strings.HasPrefix(s.Command[len(s.Command)-1], filepath.Join(p.root, "var/lib/mcp-gateway/servers/packages", s.Name)) {
			t.Errorf("%+v", s)
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		p.env = append(p.env, name+"=http://127.0.0.1:1")
	}
	p.env = append(p.env, "npm_config_registry=http://127.0.0.1:1", "UV_DEFAULT_INDEX=http://127.0.0.1:1", "UV_CACHE_DIR="+t.TempDir(), "npm_config_cache="+t.TempDir())
	g := p.start(t, `{"time":{},"memory":{}}`)
	session := g.connect(t)
	if got := call(t, session, "get_current_time", map[string]any{"timezone": "Europe/Berlin"}); !strings.Contains(got, "Europe/Berlin") {
		t.Errorf("get_current_time says %s", got)
	}
	if got := call(t, session, "read_graph", nil); !strings.Contains(got, "entities") {
		t.Errorf("read_graph says %s", got)
	}
}
