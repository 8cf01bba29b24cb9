package signin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
)

// Bearer implements upstream.Credentials.
func (s *Server) Bearer(ctx context.Context) (secret.Value, error) {
	s.m.mu.Lock()
	c := s.cred
	s.m.mu.Unlock()
	if c == nil {
		return "", nil // what the server answers tells whether a sign-in is needed
	}
	if !c.over(s.m.now()) {
		return c.token, nil
	}
	var err error
	if c.refresh == "" {
		err = s.lose(c, "the access has expired")
	} else {
		err = s.renew(ctx, c)
	}
	var required *upstream.SignInRequiredError
	switch {
	case err == nil:
	case !errors.As(err, &required) && s.m.now().Before(c.expires): // it may be renewed the next time
		return c.token, nil
	default:
		return "", err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.cred == nil {
		return "", s.required()
	}
	return s.cred.token, nil
}

// ahead is how long before its end a token is renewed, so that it does not end on its way.
const ahead = 10 * time.Second

// over tells whether a token is to be renewed.
func (c *credential) over(now time.Time) bool {
	if c.expires.IsZero() {
		return false
	}
	margin := time.Duration(0)
	if c.refresh != "" {
		margin = min(ahead, c.expires.Sub(c.obtained)/5)
	}
	return !now.Before(c.expires.Add(-margin))
}

// Challenged implements upstream.Credentials.
func (s *Server) Challenged(ctx context.Context, status int, challenges []string, used secret.Value) (bool, error) {
	c := readChallenge(challenges)
	m := s.m
	m.mu.Lock()
	if c.metadata != "" && c.metadata != s.challenge.metadata {
		s.challenge.metadata, s.noneUntil = c.metadata, time.Time{}
	}
	cred := s.cred
	switch {
	case cred != nil && used != cred.token: // it was renewed meanwhile, or somebody has signed in
		m.mu.Unlock()
		return true, nil
	case status == 403:
		defer m.mu.Unlock()
		return false, s.stepUp(c, cred)
	}
	if len(c.scopes) > 0 {
		s.challenge.scopes = c.scopes
	}
	lost := s.lost != "" && cred == nil
	m.mu.Unlock()
	switch {
	case cred == nil && (lost || s.needsSignIn(ctx)):
		m.mu.Lock()
		defer m.mu.Unlock()
		return false, s.required()
	case cred == nil:
		return false, nil
	}
	var err error
	if cred.refresh == "" || cred.renewed && m.now().Sub(cred.obtained) < time.Minute {
		err = s.lose(cred, "the server does not take the access that was granted")
	} else {
		err = s.renew(ctx, cred)
	}
	return err == nil, err
}

// stepUp is what comes of a request that a server forbids: where it asks for more scopes, a sign-in with
// them. What there is goes on serving other requests. It is called with the lock held.
func (s *Server) stepUp(c challenge, cred *credential) error {
	if cred == nil || c.err != "insufficient_scope" && c.err != "" { // the Go SDK's servers name the scopes alone
		return nil
	}
	more := union(cred.scopes, c.scopes)
	if len(more) == len(cred.scopes) { // it has them all; a sign-in would change nothing
		return nil
	}
	s.missing = union(s.missing, more)
	return &upstream.SignInRequiredError{Server: s.name, Reason: "it asks for more access: " + clean(strings.Join(c.scopes, " "))}
}

// renew gets a new token in place of a credential's, once for all who ask. It goes on when they leave: the
// authorization server may take each refresh token only once.
func (s *Server) renew(ctx context.Context, c *credential) error {
	m := s.m
	m.mu.Lock()
	if s.cred != c {
		defer m.mu.Unlock()
		if s.cred == nil {
			return s.required()
		}
		return nil
	}
	f := s.renewing
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.renewing = f
		run := func() {
			f.err = s.refresh(c)
			m.mu.Lock()
			s.renewing = nil
			m.mu.Unlock()
			close(f.done)
		}
		if !m.spawn(run) {
			s.renewing, f.err = nil, errClosed
			close(f.done)
		}
	}
	m.mu.Unlock()
	return f.join(ctx)
}

