package process

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestB12_StopIsBounded(t *testing.T) {
	modes(t, func(t *testing.T, o HostOptions) {
		o.StdinGrace, o.TermGrace = time.Millisecond, time.Millisecond
		p := start(t, newHost(t, o), self(t, "stubborn"))
		readLine(t, p.Stdout())
		p.Stop(context.Background())
		if got := p.Exit().String(); got != "signal: killed" {
			t.Errorf("exit %q", got)
		}
	})
	t.Run("the documented total", func(t *testing.T) {
		if StopLimit != 8*time.Second {
			t.Errorf("StopLimit is %v: change the README too", StopLimit)
		}
	})
}

func TestStop_Ladder(t *testing.T) {
	hour := HostOptions{StdinGrace: time.Hour, TermGrace: time.Hour}
	modes(t, func(t *testing.T, o HostOptions) {
		t.Run("the end of stdin is enough", func(t *testing.T) {
			o := hour
			p := start(t, newHost(t, o), shell("cat; echo bye >&2; exit 4"))
			p.Stop(context.Background())
			if p.Exit().Code != 4 || !slices.Equal(p.Tail(), []string{"bye"}) {
				t.Errorf("%v %q", p.Exit(), p.Tail())
			}
		})
		t.Run("then SIGTERM, once", func(t *testing.T) {
			o := HostOptions{NoCgroup: o.NoCgroup, StdinGrace: time.Millisecond, TermGrace: time.Hour}
			p := start(t, newHost(t, o), self(t, "tells"))
			readLine(t, p.Stdout())
			p.Stop(context.Background())
			if !p.Exit().Success() || !slices.Equal(p.Tail(), []string{"end of stdin", "SIGTERM"}) {
				t.Errorf("%v %q", p.Exit(), p.Tail())
			}
		})
		t.Run("SIGTERM reaches what has cut itself off", func(t *testing.T) {
			o := HostOptions{NoCgroup: o.NoCgroup, StdinGrace: time.Millisecond, TermGrace: time.Hour}
			p := start(t, newHost(t, o), self(t, "detacher-tells"))
			grandchild := hold(t, readLine(t, p.Stdout()))
			p.Stop(context.Background())
			grandchild.mustEnd(t)
			if !slices.Contains(p.Tail(), "SIGTERM") {
				t.Errorf("tail %q", p.Tail())
			}
		})
		t.Run("an ended context goes straight to SIGKILL", func(t *testing.T) {
			o := HostOptions{NoCgroup: o.NoCgroup, StdinGrace: time.Hour, TermGrace: time.Hour}
			p := start(t, newHost(t, o), self(t, "detacher"))
			grandchild := hold(t, readLine(t, p.Stdout()))
			ctx, cancel := context.WithCancel(context.Background())
			var stops sync.WaitGroup
			for range 5 {
				stops.Go(func() { p.Stop(context.Background()) })
			}
			cancel()
			p.Stop(ctx)
			stops.Wait()
			p.Stop(ctx)
			grandchild.mustEnd(t)
		})
	})
}

func TestB14_WrappersLeaveNothing(t *testing.T) {
	modes(t, func(t *testing.T, o HostOptions) {
		o.StdinGrace = time.Millisecond
		exe := self(t, "tells")
		spec := shell(`sh -c 'exec "$0"' "` + exe.Argv[0] + `" & wait`)
		spec.Env = exe.Env
		p := start(t, newHost(t, o), spec)
		server := hold(t, readLine(t, p.Stdout()))
		p.Stop(context.Background())
		server.mustEnd(t) // newHost lists the processes afterwards
	})
}

// A grandchild that has called setsid, and whose parent has ended, ends with its server.
func TestB14_DetachedGrandchildEndsWithItsServer(t *testing.T) {
	modes(t, func(t *testing.T, o HostOptions) {
		o.StdinGrace, o.TermGrace = time.Millisecond, time.Millisecond
		h := newHost(t, o)
		t.Run("when the server is stopped", func(t *testing.T) {
			p := start(t, h, self(t, "detacher"))
			grandchild := hold(t, readLine(t, p.Stdout()))
			p.Stop(context.Background())
			grandchild.mustEnd(t)
		})
		t.Run("when the server is killed", func(t *testing.T) {
			p := start(t, h, self(t, "detacher"))
			grandchild := hold(t, readLine(t, p.Stdout()))
			if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			mustBeDone(t, p)
			grandchild.mustEnd(t)
			if got := p.Exit().String(); got != "signal: killed" {
				t.Errorf("exit %q", got)
			}
		})
		t.Run("when the host is closed", func(t *testing.T) {
			h := newHost(t, o)
			p := start(t, h, self(t, "detacher"))
			grandchild := hold(t, readLine(t, p.Stdout()))
			other := start(t, newHost(t, o), shell("cat"))
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			grandchild.mustEnd(t)
			if _, err := h.Start(shell("true"), nil); !errors.Is(err, ErrClosed) {
				t.Errorf("start after close: %v", err)
			}
			if _, err := other.Stdin().WriteString("still here\n"); err != nil {
				t.Error(err)
			} else if got := readLine(t, other.Stdout()); got != "still here" {
				t.Errorf("another host's server said %q", got)
			}
		})
	})
}

// With its environment emptied, only the end of the last host finds it where there are no control groups.
func TestClose_EndsWhatHidesItsMark(t *testing.T) {
	h := newHost(t, HostOptions{NoCgroup: true})
	p := start(t, h, shell(hiding))
	hidden := hold(t, readLine(t, p.Stdout()))
	p.Stop(context.Background())
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	hidden.mustEnd(t)
}

// What has left its control group is still found by its mark, while another host lives on.
func TestClose_EndsWhatLeftItsControlGroup(t *testing.T) {
	newHost(t, HostOptions{NoCgroup: true})
	h := newHost(t, HostOptions{})
	if h.groups == nil {
		t.Skip("no control groups here")
	}
	p := start(t, h, shell(`(setsid sh -c 'echo 0 >"$1/cgroup.procs" && echo $$ && exec sleep 3600' sh "`+filepath.Dir(h.groups.dir)+`" &); cat >/dev/null`))
	escaped := hold(t, readLine(t, p.Stdout()))
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	escaped.mustEnd(t)
}

// Root may remove an empty group at any time; servers are started all the same.
func TestStart_WhenTheGroupIsGone(t *testing.T) {
	h := newHost(t, HostOptions{StdinGrace: time.Millisecond, TermGrace: time.Millisecond})
	if h.groups == nil {
		t.Skip("no control groups here")
	}
	if err := syscall.Rmdir(h.groups.dir); err != nil {
		t.Fatal(err)
	}
	p := start(t, h, self(t, "detacher"))
	grandchild := hold(t, readLine(t, p.Stdout()))
	p.Stop(context.Background())
	grandchild.mustEnd(t)
}
