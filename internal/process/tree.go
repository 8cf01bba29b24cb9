package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// markName is the environment variable that marks every process of a tree; its value is unique for
// each gateway run and tree.
const markName = "MCP_GATEWAY_TREE"

// tree is everything that one child has started. Where it has a control group, that knows its members;
// else they are found by their links and by their mark.
type tree struct {
	child *child
	group *group // nil where none can be made
	mark  string // "NAME=value"
}

// members lists the living processes of the tree.
func (t *tree) members() []procStat {
	if t.group != nil {
		var members []procStat
		for _, pid := range t.group.pids() {
			if pgid, err := unix.Getpgid(pid); err == nil {
				members = append(members, procStat{pid: pid, group: pgid})
			}
		}
		return members
	}
	procs, err := readProcs()
	if err != nil {
		return nil
	}
	return descendants(procs, t.child.pid, os.Getpid(), func(pid int) bool { return hasEnv(pid, t.mark) })
}

// alive reports whether any process of the tree lives.
func (t *tree) alive() bool {
	if t.group != nil {
		return t.group.populated()
	}
	return len(t.members()) > 0
}

// signal sends a signal to every process of the tree, once to each.
func (t *tree) signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL && t.group != nil && t.group.kill() == nil {
		return
	}
	members := t.members()
	grouped := t.child.signalGroup(sig)
	for _, m := range members {
		if !grouped || m.group != t.child.pid {
			_ = syscall.Kill(m.pid, sig)
		}
	}
}
