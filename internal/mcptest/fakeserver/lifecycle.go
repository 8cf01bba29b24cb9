package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// sleeperArg as the first argument makes this program a process that only exists, or the
	// short-lived parent of one.
	sleeperArg = "be-a-sleeper"
	// sleeperLife ends what a broken test leaves behind.
	sleeperLife = 10 * time.Minute
	gatePoll    = 5 * time.Millisecond
)

// startUp does what the flags ask for before the first line is read.
func (s *server) startUp() (code int, exit bool) {
	o := s.o
	if o.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if o.ignoreEOF {
		signal.Ignore(syscall.SIGPIPE)
	}
	if o.pidFile != "" {
		appendTo(o.pidFile, fmt.Sprintln(os.Getpid()))
	}
	if o.spawn {
		pid, err := spawnSession(false, false)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		if o.pidFile != "" {
			appendTo(o.pidFile, fmt.Sprintln(pid))
		}
	}
	leaveOrphans(o.fork)
	for _, l := range o.stderrLines {
		fmt.Fprintln(os.Stderr, l)
	}
	if o.exitBeforeReady >= 0 {
		return o.exitBeforeReady, true
	}
	s.startNoise()
	time.Sleep(o.startDelay)
	if o.startGate != "" {
		waitForFile(o.startGate, nil)
	}
	return 0, false
}

// startNoise prints what does not belong on stdout and starts the timers.
func (s *server) startNoise() {
	if s.o.banner {
		s.out.raw("hello, starting\n\x1b[32m[INFO]\x1b[0m listening on stdio\n")
	}
	for _, l := range s.o.print {
		s.out.raw(l + "\n")
	}
	if s.o.endlessLine {
		go endless(s)
	}
	if s.o.stderrEvery > 0 {
		go every(s.o.stderrEvery, func() { fmt.Fprintln(os.Stderr, "x") })
	}
	if s.o.oddNotifications > 0 {
		go every(s.o.oddNotifications, s.oddNotifications)
	}
}

// endless writes one line that never ends.
func endless(s *server) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	block := bytes.Repeat([]byte("x"), 1<<16)
	for {
		if _, err := os.Stdout.Write(block); err != nil {
			return
		}
	}
}

func every(d time.Duration, f func()) {
	for range time.Tick(d) {
		f()
	}
}

func (s *server) oddNotifications() {
	s.out.notify("window/logMessage", `{"type":3,"message":"from another protocol"}`)
	s.out.notify("x/event", `{"n":1}`)
}

// floodStderr writes n bytes in lines to stderr.
func floodStderr(n int) {
	line := strings.Repeat("e", 99) + "\n"
	for ; n > 0; n -= len(line) {
		os.Stderr.WriteString(line)
	}
}

// waitForFile returns when the file exists, or when done is closed.
func waitForFile(path string, done <-chan struct{}) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(gatePoll):
		}
	}
}

func appendTo(path, text string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	f.WriteString(text)
}

// leaveOrphans makes n processes whose parent ends before they do.
func leaveOrphans(n int) {
	for range n {
		_ = exec.Command("/bin/sh", "-c", "true & exit 0").Run()
	}
}

// spawnSession starts a process that lives on in a session of its own, with a parent that ends at
// once, as a daemon does. It returns its process id. With hold it keeps this server's stdout and
// stderr open; stubborn, it ignores SIGTERM.
func spawnSession(hold, stubborn bool) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(self, sleeperArg, "parent", strconv.FormatBool(hold), strconv.FormatBool(stubborn))
	if hold {
		c.ExtraFiles = []*os.File{os.Stdout, os.Stderr}
	}
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("start a grandchild: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// sleeper is main of the helper processes.
func sleeper() int {
	if len(os.Args) > 4 && os.Args[2] == "parent" {
		if err := startSleeper(os.Args[3] == "true", os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	signal.Ignore(syscall.SIGHUP)
	if len(os.Args) > 2 && os.Args[2] == "true" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	time.Sleep(sleeperLife)
	return 0
}

func startSleeper(hold bool, stubborn string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self, sleeperArg, stubborn)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if hold {
		c.Stdout, c.Stderr = os.NewFile(3, "stdout"), os.NewFile(4, "stderr")
	}
	if err := c.Start(); err != nil {
		return errors.Join(errors.New("start the sleeper"), err)
	}
	fmt.Println(c.Process.Pid)
	return nil
}
