package telemetry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
)

// logFile is the file on the disk. One goroutine writes to it; it is put aside when it is full, and
// opened again when somebody has moved it away.
type logFile struct {
	path    string
	maxSize int64
	regular bool // else a pipe or a device: never put aside
	torn    bool // the last line is not complete
	file    atomic.Pointer[os.File]
	crashes atomic.Bool // the runtime writes crashes to the file
}

func openLogFile(path string, maxSize int64) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // so that the file is put aside, not the link
	}
	l := &logFile{path: path, maxSize: maxSize}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		if l.regular = info.Mode().IsRegular(); l.regular && info.Mode().Perm() != 0o600 {
			err = file.Chmod(0o600)
		}
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	old := l.file.Swap(file)
	if l.crashes.Load() {
		err = debug.SetCrashOutput(file, debug.CrashOptions{})
	}
	if old != nil {
		err = errors.Join(err, old.Close())
	}
	return err
}

// Write appends whole records.
func (l *logFile) Write(records []byte) (int, error) {
	if err := l.prepare(int64(len(records))); err != nil {
		return 0, err
	}
	if l.torn {
		records = append([]byte{'\n'}, records...)
	}
	n, err := l.file.Load().Write(records)
	l.torn = err != nil && (n > 0 || l.torn)
	return n, err
}

// prepare sees to it that the file is the one at its path and has room.
func (l *logFile) prepare(more int64) error {
	if !l.regular {
		return nil
	}
	here, err := l.file.Load().Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(here, there):
		return l.open()
	case err != nil:
		return err
	case here.Size() > 0 && here.Size()+more > l.maxSize:
		return l.putAside()
	}
	return nil
}

// asideSuffix is what the name of a file that was full ends in. There is one: it replaces the last.
const asideSuffix = ".1"

func (l *logFile) putAside() error {
	if err := os.Rename(l.path, l.path+asideSuffix); err != nil {
		// As when the file itself is mounted. A bounded log is worth more than its past.
		return l.file.Load().Truncate(0)
	}
	l.torn = false
	return l.open()
}

// catchCrashes has the runtime write crashes to the file, also after it was opened again.
func (l *logFile) catchCrashes() error {
	l.crashes.Store(true)
	for {
		file := l.file.Load()
		err := debug.SetCrashOutput(file, debug.CrashOptions{})
		if l.file.Load() == file {
			return err
		}
	}
}

func (l *logFile) close() error {
	var err error
	if l.crashes.Load() {
		err = debug.SetCrashOutput(nil, debug.CrashOptions{})
	}
	return errors.Join(err, l.file.Load().Close())
}
