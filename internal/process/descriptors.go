package process

import (
	"errors"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExecAll marks every descriptor above 2 of this process close-on-exec, so that what it
// inherited from its starter reaches no child.
func CloseOnExecAll() error {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	return markDescriptors() // before Linux 5.11, or forbidden by a seccomp filter
}

func markDescriptors() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) {
			return os.NewSyscallError("fcntl F_SETFD", err)
		}
	}
	return nil
}

// pipeBytes is how much of a message the kernel takes before the writer has to wait for the reader.
const pipeBytes = 256 << 10

// pipe is a pipe of which one end stays here, in Go's poller, and the other goes to a child, which
// expects it to block.
type pipe struct {
	ours   *os.File
	theirs *os.File
}

// newPipe makes a pipe; weWrite says which end is ours.
func newPipe(name string, weWrite bool) (pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, os.NewSyscallError("pipe2", err)
	}
	// Without the right to more, the usual 64 KiB do as well.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeBytes)
	ours, theirs := fds[0], fds[1]
	if weWrite {
		ours, theirs = fds[1], fds[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		return pipe{}, errors.Join(os.NewSyscallError("fcntl O_NONBLOCK", err), unix.Close(ours), unix.Close(theirs))
	}
	return pipe{ours: os.NewFile(uintptr(ours), name), theirs: os.NewFile(uintptr(theirs), name)}, nil
}

func (p pipe) close() {
	if p.ours != nil {
		p.ours.Close()
		p.theirs.Close()
	}
}
