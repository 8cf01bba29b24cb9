package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gitServer serves bare repositories as a real host does, over git's own HTTP program.
type gitServer struct {
	*httptest.Server
	root     string
	requests atomic.Int64
}

func newGitServer(t *testing.T, start func(*httptest.Server)) *gitServer {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is missing: these tests need git http-backend")
		}
		t.Skip("git is missing: these tests need git http-backend")
	}
	s := &gitServer{root: t.TempDir()}
	backend := &cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH"), "HOME=" + s.root},
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		switch {
		case strings.HasPrefix(r.URL.Path, "/private/"):
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "<html>sign in</html>", http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/forbidden/"):
			http.Error(w, "<html>no</html>", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/broken/"):
			http.Error(w, "<html>oops</html>", http.StatusBadGateway)
		case strings.HasPrefix(r.URL.Path, "/stuck/"):
			<-r.Context().Done()
		default:
			backend.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that trusts no certificate is tested too
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

// add makes a repository with two commits of these files.
func (s *gitServer) add(t *testing.T, name string, files map[string]string) {
	t.Helper()
	s.addIn(t, name, ".", files)
}

// addIn does the same with files in a folder of the repository.
func (s *gitServer) addIn(t *testing.T, name, folder string, files map[string]string) {
	t.Helper()
	work := t.TempDir()
	if err := os.MkdirAll(filepath.Join(work, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(work, folder, file), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	bare := filepath.Join(s.root, name+".git")
	for _, args := range [][]string{
		{"init", "-q", "-b", "trunk"}, {"commit", "-q", "--allow-empty", "-m", "first"}, {"add", "."}, {"commit", "-q", "-m", "second"},
		{"tag", "v1"}, {"branch", "other"}, {"clone", "-q", "--bare", ".", bare},
	} {
		s.git(t, work, args...)
	}
}

func (s *gitServer) git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// fixture is an installer with a host and a folder of its own.
type fixture struct {
	*Installer
	host *process.Host
	dir  string

	mu    sync.Mutex
	lines []string
}

func newFixture(t *testing.T, githubURL string, base ...string) *fixture {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	host, err := process.NewHost(process.HostOptions{Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fixture{host: host, dir: filepath.Join(t.TempDir(), "servers")}
	if base == nil {
		base = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	}
	say := func(server, line string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lines = append(f.lines, server+": "+line)
	}
	f.Installer = New(Options{Host: host, Dir: f.dir, BaseEnv: base, GitHubURL: githubURL, Log: logger, Progress: say, Output: say})
	return f
}

// prepare prepares a server of the name "srv".
func (f *fixture) prepare(ctx context.Context, l catalog.Launch) (process.Spec, error) {
	return f.Prepare(ctx, Server{Name: "srv", Launch: l})
}

// mustFail prepares a server that cannot be, and gives the fault.
func mustFail(t *testing.T, i *Installer, ctx context.Context, l catalog.Launch) *fault.Fault {
	t.Helper()
	_, err := i.Prepare(ctx, Server{Name: "srv", Launch: l})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Server != "srv" {
		t.Fatalf("error %v", err)
	}
	if strings.ContainsAny(f.Error(), "\n<") {
		t.Errorf("error %q", f.Error())
	}
	return f
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// firstLine starts a prepared server and reads one line of it.
func (f *fixture) firstLine(t *testing.T, spec process.Spec) string {
	t.Helper()
	p, err := f.host.Start(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		<-p.Done()
		t.Fatalf("%v, stderr %q", err, p.Tail())
	}
	return strings.TrimSpace(line)
}

// soon is a limit for what has to end by itself.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, fmt.Errorf("the test's patience ended"))
	t.Cleanup(cancel)
	return ctx
}
