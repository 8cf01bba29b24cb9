package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
)

// Dialer makes connections.
type Dialer interface {
	// Dial connects, shakes hands, and calls ready before anybody else gets the connection. Its error
	// is a *fault.Fault, also where ready failed; nothing is left behind then.
	Dial(ctx context.Context, ready ReadyFunc) (Conn, error)
}

// ReadyFunc does what makes a fresh connection ready, as reading its lists.
type ReadyFunc func(ctx context.Context, c Conn) error

// ServerOptions configure a Server.
type ServerOptions struct {
	Name         string
	Dialer       Dialer
	StartTimeout time.Duration // for each start
	Log          *slog.Logger
	Ready        ReadyFunc    // an error makes the start a failed one
	Ended        func(c Conn) // called after a connection that was ready has ended
	Keep         bool         // a connection that has ended is made again without a call that wants it
}

// Server keeps one connection to a server: made at Start, made again by the next call after it has
// ended. Starts that fail, or do not last, are delayed more and more.
type Server struct {
	o      ServerOptions
	live   atomic.Pointer[run]
	ctx    context.Context
	cancel context.CancelCauseFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	attempt  *attempt
	keeping  bool
	restarts int
	failures int // in a row, forgotten after a stable time
	retryAt  time.Time
	since    time.Time // of the state that the server is in
	last     error
}

// run is a connection and when it became ready.
type run struct {
	conn     Conn
	since    time.Time
	replaced bool // by a restart, which wanted its end; under the server's mu
}

// close ends the connection; where a reason is given, that is the error of the calls in flight.
func (r *run) close(ctx context.Context, reason error) {
	if c, ok := r.conn.(interface{ because(reason error) }); ok && reason != nil {
		c.because(reason)
	}
	r.conn.Close(ctx)
}

func (r *run) over() bool {
	select {
	case <-r.conn.Done():
		return true
	default:
		return false
	}
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
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Name is the server's name in the configuration.
func (s *Server) Name() string { return s.o.Name }

// Start starts the server and waits until it is ready or has failed; the end of ctx makes it fail, and
// the error then still tells what was run and what it said.
func (s *Server) Start(ctx context.Context) error {
	a, err := s.begin(ctx)
	if err != nil {
		return err
	}
	<-a.done
	return a.err
}

// Conn returns a live connection; where there is none it starts the server and waits, as long as
// ctx lets it. The start goes on without the caller.
func (s *Server) Conn(ctx context.Context) (Conn, error) {
	if c := s.Live(); c != nil {
		return c, nil
	}
	a, err := s.begin(s.ctx)
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
	if r := s.live.Load(); r != nil && !r.over() {
		return r.conn
	}
	return nil
}

// begin joins the start that is under way, or begins one that the end of ctx makes fail.
func (s *Server) begin(ctx context.Context) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil {
		return s.attempt, nil
	}
	if s.ctx.Err() != nil {
		return nil, s.refusal()
	}
	a := &attempt{done: make(chan struct{})}
	if r := s.live.Load(); r != nil {
		if !r.over() { // somebody else's start has just ended
			a.conn = r.conn
			close(a.done)
			return a, nil
		}
		s.ended(r)
	}
	if wait := time.Until(s.retryAt); wait > 0 {
		return nil, &BackoffError{Server: s.o.Name, Failures: s.failures, Wait: wait, Err: s.last}
	}
	s.attempt = a
	s.since = time.Now()
	s.wait.Go(func() { s.start(ctx, a) })
	return a, nil
}

// reason is the one that the server was closed with, nil for none.
func (s *Server) reason() error {
	if reason := context.Cause(s.ctx); reason != context.Canceled {
		return reason
	}
	return nil
}

// refusal says why there is no start any more.
func (s *Server) refusal() error {
	return cmp.Or(s.reason(), fmt.Errorf("server %q is being stopped", s.o.Name))
}

// Restart ends the connection, forgets how often the server failed, and makes a new one once the old
// process is gone. It waits for that as long as ctx lets it. The error of calls in flight is the reason;
// those that come meanwhile wait for the new connection. A start that is under way is joined.
func (s *Server) Restart(ctx context.Context, reason error) error {
	a, err := s.replace(reason)
	if err != nil {
		return err
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Retry forgets how often the server failed, and returns when there is a connection, or why there is none.
func (s *Server) Retry(ctx context.Context) error {
	s.mu.Lock()
	s.failures, s.retryAt = 0, time.Time{}
	s.mu.Unlock()
	_, err := s.Conn(ctx)
	return err
}

func (s *Server) replace(reason error) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, s.refusal()
	}
	s.failures, s.retryAt = 0, time.Time{}
	if s.attempt != nil {
		return s.attempt, nil
	}
	a := &attempt{done: make(chan struct{})}
	old := s.live.Swap(nil)
	if old != nil {
		old.replaced = true
		s.restarts++
	}
	s.attempt, s.since, s.last = a, time.Now(), nil
	s.wait.Go(func() {
		if old != nil {
			s.o.Log.Info("server restarted on demand", telemetry.KeyServer, s.o.Name)
			old.close(s.ctx, reason)
		}
		s.start(s.ctx, a)
	})
	return a, nil
}

