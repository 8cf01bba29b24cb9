package signin

import (
	"context"
	"crypto/rand"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/oauth2"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/telemetry"
)

// attempt is one sign-in of a user. The manager's lock guards it.
type attempt struct {
	s        *Server
	uid      string
	version  int
	url      string // for the user
	state    string
	verifier string
	config   oauth2.Config
	grant    grant
	issued   bool // the authorization server names itself in its answers
	scopes   []string

	created, updated, expires time.Time
	status                    control.AuthorizationStatus
	failure                   *control.Error
	taken                     bool          // its answer has come
	over                      chan struct{} // closed when it is no longer pending, and its outcome is kept
}

// Authorize begins a sign-in or returns the one that there is (authorizeMcpServer).
func (m *Manager) Authorize(ctx context.Context, server, ifMatch string, q control.AuthorizeRequest) (control.Authorization, error) {
	s, err := m.server(server)
	if err != nil {
		return control.Authorization{}, err
	}
	if q.RemoteURL != nil && !s.isAt(*q.RemoteURL) {
		return control.Authorization{}, control.Errorf(control.FailedPrecondition, "server %q is at another address than the given remoteUrl", server)
	}
	s.settle()
	m.mu.Lock()
	if err := s.match(ifMatch); err != nil {
		m.mu.Unlock()
		return control.Authorization{}, err
	}
	if a := s.newest; a != nil && (a.status == control.AuthorizationPending || s.holds() && !q.ForceReauth) {
		defer m.mu.Unlock()
		return a.view(), nil
	}
	f := s.begin()
	m.mu.Unlock()
	if err := f.join(ctx); err != nil {
		return control.Authorization{}, err
	}
	return m.Authorization(server)
}

// isAt tells whether an address is the server's.
func (s *Server) isAt(text string) bool {
	at, err := url.Parse(text)
	return err == nil && at.Scheme == s.url.Scheme && at.Host == s.url.Host && at.Path == s.url.Path
}

// holds tells that the newest attempt brought all that is needed. It is called with the lock held.
func (s *Server) holds() bool {
	return s.newest.status == control.AuthorizationAuthorized && s.cred != nil && len(s.missing) == 0
}

// match compares an ETag with that of the newest attempt. It is called with the lock held.
func (s *Server) match(ifMatch string) error {
	if ifMatch == "" || s.newest != nil && (ifMatch == "*" || ifMatch == s.newest.etag()) {
		return nil
	}
	if s.newest == nil {
		return control.ETagMismatch("")
	}
	return control.ETagMismatch(s.newest.etag())
}

// Authorization returns the newest attempt (getMcpAuthorization).
func (m *Manager) Authorization(server string) (control.Authorization, error) {
	s, err := m.server(server)
	if err != nil {
		return control.Authorization{}, err
	}
	s.settle()
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.newest == nil {
		return control.Authorization{}, control.Errorf(control.NotFound, "nobody has begun to sign in to server %q", server)
	}
	return s.newest.view(), nil
}

// begin starts an attempt by itself, once for all who ask. It is called with the lock held.
func (s *Server) begin() *flight {
	if s.beginning != nil {
		return s.beginning
	}
	f := &flight{done: make(chan struct{})}
	s.beginning = f
	run := func() {
		ctx, cancel := context.WithTimeout(s.m.ctx, beginLimit)
		defer cancel()
		f.err = s.prepare(ctx)
		s.m.mu.Lock()
		s.beginning = nil
		s.m.mu.Unlock()
		close(f.done)
	}
	if !s.m.spawn(run) {
		s.beginning = nil
		f.err = errClosed
		close(f.done)
	}
	return f
}

var errClosed = control.Errorf(control.Unavailable, "the gateway is stopping")

// prepare makes an attempt that waits for its user.
func (s *Server) prepare(ctx context.Context) error {
	m := s.m
	redirect, explicit := m.public.redirect()
	if redirect == "" {
		return control.Errorf(control.FailedPrecondition, "the public URL of this gateway is not known yet: give it with --public-url, or call the gateway by it once")
	}
	m.mu.Lock()
	challenge := s.challenge
	m.mu.Unlock()
	place, err := m.discover(ctx, s, challenge)
	if err != nil {
		return s.beginError("find the authorization server", err)
	}
	if place == nil {
		return control.Errorf(control.FailedPrecondition, "server %q names no authorization server to sign in to", s.name)
	}
	meta, err := m.authorizationServer(ctx, s, place.issuers)
	if err != nil {
		return s.beginError("ask the authorization server", err)
	}
	m.mu.Lock()
	scopes := s.wanted(place, meta)
	m.mu.Unlock()
	client, err := m.clientFor(ctx, s, meta, redirect, explicit, append(scopes, place.scopes...))
	if err != nil {
		return s.beginError("register at the authorization server", err)
	}
	a := newAttempt(s, meta.Issuer, scopes)
	a.issued = meta.AuthorizationResponseIssParameterSupported
	a.grant = grant{issuer: meta.Issuer, tokenURL: meta.TokenEndpoint, client: client, resource: place.resource}
	a.config = a.grant.config()
	a.config.Endpoint.AuthURL, a.config.RedirectURL, a.config.Scopes = meta.AuthorizationEndpoint, redirect, scopes
	a.url = a.config.AuthCodeURL(a.state, a.urlOptions()...)
	return m.offer(a)
}

