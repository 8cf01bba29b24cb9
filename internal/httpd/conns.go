package httpd

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits on connections that send nothing. net/http's own time-outs would set timers anew for every
// request, which costs a tenth of a relayed call; here a request only notes the time.
const (
	headerLimit = 30 * time.Second // from the connection to its first request
	idleLimit   = 5 * time.Minute  // between requests
	lookEvery   = 10 * time.Second
)

// conns watches the connections that have no request in flight.
type conns struct {
	started time.Time
	mu      sync.Mutex
	all     map[*conn]struct{}
}

// conn is a connection with the time since which it has been waiting for a request.
type conn struct {
	net.Conn
	waits atomic.Int64 // since started; 0 while a request is in flight
	limit atomic.Int64
}

func newConns() *conns { return &conns{started: time.Now(), all: map[*conn]struct{}{}} }

// listener wraps the accepted connections.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// state is http.Server's ConnState.
func (s *conns) state(c net.Conn, state http.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		own.wait(s, headerLimit)
		s.mu.Lock()
		s.all[own] = struct{}{}
		s.mu.Unlock()
	case http.StateIdle:
		own.wait(s, idleLimit)
	case http.StateActive:
		own.waits.Store(0)
	case http.StateClosed, http.StateHijacked:
		s.mu.Lock()
		delete(s.all, own)
		s.mu.Unlock()
	}
}

func (c *conn) wait(s *conns, limit time.Duration) {
	c.limit.Store(int64(limit))
	c.waits.Store(int64(time.Since(s.started)) + 1)
}

// run closes connections that have waited for too long, until ctx ends.
func (s *conns) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sweep(int64(time.Since(s.started)))
		}
	}
}

func (s *conns) sweep(now int64) {
	s.mu.Lock()
	var late []*conn
	for c := range s.all {
		if waits := c.waits.Load(); waits > 0 && now-waits > c.limit.Load() {
			late = append(late, c)
		}
	}
	s.mu.Unlock()
	for _, c := range late {
		c.Close()
	}
}
