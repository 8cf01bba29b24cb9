package signin

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

// client is what the gateway is at an authorization server.
type client struct {
	id     string
	secret secret.Value
	style  oauth2.AuthStyle
	// Of one that has registered itself:
	registered string    // under which key it is remembered
	expires    time.Time // of the secret, zero for never
	scopes     []string  // that it may ask for; nil for any
}

// clientFor returns the client to sign in with: the one given in the entry, a document of metadata that
// stands at a URL of the gateway's own, or one that registers itself, once for each redirect URL. A
// document has to be read by the authorization server, which not every sandbox lets in: unless the public
// URL was given on purpose, a server that registers clients is rather asked for that.
func (m *Manager) clientFor(ctx context.Context, s *Server, meta *oauthex.AuthServerMeta, redirect string, explicit bool, scopes []string) (client, error) {
	methods := meta.TokenEndpointAuthMethodsSupported
	if id := s.o.OAuth.ClientID; id != "" {
		return client{id: id, secret: s.o.OAuth.ClientSecret, style: styleFor(s.o.OAuth.ClientSecret, methods)}, nil
	}
	canRegister := meta.RegistrationEndpoint != ""
	if meta.ClientIDMetadataDocumentSupported && strings.HasPrefix(redirect, "https://") && (explicit || !canRegister) {
		return client{id: strings.TrimSuffix(redirect, callbackPath) + clientPath, style: oauth2.AuthStyleInParams}, nil
	}
	if !canRegister {
		return client{}, errors.New(`it registers no clients: get a client id for the redirect URL, and give it as "gateway": {"oauth": {"clientId": "…"}}`)
	}
	key := meta.Issuer + " " + redirect
	m.mu.Lock()
	known, ok := m.clients[key]
	m.mu.Unlock()
	if ok && (known.expires.IsZero() || m.now().Before(known.expires)) && known.mayAsk(scopes) {
		return known, nil
	}
	c, err := m.register(ctx, meta, redirect, union(nil, scopes))
	if err != nil {
		return client{}, err
	}
	m.o.Log.Info("registered at the authorization server", telemetry.KeyServer, s.name)
	c.registered = key
	m.mu.Lock()
	m.clients[key] = c
	m.mu.Unlock()
	m.saveClients()
	return c, nil
}

func (c *client) mayAsk(scopes []string) bool {
	if c.scopes == nil {
		return true
	}
	return !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(c.scopes, scope) })
}

// styleFor is how a client with this secret shows it.
func styleFor(s secret.Value, supported []string) oauth2.AuthStyle {
	switch {
	case s == "", slices.Contains(supported, "client_secret_post"):
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader // the default of RFC 8414
}

// metadataOf describes the gateway to an authorization server.
func metadataOf(redirect string) *oauthex.ClientRegistrationMetadata {
	meta := &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, ClientName: "mcp-gateway", TokenEndpointAuthMethod: "none",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, ApplicationType: "web",
	}
	if u, err := url.Parse(redirect); err == nil && isLoopback(u.Hostname()) {
		meta.ApplicationType = "native"
	}
	return meta
}

// register registers the gateway (RFC 7591). Some servers let a client ask only for scopes that it has
// registered, others know no scopes of resources.
func (m *Manager) register(ctx context.Context, meta *oauthex.AuthServerMeta, redirect string, scopes []string) (client, error) {
	request := metadataOf(redirect)
	request.TokenEndpointAuthMethod = "client_secret_basic" // where nothing is said, by RFC 8414
	for _, method := range []string{"none", "client_secret_post", "client_secret_basic"} {
		if slices.Contains(meta.TokenEndpointAuthMethodsSupported, method) {
			request.TokenEndpointAuthMethod = method
			break
		}
	}
	request.Scope = strings.Join(scopes, " ")
	answer, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, request, m.http)
	var refused *oauthex.ClientRegistrationError
	if errors.As(err, &refused) && request.Scope != "" {
		request.Scope = ""
		answer, err = oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, request, m.http)
	}
	if err != nil {
		return client{}, err
	}
	c := client{id: answer.ClientID, secret: secret.Value(answer.ClientSecret), style: oauth2.AuthStyleInParams}
	if answer.ClientSecret != "" && answer.TokenEndpointAuthMethod != "client_secret_post" {
		c.style = oauth2.AuthStyleInHeader
	}
	if answer.TokenEndpointAuthMethod == "none" {
		c.secret, c.style = "", oauth2.AuthStyleInParams
	}
	if at := answer.ClientSecretExpiresAt; c.secret != "" && at.Unix() > 0 {
		c.expires = at
	}
	if answer.Scope != "" {
		c.scopes = strings.Fields(answer.Scope)
	} else if request.Scope != "" {
		c.scopes = scopes
	}
	return c, nil
}

// doubtClient forgets a registered client with which a sign-in came to nothing: the authorization server
// may not know it any more, and then shows that to the user only. It is called with the lock held.
func (s *Server) doubtClient(g grant) {
	if key := g.client.registered; key != "" && s.m.clients[key].id == g.client.id {
		delete(s.m.clients, key)
		s.m.spawn(s.m.saveClients)
	}
}
