package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a start waits for the holder of the lock to say who it is: the holder writes that
// right after it has taken the lock.
const settle = 2 * time.Second

// AlreadyRunning is the error of a start that met a running gateway.
type AlreadyRunning struct {
	PID     int // 0 when the holder of the lock has not said who it is
	Listen  string
	Started time.Time
	Root    string // of the paths; named in the command that ends the gateway
}

// Error names the running gateway and the command that ends it.
func (e *AlreadyRunning) Error() string {
	if e.PID == 0 {
		return "another start of the gateway is under way"
	}
	stop := "mcp-gateway stop"
	if e.Root != "" && e.Root != "/" {
		stop += " --root " + e.Root
	}
	return fmt.Sprintf("gateway is already running (pid %d, port %s, for %s); end it with %q",
		e.PID, port(e.Listen), e.Age().Round(time.Second), stop)
}

// Age is how long the running gateway has been there. A clock that was set back makes it no less than 0.
func (e *AlreadyRunning) Age() time.Duration { return max(0, time.Since(e.Started)) }

func port(listen string) string {
	if _, p, err := net.SplitHostPort(listen); err == nil {
		return p
	}
	return listen
}

// Lock is held by the one running gateway. Its file holds the gateway's Info.
type Lock struct {
	paths Paths
	file  *os.File
}

// Acquire makes the calling process the one gateway of these paths: it takes the lock, clears what a
// dead gateway left behind, and writes the pid file. It returns *AlreadyRunning when the lock is held.
// PID and Ticks of info are filled in, and Started where it is zero.
func Acquire(p Paths, info Info) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(p.Lock()), 0o755); err != nil {
		return nil, fmt.Errorf("make the lock's folder: %w", err)
	}
	file, err := lockFile(p)
	if err != nil {
		return nil, err
	}
	l := &Lock{paths: p, file: file}
	if err := l.occupy(info); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// lockFile opens and locks the lock file. A file that was removed between the two was the lock of a
// gateway that has just ended: nobody else would meet us there, so a new one is taken.
func lockFile(p Paths) (*os.File, error) {
	deadline := time.Now().Add(settle)
	for {
		file, err := os.OpenFile(p.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock file: %w", err)
		}
		err = flock(file)
		switch {
		case err == nil && isAt(file, p.Lock()):
			return file, nil
		case err == nil: // removed meanwhile: try again
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %q: %w", p.Lock(), err), file.Close())
		default:
			if held := holder(p, time.Now().After(deadline)); held != nil {
				return nil, errors.Join(held, file.Close())
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err := file.Close(); err != nil {
			return nil, fmt.Errorf("close lock file: %w", err)
		}
	}
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			return err
		}
	}
}

// isAt tells whether the open file is still the one that the path leads to.
func isAt(file *os.File, path string) bool {
	here, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(here, there)
}

// holder describes who has the lock. It is nil while that is not known and not late.
func holder(p Paths, late bool) error {
	info, ok := Running(p)
	if !ok && !late {
		return nil
	}
	return &AlreadyRunning{PID: info.PID, Listen: info.Listen, Started: info.Started, Root: p.Root}
}

// occupy clears the leavings of a dead gateway and says who holds the lock now.
func (l *Lock) occupy(info Info) error {
	if err := l.clear(); err != nil {
		return err
	}
	info.PID = os.Getpid()
	info.Ticks, _ = ticks(info.PID) // 0, where /proc cannot be read, makes the pid alone decide
	if info.Started.IsZero() {
		info.Started = time.Now()
	}
	doc, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("describe the gateway: %w", err)
	}
	// Written over the old text and then cut, so that a reader meets a whole document at any moment.
	if _, err := l.file.WriteAt(doc, 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if err := l.file.Truncate(int64(len(doc))); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(l.paths.Pid()), 0o755); err != nil {
		return fmt.Errorf("make the pid file's folder: %w", err)
	}
	return writePid(l.paths.Pid(), info.PID)
}

// writePid writes the file whole or not at all. It is not forced to the disk: it means nothing after
// the machine has gone down.
func writePid(path string, pid int) error {
	draft := path + ".new"
	err := os.WriteFile(draft, []byte(strconv.Itoa(pid)+"\n"), 0o644)
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// clear removes the files that only a running gateway has.
func (l *Lock) clear() error {
	var problems []error
	for _, path := range []string{l.paths.Token(), l.paths.Socket(), l.paths.Pid()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			problems = append(problems, fmt.Errorf("clear away: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Release removes the token, pid, socket and lock file and gives the lock back. A second call does
// nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	err := l.clear()
	// Unlinked while still locked: whoever waits for this file sees afterwards that it is gone.
	if isAt(l.file, l.paths.Lock()) {
		err = errors.Join(err, os.Remove(l.paths.Lock()))
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}