// refresh uses a refresh token.
func (s *Server) refresh(c *credential) error {
	m := s.m
	token, err := m.request(c.grant.config(), "", oauth2.SetAuthURLParam("grant_type", "refresh_token"),
		oauth2.SetAuthURLParam("refresh_token", c.refresh.Reveal()), oauth2.SetAuthURLParam("resource", c.grant.resource))
	if err != nil {
		text := explain(err, c.token.Reveal(), c.refresh.Reveal(), c.grant.client.secret.Reveal())
		if code := errorCode(err); code == "" || slices.Contains(passing, code) {
			m.o.Log.Warn("access not renewed", telemetry.KeyServer, s.name, telemetry.KeyError, text)
			return fmt.Errorf("renew the access to server %q: %s", s.name, text)
		}
		m.mu.Lock()
		if errorCode(err) != "invalid_grant" {
			s.doubtClient(c.grant)
		}
		m.mu.Unlock()
		return s.lose(c, "the authorization server refused to renew the access: "+text)
	}
	next := m.credentialOf(token, c.grant, c.scopes) // with the refresh token used, where no new one came
	next.renewed, next.by = true, c.by
	m.mu.Lock()
	if s.cred == c {
		s.cred = next
	}
	m.mu.Unlock()
	s.save()
	return nil
}

// passing are the errors of an authorization server that may be none the next time.
var passing = []string{"temporarily_unavailable", "server_error", "slow_down"}

// lose gives up a credential that serves no more, and returns the error for those who need one. It is nil
// where another has come in its place.
func (s *Server) lose(c *credential, reason string) error {
	m := s.m
	m.mu.Lock()
	if s.cred != c {
		defer m.mu.Unlock()
		if s.cred == nil {
			return s.required()
		}
		return nil
	}
	s.cred, s.lost, s.missing = nil, reason, nil
	visible := s.newest != nil && s.newest.status == control.AuthorizationAuthorized
	if visible {
		s.newest.fail(control.Errorf(control.Unauthenticated, "%s", reason))
	}
	err := s.required()
	m.mu.Unlock()
	s.save()
	m.o.Log.Warn("signed out", telemetry.KeyServer, s.name, telemetry.KeyError, reason)
	if visible {
		m.changed(s.name, control.AuthorizationFailed)
	}
	return err
}

// config is the part of a grant that requests for tokens need.
func (g grant) config() oauth2.Config {
	return oauth2.Config{
		ClientID: g.client.id, ClientSecret: g.client.secret.Reveal(),
		Endpoint: oauth2.Endpoint{TokenURL: g.tokenURL, AuthStyle: g.client.style},
	}
}

// request asks for a token. Without a code, other parameters are to say what for; the parameter without a
// value counts as left out (RFC 6749, section 3.2).
func (m *Manager) request(config oauth2.Config, code string, options ...oauth2.AuthCodeOption) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(m.ctx, oauth2.HTTPClient, m.http), requestLimit)
	defer cancel()
	token, err := config.Exchange(ctx, code, options...)
	if err == nil && !strings.EqualFold(token.Type(), "Bearer") {
		return nil, errors.New("the token is not of the type Bearer")
	}
	return token, err
}

// credentialOf reads an answer. Its lifetime counts from now on, by the manager's clock.
func (m *Manager) credentialOf(token *oauth2.Token, g grant, asked []string) *credential {
	c := &credential{
		token: secret.Value(token.AccessToken), refresh: secret.Value(token.RefreshToken),
		obtained: m.now(), scopes: asked, grant: g,
	}
	if granted, ok := token.Extra("scope").(string); ok {
		c.scopes = strings.Fields(granted)
	}
	if !token.Expiry.IsZero() {
		c.expires = c.obtained.Add(time.Until(token.Expiry).Round(time.Second))
	}
	return c
}
