package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/google/renameio/v2"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/telemetry"
)

// identity is all that an install depends on. Where any of it differs, another install is needed; what
// the user sets for the server is no part of it.
type identity struct {
	Kind       catalog.Kind `json:"kind"`
	Package    string       `json:"package,omitempty"`
	Version    string       `json:"version,omitempty"`
	Bin        string       `json:"bin,omitempty"`
	With       []string     `json:"with,omitempty"`
	Python     []string     `json:"python,omitempty"`
	Repository string       `json:"repository,omitempty"`
	Commit     string       `json:"commit,omitempty"`
	Subdir     string       `json:"subdir,omitempty"`
	Program    []string     `json:"program,omitempty"`
	Steps      [][]string   `json:"steps,omitempty"`
}

func (j *job) identity() identity {
	l := j.launch
	id := identity{Kind: l.Kind, Package: l.Package, Version: l.Version, Bin: l.Bin, With: l.With,
		Repository: l.Repository, Commit: l.Commit, Subdir: l.Subdir, Program: l.Program, Steps: l.Steps}
	for _, n := range j.pythonNeeds() {
		id.Python = append(id.Python, n.specifier())
	}
	if l.Kind == catalog.Command {
		id.Program = []string{l.Command}
	}
	return id
}

// hash names the install in the file system.
func (id identity) hash() string {
	text, _ := json.Marshal(id) // strings can always be encoded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// recordFormat changes when records of older programs must not be used.
const recordFormat = 1

// record says how an installed server is started. It is written when the install is whole.
type record struct {
	Format    int       `json:"format"`
	Server    string    `json:"server"`
	Identity  identity  `json:"identity"`
	Installed string    `json:"installed"` // the exact version
	Argv      []string  `json:"argv"`      // the program and its first arguments; empty for a command of the machine
	Dir       string    `json:"dir,omitempty"`
	Files     []string  `json:"files"` // without one of these it is no install any more
	At        time.Time `json:"at"`
	Compiled  bool      `json:"compiled,omitempty"` // all byte code of Python
}

func (j *job) packageFolder() string {
	return filepath.Join(j.opts.Dir, "packages", folderName(j.server))
}

const recordSuffix = ".json"

// recordPath is where the record of this very install is, or will be.
func (j *job) recordPath() string {
	return filepath.Join(j.packageFolder(), j.identity().hash()+recordSuffix)
}

// recorded returns the record of this very install, or nil when it has to be done. It writes nothing.
func (j *job) recorded() *record {
	id, path := j.identity(), j.recordPath()
	r, err := readRecord(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		j.log.Warn("record of an install is of no use", telemetry.KeyServer, j.server, telemetry.KeyPath, path, telemetry.KeyError, err)
		return nil
	case r.Server != j.server || !reflect.DeepEqual(normal(r.Identity), normal(id)):
		return nil
	}
	return r
}

// readRecord reads a record, and looks whether what it speaks of is there.
func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("its format is %d, not %d", r.Format, recordFormat)
	}
	if r.Identity.Kind != catalog.Command && len(r.Argv) == 0 {
		return nil, errors.New("it names no program")
	}
	for _, file := range r.Files {
		if _, err := os.Stat(file); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// normal makes empty lists equal, which JSON does not tell apart.
func normal(id identity) identity {
	text, _ := json.Marshal(id)
	var same identity
	_ = json.Unmarshal(text, &same)
	return same
}

// write makes an install whole.
func (r *record) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(text, '\n'), 0o644)
}
