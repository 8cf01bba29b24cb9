package cli

import (
	"fmt"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/install"
)

// installedEntry is an entry with what is installed of it. A clone has no entry of its own.
type installedEntry struct {
	*catalog.Entry
	Installed installedJSON `json:"installed"`
}

type installedJSON struct {
	Version string   `json:"version"`
	Ref     string   `json:"ref,omitempty"` // what a clone was asked for
	Command []string `json:"command"`
	At      string   `json:"at"`
}

// runCatalogInstalled lists the entries that are installed as the catalogue wants them now, and the clones.
func runCatalogInstalled(a *app) error {
	cat, err := loadCatalog(a.paths())
	if err != nil {
		return err
	}
	installer := install.New(install.Options{Dir: a.paths().Servers()})
	found := []installedEntry{}
	add := func(entry *catalog.Entry, is install.Installed) {
		found = append(found, installedEntry{entry, installedJSON{Version: is.Version, Ref: is.Ref,
			Command: append([]string{}, is.Argv...), At: is.At.UTC().Format(time.RFC3339)}})
	}
	for _, entry := range cat.Entries() {
		if is, ok := installer.Lookup(install.Server{Name: entry.Name, Launch: entry.Bare()}); ok {
			add(entry, is)
		}
	}
	clones, err := installer.Clones()
	if err != nil {
		return fmt.Errorf("list the clones: %w", err)
	}
	for _, clone := range clones {
		add(&catalog.Entry{Name: clone.Name, Runs: clone.Kind, Properties: map[string]catalog.Property{}}, clone)
	}
	if a.global.json {
		return writeJSON(a.Out, found)
	}
	t := &table{header: []string{"NAME", "RUNS", "VERSION", "INSTALLED"}}
	for _, e := range found {
		t.add(e.Name, string(e.Runs), e.Installed.Version, e.Installed.At)
	}
	return t.write(a.Out, a.outWidth())
}
