package process

import (
	"fmt"
	"syscall"
	"time"
)

// Exit says how a process ended.
type Exit struct {
	Code   int            // the exit status; -1 when there is none
	Signal syscall.Signal // the signal that ended it, or 0
	After  time.Duration  // from its start to its end
}

// String gives "exit status 1" or "signal: killed".
func (e Exit) String() string {
	switch {
	case e.Signal != 0:
		return "signal: " + e.Signal.String()
	case e.Code < 0:
		return "still running"
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Success reports exit status 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 }
