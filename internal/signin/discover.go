package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mcp-gateway/internal/upstream"
)

// challenge is what a server has said in WWW-Authenticate.
type challenge struct {
	metadata string // URL of the protected resource's metadata
	scopes   []string
	err      string
}

// readChallenge reads the headers. Those that nobody can read say nothing.
func readChallenge(headers []string) challenge {
	var c challenge
	for _, header := range headers {
		parsed, _ := oauthex.ParseWWWAuthenticate([]string{header})
		for _, p := range parsed {
			if p.Scheme != "bearer" {
				continue
			}
			c.metadata = cmp.Or(p.Params["resource_metadata"], c.metadata)
			c.err = cmp.Or(p.Params["error"], c.err)
			if scopes := strings.Fields(p.Params["scope"]); len(scopes) > 0 {
				c.scopes = scopes
			}
		}
	}
	return c
}

// place is where a server says that its users sign in.
type place struct {
	issuers  []string
	resource string
	scopes   []string // all that the server knows of
}

// discover finds out where users sign in to a server: by its own metadata (RFC 9728), or in the way of
// 2025-03-26, where the server's origin is the authorization server. It is nil where there is nothing.
func (m *Manager) discover(ctx context.Context, s *Server, c challenge) (*place, error) {
	p, err := m.ofResource(ctx, s, c)
	if p == nil {
		p = &place{resource: s.url.String()}
		origin := &url.URL{Scheme: s.url.Scheme, Host: s.url.Host}
		if s.o.OAuth.AuthorizationServer == "" {
			meta, atOrigin := auth.GetAuthServerMetadata(ctx, origin.String(), m.http)
			if meta == nil {
				return nil, errors.Join(err, atOrigin)
			}
			p.issuers = []string{origin.String()}
		}
	}
	if issuer := s.o.OAuth.AuthorizationServer; issuer != "" {
		p.issuers = []string{issuer}
	}
	if s.o.OAuth.Resource != "" {
		p.resource = s.o.OAuth.Resource
	}
	return p, nil
}

// ofResource reads the metadata of a protected resource: at the URL that its challenge names, else at the
// well-known ones. The Go SDK's way is stricter: it passes over metadata of a resource that the server's URL
// is a part of, which many servers have.
func (m *Manager) ofResource(ctx context.Context, s *Server, c challenge) (*place, error) {
	var last error
	for _, at := range s.resourceMetadataURLs(c.metadata) {
		meta, err := m.resourceMetadata(ctx, at)
		switch {
		case err != nil:
			last = err
		case meta == nil:
		case !covers(meta.Resource, s.url):
			last = fmt.Errorf("its metadata is of another resource, %s", withoutQuery(meta.Resource))
		case len(meta.AuthorizationServers) == 0:
			last = errors.New("its metadata names no authorization server")
		default:
			return &place{issuers: meta.AuthorizationServers, resource: meta.Resource, scopes: meta.ScopesSupported}, nil
		}
	}
	return nil, last
}

const wellKnownResource = "/.well-known/oauth-protected-resource"

func (s *Server) resourceMetadataURLs(named string) []*url.URL {
	var all []*url.URL
	server := s.url
	if named != "" {
		if at, err := server.Parse(named); err == nil && s.trusts(at) {
			all = append(all, at)
		}
	}
	if path := strings.Trim(server.Path, "/"); path != "" {
		all = append(all, &url.URL{Scheme: server.Scheme, Host: server.Host, Path: wellKnownResource + "/" + path})
	}
	return append(all, &url.URL{Scheme: server.Scheme, Host: server.Host, Path: wellKnownResource})
}

// trusts tells whether requests may go to a URL that the server, or its authorization server, has named: one
// by TLS. What runs on this machine is asked only for a server, or an issuer of its entry, that runs here too:
// nobody else is to reach it by way of the gateway.
func (s *Server) trusts(at *url.URL) bool {
	if at.Scheme != "https" && at.Scheme != "http" {
		return false
	}
	if isLoopback(at.Hostname()) {
		issuer, err := url.Parse(s.o.OAuth.AuthorizationServer)
		return isLoopback(s.url.Hostname()) || err == nil && isLoopback(issuer.Hostname())
	}
	return at.Scheme == "https" || upstream.Origin(at) == upstream.Origin(s.url)
}

