package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-gateway/internal/mcptest"
)

// sevenConfig are the contract's servers (D1), and sevenLaunched the same ones by the launchers that most
// people start them with.
const sevenConfig = `{"duckduckgo":{},"arxiv":{},"fetch":{},"time":{},"filesystem":{"paths":["/tmp"]},"memory":{},"sequentialthinking":{}}`

var sevenLaunched = []string{
	"uvx duckduckgo-mcp-server", "uvx arxiv-mcp-server", "uvx mcp-server-fetch", "uvx mcp-server-time",
	"npx -y @modelcontextprotocol/server-filesystem /tmp", "npx -y @modelcontextprotocol/server-memory",
	"npx -y @modelcontextprotocol/server-sequential-thinking",
}

// BenchmarkPulledServers starts the contract's seven in turn by hand, by the gateway that has pulled them,
// and by npx and uvx, and reports two ratios of medians: the gateway's time until all are ready to that by
// hand (at most 1.15), and its memory, servers included, to that of the launchers (at most 0.55). It means
// something on a machine that does nothing else: go test ./internal/e2e -run - -bench Pulled -benchtime 7x
func BenchmarkPulledServers(b *testing.B) {
	p := newPlace(b)
	if exit, stdout, stderr := p.command(b, "pull", "duckduckgo", "arxiv", "fetch", "time", "filesystem", "memory", "sequentialthinking"); exit != 0 {
		b.Fatalf("pull: exit %d, %s%s", exit, stdout, stderr)
	}
	p.shell(b, p.startLine(sevenConfig))
	hand := handCommands(b, p)
	p.command(b, "stop")
	var byHand, byGateway, launched, gatewayMemory, launchedMemory []float64
	b.ResetTimer()
	for range b.N {
		took, memory := p.startByGateway(b)
		byGateway, gatewayMemory = append(byGateway, took), append(gatewayMemory, memory)
		took, _ = startByHand(b, hand)
		byHand = append(byHand, took)
		took, memory = startByHand(b, p.launchers())
		launched, launchedMemory = append(launched, took), append(launchedMemory, memory)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(byGateway)/median(byHand), "ready/by-hand")
	b.ReportMetric(median(gatewayMemory)/median(launchedMemory), "memory/launchers")
	b.Logf("ready: %.2f s by the gateway, %.2f by hand, %.2f by npx and uvx; memory: %.0f MB and %.0f",
		median(byGateway), median(byHand), median(launched), median(gatewayMemory), median(launchedMemory))
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// handCommands are the servers' own command lines and environments, as the gateway has started them.
func handCommands(b *testing.B, p place) (commands []*exec.Cmd) {
	b.Helper()
	for _, server := range p.status(b).Servers {
		at := filepath.Join("/proc", strconv.Itoa(server.Pid))
		line, err := os.ReadFile(filepath.Join(at, "cmdline"))
		if err != nil {
			b.Fatalf("server %q: %v", server.Name, err)
		}
		environment, _ := os.ReadFile(filepath.Join(at, "environ"))
		program, _ := os.Readlink(filepath.Join(at, "exe"))
		dir, _ := os.Readlink(filepath.Join(at, "cwd"))
		argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		commands = append(commands, &exec.Cmd{Path: program, Args: argv, Dir: dir,
			Env: strings.Split(strings.TrimSuffix(string(environment), "\x00"), "\x00")})
	}
	return commands
}

// launchers are npx and uvx starts with warm caches of their own.
func (p place) launchers() (commands []*exec.Cmd) {
	for _, line := range sevenLaunched {
		c := exec.Command("/bin/bash", "-l", "-c", "exec "+line)
		c.Env = p.env
		commands = append(commands, c)
	}
	return commands
}

// startByHand starts servers side by side and returns the seconds until all have listed their tools, and
// the megabytes that they and all their children then take. They are gone when it returns.
func startByHand(b *testing.B, commands []*exec.Cmd) (seconds, megabytes float64) {
	b.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "by hand", Version: "1"}, nil)
	began := time.Now()
	var mu sync.Mutex
	var running []*exec.Cmd
	var starts sync.WaitGroup
	for _, described := range commands {
		starts.Go(func() {
			c := &exec.Cmd{Path: described.Path, Args: described.Args, Dir: described.Dir, Env: described.Env,
				SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
			session, err := client.Connect(b.Context(), &mcp.CommandTransport{Command: c}, nil)
			if err == nil {
				_, err = session.ListTools(b.Context(), nil)
			}
			if err != nil {
				b.Errorf("%q: %v", described.Args, err)
				return
			}
			mu.Lock()
			running = append(running, c)
			mu.Unlock()
		})
	}
	starts.Wait()
	seconds = time.Since(began).Seconds()
	for _, c := range running {
		megabytes += treeMemory(b, c.Process.Pid)
	}
	for _, c := range running {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	return seconds, megabytes
}

// startByGateway starts the gateway and returns how long its command took, and the megabytes that it and
// the servers take. It is gone when it returns.
func (p place) startByGateway(b *testing.B) (seconds, megabytes float64) {
	b.Helper()
	began := time.Now()
	if exit, _, stderr := p.command(b, "--listen", "127.0.0.1:0", "--config", sevenConfig); exit != 0 {
		b.Fatalf("exit %d: %s", exit, stderr)
	}
	seconds = time.Since(began).Seconds()
	megabytes = treeMemory(b, p.status(b).Pid)
	p.command(b, "stop")
	return seconds, megabytes
}

var proportional = regexp.MustCompile(`(?m)^Pss:\s+(\d+) kB`)

// treeMemory is the proportional set size of a process and all below it, in megabytes.
func treeMemory(b *testing.B, pid int) (megabytes float64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), mcptest.Patience)
	defer cancel()
	for pids := []int{pid}; len(pids) > 0; pids = pids[1:] {
		children, _ := exec.CommandContext(ctx, "pgrep", "-P", strconv.Itoa(pids[0])).Output()
		for line := range bytes.Lines(children) {
			child, _ := strconv.Atoi(strings.TrimSpace(string(line)))
			pids = append(pids, child)
		}
		rollup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pids[0]))
		if found := proportional.FindSubmatch(rollup); found != nil {
			kilobytes, _ := strconv.ParseFloat(string(found[1]), 64)
			megabytes += kilobytes / 1024
		}
	}
	return megabytes
}
