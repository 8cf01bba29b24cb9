package signin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
)

func TestSignIn_Discovery(t *testing.T) {
	unauthorized := func(challenge string) (int, []string) { return 401, []string{challenge} }
	resource := func(of string, issuers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 200, map[string]any{"resource": of, "authorization_servers": issuers, "scopes_supported": []string{"a", "b"}})
		}
	}
	for name, test := range map[string]struct {
		change    func(f *fakeServer)
		challenge string // URL is the server
		oauth     catalog.OAuth
		resource  string // of the request, URL is the server; "" where nothing is found
		scope     string
	}{
		"of 2025-03-26, at the server's origin": {resource: "URL/mcp"},
		"none":                                  {change: func(f *fakeServer) { f.answers["/.well-known/oauth-authorization-server"] = http.NotFound }},
		"by the path": {change: func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource/mcp"] = resource(f.URL+"/mcp", f.URL)
		}, resource: "URL/mcp", scope: "a b"},
		"at the root, of all that is there, with a slash": {change: func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource"] = resource(f.URL+"/", f.URL)
		}, resource: "URL/", scope: "a b"},
		"of something else": {change: func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource"] = resource(f.URL+"/other", "https://evil.example")
		}, resource: "URL/mcp"},
		"by the challenge, which asks for scopes": {change: func(f *fakeServer) {
			f.answers["/elsewhere"] = resource(f.URL+"/mcp", f.URL)
		}, challenge: `Basic realm="x", Bearer resource_metadata="URL/elsewhere", scope="b c"`, resource: "URL/mcp", scope: "b c"},
		"by a challenge that nobody can read": {challenge: `Bearer resource_metadata=, ,="`, resource: "URL/mcp"},
		"as the entry says": {change: func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource"] = resource(f.URL, "https://evil.example")
		}, oauth: catalog.OAuth{AuthorizationServer: "URL", Resource: "urn:mine", Scopes: []string{"x"}}, resource: "urn:mine", scope: "x"},
		"as the entry says, without scopes": {change: func(f *fakeServer) {
			f.metadata["scopes_supported"] = []string{"offline_access"}
		}, oauth: catalog.OAuth{Scopes: []string{}}, resource: "URL/mcp"},
		"with a scope to renew by": {change: func(f *fakeServer) {
			f.metadata["scopes_supported"] = []string{"offline_access"}
		}, resource: "URL/mcp", scope: "offline_access"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeStage(t)
			f := newFakeServer(t, test.change)
			test.oauth.AuthorizationServer = strings.ReplaceAll(test.oauth.AuthorizationServer, "URL", f.URL)
			s.server("far", f.URL+"/mcp?key=hidden", test.oauth)
			server, _ := s.m.server("far")
			status, challenges := unauthorized(strings.ReplaceAll(test.challenge, "URL", f.URL))
			again, err := server.Challenged(t.Context(), status, challenges, "")
			if test.resource == "" {
				if again || err != nil {
					t.Errorf("%t, %v", again, err)
				}
				if n := len(f.requests); n == 0 {
					t.Error("nobody was asked")
				} else if _, err := server.Challenged(t.Context(), status, challenges, ""); err != nil || len(f.requests) != n {
					t.Errorf("it is looked for at each request: %v", err)
				}
				_, err = s.m.Authorize(t.Context(), "far", "", control.AuthorizeRequest{})
				if e := errorOf(t, err); e.Code != control.FailedPrecondition || !strings.Contains(e.Message, "names no authorization server") {
					t.Error(e)
				}
				return
			}
			s.needsSignIn(err, "a user has to sign in to it")
			a := s.authorize("far", false)
			if got := strings.ReplaceAll(query(t, a, "resource"), f.URL, "URL"); got != test.resource {
				t.Errorf("resource %q", got)
			}
			if got := query(t, a, "scope"); got != test.scope {
				t.Errorf("scope %q", got)
			}
			if (query(t, a, "prompt") == "consent") != (test.scope == "offline_access") || query(t, a, "tenant") != "1" {
				t.Error("parameters of the URL")
			}
		})
	}
}

