package daemon

import (
	"fmt"
	"os"
	"time"
)

// Info describes a running gateway.
type Info struct {
	PID     int       `json:"pid"`
	Listen  string    `json:"listen"` // the address it listens on
	Started time.Time `json:"started"`
	Ticks   uint64    `json:"ticks"` // the process's start in ticks since boot: a pid alone may have been given again
}

// AlreadyRunning is the error of a start that met a running gateway.
type AlreadyRunning struct {
	PID     int
	Listen  string
	Started time.Time
	Root    string
}

// Error names the running gateway and the command that ends it.
func (e *AlreadyRunning) Error() string {
	return fmt.Sprintf("gateway is already running (pid %d)", e.PID)
}

// Lock is held by the one running gateway.
type Lock struct {
	paths Paths
	file  *os.File
}

// Acquire makes the calling process the one gateway of these paths: it takes the lock, clears what a
// dead gateway left behind, and writes the pid file. It returns *AlreadyRunning when the lock is held.
// PID, Ticks and, where it is zero, Started of info are filled in.
func Acquire(p Paths, info Info) (*Lock, error) { return nil, fmt.Errorf("acquire: not built yet") }

// Release gives the lock back and removes the token, pid, lock and socket file.
func (l *Lock) Release() error { return nil }

// Running tells which gateway holds the lock, without touching it.
func Running(p Paths) (Info, bool) { return Info{}, false }
