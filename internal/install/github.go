package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"

	"mcp-gateway/internal/fault"
)

// What is in the folder of one repository.
const (
	cloneName  = "clone"     // the whole clone; it gets this name when it is whole
	freshName  = "fresh-"    // prefix of a clone in progress, or of one that a crash has left
	sourceName = "cloned"    // says which ref and commit was cloned
	stampName  = "installed" // says which install command has succeeded in the clone
	lockName   = "lock"
	folderMode = 0o755
)

// cloned is the content of the file of that name.
type cloned struct {
	Ref    string `json:"ref"` // as it was asked for; empty means the default branch
	Commit string `json:"commit"`
}

var namePart = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// github makes sure that the clone is there and its install command has been run; it returns the
// clone's folder, and whether anything had to be done. A clone that is there is used as it is, unless
// another ref is asked for: what was put into an image needs no network.
func (j *job) github(ctx context.Context) (clone string, fresh bool, err error) {
	l := j.launch
	for _, part := range []string{l.Owner, l.Repo} {
		if !namePart.MatchString(part) || part == "." || part == ".." {
			return "", false, &fault.Fault{Server: j.server, Cause: fault.BadConfig, Err: fmt.Errorf("%q is no owner or repository", part)}
		}
	}
	folder := j.githubFolder()
	clone = filepath.Join(folder, cloneName)
	if j.hasClone(folder) && installed(folder, l.Install) {
		return clone, false, nil
	}
	unlock, err := lock(ctx, filepath.Join(folder, lockName))
	if err != nil {
		return "", false, j.cloneFault(ctx, j.githubSource(), fmt.Errorf("wait for another start of the same repository: %w", err), 0)
	}
	defer unlock()
	release, err := j.slot(ctx)
	if err != nil {
		return "", false, j.cloneFault(ctx, j.githubSource(), err, 0)
	}
	defer release()
	if !j.hasClone(folder) {
		if err := j.cloneGitHub(ctx, folder); err != nil {
			return "", false, err
		}
	}
	if !installed(folder, l.Install) { // another start may have done it meanwhile
		if err := j.installCommand(ctx, folder); err != nil {
			return "", false, err
		}
	}
	return clone, true, nil
}

func (j *job) githubFolder() string {
	return filepath.Join(j.opts.Dir, "github", j.launch.Owner, j.launch.Repo)
}

func (j *job) githubSource() source {
	url := strings.TrimRight(j.opts.GitHubURL, "/") + "/" + j.launch.Owner + "/" + strings.TrimSuffix(j.launch.Repo, ".git") + ".git"
	return source{url: url, ref: j.ref}
}

// hasClone says whether the clone is there, at the ref that is asked for.
func (j *job) hasClone(folder string) bool {
	return isFolder(filepath.Join(folder, cloneName)) && (j.ref == "" || readCloned(folder).Ref == j.ref)
}

// readCloned says what was cloned; one without the file is at the default branch.
func readCloned(folder string) cloned {
	var c cloned
	if text, err := os.ReadFile(filepath.Join(folder, sourceName)); err == nil {
		_ = json.Unmarshal(text, &c)
	}
	return c
}

// cloneGitHub clones beside the final place and moves the whole clone there, so that a half one never
// stands in it.
func (j *job) cloneGitHub(ctx context.Context, folder string) error {
	fail := func(err error) error { return j.cloneFault(ctx, j.githubSource(), err, 0) }
	if err := removeFresh(folder); err != nil {
		return fail(err)
	}
	fresh, err := os.MkdirTemp(folder, freshName)
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, folderMode); err != nil { // for a server that runs as another user
		return fail(err)
	}
	commit, err := j.clone(ctx, fresh, j.githubSource())
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(folder, stampName)); err != nil && !os.IsNotExist(err) {
		return fail(err)
	}
	final := filepath.Join(folder, cloneName)
	if err := os.RemoveAll(final); err != nil {
		return fail(err)
	}
	text, err := json.Marshal(cloned{Ref: j.ref, Commit: commit})
	if err != nil {
		return fail(err)
	}
	if err := renameio.WriteFile(filepath.Join(folder, sourceName), append(text, '\n'), 0o644); err != nil {
		return fail(err)
	}
	if err := os.Rename(fresh, final); err != nil {
		return fail(err)
	}
	return nil
}

// removeFresh removes what crashed starts have left; the lock is held.
func removeFresh(folder string) error {
	left, err := filepath.Glob(filepath.Join(folder, freshName+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// installCommand runs the install command in the clone.
func (j *job) installCommand(ctx context.Context, folder string) error {
	stamp := filepath.Join(folder, stampName)
	if err := os.Remove(stamp); err != nil && !os.IsNotExist(err) {
		return j.brokenInstall(err)
	}
	j.opts.Progress(j.server, "running its installCmd")
	err := j.run(ctx, step{dir: filepath.Join(folder, cloneName), argv: shellLine(j.launch.Install), env: j.commandEnv(), ran: j.launch.Install})
	if err != nil {
		return err
	}
	// 0600: the command may hold what nobody else should be able to guess.
	if err := renameio.WriteFile(stamp, []byte(stampOf(j.launch.Install)), 0o600); err != nil {
		return j.brokenInstall(fmt.Errorf("record the install: %w", err))
	}
	return nil
}

// installed reports whether this install command has succeeded in the clone.
func installed(folder, command string) bool {
	if strings.TrimSpace(command) == "" {
		return true
	}
	stamp, err := os.ReadFile(filepath.Join(folder, stampName))
	return err == nil && string(stamp) == stampOf(command)
}

func stampOf(command string) string {
	sum := sha256.Sum256([]byte(command))
	return hex.EncodeToString(sum[:]) + "\n"
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
