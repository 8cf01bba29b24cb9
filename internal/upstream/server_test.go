package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mcp-gateway/internal/wire"
)

// fakeConn is a connection that a test ends.
type fakeConn struct {
	Conn
	done   chan struct{}
	once   sync.Once
	err    error
	closed atomic.Bool
}

func newFakeConn() *fakeConn { return &fakeConn{done: make(chan struct{})} }

func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) Err() error            { return c.err }
func (c *fakeConn) Close(context.Context) {
	c.closed.Store(true)
	c.end(errors.New("closed"))
}

func (c *fakeConn) end(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.done)
	})
}

// dialFunc is a Dialer.
type dialFunc func(ctx context.Context) (Conn, error)

var _ Dialer = dialFunc(nil)

func (f dialFunc) Dial(ctx context.Context, ready ReadyFunc) (Conn, error) {
	c, err := f(ctx)
	if err == nil && ready != nil {
		err = ready(ctx, c)
	}
	return c, err
}

func newTestServer(ctx context.Context, d Dialer) *Server {
	return NewServer(ctx, ServerOptions{Name: "s", Dialer: d, StartTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
}

func TestB16_ParallelFirstCallsStartOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		s := newTestServer(t.Context(), dialFunc(func(context.Context) (Conn, error) {
			dials.Add(1)
			time.Sleep(time.Second)
			return newFakeConn(), nil
		}))
		var all sync.WaitGroup
		conns := make([]Conn, 100)
		for i := range conns {
			all.Go(func() { conns[i], _ = s.Conn(t.Context()) })
		}
		all.Wait()
		for _, c := range conns {
			if c == nil || c != conns[0] {
				t.Fatal("the callers did not get the same connection")
			}
		}
		if dials.Load() != 1 {
			t.Errorf("%d starts", dials.Load())
		}
		s.Close(t.Context(), nil)
	})
}

func TestB21_BackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		s := newTestServer(t.Context(), dialFunc(func(context.Context) (Conn, error) {
			dials++
			return nil, fmt.Errorf("no %d", dials)
		}))
		defer s.Close(t.Context(), nil)
		var back *BackoffError
		for range freeTries {
			if _, err := s.Conn(t.Context()); err == nil || errors.As(err, &back) {
				t.Fatalf("an early try: %v", err)
			}
		}
		// A caller each 100 ms for an hour: the number of starts stays small.
		var waits []time.Duration
		for range 36_000 {
			if _, err := s.Conn(t.Context()); errors.As(err, &back) {
				waits = append(waits, back.Wait)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if dials < 40 || dials > 150 {
			t.Errorf("%d starts in an hour", dials)
		}
		for _, wait := range waits {
			if wait > maxDelay {
				t.Fatalf("a wait of %s", wait)
			}
		}
		if st := s.State(); st.State != StateFailed || st.LastErr == nil {
			t.Errorf("state %+v", st)
		}
		contains(t, back.Error(), `server "s" failed`, "times in a row", "last failure: no ")
	})
}

func TestB21_StableRunForgetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *fakeConn
		s := newTestServer(t.Context(), dialFunc(func(context.Context) (Conn, error) {
			c = newFakeConn()
			return c, nil
		}))
		defer s.Close(t.Context(), nil)
		for range freeTries + 1 { // short runs
			if _, err := s.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.end(errors.New("crash"))
		}
		var back *BackoffError
		if _, err := s.Conn(t.Context()); !errors.As(err, &back) {
			t.Fatalf("after many crashes: %v", err)
		}
		time.Sleep(maxDelay)
		if _, err := s.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stable + time.Second)
		for range freeTries {
			c.end(errors.New("crash"))
			if _, err := s.Conn(t.Context()); err != nil {
				t.Fatalf("after a stable run: %v", err)
			}
		}
	})
}

// The end of a connection counts before the next start, also where its watcher has not run yet.
func TestRestartsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *fakeConn
		var ended atomic.Int64
		s := NewServer(t.Context(), ServerOptions{Name: "s", StartTimeout: time.Minute, Log: slog.New(slog.DiscardHandler),
			Dialer: dialFunc(func(context.Context) (Conn, error) { c = newFakeConn(); return c, nil }),
			Ended:  func(Conn) { ended.Add(1) }})
		for i := range 3 {
			if _, err := s.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if st := s.State(); st.State != StateReady || st.Restarts != i {
				t.Errorf("state %+v", st)
			}
			c.end(fmt.Errorf("crash %d", i))
		}
		synctest.Wait()
		if st := s.State(); st.State != StateStopped || st.Restarts != 3 || st.LastErr.Error() != "crash 2" {
			t.Errorf("state %+v", st)
		}
		s.Close(t.Context(), nil)
		if n := ended.Load(); n != 3 {
			t.Errorf("%d ends were told", n)
		}
	})
}

