package gateway

import (
	"context"
	"errors"
	"net/http"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/signin"
	"mcp-gateway/internal/telemetry"
)

// signedIn makes a remote server known to the sign-ins.
func (g *gateway) signedIn(server config.Server) *signin.Server {
	return g.signins.Server(server.Name, signin.ServerOptions{URL: server.Launch.URL, OAuth: server.Options.OAuth})
}

// learning lets the sign-ins learn from requests that have shown the token where clients reach the gateway.
func (g *gateway) learning(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.signins.Learn(r)
		h.ServeHTTP(w, r)
	})
}

// publicURL is the endpoint as clients from elsewhere see it, or else the one for this machine.
func (g *gateway) publicURL() string {
	if base := g.signins.PublicURL(); base != "" {
		return base + "/mcp"
	}
	return g.localURL()
}

// Authorize implements control.Backend. A server need not run for it, but it has to be known.
func (g *gateway) Authorize(ctx context.Context, name, ifMatch string, q control.AuthorizeRequest) (control.Authorization, error) {
	server, err := g.authorizable(name)
	if err != nil {
		return control.Authorization{}, err
	}
	if server.Launch.Kind != catalog.Remote {
		return control.Authorization{}, refused("server %q runs here: it needs no sign-in", name)
	}
	g.signedIn(server)
	return g.signins.Authorize(ctx, name, ifMatch, q)
}

// Authorization implements control.Backend.
func (g *gateway) Authorization(name string) (control.Authorization, error) {
	return g.signins.Authorization(name)
}

// SubmitCode implements control.Backend.
func (g *gateway) SubmitCode(ctx context.Context, name string, q control.CodeRequest) (control.Authorization, error) {
	return g.signins.SubmitCode(ctx, name, q)
}

// authorizable finds a server that a user may sign in to: one that was asked for, or a known one.
func (f *fleet) authorizable(name string) (config.Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lookup(name, nil, false)
}

// signIn begins a sign-in to a server for a client that the server has refused, or joins the one that there is.
func (g *gateway) signIn(name string) relay.SignIn {
	return func(ctx context.Context) (relay.Invitation, error) {
		a, err := g.signins.Authorize(ctx, name, "", control.AuthorizeRequest{})
		switch {
		case err != nil:
			return relay.Invitation{}, err
		case a.Status == control.AuthorizationPending:
			return relay.Invitation{ID: a.UID, URL: a.AuthorizationURL}, nil
		case a.Failure != nil:
			return relay.Invitation{}, a.Failure
		}
		g.signInChanged(name, a.Status)
		return relay.Invitation{}, errors.New("a user has signed in just now; try again")
	}
}

// signInChanged passes on what has become of a sign-in: those who wait are woken, and a server that can be
// used now is connected.
func (f *fleet) signInChanged(name string, status control.AuthorizationStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announce()
	if status != control.AuthorizationAuthorized || f.phase != phaseReady || f.find(name) == nil {
		return
	}
	e := f.g.engine.Load()
	e.tasks.Go(func() {
		if failed := e.relay.SignedIn(e.ctx, name); failed != nil {
			f.g.log.Warn("server not usable after a sign-in", telemetry.KeyServer, name, telemetry.KeyError, failed)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.announce()
	})
}

// awaitSignIns tells of the servers that wait for a user. The caller holds mu.
func (f *fleet) awaitSignIns(servers []relay.Status) {
	for _, s := range servers {
		if s.State.State == relay.StateSignInRequired {
			f.g.log.Warn("server needs a sign-in", telemetry.KeyServer, s.Name, telemetry.KeyHint, "mcp-gateway servers signin "+s.Name)
		}
	}
}
