package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
)

const githubURL = "https://github.com"

// source is what is to be cloned.
type source struct {
	url string
	ref string // a branch, a tag or a commit; empty means the default branch
}

func (s source) String() string {
	url := strings.TrimSuffix(s.url, ".git")
	if s.ref == "" {
		return url
	}
	return url + " at " + s.ref
}

var wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// clone clones into an empty folder, with as little history as the host lets it, and returns the
// commit. Its error is a *fault.Fault.
func (j *job) clone(ctx context.Context, dir string, s source) (string, error) {
	start := time.Now()
	ca, err := caBundle(j.env)
	if err != nil {
		return "", j.cloneFault(ctx, s, err, 0)
	}
	j.opts.Progress(j.server, "cloning "+s.String())
	commit, err := cloneRef(ctx, dir, s, ca)
	if err != nil {
		return "", j.cloneFault(ctx, s, err, time.Since(start))
	}
	j.log.Info("repository cloned", telemetry.KeyServer, j.server, telemetry.KeyURL, s.url, telemetry.KeyVersion, commit, telemetry.KeyDuration, time.Since(start))
	return commit, nil
}

// cloneRef takes a ref for a commit where it looks like one, and else for a branch, then for a tag.
func cloneRef(ctx context.Context, dir string, s source, ca []byte) (string, error) {
	options := &git.CloneOptions{URL: s.url, Depth: 1, SingleBranch: true, Tags: git.NoTags, CABundle: ca}
	if wholeCommit.MatchString(s.ref) {
		return cloneCommit(ctx, dir, s, ca)
	}
	if s.ref == "" {
		return cloneWith(ctx, dir, options)
	}
	options.ReferenceName = plumbing.NewBranchReferenceName(s.ref)
	commit, err := cloneWith(ctx, dir, options)
	if !errors.As(err, &git.NoMatchingRefSpecError{}) && !errors.Is(err, plumbing.ErrReferenceNotFound) {
		return commit, err
	}
	if err := empty(dir); err != nil {
		return "", err
	}
	options.ReferenceName = plumbing.NewTagReferenceName(s.ref)
	return cloneWith(ctx, dir, options)
}

func cloneWith(ctx context.Context, dir string, options *git.CloneOptions) (string, error) {
	repository, err := git.PlainCloneContext(ctx, dir, false, options)
	if err != nil {
		return "", err
	}
	return headOf(repository)
}

// cloneCommit fetches one commit alone; from a host that does not give single commits, everything.
func cloneCommit(ctx context.Context, dir string, s source, ca []byte) (string, error) {
	const branch = "refs/heads/pinned"
	repository, err := git.PlainInit(dir, false)
	if err != nil {
		return "", err
	}
	remote, err := repository.CreateRemote(&config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{s.url}})
	if err != nil {
		return "", err
	}
	err = remote.FetchContext(ctx, &git.FetchOptions{Depth: 1, Tags: git.NoTags, CABundle: ca,
		RefSpecs: []config.RefSpec{config.RefSpec(s.ref + ":" + branch)}})
	if errors.Is(err, git.ErrExactSHA1NotSupported) {
		err = remote.FetchContext(ctx, &git.FetchOptions{Tags: git.NoTags, CABundle: ca,
			RefSpecs: []config.RefSpec{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}})
	}
	if err != nil {
		return "", err
	}
	tree, err := repository.Worktree()
	if err != nil {
		return "", err
	}
	if err := tree.Checkout(&git.CheckoutOptions{Hash: plumbing.NewHash(s.ref), Force: true}); err != nil {
		return "", err
	}
	return headOf(repository)
}

func headOf(repository *git.Repository) (string, error) {
	head, err := repository.Head()
	if err != nil {
		return "", err
	}
	return head.Hash().String(), nil
}

// empty removes what a clone that failed has left in its folder.
func empty(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, folderMode)
}

// caBundle reads the certificates that git itself would trust beside the system's; those of
// SSL_CERT_FILE and SSL_CERT_DIR are Go's own.
func caBundle(env []string) ([]byte, error) {
	file, _ := lookup(env, "GIT_SSL_CAINFO")
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read GIT_SSL_CAINFO: %w", err)
	}
	return pem, nil
}

// cloneFault says why there is no clone. What a host writes into a refusal is left out: it is a page
// for browsers.
func (j *job) cloneFault(ctx context.Context, s source, err error, after time.Duration) error {
	f := &fault.Fault{Server: j.server, Cause: fault.CloneFailed, Ran: "clone " + s.String(), After: after, Err: err}
	var unexpected *plumbing.UnexpectedError // it does not unwrap
	var refused *githttp.Err
	if errors.As(err, &unexpected) {
		errors.As(unexpected.Err, &refused)
	}
	switch {
	case ctx.Err() != nil:
		f.Ended, f.Err = "still running", context.Cause(ctx)
		f.Hint = j.tooLate()
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.Is(err, transport.ErrAuthenticationRequired),
		errors.Is(err, transport.ErrAuthorizationFailed):
		f.Err = errors.New("repository not found or private")
		f.Hint = "check owner and name; a private repository is to be put into the image, and started with runCmd"
	case refused != nil:
		f.Err = fmt.Errorf("the host answered %q", refused.Response.Status)
	case s.ref != "" && (errors.As(err, &git.NoMatchingRefSpecError{}) || errors.Is(err, plumbing.ErrReferenceNotFound) || errors.Is(err, plumbing.ErrObjectNotFound)):
		f.Err = fmt.Errorf("it has no branch, tag or commit %q", s.ref)
	case errors.Is(err, transport.ErrEmptyRemoteRepository), errors.Is(err, plumbing.ErrReferenceNotFound):
		f.Err = errors.New("repository is empty")
	}
	return f
}
