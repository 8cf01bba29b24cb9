// Package downstream speaks MCP's streamable HTTP towards clients, of every protocol revision on one
// endpoint: sessions for the revisions that open with initialize (2024-11-05 to 2025-11-25), single
// requests for 2026-07-28. A POST is one Exchange: it is answered with plain JSON when the response
// comes first, and becomes an event stream when something comes before it. The package knows no
// server behind the gateway: what a message means is its Handler's business.
package downstream

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/wire"
)

// Protocol revisions (https://modelcontextprotocol.io/specification/versioning).
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28"
)

// Versions lists the revisions spoken, the newest first.
var Versions = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// Handler gives messages their meaning. Its methods are called in the goroutine of the HTTP request.
type Handler interface {
	// Initialize returns the result of initialize for a session whose version is agreed on.
	Initialize(s *Session) (result []byte)
	// Serve answers a request: it gives x a response and returns from x.Wait, or returns without
	// waiting after x.Finish. ctx ends with the HTTP request.
	Serve(ctx context.Context, x *Exchange)
	// Notified gets a client's notification. s is nil for one of 2026-07-28.
	Notified(ctx context.Context, s *Session, m wire.Msg)
	// Closed tells that a session has ended; its exchanges have been cancelled.
	Closed(s *Session)
	// Knows tells whether a method exists in 2026-07-28, which answers 404 to others.
	Knows(method string) bool
	// ParamHeaders lists the arguments of a tool that a client of 2026-07-28 repeats in headers.
	ParamHeaders(tool string) []ParamHeader
}

// Options configure a Server. Zero values mean the defaults.
type Options struct {
	MaxBody     int           // bytes of a request's body; default 64 MiB
	MaxSessions int           // default 1,000
	MaxInFlight int           // exchanges at once, listening streams apart; default 1,000
	SessionIdle time.Duration // a session without requests and streams ends after it; default 30 minutes
	Log         *slog.Logger
}

func (o *Options) defaults() {
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 20
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = 1000
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 1000
	}
	if o.SessionIdle == 0 {
		o.SessionIdle = 30 * time.Minute
	}
}

// Server is the endpoint; it is an http.Handler.
type Server struct {
	o        Options
	handler  Handler
	beat     atomic.Pointer[chan struct{}] // closed and replaced at every beat
	inFlight atomic.Int64

	mu       sync.RWMutex
	sessions map[string]*Session
	draining bool
}

// beatEvery is how often a silent stream gets a keep-alive comment, and sessions are looked over.
const beatEvery = 5 * time.Second

// New makes an endpoint. Run must be running while it serves.
func New(h Handler, o Options) *Server {
	o.defaults()
	s := &Server{o: o, handler: h, sessions: map[string]*Session{}}
	first := make(chan struct{})
	s.beat.Store(&first)
	return s
}

// Run beats until ctx ends: one timer serves the keep-alives of all streams.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			next := make(chan struct{})
			close(*s.beat.Swap(&next))
			s.sweep(now)
		}
	}
}

// Close ends every session and its streams. Requests that come later get 503.
func (s *Server) Close() {
	s.mu.Lock()
	s.draining = true
	all := s.sessions
	s.sessions = map[string]*Session{}
	s.mu.Unlock()
	for _, session := range all {
		session.close(errShutdown)
	}
}

// InFlight counts the exchanges that are not answered.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Sessions calls f for each live session.
func (s *Server) Sessions(f func(*Session)) {
	s.mu.RLock()
	all := make([]*Session, 0, len(s.sessions))
	for _, session := range s.sessions {
		all = append(all, session)
	}
	s.mu.RUnlock()
	for _, session := range all {
		f(session)
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: r.Method + " is not allowed here; MCP's streamable HTTP uses POST, GET and DELETE"})
	}
}

// session finds the session of a request, or answers it: 400 where the header is missing, 404 where
// the session is not known (any more), so that the client opens a new one.
func (s *Server) session(w http.ResponseWriter, r *http.Request, id []byte) *Session {
	name := header(r, "Mcp-Session-Id")
	if name == "" {
		refuse(w, http.StatusBadRequest, id, &wire.Error{Code: wire.CodeInvalidRequest, Message: "the Mcp-Session-Id header is missing: send initialize first and repeat the id that its answer carries"})
		return nil
	}
	s.mu.RLock()
	session := s.sessions[name]
	s.mu.RUnlock()
	if session == nil {
		refuse(w, http.StatusNotFound, id, &wire.Error{Code: -32001, Message: "session not found: it has ended, or the gateway was started again; send initialize to open another"})
		return nil
	}
	return session
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	session := s.session(w, r, nil)
	if session == nil {
		return
	}
	s.end(session, errDeleted)
	w.WriteHeader(http.StatusNoContent)
}

// end takes a session out and cancels what it has in flight.
func (s *Server) end(session *Session, reason error) {
	s.mu.Lock()
	_, known := s.sessions[session.ID]
	delete(s.sessions, session.ID)
	s.mu.Unlock()
	if known {
		session.close(reason)
		s.handler.Closed(session)
	}
}

// open registers a new session; where there are too many, the one that has been idle longest makes
// room. It is nil where all are busy.
func (s *Server) open(session *Session) bool {
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		return false
	}
	var oldest *Session
	if len(s.sessions) >= s.o.MaxSessions {
		for _, other := range s.sessions {
			if !other.busy() && (oldest == nil || other.used.Load() < oldest.used.Load()) {
				oldest = other
			}
		}
		if oldest == nil {
			s.mu.Unlock()
			return false
		}
	}
	s.sessions[session.ID] = session
	s.mu.Unlock()
	if oldest != nil {
		s.end(oldest, errEvicted)
	}
	return true
}

// sweep ends idle sessions and forgets what nobody has asked for again.
func (s *Server) sweep(now time.Time) {
	s.Sessions(func(session *Session) {
		session.forget(now)
		if !session.busy() && session.idle() > s.o.SessionIdle {
			s.end(session, errIdle)
		}
	})
}

// header reads a header that is written in canonical form without going through canonicalisation.
func header(r *http.Request, name string) string {
	if v := r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// refuse answers an HTTP request with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id []byte, e *wire.Error) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	w.Write(wire.ErrorReply(id, e.Object()))
}

var (
	contentJSON  = []string{"application/json"}
	contentSSE   = []string{"text/event-stream"}
	noCache      = []string{"no-cache"}
	noBuffering  = []string{"no"}
	noKeepAccept = "application/json, text/event-stream"
)
