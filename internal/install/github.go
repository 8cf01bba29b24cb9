package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/google/renameio/v2"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/telemetry"
)

// What is in the folder of one repository.
const (
	cloneName  = "clone"     // the whole clone; it gets this name when it is whole
	freshName  = "fresh-"    // prefix of a clone in progress, or of one that a crash has left
	stampName  = "installed" // says which install command has succeeded in the clone
	lockName   = "lock"
	folderMode = 0o755
)

// github makes sure that the clone is there and its install command has been run, and returns the
// clone's folder. A clone that is there is used as it is: what was put into an image needs no network.
func (j *job) github(ctx context.Context) (string, error) {
	l := j.launch
	for _, part := range []string{l.Owner, l.Repo} {
		if !namePart.MatchString(part) || part == "." || part == ".." {
			return "", &fault.Fault{Server: j.server, Cause: fault.BadConfig, Err: fmt.Errorf("%q is no owner or repository", part)}
		}
	}
	folder := filepath.Join(j.opts.Dir, "github", l.Owner, l.Repo)
	clone := filepath.Join(folder, cloneName)
	if isFolder(clone) && installed(folder, l.Install) {
		return clone, nil
	}
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return "", j.cloneFault(ctx, err, 0)
	}
	unlock, err := lock(ctx, filepath.Join(folder, lockName))
	if err != nil {
		return "", j.cloneFault(ctx, fmt.Errorf("wait for another start of the same repository: %w", err), 0)
	}
	defer unlock()
	if !isFolder(clone) {
		if err := j.clone(ctx, folder); err != nil {
			return "", err
		}
	}
	if !installed(folder, l.Install) { // another start may have done it meanwhile
		if err := j.install(ctx, folder); err != nil {
			return "", err
		}
	}
	return clone, nil
}

var namePart = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// clone clones beside the final place and moves the whole clone there, so that a half one never
// stands in it.
func (j *job) clone(ctx context.Context, folder string) error {
	if err := removeFresh(folder); err != nil {
		return j.cloneFault(ctx, err, 0)
	}
	fresh, err := os.MkdirTemp(folder, freshName)
	if err != nil {
		return j.cloneFault(ctx, err, 0)
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, folderMode); err != nil { // for a server that runs as another user
		return j.cloneFault(ctx, err, 0)
	}
	ca, err := caBundle(j.env)
	if err != nil {
		return j.cloneFault(ctx, err, 0)
	}
	start := time.Now()
	j.opts.Progress(j.server, "cloning "+j.url())
	_, err = git.PlainCloneContext(ctx, fresh, false, &git.CloneOptions{
		URL: j.url() + ".git", Depth: 1, SingleBranch: true, Tags: git.NoTags, CABundle: ca,
	})
	if err != nil {
		return j.cloneFault(ctx, err, time.Since(start))
	}
	if err := os.Rename(fresh, filepath.Join(folder, cloneName)); err != nil {
		return j.cloneFault(ctx, err, time.Since(start))
	}
	j.log.Info("repository cloned", telemetry.KeyServer, j.server, telemetry.KeyURL, j.url(), telemetry.KeyDuration, time.Since(start))
	return nil
}

func (j *job) url() string {
	return strings.TrimRight(j.opts.GitHubURL, "/") + "/" + j.launch.Owner + "/" + strings.TrimSuffix(j.launch.Repo, ".git")
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

// caBundle reads the certificates that git itself would trust beside the system's; those of
// SSL_CERT_FILE and SSL_CERT_DIR are Go's own.
func caBundle(env []string) ([]byte, error) {
	for _, entry := range env {
		if file, ok := strings.CutPrefix(entry, "GIT_SSL_CAINFO="); ok && file != "" {
			pem, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read GIT_SSL_CAINFO: %w", err)
			}
			return pem, nil
		}
	}
	return nil, nil
}

// cloneFault says why there is no clone. What a host writes into a refusal is left out: it is a page
// for browsers.
func (j *job) cloneFault(ctx context.Context, err error, after time.Duration) error {
	f := &fault.Fault{Server: j.server, Cause: fault.CloneFailed, Ran: "clone " + j.url(), After: after, Err: err}
	var unexpected *plumbing.UnexpectedError // it does not unwrap
	var refused *githttp.Err
	if errors.As(err, &unexpected) {
		errors.As(unexpected.Err, &refused)
	}
	switch {
	case ctx.Err() != nil:
		f.Ended, f.Err = "still running", context.Cause(ctx)
		f.Hint = "put the clone into the image, or raise --startup-timeout"
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.Is(err, transport.ErrAuthenticationRequired),
		errors.Is(err, transport.ErrAuthorizationFailed):
		f.Err = errors.New("repository not found or private")
		f.Hint = "check owner and name; a private repository is to be put into the image, and started with runCmd"
	case refused != nil:
		f.Err = fmt.Errorf("the host answered %q", refused.Response.Status)
	case errors.Is(err, transport.ErrEmptyRemoteRepository), errors.Is(err, plumbing.ErrReferenceNotFound):
		f.Err = errors.New("repository is empty")
	}
	return f
}

// install runs the install command in the clone.
func (j *job) install(ctx context.Context, folder string) error {
	stamp := filepath.Join(folder, stampName)
	if err := os.Remove(stamp); err != nil && !os.IsNotExist(err) {
		return j.installFault(ctx, process.Exit{}, nil, err)
	}
	var tail process.Tail
	spec := process.Spec{Name: j.server, Argv: shellLine(j.launch.Install), Env: j.installEnv(), Dir: filepath.Join(folder, cloneName)}
	exit, err := j.opts.Host.Run(ctx, spec, func(line string) {
		line = j.scrub.Scrub(line)
		tail.Add(line)
		j.log.Info("install command", telemetry.KeyServer, j.server, telemetry.KeyLine, line)
		j.opts.Progress(j.server, line)
	})
	if err != nil || !exit.Success() {
		return j.installFault(ctx, exit, &tail, err)
	}
	// 0600: the command may hold what nobody else should be able to guess.
	if err := renameio.WriteFile(stamp, []byte(stampOf(j.launch.Install)), 0o600); err != nil {
		return j.installFault(ctx, exit, &tail, fmt.Errorf("record the install: %w", err))
	}
	return nil
}

func (j *job) installFault(ctx context.Context, exit process.Exit, tail *process.Tail, err error) error {
	f := &fault.Fault{Server: j.server, Cause: fault.InstallFailed, Ran: j.scrub.Scrub(j.launch.Install), After: exit.After, Err: err}
	if tail != nil {
		f.Stderr = tail.Lines()
	}
	switch {
	case err == nil:
		f.Ended = exit.String()
	case ctx.Err() != nil:
		f.Ended = "still running"
		f.Hint = "install the server while the image is built, or raise --startup-timeout"
	case errors.Is(err, process.ErrNotFound):
		f.Cause = fault.NotFound
	}
	return f
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