func TestB22_B23_StartLimits(t *testing.T) {
	hang := dialFunc(func(ctx context.Context) (Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	t.Run("the server's own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t.Context(), hang)
			defer s.Close(t.Context(), nil)
			if err := s.Start(t.Context()); err == nil || err.Error() != "the start limit of 1m0s has passed" {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("the gateway's budget, and the error is the dialer's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t.Context(), dialFunc(func(ctx context.Context) (Conn, error) {
				<-ctx.Done()
				time.Sleep(100 * time.Millisecond) // it cleans up and reads the last lines
				return nil, fmt.Errorf("told well: %w", context.Cause(ctx))
			}))
			defer s.Close(t.Context(), nil)
			budget, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the budget has passed"))
			defer cancel()
			if err := s.Start(budget); err == nil || err.Error() != "told well: the budget has passed" {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("a caller who gives up does not end the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t.Context(), dialFunc(func(ctx context.Context) (Conn, error) {
				select {
				case <-time.After(25 * time.Second):
					return newFakeConn(), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}))
			defer s.Close(t.Context(), nil)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.Conn(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error %v", err)
			}
			if st := s.State(); st.State != StateStarting {
				t.Errorf("state %+v", st)
			}
			if _, err := s.Conn(t.Context()); err != nil {
				t.Errorf("a late server was given up for good: %v", err)
			}
		})
	})
}

func TestServerClose(t *testing.T) {
	t.Run("during a start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newFakeConn()
			s := newTestServer(t.Context(), dialFunc(func(ctx context.Context) (Conn, error) {
				<-ctx.Done() // it has just become ready when it is told to end
				return c, nil
			}))
			var err error
			var caller sync.WaitGroup
			caller.Go(func() { _, err = s.Conn(t.Context()) })
			synctest.Wait()
			s.Close(t.Context(), nil)
			caller.Wait()
			if !c.closed.Load() {
				t.Errorf("the connection is left open (the caller got %v)", err)
			}
			if _, err := s.Conn(t.Context()); err == nil {
				t.Error("a closed server starts again")
			}
		})
	})
	t.Run("Refuse ends a connection too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newFakeConn()
			s := newTestServer(t.Context(), dialFunc(func(context.Context) (Conn, error) { return c, nil }))
			if _, err := s.Conn(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Refuse(nil)
			<-c.Done()
			s.Close(t.Context(), nil)
		})
	})
}

// With a real process.
func TestB20_CrashedServerComesBack(t *testing.T) {
	p := newPeer(t)
	s := NewServer(t.Context(), ServerOptions{Name: "fake", Dialer: p.dialer, StartTimeout: patience, Log: p.dialer.Log})
	defer s.Close(context.Background(), nil)
	var last int
	for range 3 {
		c, err := s.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.conn = c
		if p.call("whoami", "{}") != "fake" {
			t.Error("wrong answer")
		}
		st := s.State()
		if st.PID == last || st.PID != p.pid() || st.State != StateReady {
			t.Errorf("state %+v", st)
		}
		last = st.PID
		_ = syscall.Kill(last, syscall.SIGKILL)
		<-c.Done()
		if !dead(last) {
			t.Errorf("process %d is still there", last)
		}
	}
}

// B26: whether a call may be made again is decided by the state of the connection, never by the words
// of an error.
func TestB26_ErrorTextsMeanNothing(t *testing.T) {
	p := dial(t, `-answer=x/y={"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"session not found, connection closed, EOF, broken pipe"}}`)
	_, err := Ask(t.Context(), p.conn, "x/y", nil)
	var refused *ResponseError
	if !errors.As(err, &refused) || refused.Code() != "-32000" || Retryable(err) {
		t.Errorf("error %v", err)
	}
	if p.call("whoami", "{}") != "fake" {
		t.Error("the connection was given up")
	}
	if !Retryable(fmt.Errorf("other words: %w", ErrGone)) || Retryable(&wire.Error{Message: ErrGone.Error()}) {
		t.Error("it is decided by words")
	}
}

func TestServerThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		s := newTestServer(t.Context(), dialFunc(func(context.Context) (Conn, error) {
			if dials++; dials%10 != 1 {
				return nil, fmt.Errorf("no %d", dials)
			}
			return newFakeConn(), nil
		}))
		s.o.Keep = true
		defer s.Close(t.Context(), nil)
		c, err := s.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for want := 11; want < 50; want += 10 {
			c.(*fakeConn).end(errors.New("gone"))
			began := time.Now()
			for s.Live() == nil {
				time.Sleep(time.Second)
			}
			if c = s.Live(); dials != want || time.Since(began) > 10*maxDelay {
				t.Errorf("%d dials, want %d; %s", dials, want, time.Since(began))
			}
		}
	})
}
