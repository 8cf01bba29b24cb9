package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/catalog"
)

// Installed is one server or clone below the servers' folder.
type Installed struct {
	Name    string // of the server; github/OWNER/REPO for a clone
	Kind    catalog.Kind
	Version string // exact version or commit
	Argv    []string
	At      time.Time
	Ref     string // of a clone
}

// Lookup says whether this very server is installed: what Pull would find present.
func (i *Installer) Lookup(s Server) (Installed, bool) {
	j := i.job(s)
	if s.Launch.Kind == catalog.GitHub {
		return j.installedClone(j.githubFolder(), s.Launch.Owner, s.Launch.Repo)
	}
	r := j.recorded()
	if r == nil {
		return Installed{}, false
	}
	return Installed{Name: r.Server, Kind: r.Identity.Kind, Version: r.Installed, Argv: r.Argv, At: r.At}, true
}

// Clones lists the clones, sorted.
func (i *Installer) Clones() ([]Installed, error) {
	folders, err := filepath.Glob(filepath.Join(i.opts.Dir, "github/*/*"))
	if err != nil {
		return nil, err
	}
	clones := []Installed{}
	for _, folder := range folders {
		owner, repo := filepath.Base(filepath.Dir(folder)), filepath.Base(folder)
		if c, ok := i.installedClone(folder, owner, repo); ok {
			clones = append(clones, c)
		}
	}
	return clones, nil
}

func (i *Installer) installedClone(folder, owner, repo string) (Installed, bool) {
	info, err := os.Lstat(filepath.Join(folder, cloneName))
	if err != nil || !info.IsDir() {
		return Installed{}, false
	}
	c := readCloned(folder)
	return Installed{Name: "github/" + owner + "/" + repo, Kind: catalog.GitHub, Version: c.Commit, Ref: c.Ref, At: info.ModTime()}, true
}

// Keep says what Prune leaves.
type Keep struct {
	Servers []Server // these installs and clones
	Names   []string // every install and clone of servers with these names
	Clones  bool     // all clones
}

// Prune removes every other install and clone, and what interrupted ones have left, and returns their
// folders, relative to the servers' folder. What servers keep in their state folders stays.
func (i *Installer) Prune(ctx context.Context, keep Keep) ([]string, error) {
	kept := map[string]bool{}
	for _, s := range keep.Servers {
		j := i.job(s)
		if s.Launch.Kind == catalog.GitHub {
			kept[j.githubFolder()] = true
			continue
		}
		kept[filepath.Join(j.packageFolder(), j.identity().hash())] = true
	}
	for _, name := range keep.Names {
		kept[filepath.Join(i.opts.Dir, "packages", folderName(name))] = true
		kept[filepath.Join(i.opts.Dir, filepath.Clean("/"+name))] = true // github/OWNER/REPO
	}
	removed := []string{}
	packages, err := filepath.Glob(filepath.Join(i.opts.Dir, "packages/*"))
	if err != nil {
		return nil, err
	}
	for _, folder := range packages {
		if kept[folder] {
			continue
		}
		gone, err := prunePackage(ctx, folder, kept)
		removed = append(removed, gone...)
		if err != nil {
			return i.relative(removed), err
		}
	}
	if keep.Clones {
		return i.relative(removed), nil
	}
	gone, err := i.pruneClones(ctx, kept)
	return i.relative(append(removed, gone...)), err
}

// prunePackage removes all installs of one server but those to be kept.
func prunePackage(ctx context.Context, folder string, kept map[string]bool) ([]string, error) {
	unlock, err := lock(ctx, filepath.Join(folder, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", folder, err)
	}
	defer unlock()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var removed []string
	left := 0
	for _, e := range entries { // a record comes after its folder
		path := filepath.Join(folder, e.Name())
		install := strings.TrimSuffix(path, recordSuffix)
		if e.Name() == lockName {
			continue
		}
		if _, err := os.Stat(install + recordSuffix); kept[install] && err == nil {
			left++
			continue
		}
		// The record goes first: without it the rest is nothing.
		if err := errors.Join(os.RemoveAll(install+recordSuffix), os.RemoveAll(install)); err != nil {
			return removed, err
		}
		if !slices.Contains(removed, install) {
			removed = append(removed, install)
		}
	}
	if left == 0 {
		return removed, os.RemoveAll(folder)
	}
	return removed, nil
}

// pruneClones removes the clones that are not to be kept.
func (i *Installer) pruneClones(ctx context.Context, kept map[string]bool) ([]string, error) {
	folders, err := filepath.Glob(filepath.Join(i.opts.Dir, "github/*/*"))
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, folder := range folders {
		if kept[folder] {
			continue
		}
		unlock, err := lock(ctx, filepath.Join(folder, lockName))
		if err != nil {
			return removed, fmt.Errorf("lock %q: %w", folder, err)
		}
		err = os.RemoveAll(folder)
		unlock()
		if err != nil {
			return removed, err
		}
		removed = append(removed, folder)
		if err := os.Remove(filepath.Dir(folder)); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			return removed, err
		}
	}
	return removed, nil
}

func (i *Installer) relative(paths []string) []string {
	for n, path := range paths {
		if rel, err := filepath.Rel(i.opts.Dir, path); err == nil {
			paths[n] = rel
		}
	}
	return paths
}
