// Package mcptest gives tests real programs: an MCP server that can misbehave in every way met in
// the field (fakeserver), the gateway itself, and their place in a gateway's configuration.
package mcptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// Build returns the path of the fake server, which it builds once for each test process.
func Build(t testing.TB) string {
	t.Helper()
	return built(t, &fake, "fakeserver", "./internal/mcptest/fakeserver", "-trimpath")
}

// Gateway returns the path of the gateway's binary, which it builds once for each test process:
// static and without the race detector, as it is shipped.
func Gateway(t testing.TB) string {
	t.Helper()
	return built(t, &gateway, "mcp-gateway", "./cmd/mcp-gateway", "-trimpath")
}

// GatewayWithRaceDetector returns the path of the gateway's binary with the race detector in it, which
// needs a C compiler.
func GatewayWithRaceDetector(t testing.TB) string {
	t.Helper()
	return built(t, &raceGateway, "mcp-gateway-race", "./cmd/mcp-gateway", "-race")
}

// Root returns the folder of the module.
func Root(t testing.TB) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Config returns a configuration in which each name is a fake server with these flags.
func Config(t testing.TB, servers map[string][]string) string {
	t.Helper()
	type entry struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	entries := map[string]entry{}
	for name, flags := range servers {
		entries[name] = entry{Command: Build(t), Args: append([]string{}, flags...)}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// program is one binary, made at its first use.
type program struct {
	once sync.Once
	path string
	err  error
}

var fake, gateway, raceGateway program

func built(t testing.TB, p *program, name, pkg string, flags ...string) string {
	t.Helper()
	p.once.Do(func() { p.path, p.err = build(name, pkg, flags) })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// build links pkg below .cache in the module, where the go command finds it up to date the next
// time, and returns a copy that no later build touches while it runs.
func build(name, pkg string, flags []string) (string, error) {
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "test")
	if err := os.MkdirAll(filepath.Join(dir, "build"), 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	linked, path := filepath.Join(dir, "build", name), filepath.Join(dir, name)
	flags = append([]string{"build", "-buildvcs=false", "-o", linked}, flags...)
	c := exec.Command("go", append(flags, pkg)...)
	c.Dir = root
	if !slices.Contains(flags, "-race") {
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return path, publish(linked, path)
}

// publish puts a copy of linked at path, by renaming, unless the one there is as new.
func publish(linked, path string) error {
	from, err := os.Stat(linked)
	if err != nil {
		return err
	}
	if to, err := os.Stat(path); err == nil && to.ModTime().Equal(from.ModTime()) && to.Size() == from.Size() {
		return nil
	}
	in, err := os.Open(linked)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(out.Name(), from.ModTime(), from.ModTime()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

// lock keeps other test processes out until unlock is called.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// findRoot walks up from the test's folder to go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("find go.mod above the test's folder: there is none")
		}
		dir = filepath.Dir(dir)
	}
}
