package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// TestClientsThroughTheGateway runs every client against a gateway of its own, since what a server
// asks is told apart by sessions, and wants from all of them every capability and the same tools.
func TestClientsThroughTheGateway(t *testing.T) {
	lists, table := make([]string, len(clients())), make([][]outcome, len(clients()))
	t.Run("clients", func(t *testing.T) {
		for i, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": {"-page=7"}}))
				table[i] = c.run(t, g.url, testToken, capabilities)
				lists[i] = passed(t, c, table[i], capabilities)["list"]
			})
		}
	})
	sameTools(t, lists)
	writeTable(t, table)
}

// sameTools fails unless all lists that were made hold the same names. It returns them.
func sameTools(t *testing.T, lists []string) []string {
	t.Helper()
	var first []string
	for i, c := range clients() {
		if lists[i] == "" {
			continue // skipped, or failed already
		}
		var names []string
		if err := json.Unmarshal([]byte(lists[i]), &names); err != nil {
			t.Fatalf("%s listed %q: %v", c.name, lists[i], err)
		}
		if first == nil {
			first = names
		}
		if len(names) == 0 || !slices.Equal(names, first) {
			t.Errorf("%s sees\n%v, another client\n%v", c.name, names, first)
		}
	}
	return first
}

// TestClientsAreTurnedAwayWithoutTheToken proves that a client can fail here at all, and contract B1.
func TestClientsAreTurnedAwayWithoutTheToken(t *testing.T) {
	g := newPlace(t).start(t, "{}")
	for _, o := range inGo("")(t, g.url, "wrong", []string{"connect"}) {
		if o.OK == nil || *o.OK || !strings.Contains(o.Detail, "401") && !strings.Contains(o.Detail, "Unauthorized") {
			t.Errorf("got %+v", o)
		}
	}
}

// TestD1_CatalogueServers starts four servers of the catalogue as uvx and npx install them, calls a
// tool of each and lets every client list them.
func TestD1_CatalogueServers(t *testing.T) {
	need(t, filepath.Join(mcptest.Root(t), ".cache", "uv", "bin", "uvx"))
	need(t, "npx")
	// fetch refuses addresses that are not public, so the page's name is one that only this
	// proxy knows. A8: proxy variables reach servers.
	g := newPlace(t, "http_proxy="+pageProxy(t), "HTTP_PROXY="+pageProxy(t)).start(t,
		`{"time":{},"fetch":{},"memory":{},"filesystem":{"paths":["/tmp"]}}`, "--startup-timeout 10m")

	code, body := g.health(t)
	var h struct {
		Status         string
		Servers, Tools int
	}
	if err := json.Unmarshal([]byte(body), &h); err != nil || code != http.StatusOK || h.Status != "ok" || h.Servers != 4 {
		t.Errorf("health: %d %s, %v", code, body, err)
	}

	s := g.connect(t)
	dir, err := os.MkdirTemp("/tmp", "mcp-gateway-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"get_current_time", map[string]any{"timezone": "Asia/Shanghai"}, `"timezone": "Asia/Shanghai"`},
		{"read_graph", map[string]any{}, `"entities"`},
		{"list_directory", map[string]any{"path": dir}, "[FILE] hello.txt"},
		{"fetch", map[string]any{"url": "http://page.invalid/"}, "A page for the test"},
	} {
		if got := call(t, s, c.tool, c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s returned %q, want %q in it", c.tool, got, c.want)
		}
	}

	lists := make([]string, len(clients()))
	t.Run("clients", func(t *testing.T) {
		for i, c := range clients() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				steps := []string{"connect", "list"}
				lists[i] = passed(t, c, c.run(t, g.url, testToken, steps), steps)["list"]
			})
		}
	})
	if got := sameTools(t, lists); len(got) != h.Tools {
		t.Errorf("clients see %d tools, /health counts %d", len(got), h.Tools)
	}
}

// pageProxy is an HTTP proxy that answers for http://page.invalid itself, robots.txt included, and
// passes everything else on.
func pageProxy(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	onward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Host != "page.invalid":
			onward.ServeHTTP(w, r)
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nAllow: /\n")
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html><head><title>T</title></head><body><article><h1>A heading</h1><p>A page for the test, with enough words in it to be the article.</p></article></body></html>")
		}
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return (&url.URL{Scheme: "http", Host: l.Addr().String()}).String()
}

// TestB4_EqualNames starts two servers with the same tools: the first by name keeps them, and each
// call reaches its own server.
func TestB4_EqualNames(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{
		"b.second": {"-id=b.second", "-tool=ping", "-tool=repo:list.all"},
		"a-first":  {"-id=a-first", "-tool=ping", "-start-delay=200ms"},
	}))
	_, stdout, _ := g.command(t, "tools", "ls", "--json")
	var tools []struct {
		Name         string `json:"name"`
		OriginalName string `json:"original_name"`
		Server       string `json:"server"`
	}
	if err := json.Unmarshal([]byte(stdout), &tools); err != nil {
		t.Fatalf("tools ls printed %q: %v", stdout, err)
	}
	got := map[string]string{}
	for _, tool := range tools {
		got[tool.Name] = tool.Server + "/" + tool.OriginalName
	}
	want := map[string]string{"ping": "a-first/ping", "b.second_ping": "b.second/ping", "b.second_repo_list.all": "b.second/repo:list.all"}
	if !maps.Equal(got, want) {
		t.Errorf("tools\n%v, want\n%v", got, want)
	}
	s := g.connect(t)
	for exposed, original := range want {
		if answer := call(t, s, exposed, nil); !strings.HasPrefix(answer, original) {
			t.Errorf("%s is answered by %q, want %s", exposed, answer, original)
		}
	}
}