// start makes a connection, has it made ready, and publishes it.
func (s *Server) start(ctx context.Context, a *attempt) {
	limited, cancel := context.WithTimeoutCause(s.ctx, s.o.StartTimeout, fmt.Errorf("the start limit of %s has passed", s.o.StartTimeout))
	defer cancel()
	limited, stop := context.WithCancelCause(limited)
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	began := time.Now()
	c, err := s.o.Dialer.Dial(limited, s.o.Ready)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	s.attempt = nil
	s.since = time.Now()
	if err != nil {
		s.fail(err)
		a.err = cmp.Or(s.reason(), err)
		s.o.Log.Warn("server not started", telemetry.KeyServer, s.o.Name, telemetry.KeyError, err)
		return
	}
	r := &run{conn: c, since: s.since}
	a.conn = c
	s.live.Store(r)
	s.o.Log.Info("server ready", telemetry.KeyServer, s.o.Name, telemetry.KeyDuration, time.Since(began))
	s.wait.Go(func() { s.watch(r) })
}

// watch waits for the end of a connection, which the end of the server brings about too.
func (s *Server) watch(r *run) {
	select {
	case <-r.conn.Done():
	case <-s.ctx.Done():
	}
	r.close(context.WithoutCancel(s.ctx), s.reason())
	s.mu.Lock()
	if s.live.Load() == r {
		s.ended(r)
	}
	wanted := r.replaced || s.ctx.Err() != nil
	s.mu.Unlock()
	if !wanted {
		s.o.Log.Warn("server ended", telemetry.KeyServer, s.o.Name, telemetry.KeyError, r.conn.Err())
	}
	if s.o.Ended != nil {
		s.o.Ended(r.conn)
	}
	if s.o.Keep {
		s.keep()
	}
}

// keepDelay is the least wait before a connection is made again that no call wants.
const keepDelay = time.Second

// keep makes a new connection, however often that fails. Calls may do so meanwhile.
func (s *Server) keep() {
	s.mu.Lock()
	other := s.keeping
	s.keeping = true
	s.mu.Unlock()
	if other {
		return
	}
	for s.Live() == nil {
		s.mu.Lock()
		wait := max(time.Until(s.retryAt), keepDelay)
		s.mu.Unlock()
		if !sleep(s.ctx, wait) {
			break
		}
		_, err := s.Conn(s.ctx) // a failure is logged and remembered there
		var signIn *SignInRequiredError
		if errors.As(err, &signIn) {
			break // who has seen to that will ask for a connection
		}
	}
	s.mu.Lock()
	s.keeping = false
	s.mu.Unlock()
}

// ended notes the end of a connection, once. The caller holds mu.
func (s *Server) ended(r *run) {
	s.live.Store(nil)
	s.since = time.Now()
	if s.since.Sub(r.since) > stable {
		s.failures = 0
	}
	s.restarts++
	s.fail(r.conn.Err())
}

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
	if r := s.live.Load(); r != nil && live == nil { // it has just ended, which nobody has noted yet
		st.LastErr = r.conn.Err()
	}
	switch {
	case live != nil:
		st.State, st.Since = StateReady, s.live.Load().since
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

// Refuse ends the server without waiting for anything: every start from now on is an error,
// with the reason, where one is given.
func (s *Server) Refuse(reason error) { s.cancel(reason) }

// Close ends the server and waits until its process is gone, which ctx hurries. Where a reason is given,
// that is the error of the calls in flight, and of all that come later.
func (s *Server) Close(ctx context.Context, reason error) {
	s.mu.Lock()
	s.cancel(reason)
	r := s.live.Load()
	s.mu.Unlock()
	if r != nil {
		r.close(ctx, reason)
	}
	s.wait.Wait()
}

// Retryable tells an error after which nothing had been sent, so that the call may be made again.
func Retryable(err error) bool { return errors.Is(err, ErrGone) }
