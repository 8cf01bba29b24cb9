package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// groups is the gateway's own control group, below which each tree has one.
type groups struct{ dir string }

// planGroups says where the gateway's control group belongs: in the one that the gateway runs in, so
// that limits set on the gateway hold for its servers too.
func planGroups(run string) (*groups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	parent, err := findGroup(string(mounts), string(self))
	if err != nil {
		return nil, err
	}
	return &groups{dir: filepath.Join(parent, "mcp-gateway-"+run)}, nil
}

// create makes the planned group.
func (g *groups) create() error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	// cgroup.kill came with Linux 5.14; without it a group is of no use here.
	if _, err := os.Stat(filepath.Join(g.dir, "cgroup.kill")); err != nil {
		return errors.Join(err, os.Remove(g.dir))
	}
	return nil
}

// findGroup finds the folder of the caller's own version 2 group, from the texts of
// /proc/self/mountinfo and /proc/self/cgroup.
func findGroup(mounts, self string) (string, error) {
	own, found := "", false
	for line := range strings.Lines(self) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own, found = path, true
		}
	}
	if !found {
		return "", errors.New("no version 2 control group")
	}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		// Without a namespace of its own, a container sees the host's path both here and in own.
		rel, err := filepath.Rel(fields[3], own)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(fields[4], rel), nil
	}
	return "", errors.New("no version 2 control group is mounted")
}

// make makes the group of one tree.
func (g *groups) make(n int) (*group, error) {
	dir := filepath.Join(g.dir, strconv.Itoa(n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	fd, err := os.Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &group{dir: dir, fd: fd}, nil
}

// remove takes the gateway's group away, with whatever groups are left in it.
func (g *groups) remove() error { return removeGroup(g.dir) }

// group is the control group of one tree.
type group struct {
	dir string
	fd  *os.File
}

// kill sends SIGKILL to every process of the group; none escapes it by forking meanwhile.
func (g *group) kill() error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0)
}

// populated reports whether a living process is in the group or below it.
func (g *group) populated() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.events"))
	return err == nil && bytes.Contains(text, []byte("populated 1"))
}

// pids lists the processes of the group and of the groups below it.
func (g *group) pids() []int {
	var pids []int
	_ = filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		f, err := os.Open(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

func (g *group) remove() error { return errors.Join(g.fd.Close(), removeGroup(g.dir)) }

// removeGroup removes a group and the groups that a server may have made below it. Their files are
// the kernel's and go with them.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // someone has tidied up
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil {
		return fmt.Errorf("remove control group %q: %w", dir, err)
	}
	return nil
}