// beginError says why no attempt could be begun.
func (s *Server) beginError(deed string, err error) error {
	return control.Errorf(control.Unavailable, "sign in to server %q: %s: %s", s.name, deed, explain(err))
}

func newAttempt(s *Server, issuer string, scopes []string) *attempt {
	now := s.m.now()
	return &attempt{
		s: s, uid: rand.Text(), version: 1, state: rand.Text(), verifier: oauth2.GenerateVerifier(), scopes: scopes,
		created: now, updated: now, expires: now.Add(attemptLife), status: control.AuthorizationPending, over: make(chan struct{}),
	}
}

// urlOptions are the parameters of the URL beside the usual ones.
func (a *attempt) urlOptions() []oauth2.AuthCodeOption {
	options := []oauth2.AuthCodeOption{
		oauth2.S256ChallengeOption(a.verifier), oauth2.SetAuthURLParam("resource", a.grant.resource),
	}
	for _, scope := range a.scopes {
		if scope == offlineAccess { // OpenID Connect gives it only after a user was asked
			options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
		}
	}
	return options
}

// offer makes an attempt the newest one of its server.
func (m *Manager) offer(a *attempt) error {
	s := a.s
	m.mu.Lock()
	if m.servers[s.name] != s {
		m.mu.Unlock()
		return control.Errorf(control.NotFound, "server %q was removed", s.name)
	}
	s.newest = a
	m.pending[a.state] = a
	m.spawn(func() { a.expire() })
	m.mu.Unlock()
	m.o.Log.Info("sign-in begun", telemetry.KeyServer, s.name)
	m.changed(s.name, control.AuthorizationPending)
	return nil
}

// expire waits for an attempt's end, so that those who wait for a change see that it has expired. The wait
// stands still in a paused sandbox; whoever looks judges by the wall clock.
func (a *attempt) expire() {
	timer := time.NewTimer(attemptLife)
	defer timer.Stop()
	for {
		select {
		case <-a.over:
			return
		case <-a.s.m.ctx.Done():
			return
		case <-timer.C:
			a.s.settle()
			timer.Reset(time.Second) // the clocks may differ
		}
	}
}

// settle ends what has expired: the pending attempt, and a credential that cannot be renewed.
func (s *Server) settle() {
	m := s.m
	m.mu.Lock()
	now, a := m.now(), s.newest
	var ended bool
	if a != nil && a.status == control.AuthorizationPending && !a.taken && !now.Before(a.expires) {
		ended = true
		a.fail(control.Errorf(control.DeadlineExceeded, "nobody has signed in within %s", attemptLife))
		s.doubtClient(a.grant)
		close(a.over)
	}
	c := s.cred
	m.mu.Unlock()
	if ended {
		m.o.Log.Info("sign-in expired", telemetry.KeyServer, s.name)
		m.changed(s.name, control.AuthorizationFailed)
	}
	if c != nil && c.refresh == "" && !c.expires.IsZero() && !now.Before(c.expires) {
		_ = s.lose(c, "the access has expired") // which the attempt shows
	}
}

// fail ends an attempt. It is called with the lock held.
func (a *attempt) fail(failure *control.Error) {
	a.failure = failure
	a.end(control.AuthorizationFailed)
}

// end makes an attempt one that is over. It is called with the lock held.
func (a *attempt) end(status control.AuthorizationStatus) {
	delete(a.s.m.pending, a.state)
	a.status, a.updated = status, a.s.m.now()
	a.version++
	a.url, a.verifier, a.expires = "", "", time.Time{}
}

func (a *attempt) etag() string { return `"` + a.uid + "." + strconv.Itoa(a.version) + `"` }

// view is an attempt as callers see it. It is called with the lock held.
func (a *attempt) view() control.Authorization {
	return control.Authorization{
		Name: control.AuthorizationName(a.s.name), Server: control.ServerName(a.s.name), UID: a.uid, Status: a.status, AuthorizationURL: a.url,
		CreatedAt: a.created, UpdatedAt: a.updated, ExpiresAt: a.expires, Failure: a.failure, ETag: a.etag(),
	}
}