func (s *Server) trustsAll(addresses ...string) bool {
	return !slices.ContainsFunc(addresses, func(address string) bool {
		at, err := url.Parse(address)
		return err != nil || address != "" && !s.trusts(at)
	})
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.Unmap().IsLoopback() || ip.IsUnspecified()) // which leads here too
}

// maxMetadata bounds a metadata document.
const maxMetadata = 1 << 20

// resourceMetadata reads one document; nil where there is none.
func (m *Manager) resourceMetadata(ctx context.Context, at *url.URL) (*oauthex.ProtectedResourceMetadata, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := m.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch status := response.StatusCode; {
	case status/100 == 4, status == http.StatusOK && kind != "application/json": // some answer everything with a page
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d for its metadata", status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetadata+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxMetadata:
		return nil, fmt.Errorf("its metadata is longer than %d bytes", maxMetadata)
	}
	var meta oauthex.ProtectedResourceMetadata
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, errors.New("its metadata is no JSON object of the right form")
	}
	return &meta, nil
}

// covers tells whether a resource is the server, or one that it is a part of.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Scheme != server.Scheme || !strings.EqualFold(r.Host, server.Host) {
		return false
	}
	path, prefix := strings.TrimSuffix(server.Path, "/"), strings.TrimSuffix(r.Path, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

var errUntrusted = errors.New("it is said to be on the gateway's own machine, or is not reached by TLS")

// authorizationServer reads the metadata of the first server that has some (RFC 8414, OpenID Connect).
func (m *Manager) authorizationServer(ctx context.Context, s *Server, issuers []string) (*oauthex.AuthServerMeta, error) {
	err := errors.New("none is named")
	for _, issuer := range issuers {
		if !s.trustsAll(issuer) {
			err = errUntrusted
			continue
		}
		var meta *oauthex.AuthServerMeta
		meta, err = auth.GetAuthServerMetadata(ctx, issuer, m.http)
		switch {
		case err != nil:
		case meta == nil:
			err = errors.New("it has no metadata")
		case !slices.Contains(meta.CodeChallengeMethodsSupported, "S256"):
			err = errors.New("it does not support PKCE with S256")
		case meta.AuthorizationEndpoint == "" || meta.TokenEndpoint == "":
			err = errors.New("its metadata names no endpoint for sign-ins or for tokens")
		case !s.trustsAll(meta.TokenEndpoint, meta.RegistrationEndpoint):
			err = errUntrusted
		default:
			return meta, nil
		}
	}
	return nil, err
}

const offlineAccess = "offline_access"

// wanted are the scopes to ask for. It is called with the lock held.
func (s *Server) wanted(p *place, meta *oauthex.AuthServerMeta) []string {
	var scopes []string
	switch own := s.o.OAuth.Scopes; {
	case len(s.missing) > 0:
		scopes = slices.Clone(s.missing)
	case own != nil:
		return slices.Clone(own)
	case len(s.challenge.scopes) > 0:
		scopes = slices.Clone(s.challenge.scopes)
	default:
		scopes = slices.Clone(p.scopes)
	}
	if slices.Contains(meta.ScopesSupported, offlineAccess) && s.o.OAuth.Scopes == nil {
		scopes = union(scopes, []string{offlineAccess}) // for a token to renew the access with
	}
	return scopes
}

// union keeps the order.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, scope := range b {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// lookAgain is how long a server that names no authorization server is believed.
const lookAgain = time.Minute

// needsSignIn tells whether a server that refuses a request has an authorization server.
func (s *Server) needsSignIn(ctx context.Context) bool {
	m := s.m
	m.mu.Lock()
	c, known, none := s.challenge, s.needs != nil && *s.needs, m.now().Before(s.noneUntil)
	m.mu.Unlock()
	if known || s.o.OAuth.AuthorizationServer != "" {
		return true
	}
	if none {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	p, _ := m.discover(limited, s, c) // what went wrong is told to whoever wants to sign in
	found := p != nil
	m.mu.Lock()
	defer m.mu.Unlock()
	if found {
		s.needs = &found
	} else if ctx.Err() == nil { // also where nothing was found in time: not every call is to wait for that
		s.noneUntil = m.now().Add(lookAgain)
	}
	return found
}

// hostOf is the host of an address, without a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}
