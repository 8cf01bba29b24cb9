package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-gateway/internal/mcptest"
)

var imageFolder = flag.String("image", "", "the `FOLDER` that image.sh has built an image in")

// imageURL is where a gateway in a sandbox listens.
const imageURL = "http://127.0.0.1:50005"

// image is what image.sh has built.
type image struct {
	root         string
	config, base imageConfig
}

// imageConfig is how a container runtime starts an image.
type imageConfig struct {
	User            string
	Env             []string
	Cmd, Entrypoint []string
	ExposedPorts    map[string]struct{}
	Labels          map[string]string
	Healthcheck     *struct{ Test []string }
	layers          int
}

// pulledServers are those that "make image-test" has put into the image, with the properties that they
// are started with and a call of one tool. Those whose tools all need a network have to say so.
var pulledServers = []struct {
	name       string
	properties map[string]any
	tool       string
	arguments  map[string]any
	says       string
}{
	{"arxiv", nil, "list_papers", nil, "papers"},
	{"duckduckgo", nil, "search", map[string]any{"query": "model context protocol"}, "No results were found"},
	{"fetch", nil, "fetch", map[string]any{"url": "http://127.0.0.1/page"}, "not a public address"},
	{"filesystem", map[string]any{"paths": []string{"/tmp"}}, "list_allowed_directories", nil, "/tmp"},
	{"memory", nil, "create_entities", map[string]any{"entities": []any{map[string]any{
		"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}}}}, "Ada"},
	{"sequentialthinking", nil, "sequentialthinking", map[string]any{
		"thought": "one", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": false}, "thoughtHistoryLength"},
	{"time", nil, "get_current_time", map[string]any{"timezone": "Europe/Berlin"}, "Europe/Berlin"},
}

// pulledConfig starts every server of the image.
func pulledConfig(t *testing.T) string {
	t.Helper()
	config := map[string]any{}
	for _, s := range pulledServers {
		config[s.name] = s.properties
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readImage(t *testing.T) image {
	t.Helper()
	if *imageFolder == "" {
		t.Skip(`"make image-test" builds the image and then runs this`)
	}
	folder := *imageFolder
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(mcptest.Root(t), folder)
	}
	root, err := filepath.EvalSymlinks(filepath.Join(folder, "root"))
	if err != nil {
		t.Fatal(err)
	}
	return image{root: root, config: readImageConfig(t, filepath.Join(folder, "image.json")), base: readImageConfig(t, filepath.Join(folder, "base.json"))}
}

func readImageConfig(t *testing.T, path string) imageConfig {
	t.Helper()
	var found struct {
		Docker struct {
			Config imageConfig `json:"config"`
			RootFS struct {
				Layers []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	found.Docker.Config.layers = len(found.Docker.RootFS.Layers)
	return found.Docker.Config
}

// TestE1_Image looks at the image that "make image-test" has built, and uses it as a sandbox does: its
// files are a machine without a network, and an SDK's command starts the gateway there.
func TestE1_Image(t *testing.T) {
	img := readImage(t)
	t.Run("one layer on the base, which still says what runs", func(t *testing.T) { testImageConfig(t, img) })
	t.Run("nothing left of the build", func(t *testing.T) { testImageLeftovers(t, img.root) })
	t.Run("D2 every pulled server starts without a network", func(t *testing.T) { testImageServers(t, img) })
	t.Run("A", func(t *testing.T) { testImageStart(t, img) })
	t.Run("A5, C1 to C4 refusals", func(t *testing.T) { testImageRefusals(t, img) })
	t.Run("B", func(t *testing.T) { testImageEndpoint(t, img) })
	t.Run("C", func(t *testing.T) { testImageEntries(t, img) })
	t.Run("E2B's builder", func(t *testing.T) { testImageE2B(t, img) })
}

func testImageConfig(t *testing.T, img image) {
	if img.config.layers != img.base.layers+1 {
		t.Errorf("%d layers on a base of %d", img.config.layers, img.base.layers)
	}
	if _, ok := img.config.ExposedPorts["50005/tcp"]; !ok {
		t.Errorf("exposed ports: %v", img.config.ExposedPorts)
	}
	if img.config.Healthcheck == nil || !slices.Equal(img.config.Healthcheck.Test, []string{"CMD", "mcp-gateway", "status"}) {
		t.Errorf("health check: %+v", img.config.Healthcheck)
	}
	for _, name := range []string{"title", "description", "version", "revision", "base.name"} {
		if img.config.Labels["org.opencontainers.image."+name] == "" {
			t.Errorf("label %s is empty", name)
		}
	}
	for _, pair := range [][2][]string{{img.base.Cmd, img.config.Cmd}, {img.base.Entrypoint, img.config.Entrypoint}, {img.base.Env, img.config.Env}} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("what the base starts has changed from %q to %q", pair[0], pair[1])
		}
	}
}

func testImageLeftovers(t *testing.T, root string) {
	for _, pattern := range []string{
		"tmp/*", "tmp/.[!.]*", "var/tmp/*", "mnt/*", "run/secrets/*", "root/.cache/*", "root/.npm", "root/.config", "root/.local", "root/go",
		"var/lib/apt/lists/*", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb", "usr/local/lib/node_modules", "out", "src",
	} {
		left, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("left of the build: %q", left)
		}
	}
}

// testImageServers starts all that is in the image as an SDK does, and has a client of the Python SDK call
// what needs no network.
func testImageServers(t *testing.T, img image) {
	s := newSandbox(t, img.root, img.config.Env)
	t.Logf("all %d servers ready after %s", len(pulledServers), s.start(t, pulledConfig(t)).Round(1e7))

	owners := map[string]int{}
	var listed []struct{ Name, Server string }
	exit, stdout, stderr := s.shell(t, "mcp-gateway tools ls --json", "")
	if err := json.Unmarshal([]byte(stdout), &listed); exit != 0 || err != nil {
		t.Fatalf("tools ls: exit %d, %v, %s%s", exit, err, stdout, stderr)
	}
	for _, tool := range listed {
		owners[tool.Server]++
	}
	calls := [][2]any{}
	for _, server := range pulledServers {
		if owners[server.name] == 0 {
			t.Errorf("%s has no tools", server.name)
		}
		arguments := server.arguments
		if arguments == nil {
			arguments = map[string]any{}
		}
		calls = append(calls, [2]any{server.tool, arguments})
	}
	got := s.python(t, calls)
	if len(got.Tools) != len(listed) {
		t.Errorf("the client sees %d tools, there are %d", len(got.Tools), len(listed))
	}
	for _, server := range pulledServers {
		text := got.Texts[server.tool]
		if !strings.Contains(text, server.says) {
			t.Errorf("%s of %s says %q, not %q", server.tool, server.name, text, server.says)
		}
	}
	if exit, _, stderr := s.shell(t, strings.Join(img.config.Healthcheck.Test[1:], " "), ""); exit != 0 {
		t.Errorf("the health check fails: exit %d, %s", exit, stderr)
	}
	if exit, _, stderr := s.shell(t, "mcp-gateway stop", ""); exit != 0 {
		t.Errorf("stop: exit %d, %s", exit, stderr)
	}
	if left := s.processes(t); len(left) > 0 {
		t.Errorf("left after stop: %q", left)
	}
	if exit, _, _ := s.shell(t, strings.Join(img.config.Healthcheck.Test[1:], " "), ""); exit == 0 {
		t.Error("the health check passes without a gateway")
	}
}

// pythonAnswer is what the Python client prints.
type pythonAnswer struct {
	Tools []string
	Texts map[string]string
}

// python runs the client of the Python SDK in the sandbox's network.
func (s *sandbox) python(t *testing.T, calls [][2]any) pythonAnswer {
	t.Helper()
	input, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	c := s.enter([]string{"--net"}, filepath.Join(mcptest.Root(t), ".cache/py1/bin/python"), "testdata/image/client.py", imageURL+"/mcp", testToken)
	c.Stdin = strings.NewReader(string(input))
	var errOut strings.Builder
	c.Stderr = &errOut
	out, err := c.Output()
	var answer pythonAnswer
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	if err != nil {
		t.Fatalf("client.py: %v, %s\n%s", err, out, errOut.String())
	}
	return answer
}

// demo is an entry whose server comes inside the gateway, with a secret that must stay in memory.
const (
	demo       = `{"command": "mcp-gateway", "args": ["demo-server"], "envs": {"KEY": "` + demoSecret + `"}}`
	demoSecret = "k3y-that-stays-in-memory"
)

func testImageStart(t *testing.T, img image) {
	s := newSandbox(t, img.root, img.config.Env)
	s.start(t, `{"demo": `+demo+`}`) // A1, A4: it fails when a pipe is left open

	token := s.path("/etc/mcp-gateway/.token")
	data, err := os.ReadFile(token)
	if err != nil || string(data) != testToken {
		t.Errorf("A3: the token file holds %q, %v", data, err)
	}
	if info, err := os.Stat(token); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("A3: the token file: %v, %v", info, err)
	}

	exit, _, stderr := s.shell(t, "mcp-gateway --config '{}'", "")
	if exit != 1 || !strings.Contains(stderr, "already running") || !strings.Contains(stderr, "50005") {
		t.Errorf("A7: a second start: exit %d, %s", exit, stderr)
	}

	if files := s.written(t, demoSecret); len(files) > 0 {
		t.Errorf("A8: the configuration is in %q", files)
	}
	if files := s.written(t, testToken); !slices.Equal(files, []string{"/etc/mcp-gateway/.token"}) {
		t.Errorf("A8: the token is in %q", files)
	}
	pid, err := os.ReadFile(s.path("/run/mcp-gateway.pid"))
	if err != nil {
		t.Fatalf("A7: %v", err)
	}
	process := s.path(filepath.Join("/proc", strings.TrimSpace(string(pid))))
	for _, part := range []string{"cmdline", "environ"} {
		if data, err := os.ReadFile(filepath.Join(process, part)); err != nil || strings.Contains(string(data), demoSecret) || strings.Contains(string(data), testToken) {
			t.Errorf("A8: %s of the gateway: %q, %v", part, data, err)
		}
	}

	t.Run("A9 a large configuration on standard input, A3 a token of its own", func(t *testing.T) {
		s := newSandbox(t, img.root, img.config.Env)
		large := `{"demo": ` + demo + `}` + strings.Repeat(" ", 200<<10)
		if exit, _, stderr := s.shell(t, "mcp-gateway --config -", large); exit != 0 {
			t.Fatalf("exit %d, %s", exit, stderr)
		}
		if data, err := os.ReadFile(s.path("/etc/mcp-gateway/.token")); err != nil || len(data) != 64 {
			t.Errorf("the token file holds %q, %v", data, err)
		}
	})
	t.Run("A7 the port is somebody else's", func(t *testing.T) {
		s := newSandbox(t, img.root, img.config.Env)
		var taken io.Closer
		err := s.inNetwork(func() (err error) {
			taken, err = net.Listen("tcp", "0.0.0.0:50005")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		if exit, _, stderr := s.shell(t, "mcp-gateway --config '{}'", ""); exit != 1 || !strings.Contains(stderr, "50005") {
			t.Errorf("exit %d, %s", exit, stderr)
		}
	})
}

// testImageRefusals runs what must fail: with the reason on standard error, and nothing left behind.
func testImageRefusals(t *testing.T, img image) {
	s := newSandbox(t, img.root, img.config.Env)
	many := map[string]any{}
	for i := range 65 {
		many["s"+strconv.Itoa(i)] = map[string]string{"runCmd": "true"}
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, config string
		exit         int
		want         []string
	}{
		{"A5 a server that ends", `{"good": ` + demo + `, "bad": {"runCmd": "echo no such key >&2; exit 7"}}`, 1, []string{"bad", "exited_before_ready", "exit status 7", "no such key"}},
		{"A5 two at once", `{"one": {"runCmd": "exit 3"}, "two": {"command": "not-there"}}`, 1, []string{"one", "exit status 3", "two", "not_found", "not-there"}},
		{"C1 unknown server", `{"tyme": {}}`, 2, []string{"tyme", "time"}},
		{"C1 missing property", `{"filesystem": {}}`, 2, []string{"filesystem", "paths"}},
		{"C1 wrong type", `{"filesystem": {"paths": "/tmp"}}`, 2, []string{"filesystem", "paths", "list of strings"}},
		{"D2 a server that is not in the image", `{"wikipedia": {}}`, 1, []string{"wikipedia", "install_failed", "mcp-gateway pull wikipedia"}},
		{"C2 no way to the repository", `{"github/acme/weather": {"runCmd": "true"}}`, 1, []string{"github/acme/weather", "clone_failed"}},
		{"C4 no object", `[]`, 2, []string{"object"}},
		{"C4 entry is no object", `{"time": 5}`, 2, []string{"time", "object"}},
		{"C4 GitHub key", `{"github/acme": {"runCmd": "true"}}`, 2, []string{"github/<owner>/<repo>"}},
		{"C4 GitHub without runCmd", `{"github/acme/weather": {}}`, 2, []string{"runCmd"}},
		{"C4 name of a variable", `{"time": {"envs": {"A-B": "x"}}}`, 2, []string{"A-B"}},
		{"C4 value of a variable", `{"time": {"envs": {"AB": 5}}}`, 2, []string{"AB", "string"}},
		{"C4 too many servers", string(tooMany), 2, []string{"65", "64"}},
		{"C4 name of a server", `{"": {"runCmd": "true"}}`, 2, []string{"name"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exit, stdout, stderr := s.shell(t, "mcp-gateway --config "+quote(tt.config), "", "GATEWAY_ACCESS_TOKEN="+testToken)
			if exit != tt.exit || stdout != "" {
				t.Errorf("exit %d, stdout %q", exit, stdout)
			}
			for _, part := range tt.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("standard error lacks %q:\n%s", part, stderr)
				}
			}
			for _, file := range []string{"/etc/mcp-gateway/.token", "/run/mcp-gateway.pid"} {
				if _, err := os.Stat(s.path(file)); !os.IsNotExist(err) {
					t.Errorf("%s is left behind: %v", file, err)
				}
			}
			if left := s.processes(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// get makes one request, with the headers given as name, value, …
func get(t *testing.T, c *http.Client, method, path string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, imageURL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
		if pair[0] == "Host" {
			req.Host = pair[1]
		}
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// throughProxy sends each request as a sandbox's proxy does, with the token.
type throughProxy struct{ http.RoundTripper }

// RoundTrip sends the request, as to the address that a sandbox's proxy is asked for.
func (w throughProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "50005-i1a2b3.sandbox.example.com"
	r.Header.Set("Authorization", "Bearer "+testToken)
	return w.RoundTripper.RoundTrip(r)
}

// connect opens a session of the Go SDK's client, as through a sandbox's proxy (B2).
func (s *sandbox) connect(t *testing.T) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: imageURL + "/mcp", HTTPClient: &http.Client{Transport: throughProxy{s.client(t).Transport}}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func testImageEndpoint(t *testing.T, img image) {
	s := newSandbox(t, img.root, img.config.Env)
	s.start(t, `{"a": `+demo+`, "time": {}}`)
	c := s.client(t)

	for _, authorization := range []string{"", "Bearer wrong", "Basic " + testToken} {
		res := get(t, c, http.MethodPost, "/mcp", "Authorization", authorization)
		if res.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("B1: with %q: %s, %v", authorization, res.Status, res.Header)
		}
	}
	res := get(t, c, http.MethodGet, "/health", "Host", "50005-i1a2b3.sandbox.example.com")
	body, err := io.ReadAll(res.Body)
	if got, want := strings.TrimSpace(string(body)), `{"status":"ok","servers":2,"tools":6}`; err != nil || res.StatusCode != 200 || got != want {
		t.Errorf("B3: %s, %s, want %s", res.Status, got, want)
	}
	if res := get(t, c, http.MethodPost, "/mcp", "Authorization", "Bearer "+testToken, "Origin", "https://elsewhere.example.com"); res.StatusCode != http.StatusForbidden {
		t.Errorf("B3: a page of another origin: %s", res.Status)
	}
	session := s.connect(t)
	if got := call(t, session, "echo", map[string]any{"text": "through the proxy"}); got != "through the proxy" {
		t.Errorf("B2: %q", got)
	}

	_, stdout, stderr := s.shell(t, "mcp-gateway status --json", "")
	var status state
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || len(status.Servers) != 2 || status.Servers[1].Name != "time" {
		t.Fatalf("status printed %q, %q: %v", stdout, stderr, err)
	}
	killed := status.Servers[1].Pid
	if exit, _, stderr := s.shell(t, fmt.Sprintf("kill -KILL %d", killed), ""); exit != 0 {
		t.Fatalf("kill a server: exit %d, %s", exit, stderr)
	}
	for status.Servers[1].Pid == killed { // until the gateway has seen it
		_, stdout, _ := s.shell(t, "mcp-gateway status --json", "")
		if err := json.Unmarshal([]byte(stdout), &status); err != nil {
			t.Fatalf("status printed %q: %v", stdout, err)
		}
	}
	if got := call(t, session, "get_current_time", map[string]any{"timezone": "UTC"}); !strings.Contains(got, "UTC") {
		t.Errorf("B5: %q", got)
	}

	log := s.path("/var/log/mcp-gateway.log")
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("B7: %v, %v", info, err)
	}
	if data, err := os.ReadFile(log); err != nil || !strings.Contains(string(data), "server=time") {
		t.Errorf("B7: the log does not name the server: %s, %v", data, err)
	}
}

// testImageEntries starts every kind of entry side by side: a clone from a host inside the sandbox's
// network, commands, and a server that the image's own catalogue adds.
func testImageEntries(t *testing.T, img image) {
	s := newSandbox(t, img.root, img.config.Env)
	if exit, _, stderr := s.shell(t, "mkdir -p /etc/mcp-gateway && cat >/etc/mcp-gateway/catalog.json",
		`{"notes": {"description": "Notes.", "command": [["mcp-gateway", "demo-server"], ["--root", "{{folder}}"]], "properties": {"folder": {"type": "string", "default": "/"}}}}`); exit != 0 {
		t.Fatal(stderr)
	}
	listener := s.listen(t)
	host := &http.Server{Handler: gitHost(t, "acme/weather", map[string]string{"server.sh": "#!/bin/sh\nexec mcp-gateway demo-server\n"})}
	served := make(chan error, 1)
	go func() { served <- host.Serve(listener) }()
	t.Cleanup(func() {
		host.Close()
		<-served
	})

	config := `{
		"notes": {"foldr": "/tmp"},
		"github/acme/weather": {"installCmd": "touch installed; chmod +x server.sh", "runCmd": "test -e installed && ./server.sh"},
		"mine": {"runCmd": "exec mcp-gateway demo-server"}}`
	exit, _, stderr := s.shell(t, fmt.Sprintf("mcp-gateway --github-url http://%s --config %s", listener.Addr(), quote(config)), "", "GATEWAY_ACCESS_TOKEN="+testToken)
	if exit != 0 {
		t.Fatalf("exit %d, %s", exit, stderr)
	}
	if !strings.Contains(stderr, "foldr") || !strings.Contains(stderr, `"folder"`) {
		t.Errorf("C1: no warning of an unknown property: %q", stderr)
	}
	session := s.connect(t)
	for _, tool := range []string{"echo", "mine_echo", "notes_echo"} { // B4: github/acme/weather sorts first
		if got := call(t, session, tool, map[string]any{"text": tool}); got != tool {
			t.Errorf("%s says %q", tool, got)
		}
	}
}

// gitHost serves one repository as a git host does.
func gitHost(t *testing.T, name string, files map[string]string) http.Handler {
	t.Helper()
	root, work := t.TempDir(), t.TempDir()
	git := func(args ...string) {
		c := exec.Command("git", append([]string{"-C", work, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(work, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "all")
	git("clone", "-q", "--bare", ".", filepath.Join(root, name+".git"))
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{Path: path, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root}}
}

// testImageE2B takes the steps that E2B would be asked to take, on this image: the gateway and the servers
// are there, so all of them have to be content without a network.
func testImageE2B(t *testing.T, img image) {
	names := make([]string, len(pulledServers))
	for i, server := range pulledServers {
		names[i] = server.name
	}
	built := e2bTemplates(t, names)
	s := newSandbox(t, img.root, img.config.Env)
	for _, step := range slices.Concat(built.Gateway.Steps, built.Servers.Steps) {
		switch step.Type {
		case "COPY":
			source, folder, mode := step.Args[0], step.Args[1], step.Args[3]
			data, err := os.ReadFile(filepath.Join(mcptest.Root(t), source))
			if err != nil {
				t.Fatal(err)
			}
			file := folder + filepath.Base(source)
			if exit, _, stderr := s.shell(t, fmt.Sprintf("mkdir -p %s && cat >%s && chmod %s %s", folder, file, mode, file), string(data)); exit != 0 {
				t.Fatalf("copy %s: %s", source, stderr)
			}
		case "RUN":
			if exit, stdout, stderr := s.shell(t, step.Args[0], ""); exit != 0 || step.Args[1] != "root" {
				t.Fatalf("run %q: exit %d, %s%s", step.Args, exit, stdout, stderr)
			}
		default:
			t.Fatalf("a step of an unknown kind: %+v", step)
		}
	}
	s.start(t, pulledConfig(t))
}
