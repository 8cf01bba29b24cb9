// Package httpd is the gateway's door: the listener, the bearer token, the origins of browser pages,
// GET /health. What is served behind it, MCP above all, it is given as handlers.
package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

// The states of /health; whatever is neither OK nor Degraded does not serve.
const (
	OK       = "ok"
	Degraded = "degraded" // it serves, and at least one server does not
	Starting = "starting"
)

// Health is the answer of GET /health: numbers only, no names, since it needs no token.
type Health struct {
	Status  string `json:"status"`
	Servers int    `json:"servers"`
	Tools   int    `json:"tools"`
}

// Options configure a Server.
type Options struct {
	Token          secret.Value
	AllowedOrigins []string     // of browser pages, as "https://app.example.com"; "*" allows all
	MCP            http.Handler // /mcp
	Control        http.Handler // /v1/; nil for none
	Callback       http.Handler // /oauth/callback, which needs no token: its state is the proof, and /oauth/client.json; nil for none
	Health         func() Health
	Log            *slog.Logger
}

// Server answers HTTP requests.
type Server struct {
	o      Options
	digest [sha256.Size]byte
	conns  *conns
	http   *http.Server
}

// New makes a server. There is no limit on writing: event streams live as long as their clients.
func New(o Options) *Server {
	s := &Server{o: o, digest: sha256.Sum256([]byte(o.Token.Reveal())), conns: newConns()}
	s.o.AllowedOrigins = nil
	for _, origin := range o.AllowedOrigins {
		s.o.AllowedOrigins = append(s.o.AllowedOrigins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	s.http = &http.Server{
		Handler:   http.HandlerFunc(s.route),
		ConnState: s.conns.state,
		ErrorLog:  slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve accepts connections until Shutdown; it then returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { s.conns.run(watching) })
	defer watch.Wait()
	defer stop()
	if err := s.http.Serve(listener{l}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// Shutdown stops accepting, waits for open requests until ctx ends, and closes what is left.
func (s *Server) Shutdown(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/mcp" || path == "/mcp/":
		s.guard(w, r, s.o.MCP, refuse)
	case s.o.Control != nil && strings.HasPrefix(path, "/v1/"):
		s.guard(w, r, s.o.Control, refuseControl)
	case s.o.Callback != nil && (path == "/oauth/callback" || path == "/oauth/client.json"):
		s.o.Callback.ServeHTTP(w, r)
	case path == "/health":
		s.health(w, r)
	default:
		refuse(w, r, http.StatusNotFound, fmt.Sprintf("%.100q is not served here; MCP is at /mcp", path))
	}
}

// refuser answers a request that is not let in, in the form that its clients read.
type refuser func(w http.ResponseWriter, r *http.Request, status int, message string)

// guard lets a request in that comes from no foreign page and has the token.
func (s *Server) guard(w http.ResponseWriter, r *http.Request, to http.Handler, no refuser) {
	if s.origin(w, r, no) && s.authorized(w, r, no) {
		to.ServeHTTP(w, r)
	}
}

// origin lets pages of allowed origins in, and answers their preflight requests. A request without
// an Origin comes from no page. The origin is never compared with the Host header: with DNS
// rebinding both carry the same foreign name.
func (s *Server) origin(w http.ResponseWriter, r *http.Request, no refuser) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	origin := origins[0]
	if len(origins) > 1 || !s.allowed(origin) {
		no(w, r, http.StatusForbidden, fmt.Sprintf("pages of the origin %.100q are not allowed here; --allow-origin allows one", origin))
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, ETag")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
	headers := "Authorization, Content-Type, Accept, Last-Event-ID, If-Match, If-None-Match, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		headers = asked // Mcp-Param-* have names that cannot be listed
	}
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return false
}

// allowed tells whether an origin is a configured one, or a page of this very machine.
func (s *Server) allowed(origin string) bool {
	if slices.Contains(s.o.AllowedOrigins, origin) || slices.Contains(s.o.AllowedOrigins, "*") {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// authorized compares the bearer token (RFC 6750) in constant time, whatever its length: the digests
// are compared. Without a token of our own nobody gets in.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request, no refuser) bool {
	if values := r.Header["Authorization"]; len(values) == 1 && s.o.Token != "" {
		scheme, token, _ := strings.Cut(values[0], " ")
		digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if subtle.ConstantTimeCompare(digest[:], s.digest[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			return true
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	no(w, r, http.StatusUnauthorized, "the bearer token is missing or wrong: send Authorization: Bearer <token>")
	return false
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, r, http.StatusMethodNotAllowed, "/health takes GET")
		return
	}
	health := s.o.Health()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if health.Status != OK && health.Status != Degraded {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// A client that has gone misses nothing.
	_ = json.NewEncoder(w).Encode(health)
}

// bodyLimit bounds how long the rest of a request that is refused is waited for.
const bodyLimit = 10 * time.Second

// refuse answers with a JSON-RPC error, which MCP clients show.
func refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	refuseWith(w, r, status, wire.ErrorReply(nil, (&wire.Error{Code: wire.CodeInvalidRequest, Message: message}).Object()))
}

// refuseControl answers with an error as the control side has them.
func refuseControl(w http.ResponseWriter, r *http.Request, status int, message string) {
	code := "permissionDenied"
	if status == http.StatusUnauthorized {
		code = "unauthenticated"
	}
	refuseWith(w, r, status, fmt.Appendf(nil, `{"code":%q,"message":%s}`, code, wire.Quote(message)))
}

func refuseWith(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if r.ContentLength != 0 {
		// net/http reads what a small body still lacks, from whom has shown no token. Before the next
		// request it takes the limit off.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// Unready answers a request with 503, while there is no gateway to answer it.
func Unready(w http.ResponseWriter, r *http.Request, message string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, r, http.StatusServiceUnavailable, message)
}
