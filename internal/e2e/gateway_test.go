package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"mcp-gateway/internal/mcptest"
)

// testToken is what an SDK gives: a UUID.
const testToken = "6f1f0c3e-5a52-4b0e-9b9f-0d0f6a3f7a11"

// place is where one gateway lives: its files, and the environment of whoever starts it.
type place struct {
	root string
	env  []string
}

// running is a started gateway.
type running struct {
	place
	url string
}

// newPlace makes an empty root, and a home whose profile puts the gateway and uv on the PATH of a
// login shell, as an image has them.
func newPlace(t testing.TB, env ...string) place {
	t.Helper()
	top, home := mcptest.Root(t), t.TempDir()
	path := strings.Join([]string{filepath.Dir(mcptest.Gateway(t)), filepath.Join(top, ".cache", "uv", "bin"), os.Getenv("PATH")}, ":")
	profile := fmt.Sprintf("export PATH=%q\n", path)
	if err := os.WriteFile(filepath.Join(home, ".bash_profile"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	p := place{root: t.TempDir(), env: append(os.Environ(),
		"HOME="+home, "GATEWAY_ACCESS_TOKEN="+testToken,
		"npm_config_cache="+filepath.Join(top, ".cache", "npm-cache"),
		"UV_CACHE_DIR="+filepath.Join(top, ".cache", "uv-cache"), "UV_PYTHON_DOWNLOADS=never")}
	p.env = append(p.env, env...)
	return p
}

// shell runs a line the way the SDKs do: by a login shell, with both outputs as pipes that are read
// to their end. It fails the test unless both are closed when the command has exited (A1, A4).
func (p place) shell(t testing.TB, line string) (exit int, stdout, stderr string) {
	t.Helper()
	c := exec.Command("/bin/bash", "-l", "-c", line)
	c.Env = p.env
	var readers [2]*os.File
	var texts [2]chan string
	for i, stream := range []*io.Writer{&c.Stdout, &c.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		*stream, readers[i], texts[i] = w, r, make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(r)
			texts[i] <- string(text)
		}()
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Stdout.(*os.File).Close()
	c.Stderr.(*os.File).Close()
	_ = c.Wait()
	for i, name := range []string{"standard output", "standard error"} {
		if !hungUp(t, readers[i]) {
			t.Fatalf("%s is still open after the command has exited", name)
		}
	}
	return c.ProcessState.ExitCode(), <-texts[0], <-texts[1]
}

// hungUp says whether nobody holds the other end of the pipe.
func hungUp(t testing.TB, r *os.File) bool {
	t.Helper()
	raw, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	up := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); err == nil {
			up = fds[0].Revents&unix.POLLHUP != 0
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// startLine is the command that an SDK would run, for this place.
func (p place) startLine(config string, flags ...string) string {
	return fmt.Sprintf("mcp-gateway --root %s --listen 127.0.0.1:0 %s --config '%s'", p.root, strings.Join(flags, " "), config)
}

// start starts a gateway in this place, and stops it when the test ends.
func (p place) start(t *testing.T, config string, flags ...string) *running {
	t.Helper()
	t.Cleanup(func() { _, _, _ = p.command(t, "stop") })
	exit, stdout, stderr := p.shell(t, p.startLine(config, flags...))
	if exit != 0 || stderr != "" {
		t.Fatalf("exit %d, stdout %q, stderr:\n%s", exit, stdout, stderr)
	}
	return &running{place: p, url: p.status(t).URL}
}

// command runs one of the gateway's own commands.
func (p place) command(t testing.TB, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := exec.Command(mcptest.Gateway(t), append([]string{"--root", p.root}, args...)...)
	c.Env, c.Stdout, c.Stderr = p.env, &out, &errOut
	_ = c.Run()
	return c.ProcessState.ExitCode(), out.String(), errOut.String()
}

// state is what "status --json" tells.
type state struct {
	State   string `json:"state"`
	URL     string `json:"url"`
	Pid     int    `json:"pid"`
	Tools   int    `json:"tools"`
	Servers []struct {
		Name     string `json:"name"`
		State    string `json:"state"`
		Pid      int    `json:"pid"`
		Restarts int    `json:"restarts"`
		Tools    int    `json:"tools"`
	} `json:"servers"`
}

func (p place) status(t testing.TB) state {
	t.Helper()
	_, stdout, stderr := p.command(t, "status", "--json")
	var s state
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("status printed %q, %q: %v", stdout, stderr, err)
	}
	return s
}

// health is the body and status code of /health.
func (g *running) health(t *testing.T) (int, string) {
	t.Helper()
	res, err := http.Get(strings.TrimSuffix(g.url, "/mcp") + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

// connect opens a session of the Go SDK's client.
func (g *running) connect(t *testing.T) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.url, HTTPClient: &http.Client{Transport: bearer{testToken}}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls a tool and returns its first text; isError fails the test.
func call(t *testing.T, s *mcp.ClientSession, tool string, args any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || r.IsError {
		t.Fatalf("%s: isError %v, %+v", tool, r.IsError, r.Content[0])
	}
	return text.Text
}
