package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// buildClone clones a pinned commit and builds it: by the entry's steps, or as a Python project.
func (j *job) buildClone(ctx context.Context, dir string) (built, error) {
	l := j.launch
	if !wholeCommit.MatchString(l.Commit) || l.Subdir != "" && !filepath.IsLocal(l.Subdir) {
		return built{}, j.brokenInstall(fmt.Errorf("commit %q or folder %q is none", l.Commit, l.Subdir))
	}
	clone := filepath.Join(dir, cloneName)
	if err := os.Mkdir(clone, folderMode); err != nil {
		return built{}, j.brokenInstall(err)
	}
	if _, err := j.clone(ctx, clone, source{url: j.mirrored(l.Repository), ref: l.Commit}); err != nil {
		return built{}, err
	}
	work := filepath.Join(clone, l.Subdir)
	if err := j.runSteps(ctx, work); err != nil {
		return built{}, err
	}
	b, err := j.programOf(ctx, dir, work)
	if err != nil {
		return built{}, err
	}
	// A pinned commit is never updated: its history would only fill the image.
	if err := os.RemoveAll(filepath.Join(clone, ".git")); err != nil {
		return built{}, j.brokenInstall(err)
	}
	b.version = l.Commit
	return b, nil
}

// programOf says how a built clone is started.
func (j *job) programOf(ctx context.Context, dir, work string) (built, error) {
	l := j.launch
	if len(l.Program) == 0 {
		requirement := "./" + filepath.ToSlash(filepath.Join(cloneName, l.Subdir))
		if err := j.makeVenv(ctx, dir, append([]string{requirement}, l.With...)); err != nil {
			return built{}, err
		}
		b, err := j.script(filepath.Join(dir, venvName), distribution{})
		b.dir = work
		return b, err
	}
	b := built{argv: append([]string{}, l.Program...), dir: work, files: []string{work}}
	if program := l.Program[0]; strings.Contains(program, "/") && !filepath.IsAbs(program) {
		b.argv[0] = filepath.Join(work, program)
		if _, err := os.Stat(b.argv[0]); err != nil {
			return built{}, j.brokenInstall(fmt.Errorf("find its program: %w", err))
		}
		b.files = append(b.files, b.argv[0])
	}
	return b, nil
}

// mirrored is a repository's URL, on the host that stands in for GitHub where there is one.
func (j *job) mirrored(url string) string {
	if rest, ok := strings.CutPrefix(url, githubURL+"/"); ok {
		return strings.TrimRight(j.opts.GitHubURL, "/") + "/" + rest
	}
	return url
}
