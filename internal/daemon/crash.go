package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/secret"
)

// Died is the error of a daemon that ended without a report.
type Died struct {
	Ended string   // "exit status 2", "signal: killed"
	Lines []string // what it wrote to stderr, or else the last lines of its log
}

// Error says in one line how it ended, with the reason where that was a crash.
func (e *Died) Error() string {
	text := "gateway ended before it was ready: " + e.Ended
	for _, line := range e.Lines {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return text + ": " + line
		}
	}
	return text
}

// crashFile catches what a daemon writes to stderr until its report: a Go program that crashes tells
// why there and nowhere else. It is memory of a fixed size, so nobody has to read it meanwhile.
type crashFile struct {
	file    *os.File
	log     string
	logSize int64 // of the log before the start
}

const (
	crashName = "mcp-gateway-stderr"
	crashSize = 256 << 10
)

func newCrashFile(log string) (*crashFile, error) {
	fd, err := unix.MemfdCreate(crashName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make room for the daemon's stderr: %w", err)
	}
	c := &crashFile{file: os.NewFile(uintptr(fd), crashName), log: log}
	if err := c.file.Truncate(crashSize); err != nil {
		return nil, errors.Join(fmt.Errorf("make room for the daemon's stderr: %w", err), c.close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_GROW); err != nil {
		return nil, errors.Join(fmt.Errorf("bound the daemon's stderr: %w", err), c.close())
	}
	if info, err := os.Stat(log); err == nil {
		c.logSize = info.Size()
	}
	return c, nil
}

func (c *crashFile) close() error { return c.file.Close() }

// leaveCrashFile lets go of the launcher's memory on descriptor 2, once the launcher does not read it
// any more.
func leaveCrashFile() error {
	const stderr = 2
	target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(stderr))
	if err != nil || !strings.HasPrefix(target, "/memfd:"+crashName) {
		return nil // not started by a launcher of ours
	}
	return redirectToNull(stderr)
}

// died describes the end of the daemon, with the lines that tell why.
func (c *crashFile) died(ended string, scrub *secret.Scrubber) *Died {
	const most, mostBytes = 20, 2 << 10
	written, err := io.ReadAll(io.NewSectionReader(c.file, 0, crashSize))
	lines := cleanLines(scrub.Scrub(string(bytes.TrimRight(written, "\x00"))))
	if err != nil || len(lines) == 0 {
		lines = cleanLines(scrub.Scrub(c.logged()))
		lines = lines[max(0, len(lines)-most):]
	}
	// A crash tells its reason first and its stack afterwards.
	lines = lines[:min(len(lines), most)]
	room := mostBytes
	for i, line := range lines {
		if room -= len(line); room < 0 {
			lines = lines[:i]
			break
		}
	}
	return &Died{Ended: ended, Lines: lines}
}

// logged is the end of what the log got since the start.
func (c *crashFile) logged() string {
	const most = 16 << 10
	file, err := os.Open(c.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := c.logSize
	if from > size {
		from = 0 // a new file since
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(from, size-most), math.MaxInt32))
	if err != nil {
		return ""
	}
	return string(text)
}

// cleanLines splits text for a terminal: no empty lines, no control characters, none too long.
func cleanLines(text string) []string {
	const most = 300
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, line))
		if runes := []rune(line); len(runes) > most {
			line = string(runes[:most]) + "…"
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
