package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is the time between two attempts: a file lock can be asked for, but not waited for with a
// context.
const lockPause = 50 * time.Millisecond

// lock takes a file lock, which holds between processes (a gateway that starts and a pull) as well as
// between servers of this one. The kernel lets go of it when its holder dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		f, err := tryLock(path)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}

// tryLock takes the lock or gives EWOULDBLOCK. A file that was removed while it was waited for locks
// nothing any more.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // so may its folder be
		if err = os.MkdirAll(filepath.Dir(path), folderMode); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	locked, errLocked := f.Stat()
	named, errNamed := os.Stat(path)
	if errLocked != nil || errNamed != nil || !os.SameFile(locked, named) {
		f.Close()
		return nil, unix.EWOULDBLOCK
	}
	return f, nil
}
