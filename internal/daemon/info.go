package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Info describes a running gateway.
type Info struct {
	PID     int       `json:"pid"`
	Listen  string    `json:"listen"` // the address it listens on
	Started time.Time `json:"started"`
	Ticks   uint64    `json:"ticks"` // the process's start in ticks since boot: its pid may be another's later
}

// Running tells which gateway holds the lock, if any. It takes no lock itself, so that looking never
// disturbs a start.
func Running(p Paths) (Info, bool) {
	file, err := os.Open(p.Lock())
	if err != nil {
		return Info{}, false
	}
	defer file.Close()
	var info Info
	if err := json.NewDecoder(file).Decode(&info); err != nil || !info.Alive() {
		return Info{}, false
	}
	return info, true
}

// Alive tells whether this very process still runs. A zombie does not.
func (i Info) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	started, ok := ticks(i.PID)
	return ok && (i.Ticks == 0 || started == i.Ticks)
}

// Signal sends the process a signal, and nothing to another one that got its pid meanwhile.
func (i Info) Signal(sig syscall.Signal) error {
	process, err := os.FindProcess(i.PID) // holds on to the process, so that the check below lasts
	if err != nil {
		return fmt.Errorf("find gateway process %d: %w", i.PID, err)
	}
	defer process.Release()
	if !i.Alive() {
		return fmt.Errorf("signal gateway process %d: %w", i.PID, os.ErrProcessDone)
	}
	if err := process.Signal(sig); err != nil {
		return fmt.Errorf("signal gateway process %d: %w", i.PID, err)
	}
	return nil
}

// Wait returns when the process has ended, or ctx.
func (i Info) Wait(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i.Alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of gateway process %d: %w", i.PID, context.Cause(ctx))
		}
	}
	return nil
}

// ticks reads when a living process was started.
func ticks(pid int) (uint64, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is the program's name in brackets, which may hold brackets and spaces itself.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= start || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[start]), 10, 64)
	return n, err == nil
}
