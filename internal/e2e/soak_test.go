package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/mcptest"
)

// vanishing opens sessions, some of which listen and subscribe, and drops them without a word, as
// clients do that are killed.
func vanishing(t *testing.T, url, version string, n, atOnce int) {
	t.Helper()
	var wait sync.WaitGroup
	for w := range atOnce {
		wait.Go(func() {
			for i := w; i < n; i += atOnce {
				if err := useAndVanish(url, version, i); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

func useAndVanish(url, version string, i int) error {
	c, err := mcptest.Dial(url, mcptest.ClientOptions{Version: version, Token: testToken, Name: fmt.Sprint("vanishing-", i)})
	if err != nil {
		return err
	}
	defer c.Vanish()
	if version != mcptest.Modern && i%10 == 0 {
		if err := c.Attend(); err != nil {
			return err
		}
		if _, err := c.Do("resources/subscribe", `{"uri":"fake://text/1"}`); err != nil {
			return err
		}
	}
	if version == mcptest.Modern {
		if _, err := c.Do("server/discover", ""); err != nil {
			return err
		}
	}
	r, err := c.Do("tools/call", mcptest.CallParams("echo", fmt.Sprintf(`{"i":%d,"ballast":%q}`, i, strings.Repeat("x", 10_000))))
	if err == nil && r.Error != nil {
		err = fmt.Errorf("echo: %s", r.Error)
	}
	return err
}

// footprint is what a process takes of the machine.
type footprint struct{ kilobytes, descriptors, threads int }

func footprintOf(t *testing.T, pid int) (f footprint) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			f.kilobytes = n
		case "Threads":
			f.threads = n
		}
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	f.descriptors = len(open)
	return f
}

// TestB64_SessionsWithoutDelete opens 5,000 sessions that never end: the cap of 1,000 is reached early,
// and from then on the gateway does not grow.
func TestB64_SessionsWithoutDelete(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil}))
	pid := g.status(t).Pid
	first := mcptest.Connect(t, g.url, mcptest.ClientOptions{Token: testToken})
	vanishing(t, g.url, mcptest.Legacy, 1500, 8)
	before := footprintOf(t, pid)
	vanishing(t, g.url, mcptest.Legacy, 3500, 8)
	after := footprintOf(t, pid)
	vanishing(t, g.url, mcptest.Modern, 1500, 8)
	last := footprintOf(t, pid)
	t.Logf("after 1,500 sessions %+v, after 5,000 %+v, after 1,500 clients without sessions %+v", before, after, last)
	for _, f := range []footprint{after, last} {
		if f.kilobytes > before.kilobytes*3/2 || f.descriptors > before.descriptors+100 || f.threads > before.threads+20 {
			t.Errorf("grew from %+v to %+v", before, f)
		}
	}
	if r, err := first.Do("ping", ""); err != nil || r.Status != http.StatusNotFound {
		t.Errorf("the oldest session is still there: %d, %v", r.Status, err)
	}
	if got := mcptest.Connect(t, g.url, mcptest.ClientOptions{Token: testToken}).Call("whoami", "").Text(); got != "fake" {
		t.Errorf("a new session gets %q", got)
	}
}

// TestB16_B17_ProcessesOfSessions has more sessions come than may be there, each of which gets a process
// of its own: those of sessions that had to go end.
func TestB16_B17_ProcessesOfSessions(t *testing.T) {
	const sessions = 5
	g := newPlace(t).start(t, fmt.Sprintf(`{"own":{"command":%q,"gateway":{"isolated":true}}}`, mcptest.Build(t)), fmt.Sprint("--max-sessions ", sessions))
	pid := g.status(t).Pid
	children := func() int { return len(childrenIn(t, pid, "S")) + len(childrenIn(t, pid, "R")) }
	without := children()
	vanishing(t, g.url, mcptest.Legacy, 40, 1)
	late := time.After(mcptest.Patience)
	for try := time.NewTicker(10 * time.Millisecond); ; {
		n := children() - without
		if n > 0 && n <= sessions {
			return
		}
		select {
		case <-try.C:
		case <-late:
			t.Fatalf("%d processes for %d sessions", n, sessions)
		}
	}
}
