package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
)

// Dialer makes a connection that has shaken hands. Its error is a *fault.Fault.
type Dialer interface {
	Dial(ctx context.Context) (Conn, error)
}

// ServerOptions configure a Server.
type ServerOptions struct {
	Name         string
	Dialer       Dialer
	StartTimeout time.Duration // for each start
	Log          *slog.Logger
	// Ready is called with each new connection before anybody else gets it: lists are read here.
	// An error makes the start a failed one.
	Ready func(ctx context.Context, c Conn) error
}

// Server keeps one connection to a server: made at Start, made again by the next call after it has
// ended. Starts that fail, or do not last, are delayed more and more.
type Server struct {
	o      ServerOptions
	live   atomic.Pointer[Conn]
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	attempt  *attempt
	restarts int
	failures int // in a row, forgotten after a stable time
	retryAt  time.Time
	since    time.Time // of the state that the server is in
	last     error
}

// attempt is one start that is under way.
type attempt struct {
	done chan struct{}
	conn Conn
	err  error
}

// NewServer makes a server that is not started. It lives until Close or the end of ctx.
func NewServer(ctx context.Context, o ServerOptions) *Server {
	s := &Server{o: o, since: time.Now()}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Name is the server's name in the configuration.
func (s *Server) Name() string { return s.o.Name }

// Conn returns a live connection; where there is none it starts the server and waits, as long as
// ctx lets it.
func (s *Server) Conn(ctx context.Context) (Conn, error) {
	if c := s.Live(); c != nil {
		return c, nil
	}
	a, err := s.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-a.done:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Live returns the connection, nil where there is none now.
func (s *Server) Live() Conn {
	c := s.live.Load()
	if c == nil {
		return nil
	}
	select {
	case <-(*c).Done():
		s.live.CompareAndSwap(c, nil)
		return nil
	default:
		return *c
	}
}

// begin joins the start that is under way or begins one.
func (s *Server) begin() (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil {
		return s.attempt, nil
	}
	if err := s.ctx.Err(); err != nil {
		return nil, fmt.Errorf("server %q is being stopped", s.o.Name)
	}
	if wait := time.Until(s.retryAt); wait > 0 {
		return nil, &BackoffError{Server: s.o.Name, Failures: s.failures, Wait: wait, Err: s.last}
	}
	a := &attempt{done: make(chan struct{})}
	if c := s.Live(); c != nil { // somebody else's start has just ended
		a.conn = c
		close(a.done)
		return a, nil
	}
	s.attempt = a
	s.wait.Go(func() { s.start(a) })
	return a, nil
}

// start makes a connection, has its lists read, and publishes it.
func (s *Server) start(a *attempt) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.o.StartTimeout, fmt.Errorf("server %q was not ready after %s", s.o.Name, s.o.StartTimeout))
	defer cancel()
	began := time.Now()
	c, err := s.o.Dialer.Dial(ctx)
	if err == nil && s.o.Ready != nil {
		if err = s.o.Ready(ctx, c); err != nil {
			c.Close(context.WithoutCancel(ctx))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	s.attempt = nil
	s.since = time.Now()
	if err != nil {
		s.fail(err)
		a.err = err
		s.o.Log.Warn("server not started", telemetry.KeyServer, s.o.Name, telemetry.KeyError, err)
		return
	}
	a.conn = c
	live := &c
	s.live.Store(live)
	s.o.Log.Info("server ready", telemetry.KeyServer, s.o.Name, "seconds", time.Since(began).Seconds())
	s.wait.Go(func() { s.watch(live) })
}

// watch notes the end of a connection.
func (s *Server) watch(live *Conn) {
	c := *live
	<-c.Done()
	c.Close(context.WithoutCancel(s.ctx))
	s.live.CompareAndSwap(live, nil)
	err := c.Err()
	if s.ctx.Err() == nil {
		s.o.Log.Warn("server ended", telemetry.KeyServer, s.o.Name, telemetry.KeyError, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.since) > stable {
		s.failures = 0
	}
	s.since = time.Now()
	s.restarts++
	s.fail(err)
}

const (
	stable    = 5 * time.Minute // a run this long forgets the failures before it
	freeTries = 3               // this many restarts in a row wait for nothing
	maxDelay  = time.Minute
)

// fail notes a failure and when the next start may be. The caller holds mu.
func (s *Server) fail(err error) {
	s.last = err
	s.failures++
	if s.failures <= freeTries {
		return
	}
	delay := min(time.Second<<min(s.failures-freeTries-1, 10), maxDelay)
	s.retryAt = time.Now().Add(delay/2 + rand.N(delay/2+1))
}

// BackoffError says that a server is not started now since it failed too often.
type BackoffError struct {
	Server   string
	Failures int
	Wait     time.Duration
	Err      error // the last failure
}

// Error says how often it failed, when the next try may be, and why it failed last.
func (e *BackoffError) Error() string {
	return fmt.Sprintf("server %q failed %d times in a row; a call in %.0f s starts it again; last failure: %v", e.Server, e.Failures, e.Wait.Seconds()+1, e.Err)
}

// Unwrap returns the last failure.
func (e *BackoffError) Unwrap() error { return e.Err }

// States of a server.
const (
	StateStarting = "starting"
	StateReady    = "ready"
	StateStopped  = "stopped" // it has ended; the next call starts it
	StateFailed   = "failed"  // it has ended or did not start, and waits before it is tried again
)

// State is a server's state as status shows it.
type State struct {
	State    string
	PID      int // 0 where there is no process
	Restarts int
	Skipped  int64 // lines on standard output that were no messages, of the live connection
	LastErr  error // why it ended or did not start last; nil while it never did
	Since    time.Time
}

// State returns what the server is doing now.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{Restarts: s.restarts, LastErr: s.last, Since: s.since}
	live := s.Live()
	switch {
	case live != nil:
		st.State = StateReady
		if c, ok := live.(*stdio); ok {
			st.PID, st.Skipped = c.p.Pid(), c.noise.Load()
		}
	case s.attempt != nil:
		st.State = StateStarting
	case time.Now().Before(s.retryAt):
		st.State = StateFailed
	default:
		st.State = StateStopped
	}
	return st
}

// Refuse makes every start from now on an error, without waiting for anything.
func (s *Server) Refuse() { s.cancel() }

// Close ends the server and waits until its process is gone, which ctx hurries.
func (s *Server) Close(ctx context.Context) {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	if c := s.live.Load(); c != nil {
		(*c).Close(ctx)
	}
	s.wait.Wait()
}

// Retryable tells an error after which nothing had been sent, so that the call may be made again.
func Retryable(err error) bool { return errors.Is(err, ErrGone) }
