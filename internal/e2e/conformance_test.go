package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"mcp-gateway/internal/mcptest"
)

// The official suite and the server that it was made with; make deps installs both, and the Node that
// the suite wants.
const (
	suiteNode   = ".cache/npm/node_modules/node/bin/node"
	suiteScript = ".cache/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"
	suiteServer = ".cache/gobin/everything-server"
)

// revisions are those that the suite has requirements of, and the server's flag for serving each.
var revisions = []struct{ revision, flag string }{
	{"2025-11-25", "-stateless=false"},
	{"2026-07-28", "-stateless"},
}

// asJSON are scenarios some of whose successes are notes through the gateway: a call without a message
// before its answer is answered as JSON, so there is no event stream to look at.
var asJSON = map[string]bool{"server-sse-polling": true, "server-sse-multiple-streams": true}

// TestConformance runs the official suite against the server by itself and against one gateway before
// it, for both revisions on one endpoint, and compares every scenario.
func TestConformance(t *testing.T) {
	root := mcptest.Root(t)
	for _, file := range []string{suiteNode, suiteScript, suiteServer} {
		need(t, filepath.Join(root, file))
	}
	g := newPlace(t).start(t, fmt.Sprintf(`{"everything":{"command":%q,"gateway":{"protocol":"both"}}}`, filepath.Join(root, suiteServer)))
	gateway := withToken(t, g.url)
	for _, r := range revisions {
		t.Run(r.revision, func(t *testing.T) {
			direct := runSuite(t, r.revision, everythingServer(t, r.flag))
			through := runSuite(t, r.revision, gateway)
			compareScenarios(t, r.revision, direct, through)
		})
	}
}

// withToken is a proxy that adds the token, since the suite cannot, and changes nothing else.
func withToken(t *testing.T, gateway string) string {
	t.Helper()
	to, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	// The suite hangs up on streams that it has read enough of. A proxy that keeps connections then cuts
	// off an answer that comes over a connection of the same time, once in some runs, also before a server
	// without the gateway: so each request gets its own.
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+testToken)
		},
	})
	proxy.Config.SetKeepAlivesEnabled(false)
	proxy.Start()
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return localhost(t, proxy.Listener.Addr().String())
}

// localhost is the endpoint by the name that the suite's check of DNS rebinding wants.
func localhost(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + net.JoinHostPort("localhost", port) + "/mcp"
}

// everythingServer starts the server by itself. It cannot tell which port it has found, so it is given
// one that is free.
func everythingServer(t *testing.T, flag string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(mcptest.Root(t), suiteServer), "-http", address, flag)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	for try := time.NewTicker(20 * time.Millisecond); ; {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return localhost(t, address)
		}
		select {
		case <-try.C:
		case <-ctx.Done():
			t.Fatalf("%s does not listen on %s", suiteServer, address)
		}
	}
}

// scenario is how the checks of one scenario ended.
type scenario struct {
	run    bool
	status map[string]int
	failed []string
}

// runSuite runs what the revision requires and reads the checks of each scenario.
func runSuite(t *testing.T, revision, endpoint string) map[string]scenario {
	t.Helper()
	root, out := mcptest.Root(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(root, suiteNode), filepath.Join(root, suiteScript),
		"server", "--url", endpoint, "--requirements", revision, "-o", out)
	c.WaitDelay = time.Second
	printed, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the suite left no checks, %v; it printed\n%s", err, printed)
	}
	found := map[string]scenario{}
	for _, file := range files {
		name := scenarioName.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			t.Fatalf("%q is named like no scenario", file)
		}
		found[name[1]] = readChecks(t, file)
	}
	return found
}

// scenarioName finds the name in a folder's, which ends in a time.
var scenarioName = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T[-\d]+Z$`)

func readChecks(t *testing.T, file string) scenario {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, ErrorMessage string }
	if err := json.Unmarshal(data, &checks); err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	out := scenario{run: true, status: map[string]int{}}
	for _, c := range checks {
		out.status[c.Status]++
		if c.Status == "FAILURE" {
			out.failed = append(out.failed, fmt.Sprintf("%s: %.200s", c.ID, c.ErrorMessage))
		}
	}
	return out
}

// compareScenarios wants from the gateway no more failures than from the server by itself, in each
// scenario; those in testdata may have none, and none of them may be missing.
func compareScenarios(t *testing.T, revision string, direct, through map[string]scenario) {
	t.Helper()
	must := mustPass(t, revision)
	names := slices.Clone(must)
	for name := range direct {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\tdirect ok\tfailed\tgateway ok\tfailed\t\n", revision)
	var sum [4]int
	for _, name := range names {
		d, g := direct[name], through[name]
		row := [4]int{d.status["SUCCESS"], len(d.failed), g.status["SUCCESS"], len(g.failed)}
		for i, n := range row {
			sum[i] += n
		}
		verdict := judge(d, g, slices.Contains(must, name), asJSON[name])
		if verdict != "" {
			t.Errorf("%s: %s\ndirect %v\ngateway %v", name, verdict, d, g)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", name, row[0], row[1], row[2], row[3], verdict)
	}
	fmt.Fprintf(table, "%d scenarios, %d of them to pass\t%d\t%d\t%d\t%d\t\n", len(names), len(must), sum[0], sum[1], sum[2], sum[3])
	table.Flush()
	t.Logf("\n%s", text.String())
}

// judge says what is wrong with a scenario through the gateway, "" for nothing.
func judge(direct, through scenario, mustPass, fewer bool) string {
	switch {
	case !direct.run:
		return "not run against the server by itself"
	case !through.run:
		return "not run against the gateway"
	case len(through.failed) > len(direct.failed):
		return "more failures than without the gateway"
	case len(through.failed) > 0 && mustPass:
		return "is to pass"
	case through.status["SUCCESS"] < direct.status["SUCCESS"] && !fewer:
		return "fewer successes than without the gateway"
	}
	return ""
}

// mustPass lists the scenarios of a revision that are to pass.
func mustPass(t *testing.T, revision string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "conformance", revision+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}
