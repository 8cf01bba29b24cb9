package install

import (
	"context"
	"os"
	"path/filepath"
)

// buildPyPI installs a Python package into an environment of its own.
func (j *job) buildPyPI(ctx context.Context, dir string) (built, error) {
	l := j.launch
	requirement := l.Package
	if l.Version != "" {
		requirement += "==" + l.Version
	}
	if err := j.makeVenv(ctx, dir, append([]string{requirement}, l.With...)); err != nil {
		return built{}, err
	}
	venv := filepath.Join(dir, venvName)
	found, err := findDistribution(venv, l.Package)
	if err != nil {
		return built{}, j.brokenInstall(err)
	}
	return j.script(venv, found)
}

// script chooses the executable of a virtual environment; one that the entry names may be another
// package's.
func (j *job) script(venv string, found distribution) (built, error) {
	name := j.launch.Bin
	if _, err := os.Stat(filepath.Join(venv, "bin", name)); name == "" || err != nil {
		if name, err = j.pick(found.scripts); err != nil {
			return built{}, err
		}
	}
	script := filepath.Join(venv, "bin", name)
	return built{argv: []string{script}, files: []string{script, filepath.Join(venv, "bin/python")}, version: found.version}, nil
}
