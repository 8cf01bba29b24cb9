package gateway

import (
	"context"
	"net/http"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/signin"
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
	if a := f.find(name); a != nil {
		return a.server, nil
	}
	return f.lookup(name, nil)
}

// signInChanged passes on what has become of a sign-in.
func (f *fleet) signInChanged(string, control.AuthorizationStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.announce()
}
