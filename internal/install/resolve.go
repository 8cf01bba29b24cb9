package install

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/telemetry"
)

// resolve returns the record of the server's install, and whether it was installed just now.
func (j *job) resolve(ctx context.Context) (r *record, fresh bool, err error) {
	if r := j.recorded(); r != nil {
		return r, false, nil
	}
	if err := j.require(ctx); err != nil {
		return nil, false, err
	}
	folder := j.packageFolder()
	unlock, err := lock(ctx, filepath.Join(folder, lockName))
	if err != nil {
		return nil, false, j.waited(ctx, err)
	}
	defer unlock()
	if r := j.recorded(); r != nil { // another start may have done it meanwhile
		return r, false, nil
	}
	release, err := j.slot(ctx)
	if err != nil {
		return nil, false, j.waited(ctx, err)
	}
	defer release()
	r, err = j.installNow(ctx, strings.TrimSuffix(j.recordPath(), recordSuffix))
	return r, err == nil, err
}

// slot waits for one of the places of installs at a time.
func (j *job) slot(ctx context.Context) (release func(), err error) {
	select {
	case j.slots <- struct{}{}:
		return func() { <-j.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// waited is the fault of an install that never had its turn.
func (j *job) waited(ctx context.Context, err error) error {
	f := j.installFault(ctx, j.what(), process.Exit{}, nil, err).(*fault.Fault)
	if ctx.Err() != nil {
		f.Ended, f.Err = "", fmt.Errorf("wait for other installs: %w", context.Cause(ctx))
	}
	return f
}

// installNow installs into a folder, and records it. The folder has its final name from the beginning,
// since the scripts of a virtual environment hold their own path; without its record it is a half
// install, which the next attempt removes. The lock is held.
func (j *job) installNow(ctx context.Context, dir string) (*record, error) {
	start := time.Now()
	path := dir + recordSuffix
	for _, old := range []string{path, dir} {
		if err := os.RemoveAll(old); err != nil {
			return nil, j.brokenInstall(err)
		}
	}
	if err := os.Mkdir(dir, folderMode); err != nil {
		return nil, j.brokenInstall(err)
	}
	j.opts.Progress(j.server, "installing "+j.what())
	b, err := j.build(ctx, dir)
	if err != nil {
		_ = os.RemoveAll(dir) // what is left has no record
		return nil, err
	}
	r := &record{Format: recordFormat, Server: j.server, Identity: j.identity(), Installed: b.version,
		Argv: b.argv, Dir: b.dir, Files: b.files, At: time.Now().UTC().Truncate(time.Second)}
	if err := r.write(path); err != nil {
		_ = os.RemoveAll(dir)
		return nil, j.brokenInstall(fmt.Errorf("record the install: %w", err))
	}
	j.log.Info("server installed", telemetry.KeyServer, j.server, telemetry.KeyVersion, r.Installed, telemetry.KeyDuration, time.Since(start))
	return r, nil
}

// built is what an install has given.
type built struct {
	argv    []string
	dir     string
	files   []string
	version string
}

// build installs by the way of the server's kind.
func (j *job) build(ctx context.Context, dir string) (built, error) {
	if j.launch.Kind == catalog.Git {
		return j.buildClone(ctx, dir)
	}
	if err := j.runSteps(ctx, dir); err != nil {
		return built{}, err
	}
	switch j.launch.Kind {
	case catalog.NPM:
		return j.buildNPM(ctx, dir)
	case catalog.PyPI:
		return j.buildPyPI(ctx, dir)
	case catalog.Go:
		return j.buildGo(ctx, dir)
	case catalog.Crate:
		return j.buildCrate(ctx, dir)
	}
	return built{}, nil // a command of the machine, which its steps have installed
}

// what names the thing to install, for people.
func (j *job) what() string {
	l := j.launch
	join := func(mark string) string {
		if l.Version == "" {
			return l.Package
		}
		return l.Package + mark + l.Version
	}
	switch l.Kind {
	case catalog.NPM:
		return join("@") + " from npm"
	case catalog.PyPI:
		return strings.Join(append([]string{join("==") + " from PyPI"}, l.With...), ", ")
	case catalog.Go:
		return join("@") + " with go"
	case catalog.Crate:
		return join("@") + " with cargo"
	case catalog.Git:
		return l.Repository + " at " + l.Commit[:min(len(l.Commit), 12)]
	}
	if len(l.Steps) > 0 {
		return process.Spec{Argv: l.Steps[0]}.CommandLine()
	}
	return l.Command
}

// pick chooses an executable of a package: the one that the entry names, else the one named like the
// last part of the package's name, else the only one.
func (j *job) pick(have []string) (string, error) {
	own := lastPart(j.launch.Package)
	switch {
	case j.launch.Bin != "" && slices.Contains(have, j.launch.Bin):
		return j.launch.Bin, nil
	case j.launch.Bin == "" && slices.Contains(have, own):
		return own, nil
	case j.launch.Bin == "" && len(have) == 1:
		return have[0], nil
	case len(have) == 0:
		return "", j.brokenInstall(fmt.Errorf("it has no executable"))
	}
	return "", j.brokenInstall(fmt.Errorf("it has no executable %q, but %s", cmp.Or(j.launch.Bin, own), strings.Join(have, ", ")))
}

// lastPart is the last part of a package's name; a major version, as Go's have it, is none.
func lastPart(pkg string) string {
	parts := strings.Split(pkg, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = parts[len(parts)-2]
	}
	return last
}