// What authorization servers may do to whoever reads their metadata.
func TestSignIn_HostileMetadata(t *testing.T) {
	other := newFakeServer(t, nil)
	for name, test := range map[string]struct {
		change func(f *fakeServer)
		want   string
	}{
		"redirected elsewhere": {func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+"/x", http.StatusFound)
			}
			f.answers["/.well-known/oauth-authorization-server"] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+"/y", http.StatusFound)
			}
		}, "find the authorization server: HTTP 302 for its metadata"},
		"without end": {func(f *fakeServer) {
			f.answers["/.well-known/oauth-protected-resource"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"resource": "`, strings.Repeat("x", 2<<20))
			}
			f.answers["/.well-known/oauth-authorization-server"] = http.NotFound
		}, "its metadata is longer than 1048576 bytes"},
		"a script instead of a page": {func(f *fakeServer) { f.metadata["authorization_endpoint"] = "javascript:alert(1)" }, `disallowed scheme "javascript"`},
		"tokens without TLS":         {func(f *fakeServer) { f.metadata["token_endpoint"] = "http://far.example/token" }, "does not use HTTPS"},
		"of another issuer":          {func(f *fakeServer) { f.metadata["issuer"] = "https://evil.example" }, "does not match issuer URL"},
		"without PKCE":               {func(f *fakeServer) { f.metadata["code_challenge_methods_supported"] = []string{"plain"} }, "does not support PKCE with S256"},
		"without registration":       {func(f *fakeServer) { delete(f.metadata, "registration_endpoint") }, "it registers no clients"},
		"registration refused": {func(f *fakeServer) {
			f.answers["/register"] = func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "see https://as.example/?token=s3cr3t-word"})
			}
		}, "invalid_redirect_uri (see https://as.example/)"},
		"registration that is none": {func(f *fakeServer) {
			f.answers["/register"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"client_secret": "s3cr3t-word"`) }
		}, "failed to decode successful registration response: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeStage(t)
			s.hush("s3cr3t-word")
			f := newFakeServer(t, test.change)
			s.server("far", f.URL)
			_, err := s.m.Authorize(t.Context(), "far", "", control.AuthorizeRequest{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			} else {
				s.note(err.Error())
			}
		})
	}
	if len(other.requests) > 0 {
		t.Errorf("another origin was asked: %v", other.requests)
	}
}

// A server elsewhere must not have the gateway ask what runs on its own machine.
func TestSignIn_HostileAddresses(t *testing.T) {
	f := newFakeServer(t, nil)
	s := fakeStage(t)
	far := s.m.Server("far", ServerOptions{URL: "https://far.example/mcp"})
	if _, err := s.m.authorizationServer(t.Context(), far, []string{f.URL}); !errors.Is(err, errUntrusted) || len(f.requests) > 0 {
		t.Errorf("error %v after %v", err, f.requests)
	}
	near := s.m.Server("near", ServerOptions{URL: f.URL + "/mcp"})
	chosen := s.m.Server("chosen", ServerOptions{URL: "https://far.example/mcp", OAuth: catalog.OAuth{AuthorizationServer: f.URL}})
	for _, who := range []*Server{near, chosen} {
		if meta, err := s.m.authorizationServer(t.Context(), who, []string{f.URL}); err != nil || meta.Issuer != f.URL {
			t.Errorf("server %q: %v", who.name, err)
		}
	}
	for at, want := range map[string]struct{ far, near bool }{
		"https://as.example/token":       {true, true},
		"http://as.example/token":        {false, false},
		"http://127.0.0.1:9/token":       {false, true},
		"https://[::1]/token":            {false, true},
		"http://localhost/token":         {false, true},
		"https://0.0.0.0/token":          {false, true},
		"https://[::ffff:7f00:1]/token":  {false, true},
		"file:///etc/mcp-gateway/.token": {false, false},
		"":                               {true, true}, // there is none
	} {
		if got := far.trustsAll("https://as.example", at); got != want.far {
			t.Errorf("a server elsewhere, %q: %v", at, got)
		}
		if got := near.trustsAll(at); got != want.near {
			t.Errorf("a server on this machine, %q: %v", at, got)
		}
	}
}
