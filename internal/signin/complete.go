package signin

import (
	"context"

	"golang.org/x/oauth2"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/telemetry"
)

// errNotPending is the answer to what belongs to no pending attempt.
var errNotPending = control.Errorf(control.FailedPrecondition, "this answer belongs to no pending sign-in: that is over, was begun anew, or never was")

// SubmitCode finishes a pending attempt with what the authorization server has sent to an application that
// receives it itself.
func (m *Manager) SubmitCode(ctx context.Context, server string, q control.CodeRequest) (control.Authorization, error) {
	s, err := m.server(server)
	if err != nil {
		return control.Authorization{}, err
	}
	a, err := m.take(s, q)
	if err != nil {
		return control.Authorization{}, err
	}
	if err := a.await(ctx); err != nil {
		return control.Authorization{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.view(), nil
}

// await waits for an attempt's outcome.
func (a *attempt) await(ctx context.Context) error {
	select {
	case <-a.over:
		return nil
	case <-a.s.m.ctx.Done():
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take gives an answer to the pending attempt that it belongs to, each attempt's once. s is the server that
// it must be of, nil for any. The outcome shows at the attempt.
func (m *Manager) take(s *Server, q control.CodeRequest) (*attempt, error) {
	if q.State == "" || q.Code == "" && q.Error == "" {
		return nil, control.Errorf(control.InvalidArgument, "an answer has a state, and a code or an error")
	}
	m.mu.Lock()
	a := m.pending[q.State]
	m.mu.Unlock()
	if a == nil || s != nil && a.s != s {
		return nil, errNotPending
	}
	a.s.settle()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending[q.State] != a {
		return nil, errNotPending
	}
	delete(m.pending, q.State)
	a.taken = true
	if !m.spawn(func() { a.finish(q) }) {
		return nil, errClosed
	}
	return a, nil
}

// finish decides what an answer means, and gets the tokens.
func (a *attempt) finish(q control.CodeRequest) {
	m, s := a.s.m, a.s
	defer close(a.over)
	var c *credential
	failure := a.refusal(q)
	if failure == nil {
		token, err := m.request(a.config, q.Code, oauth2.VerifierOption(a.verifier), oauth2.SetAuthURLParam("resource", a.grant.resource))
		if err == nil {
			c = m.credentialOf(token, a.grant, a.scopes)
			c.by = a
		} else {
			text := explain(err, q.Code, q.State, a.verifier, a.grant.client.secret.Reveal())
			failure = control.Errorf(control.FailedPrecondition, "the authorization server gave no token: %s", text)
		}
	}
	m.mu.Lock()
	if m.servers[s.name] != s || s.newest != a {
		a.fail(errNotPending) // the server was removed
		m.mu.Unlock()
		return
	}
	status := control.AuthorizationAuthorized
	if failure == nil {
		s.cred, s.lost, s.missing = c, "", nil
		a.end(status)
	} else {
		status = control.AuthorizationFailed
		a.fail(failure)
		if failure.Code != control.PermissionDenied {
			s.doubtClient(a.grant)
		}
	}
	m.mu.Unlock()
	if failure == nil {
		s.save()
		m.o.Log.Info("signed in", telemetry.KeyServer, s.name)
	} else {
		m.o.Log.Warn("sign-in failed", telemetry.KeyServer, s.name, telemetry.KeyError, failure.Message)
	}
	m.changed(s.name, status)
}

// refusal is why an answer brings no token; nil where a code is to be exchanged.
func (a *attempt) refusal(q control.CodeRequest) *control.Error {
	switch {
	case q.Issuer != "" && q.Issuer != a.grant.issuer, q.Issuer == "" && a.issued: // RFC 9207
		return control.Errorf(control.FailedPrecondition, "the answer is not of the authorization server that was asked")
	case q.Error == "":
		return nil
	}
	text := hide(described(q.Error, q.ErrorDescription), []string{q.State, q.Code, a.verifier})
	if q.Error == "access_denied" {
		return control.Errorf(control.PermissionDenied, "the sign-in was denied: %s", text)
	}
	return control.Errorf(control.FailedPrecondition, "the authorization server answered with an error: %s", text)
}
