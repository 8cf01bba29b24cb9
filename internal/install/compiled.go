package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// buildGo builds a Go package.
func (j *job) buildGo(ctx context.Context, dir string) (built, error) {
	version := j.launch.Version
	if version == "" {
		version = "latest"
	}
	env := j.with(j.buildEnv(), map[string]string{"GOBIN": filepath.Join(dir, "bin")})
	argv := []string{"go", "install", "-trimpath", "-ldflags=-s -w", j.launch.Package + "@" + version}
	if err := j.run(ctx, step{dir: dir, argv: argv, env: env}); err != nil {
		return built{}, err
	}
	return j.binary(dir)
}

// buildCrate builds a Rust crate with the versions that its author has locked.
func (j *job) buildCrate(ctx context.Context, dir string) (built, error) {
	argv := []string{"cargo", "install", "--locked", "--root", "."}
	if j.launch.Version != "" {
		argv = append(argv, "--version", j.launch.Version)
	}
	if err := j.run(ctx, step{dir: dir, argv: append(argv, j.launch.Package), env: j.buildEnv()}); err != nil {
		return built{}, err
	}
	return j.binary(dir)
}

// binary chooses one of the programs in dir/bin.
func (j *job) binary(dir string) (built, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "bin"))
	if err != nil && !os.IsNotExist(err) {
		return built{}, j.brokenInstall(err)
	}
	var have []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			have = append(have, e.Name())
		}
	}
	name, err := j.pick(have)
	if err != nil {
		return built{}, err
	}
	file := filepath.Join(dir, "bin", name)
	return built{argv: []string{file}, files: []string{file}, version: j.launch.Version}, nil
}
