// Package downstream speaks MCP's streamable HTTP towards clients, of every protocol revision on one
// endpoint: sessions for the revisions that open with initialize (2024-11-05 to 2025-11-25), single
// requests for 2026-07-28. A POST is one Exchange: it is answered with plain JSON when the response
// comes first, and becomes an event stream when something comes before it. The package knows no
// server behind the gateway: what a message means is its Handler's business.
package downstream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/telemetry"
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
	MaxSessions int           // and streams of subscriptions/listen; default 1,000
	MaxInFlight int           // exchanges at once, listening streams apart; default 1,000
	SessionIdle time.Duration // a session without requests and streams ends after it; default 30 minutes
	Log         *slog.Logger  // nil for none
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Server is the endpoint; it is an http.Handler.
type Server struct {
	o         Options
	handler   Handler
	started   time.Time
	beat      atomic.Pointer[chan struct{}] // closed and replaced at every beat
	inFlight  atomic.Int64
	listening atomic.Int64
	closed    atomic.Bool
	drains    atomic.Bool // no request is taken any more

	mu       sync.RWMutex
	sessions map[string]*Session
}

// beatEvery is how often a silent stream gets a keep-alive comment, and sessions are looked over. An
// answer is silent after a whole beat without a message.
const beatEvery = 5 * time.Second

// New makes an endpoint. Run must be running while it serves.
func New(h Handler, o Options) *Server {
	o.defaults()
	s := &Server{o: o, handler: h, started: time.Now(), sessions: map[string]*Session{}}
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
			s.pulse()
			s.sweep(now)
		}
	}
}

// pulse wakes all who wait.
func (s *Server) pulse() {
	next := make(chan struct{})
	close(*s.beat.Swap(&next))
}

// Drain takes no request any more: they get 503. What is in flight goes on, with all that its client says to it.
func (s *Server) Drain() { s.drains.Store(true) }

// stopping is for requests that come too late.
var stopping = &wire.Error{Code: codeClosed, Message: errShutdown.Error()}

func (s *Server) refuseStopping(w http.ResponseWriter, id []byte) {
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, id, stopping)
}

// Close ends every session, its exchanges and streams, and every exchange that waits without one.
// Requests that come later get 503.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed.Store(true)
	s.mu.Unlock()
	s.Sessions(func(session *Session) { s.end(session, errShutdown, false) })
	s.pulse()
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
	if s.closed.Load() {
		s.refuseStopping(w, nil)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.get(w, r)
	case http.MethodDelete:
		s.delete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, invalid("%.20s is not allowed here; MCP's streamable HTTP uses POST, GET and DELETE", r.Method))
	}
}

// codeNoSession is the code of SDKs for a session that is not known.
const codeNoSession = -32001

var noSession = &wire.Error{Code: codeNoSession, Message: "session not found: it has ended, or the gateway was started again; send initialize to open another"}

// session finds the session of a request, or answers it: 400 where the header is missing, 404 where
// the session is not known (any more), so that the client opens a new one.
func (s *Server) session(w http.ResponseWriter, r *http.Request, id []byte) *Session {
	name := header(r, "Mcp-Session-Id")
	if name == "" {
		refuse(w, http.StatusBadRequest, id, invalid("the Mcp-Session-Id header is missing: send initialize first and repeat the id that its answer carries"))
		return nil
	}
	s.mu.RLock()
	session := s.sessions[name]
	s.mu.RUnlock()
	if session == nil {
		refuse(w, http.StatusNotFound, id, noSession)
	}
	return session
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	if onlyPosts(w, r) {
		return
	}
	if session := s.session(w, r, nil); session != nil {
		s.end(session, errDeleted, false)
		w.WriteHeader(http.StatusNoContent)
	}
}

// onlyPosts refuses other methods to clients of 2026-07-28, which has no sessions.
func onlyPosts(w http.ResponseWriter, r *http.Request) bool {
	if header(r, "Mcp-Session-Id") != "" || !modernVersion(header(r, "Mcp-Protocol-Version")) {
		return false
	}
	w.Header().Set("Allow", "POST")
	refuse(w, http.StatusMethodNotAllowed, nil, invalid("2026-07-28 has only POST; subscriptions/listen opens a stream"))
	return true
}

// end takes a session out and cancels what it has in flight; where it must be idle, only if it is.
func (s *Server) end(session *Session, reason error, idle bool) bool {
	if !session.close(reason, idle) {
		return false
	}
	s.mu.Lock()
	delete(s.sessions, session.ID)
	s.mu.Unlock()
	s.handler.Closed(session)
	return true
}

// open registers a new session; where there are too many, the one that has been idle longest makes
// room. It returns what is wrong.
func (s *Server) open(session *Session) *wire.Error {
	for {
		full := false
		s.mu.Lock()
		if s.closed.Load() {
			s.mu.Unlock()
			return &wire.Error{Code: codeClosed, Message: errShutdown.Error()}
		}
		if full = len(s.sessions) >= s.o.MaxSessions; !full {
			s.sessions[session.ID] = session
		}
		s.mu.Unlock()
		if !full {
			return nil
		}
		idlest := s.idlest()
		if idlest == nil {
			s.o.Log.Warn("session refused: all are busy", telemetry.KeyLimit, s.o.MaxSessions)
			return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("no room for another session: %d are open and all are busy", s.o.MaxSessions)}
		}
		if s.end(idlest, errEvicted, true) {
			s.o.Log.Info("session ended: too many are open", telemetry.KeyLimit, s.o.MaxSessions, telemetry.KeyDuration, idlest.idle(time.Now()))
		}
	}
}

// idlest is the session that has been idle longest, nil where all are busy.
func (s *Server) idlest() *Session {
	var idlest *Session
	s.Sessions(func(other *Session) {
		if (idlest == nil || other.used.Load() < idlest.used.Load()) && !other.isBusy() {
			idlest = other
		}
	})
	return idlest
}

// sweep ends idle sessions and forgets what nobody has asked for again.
func (s *Server) sweep(now time.Time) {
	s.Sessions(func(session *Session) {
		session.sweep(now)
		if session.idle(now) > s.o.SessionIdle {
			s.end(session, errIdle, true)
		}
	})
}

// header reads a header by its name in canonical form. Several of one name are one value (RFC 9110,
// section 5.3), so that nobody on the way reads another one than we do.
func header(r *http.Request, name string) string {
	switch v := r.Header[name]; len(v) {
	case 0:
		return ""
	case 1:
		return v[0]
	default:
		return strings.Join(v, ", ")
	}
}

func invalid(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// refuse answers an HTTP request with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id []byte, e *wire.Error) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	w.Write(wire.ErrorReply(id, e.Object()))
}

var (
	contentJSON = []string{"application/json"}
	contentSSE  = []string{"text/event-stream"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)
