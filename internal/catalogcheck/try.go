package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/catalog"
)

// attempt is one entry being tried.
type attempt struct {
	*check
	entry *catalog.Entry
	root  string
	env   []string
}

// try installs and starts one entry in a root of its own, which is gone afterwards.
func (c *check) try(ctx context.Context, e *catalog.Entry) sight {
	s := sight{Name: e.Name, Digest: digest(e), Kind: string(e.Runs), Level: catalog.Untried, Date: time.Now().Format(time.DateOnly)}
	c.tidy()
	root, err := os.MkdirTemp(c.work, "root-")
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	defer removeAll(root)
	a := &attempt{check: c, entry: e, root: root}
	if err := a.prepare(); err != nil {
		s.Reason = err.Error()
		return s
	}
	start := time.Now()
	_, err = a.gateway(ctx, c.installLimit, "pull", e.Name, "--json")
	s.Install = time.Since(start).Seconds()
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	if e.Runs != catalog.Remote && e.Runs != catalog.Command {
		s.Level, s.Megabytes = catalog.Installed, megabytes(filepath.Join(root, "var/lib/mcp-gateway"))
	}
	start = time.Now()
	tools, err := a.start(ctx, false)
	if hasOptional(e) && (err != nil || tools == 0) {
		// Some list their tools only once they know what to work with.
		if again, errAgain := a.start(ctx, true); errAgain == nil && again > 0 {
			tools, err = again, nil
		}
	}
	if err == nil && tools == 0 {
		err = errors.New("it has no tools")
	}
	s.Start = time.Since(start).Seconds()
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	s.Level, s.Tools = catalog.Started, tools
	return s
}

func hasOptional(e *catalog.Entry) bool {
	for _, p := range e.Properties {
		if !p.Required && len(p.Default) == 0 {
			return true
		}
	}
	return false
}

// prepare makes the gateway below the root read the catalogue that is checked, and gives the servers a
// home of their own; the caches of package managers are shared between attempts.
func (a *attempt) prepare() error {
	text, err := os.ReadFile(a.catalog)
	if err != nil {
		return err
	}
	home, etc := filepath.Join(a.root, "home"), filepath.Join(a.root, "etc/mcp-gateway")
	for _, dir := range []string{home, etc, a.data()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(etc, "catalog.json"), text, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.data(), fileName), []byte(fileText), 0o644); err != nil {
		return err
	}
	real := get(a.check.env, "HOME")
	cache := func(name string) string { return filepath.Join(a.work, "cache", name) }
	a.env = append(append([]string{}, a.check.env...),
		"HOME="+home, "MCP_GATEWAY_ROOT="+a.root, "MCP_GATEWAY_LISTEN=127.0.0.1:0", "GATEWAY_ACCESS_TOKEN=",
		"npm_config_cache="+cache("npm"), "npm_config_userconfig="+filepath.Join(real, ".npmrc"),
		"UV_CACHE_DIR="+cache("uv"), "PIP_CACHE_DIR="+cache("pip"),
		"GOMODCACHE="+cache("gomod"), "GOCACHE="+cache("gobuild"), "GOPATH="+cache("gopath"),
		"CARGO_HOME="+cmp.Or(get(a.check.env, "CARGO_HOME"), filepath.Join(real, ".cargo")),
		"RUSTUP_HOME="+cmp.Or(get(a.check.env, "RUSTUP_HOME"), filepath.Join(real, ".rustup")),
		"PYENV_ROOT="+cmp.Or(get(a.check.env, "PYENV_ROOT"), filepath.Join(real, ".pyenv")),
		// Browsers are hundreds of megabytes, and no server needs one to list its tools.
		"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1", "PUPPETEER_SKIP_DOWNLOAD=1")
	return nil
}

// data is a folder that made-up values can name.
func (a *attempt) data() string { return filepath.Join(a.root, "data") }

// start starts the server through the gateway, and counts its tools.
func (a *attempt) start(ctx context.Context, all bool) (int, error) {
	file := filepath.Join(a.root, "config.json")
	if err := os.WriteFile(file, madeUpConfig(a.entry, a.data(), all), 0o600); err != nil {
		return 0, err
	}
	limit := a.startLimit.String()
	// The stop comes after a failed start too: an interrupted one may be on its way.
	defer a.gateway(context.WithoutCancel(ctx), 30*time.Second, "stop")
	if _, err := a.gateway(ctx, a.startLimit+10*time.Second, "--startup-timeout", limit, "--config-file", file); err != nil {
		return 0, err
	}
	text, err := a.gateway(ctx, 10*time.Second, "status", "--json")
	if err != nil {
		return 0, err
	}
	var status struct {
		Servers []struct {
			State string `json:"state"`
			Tools int    `json:"tools"`
		} `json:"servers"`
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return 0, fmt.Errorf("read the status: %w", err)
	}
	if len(status.Servers) != 1 || status.Servers[0].State != "ready" {
		return 0, fmt.Errorf("the status is %s", text)
	}
	return status.Servers[0].Tools, nil
}

// gateway runs one command of the gateway; its error is the first line of standard error.
func (a *attempt) gateway(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out, errOut bytes.Buffer
	c := exec.CommandContext(ctx, a.binary, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = a.root, a.env, &out, &errOut
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // which ends the servers, too
	c.WaitDelay = 20 * time.Second
	err := c.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("not done after %s", limit)
	}
	return nil, errors.New(cmp.Or(reason(errOut.String()), err.Error()))
}

// reason is what a command of the gateway says first; with --json it is an object.
func reason(stderr string) string {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	var object struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(lines[len(lines)-1]), &object) == nil && object.Error.Message != "" {
		return object.Error.Message
	}
	return lines[0]
}

// megabytes is the size of all files below a folder, rounded up.
func megabytes(dir string) int {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return int((size + 1e6 - 1) / 1e6)
}

// tidy empties the caches when the disk fills up.
func (c *check) tidy() {
	var disk unix.Statfs_t
	if unix.Statfs(c.work, &disk) == nil && disk.Bavail*uint64(disk.Bsize)>>30 < uint64(c.leastFree) {
		removeAll(filepath.Join(c.work, "cache"))
	}
}

// removeAll also removes what Go's module cache has made read-only.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

func get(env []string, name string) string {
	value := ""
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}
