// Package signin lets users sign in to remote servers by OAuth 2.1, as MCP's authorization describes it: it
// finds a server's authorization server, registers the gateway there, makes the URL that a user opens, takes
// the answer, and gives upstream the tokens, which it renews. Tokens live in memory, and in files of mode
// 0600 where a folder is given. No token, code, state or sign-in URL is in any error or log line.
//
// Discovery of authorization servers, the registration of clients and the requests for tokens are those of
// the Go SDK and of golang.org/x/oauth2. The SDK's own handler of the whole flow is not used: it holds a
// request until its user has signed in, registers a client for each attempt, and keeps nothing.
package signin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/upstream"
)

// Options are what a Manager is made of.
type Options struct {
	PublicURL string   // where users' browsers reach the gateway; "" to learn it from requests
	Dir       string   // keeps credentials across restarts; "" keeps them in memory only
	Env       []string // names proxies and certificate authorities
	Log       *slog.Logger
	// Changed is called after each visible change of a server's sign-in, without any lock; nil for nobody.
	Changed func(server string, status control.AuthorizationStatus)
	Now     func() time.Time // nil for the wall clock
}

// Manager holds the sign-ins to all remote servers.
type Manager struct {
	o      Options
	http   *http.Client
	ctx    context.Context // ends with the manager
	stop   context.CancelFunc
	wait   sync.WaitGroup // of what runs by itself
	public publicURL
	files  sync.Mutex // held while one is written

	mu      sync.Mutex
	closed  bool
	servers map[string]*Server
	pending map[string]*attempt // by state
	clients map[string]client   // registered ones, by issuer and redirect URL
}

// Limits of what is asked of authorization servers.
const (
	requestLimit = 30 * time.Second
	beginLimit   = 60 * time.Second
	attemptLife  = 10 * time.Minute
)

// New makes a manager, with the credentials that its folder holds. Close ends it.
func New(ctx context.Context, o Options) (*Manager, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Manager{
		o: o, servers: map[string]*Server{}, pending: map[string]*attempt{}, clients: map[string]client{},
		http: &http.Client{Transport: &lateTransport{env: o.Env}, CheckRedirect: upstream.SameOrigin, Timeout: requestLimit},
	}
	m.ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.public.set(o.PublicURL)
	var err error
	if m.clients, err = m.loadClients(); err != nil {
		return nil, err
	}
	return m, nil
}

// lateTransport is made at its first use: reading a system's certificate authorities takes as long as the
// rest of a start, and most gateways have no server to sign in to.
type lateTransport struct {
	env []string

	once sync.Once
	made *http.Transport
	err  error
}

// RoundTrip implements http.RoundTripper.
func (t *lateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(func() { t.made, t.err = upstream.NewTransport(t.env) })
	if t.err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, t.err
	}
	return t.made.RoundTrip(r)
}

// CloseIdleConnections is what http.Client looks for. One that was not used is not made any more.
func (t *lateTransport) CloseIdleConnections() {
	t.once.Do(func() { t.err = errors.New("sign-ins have ended") })
	if t.made != nil {
		t.made.CloseIdleConnections()
	}
}

// Close ends what runs by itself and waits for it. Credentials in files stay.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.wait.Wait()
	m.http.CloseIdleConnections()
}

// spawn runs f by itself; false where the manager is closed. It is called with the lock held.
func (m *Manager) spawn(f func()) bool {
	if m.closed {
		return false
	}
	m.wait.Go(f)
	return true
}

// now is the time by the wall clock alone: the monotonic one stands still in a paused sandbox.
func (m *Manager) now() time.Time { return m.o.Now().Round(0).UTC() }

// changed tells of a visible change.
func (m *Manager) changed(server string, status control.AuthorizationStatus) {
	if m.o.Changed != nil {
		m.o.Changed(server, status)
	}
}

// ServerOptions describe a remote server that users may sign in to.
type ServerOptions struct {
	URL   string
	OAuth catalog.OAuth
}

// Server holds the sign-in to one remote server: it gives upstream its credentials.
type Server struct {
	m    *Manager
	name string
	o    ServerOptions
	url  *url.URL // without what is no part of the server's identity

	// Guarded by the manager's lock.
	challenge challenge
	cred      *credential // nil for none
	lost      string      // why there is none any more
	missing   []string    // scopes to ask for, where those that there are do not suffice
	newest    *attempt    // nil for none
	beginning *flight
	renewing  *flight
	needs     *bool     // whether the server has an authorization server, once that is known
	noneUntil time.Time // when to look again for one that was not found
}

var _ upstream.Credentials = (*Server)(nil)

// flight is something that several wait for.
type flight struct {
	done chan struct{} // closed at its end
	err  error
}

// join waits for the end of a flight.
func (f *flight) join(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Server makes a remote server known, with the credentials kept for it. One that is known already and has
// the same options stays as it is.
func (m *Manager) Server(name string, o ServerOptions) *Server {
	m.mu.Lock()
	old := m.servers[name]
	m.mu.Unlock()
	if old != nil && same(old.o, o) {
		return old
	}
	s := &Server{m: m, name: name, o: o}
	s.url, _ = url.Parse(o.URL) // checked with the configuration
	if s.url == nil {
		s.url = &url.URL{}
	}
	s.url = &url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path, RawPath: s.url.RawPath}
	s.load()
	m.mu.Lock()
	defer m.mu.Unlock()
	if old = m.servers[name]; old != nil && same(old.o, o) { // somebody was quicker
		return old
	}
	m.forget(old)
	m.servers[name] = s
	return s
}

func same(a, b ServerOptions) bool {
	x, y := a.OAuth, b.OAuth
	return a.URL == b.URL && x.ClientID == y.ClientID && x.ClientSecret == y.ClientSecret && x.Resource == y.Resource &&
		x.AuthorizationServer == y.AuthorizationServer && slices.Equal(x.Scopes, y.Scopes) && (x.Scopes == nil) == (y.Scopes == nil)
}

// Remove forgets a server and its credentials, those in files too.
func (m *Manager) Remove(name string) {
	m.mu.Lock()
	s := m.servers[name]
	delete(m.servers, name)
	m.forget(s)
	m.mu.Unlock()
	if s != nil {
		s.save()
	}
}

// forget ends what is pending of a server that is no more. It is called with the lock held.
func (m *Manager) forget(s *Server) {
	if s == nil {
		return
	}
	if a := s.newest; a != nil && m.pending[a.state] == a {
		delete(m.pending, a.state)
		close(a.over)
	}
	s.cred, s.newest = nil, nil
}

// server finds a server by its name.
func (m *Manager) server(name string) (*Server, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.servers[name]; s != nil {
		return s, nil
	}
	return nil, control.Errorf(control.NotFound, "no remote server %q that users could sign in to", name)
}

// SignedIn tells whether there are credentials for a server.
func (s *Server) SignedIn() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.cred != nil
}

// required is the error of a request that needs a sign-in. It is called with the lock held.
func (s *Server) required() error {
	return &upstream.SignInRequiredError{Server: s.name, Reason: s.lost}
}

// credential is what a sign-in brought. It does not change.
type credential struct {
	token, refresh    secret.Value
	obtained, expires time.Time // expires is zero where it is not known
	renewed           bool      // it was not brought by the user but by the one before
	scopes            []string
	grant             grant
	by                *attempt // that brought it, or the one before it
}

// grant is what tokens are asked for with.
type grant struct {
	issuer, tokenURL string
	client           client
	resource         string
}
