package process

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nursery forks and reaps every child. Both happen in one loop, so that no child can end between its
// fork and its registration, and on one thread that lives as long as the loop, since the parent-death
// signal fires when the forking thread ends.
type nursery struct {
	forks    chan forkRequest
	sweeps   chan chan struct{}
	quit     chan struct{}
	ended    chan struct{}
	session  int            // of this process
	children map[int]*child // the loop's alone
}

// shared is the one nursery of this process: SIGCHLD, the sub-reaper flag and wait4 are the kernel's
// and belong to a process, however many hosts it has.
var shared struct {
	mu           sync.Mutex
	hosts        int
	nursery      *nursery
	wasSubreaper int
}

// enterNursery gives the nursery to one more host, and starts it for the first one.
func enterNursery() (*nursery, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.hosts == 0 {
		if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&shared.wasSubreaper)), 0, 0, 0); err != nil {
			return nil, os.NewSyscallError("prctl PR_GET_CHILD_SUBREAPER", err)
		}
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", err)
		}
		sid, err := unix.Getsid(0)
		if err != nil {
			return nil, os.NewSyscallError("getsid", err)
		}
		shared.nursery = &nursery{
			forks:    make(chan forkRequest),
			sweeps:   make(chan chan struct{}),
			quit:     make(chan struct{}),
			ended:    make(chan struct{}),
			session:  sid,
			children: map[int]*child{},
		}
		go shared.nursery.run()
	}
	shared.hosts++
	return shared.nursery, nil
}

// leaveNursery takes one host away; the last one ends the nursery, after lastWish.
func leaveNursery(lastWish func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.hosts--
	if shared.hosts > 0 {
		return
	}
	lastWish()
	close(shared.nursery.quit)
	<-shared.nursery.ended
	shared.nursery = nil
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(shared.wasSubreaper), 0, 0, 0)
}

// child is one registered direct child, the leader of its own session and process group.
type child struct {
	pid     int
	started time.Time
	exited  chan struct{} // closed when it has been reaped; exit is valid then
	exit    Exit

	mu     sync.Mutex
	reaped bool // the pid is no longer ours to signal
}

// signalGroup signals the child's process group, unless its pid may mean another process by now.
func (c *child) signalGroup(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.reaped && syscall.Kill(-c.pid, sig) == nil
}

type forkRequest struct {
	path  string
	argv  []string
	attr  *syscall.ProcAttr
	reply chan forkReply
}

type forkReply struct {
	child *child
	err   error
}

// fork starts a program as a registered child.
func (n *nursery) fork(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	r := forkRequest{path: path, argv: argv, attr: attr, reply: make(chan forkReply, 1)}
	n.forks <- r
	reply := <-r.reply
	return reply.child, reply.err
}

// sweep returns when everything that is a zombie now has been reaped.
func (n *nursery) sweep() {
	done := make(chan struct{})
	n.sweeps <- done
	<-done
}

func (n *nursery) run() {
	defer close(n.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	defer signal.Stop(sigchld)
	n.reap()
	for {
		select {
		case <-sigchld:
			n.reap()
		case r := <-n.forks:
			started := time.Now()
			pid, err := syscall.ForkExec(r.path, r.argv, r.attr)
			if err != nil {
				r.reply <- forkReply{err: err}
				continue
			}
			c := &child{pid: pid, started: started, exited: make(chan struct{})}
			n.children[pid] = c
			r.reply <- forkReply{child: c}
		case done := <-n.sweeps:
			n.reap()
			close(done)
		case <-n.quit:
			n.reap()
			return
		}
	}
}

// reap collects every child that has ended: registered ones and adopted orphans. It looks before it
// takes: a child that other code of this process has forked, and waits for, is left alone.
func (n *nursery) reap() {
	for {
		pid, ok := firstZombie()
		if !ok {
			return
		}
		if !n.collect(pid) {
			n.reapBehind()
			return
		}
	}
}

// reapBehind collects the zombies that the kernel lists behind one that is not ours to take.
func (n *nursery) reapBehind() {
	procs, err := readProcs()
	if err != nil {
		return
	}
	self := os.Getpid()
	for _, p := range procs {
		if p.ppid == self && p.state == 'Z' {
			n.collect(p.pid)
		}
	}
}

// collect reaps one zombie; false means that it belongs to other code of this process. Every child of
// ours has a session of its own, and a session cannot be joined: whatever ends in the gateway's own
// session was not started by a server.
func (n *nursery) collect(pid int) bool {
	c := n.children[pid]
	if c == nil {
		if sid, err := unix.Getsid(pid); err == nil && sid == n.session {
			return false
		}
	} else {
		c.mu.Lock()
		c.reaped = true
		c.mu.Unlock()
	}
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	for err == syscall.EINTR {
		got, err = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
	if c == nil {
		return true
	}
	delete(n.children, pid)
	c.exit = Exit{Code: -1, After: time.Since(c.started)}
	if got == pid {
		c.exit.Code = status.ExitStatus()
		if status.Signaled() {
			c.exit.Signal = status.Signal()
		}
	}
	close(c.exited)
	return true
}

// pidOffset is where waitid writes si_pid on 64-bit systems: x/sys has no field for it.
const pidOffset = 16

// firstZombie names a child that has ended, without reaping it.
func firstZombie() (int, bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		pid := *(*int32)(unsafe.Add(unsafe.Pointer(&info), pidOffset))
		return int(pid), err == nil && pid > 0
	}
}
