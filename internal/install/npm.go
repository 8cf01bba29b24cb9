package install

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// buildNPM installs an npm package into a folder of its own.
func (j *job) buildNPM(ctx context.Context, dir string) (built, error) {
	l := j.launch
	version := l.Version
	if version == "" {
		version = "latest"
	}
	// npm would install into a folder above that has such a file.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`+"\n"), 0o644); err != nil {
		return built{}, j.brokenInstall(err)
	}
	if err := j.run(ctx, step{dir: dir, argv: []string{"npm", "install", l.Package + "@" + version}, env: j.buildEnv()}); err != nil {
		return built{}, err
	}
	root := filepath.Join(dir, "node_modules", filepath.FromSlash(l.Package))
	manifest, err := readManifest(root)
	if err != nil {
		return built{}, j.brokenInstall(err)
	}
	name, err := j.pick(slices.Sorted(maps.Keys(manifest.bins)))
	if err != nil {
		return built{}, err
	}
	// Programs compare the path that they were started by with that of their module, which is a real one.
	file, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(manifest.bins[name])))
	if err != nil {
		return built{}, j.brokenInstall(fmt.Errorf("find its executable %q: %w", name, err))
	}
	argv, err := nodeArgv(file)
	if err != nil {
		return built{}, j.brokenInstall(err)
	}
	return built{argv: argv, files: []string{file}, version: manifest.version}, nil
}

// manifest is what is needed of a package.json.
type manifest struct {
	version string
	bins    map[string]string // executables, name -> file
}

func readManifest(folder string) (manifest, error) {
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return manifest{}, err
	}
	var raw struct {
		Name        string          `json:"name"`
		Version     string          `json:"version"`
		Bin         json.RawMessage `json:"bin"`
		Directories struct {
			Bin string `json:"bin"`
		} `json:"directories"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return manifest{}, fmt.Errorf("read its package.json: %w", err)
	}
	m := manifest{version: raw.Version, bins: map[string]string{}}
	var one string
	var many map[string]string
	switch {
	case json.Unmarshal(raw.Bin, &one) == nil && one != "":
		m.bins[path.Base(raw.Name)] = one
	case json.Unmarshal(raw.Bin, &many) == nil:
		for name, file := range many {
			m.bins[path.Base(name)] = file // npm leaves a scope out
		}
	case raw.Directories.Bin != "":
		entries, err := os.ReadDir(filepath.Join(folder, raw.Directories.Bin))
		if err != nil {
			return manifest{}, err
		}
		for _, e := range entries {
			m.bins[e.Name()] = path.Join(raw.Directories.Bin, e.Name())
		}
	}
	return m, nil
}

// nodeArgv is how an executable of an npm package is started without the shim that npm links: with
// node, and the options that its first line gives to it. One for another interpreter, or a compiled
// one, runs as it is.
func nodeArgv(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	first, err := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	line, script := strings.CutPrefix(first, "#!")
	if !script {
		if slices.Contains([]string{".js", ".mjs", ".cjs"}, filepath.Ext(file)) {
			return []string{"node", file}, nil
		}
		return []string{file}, nil
	}
	words := strings.Fields(line)
	if len(words) > 0 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(word string) bool { return word == "-S" || word == "--" })
	}
	if len(words) == 0 || path.Base(words[0]) != "node" {
		return []string{file}, nil
	}
	return slices.Concat([]string{"node"}, words[1:], []string{file}), nil
}
