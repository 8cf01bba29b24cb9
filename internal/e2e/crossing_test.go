package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
)

var (
	crossingSeed = flag.Uint64("crossing.seed", 0, "the seed of TestNothingCrosses; 0 takes another one each time")
	crossingOps  = flag.Int64("crossing.ops", 0, "the requests of TestNothingCrosses; 0 means 10,000, or 1,000 with -short")
)

// players are twelve clients of every revision. The capabilities are what each can be asked.
var players = []struct{ version, capabilities string }{
	{"2024-11-05", "sampling roots"},
	{"2024-11-05", "roots"},
	{"2025-03-26", "sampling roots"},
	{"2025-03-26", "sampling"},
	{"2025-03-26", "sampling roots elicitation"},
	{"2025-06-18", "sampling roots elicitation"},
	{"2025-06-18", "elicitation"},
	{"2025-11-25", "sampling roots elicitation"},
	{"2025-11-25", "sampling roots elicitation"},
	{"2025-11-25", ""},
	{mcptest.Modern, "sampling roots elicitation"},
	{mcptest.Modern, "roots elicitation"},
}

// workersOf is how many things each player does at a time.
const workersOf = 3

// crossServer is one of the servers that all players share, with the prefix of its tools.
type crossServer struct {
	name, prefix           string
	isolated, both, modern bool
}

var crossServers = []crossServer{
	{name: "a-shared", prefix: "a."},
	{name: "b-shared", prefix: "b."},
	{name: "c-isolated", prefix: "c.", isolated: true},
	{name: "d-both", prefix: "d.", both: true},
	{name: "e-modern", prefix: "e.", modern: true},
}

// crossingConfig is the configuration with all servers.
func crossingConfig(t *testing.T) string {
	t.Helper()
	config := map[string]any{}
	for _, s := range crossServers {
		args := []string{"-id=" + s.name, "-prefix=" + s.prefix}
		options := map[string]any{}
		switch {
		case s.isolated:
			options["isolated"] = true
		case s.both:
			args = append(args, "-modern")
			options["protocol"] = "both"
		case s.modern:
			args = append(args, "-modern-only")
			options["protocol"] = "modern"
		}
		config[s.name] = map[string]any{"command": mcptest.Build(t), "args": args, "gateway": options}
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// game is one run of TestNothingCrosses.
type game struct {
	t         *testing.T
	url       string
	processes sync.Map // of the servers, by their names
	lists     sync.Map // of tools, by whether the client is of 2026-07-28
	left      atomic.Int64

	mu      sync.Mutex
	counts  map[string]int
	reports int
}

// report fails the test. After a while it says no more.
func (g *game) report(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reports++; g.reports <= 20 {
		g.t.Errorf(format, args...)
	}
}

// count counts something that happened.
func (g *game) count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

// TestNothingCrosses has sessions of every revision call, be asked, see progress and cancel at the same
// time on the same servers, and checks each answer against its question.
func TestNothingCrosses(t *testing.T) {
	seed, wanted := *crossingSeed, *crossingOps
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if wanted == 0 {
		wanted = 10_000
		if testing.Short() {
			wanted = 1000
		}
	}
	t.Logf("again: go test ./internal/e2e -run TestNothingCrosses -crossing.seed=%d -crossing.ops=%d", seed, wanted)
	gateway := startWatched(t, crossingConfig(t))
	g := &game{t: t, url: gateway.url, counts: map[string]int{}}
	g.left.Store(wanted)

	all := make([]*player, len(players))
	for i := range players {
		p, err := g.newPlayer(i)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { p.client.Vanish() }()
		all[i] = p
	}
	var wait sync.WaitGroup
	for i, p := range all {
		for n := range workersOf {
			w := &worker{g: g, p: p, n: n, r: rand.New(rand.NewPCG(seed, uint64(i*workersOf+n)))}
			wait.Go(w.run)
		}
	}
	wait.Wait()
	for _, p := range all {
		p.quiet()
	}
	for _, what := range slices.Sorted(maps.Keys(g.counts)) {
		t.Logf("%6d %s", g.counts[what], what)
	}
	for _, what := range mustHappen {
		if g.counts[what] == 0 {
			t.Errorf("%s: this never happened", what)
		}
	}
	for _, s := range gateway.status(t).Servers {
		if s.State != "ready" || s.Restarts != 0 {
			t.Errorf("%s is %s after %d restarts", s.Name, s.State, s.Restarts)
		}
	}
}

// watched is a gateway with the race detector in it, where the test has one.
type watched struct {
	place
	binary, url string
}

// startWatched starts a gateway, and fails the test at its end where the gateway has seen a data race.
func startWatched(t *testing.T, config string, flags ...string) *watched {
	t.Helper()
	races := filepath.Join(t.TempDir(), "race")
	w := &watched{place: newPlace(t, "GORACE=log_path="+races), binary: mcptest.Gateway(t)}
	if raceEnabled {
		w.binary = mcptest.GatewayWithRaceDetector(t)
	}
	t.Cleanup(func() {
		w.command(t, "stop")
		reports, _ := filepath.Glob(races + "*")
		for _, file := range reports {
			text, _ := os.ReadFile(file)
			t.Errorf("the gateway has a data race:\n%s", text)
		}
	})
	if _, stderr := w.command(t, append(flags, "--listen", "127.0.0.1:0", "--config", config)...); stderr != "" {
		t.Fatalf("start: %s", stderr)
	}
	w.url = w.status(t).URL
	return w
}

// command runs one of the gateway's commands.
func (w *watched) command(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := exec.Command(w.binary, append([]string{"--root", w.root}, args...)...)
	c.Env, c.Stdout, c.Stderr = w.env, &out, &errOut
	if err := c.Run(); err != nil {
		return out.String(), strings.TrimSpace(fmt.Sprintf("%v: %s", err, &errOut))
	}
	return out.String(), errOut.String()
}

func (w *watched) status(t *testing.T) state {
	t.Helper()
	stdout, stderr := w.command(t, "status", "--json")
	var s state
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("status printed %q, %q: %v", stdout, stderr, err)
	}
	return s
}
