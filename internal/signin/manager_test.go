package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/secret"
)

func TestSignIn_KeptAcrossRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "sign-in")
	s := newStage(t, map[string]any{"lifetime": 600}, func(o *Options) { o.Dir = dir })
	at := mcptest.StartProtectedTypeScript(t, s.as)
	s.server("far", at)
	a := s.signIn("far", false)
	s.later(11 * time.Minute)
	s.works(s.connected("far"), "read") // with a token that was renewed, and so the refresh token too
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", file.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	s.restart()
	s.server("far", at)
	if b := s.read("far"); b.UID != a.UID || b.ETag != a.ETag || b.Status != a.Status || !b.CreatedAt.Equal(a.CreatedAt) || !b.UpdatedAt.Equal(a.UpdatedAt) {
		t.Errorf("%+v, then %+v", a, b)
	}
	c := s.connected("far")
	s.works(c, "read")
	s.later(11 * time.Minute)
	s.works(c, "read")
	s.signIn("far", true)
	if n := s.as.Count("registration"); n != 1 {
		t.Errorf("%d registrations", n)
	}
	t.Run("not for another URL of the same name", func(t *testing.T) {
		s.restart()
		s.server("far", mcptest.StartProtectedGo(t, s.as))
		if _, err := s.m.Authorization("far"); errorOf(t, err).Code != control.NotFound {
			t.Error(err)
		}
		_, err := s.connect("far")
		s.needsSignIn(err, "")
	})
	t.Run("nor after the server was removed", func(t *testing.T) {
		s.restart()
		s.server("far", at)
		s.works(s.connected("far"), "read")
		s.m.Remove("far")
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("left is %v", files)
		}
		s.restart()
		s.server("far", at)
		if _, err := s.m.Authorization("far"); errorOf(t, err).Code != control.NotFound {
			t.Error(err)
		}
	})
	t.Run("nor where the file is damaged", func(t *testing.T) {
		s.signIn("far", false)
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(dir, file.Name()), []byte(`{"token": "s3cr3t-token`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.hush("s3cr3t-token")
		s.restart()
		s.server("far", at)
		if _, err := s.m.Authorization("far"); errorOf(t, err).Code != control.NotFound {
			t.Error(err)
		}
		s.signIn("far", false)
	})
}

// fakeServer is an authorization server in the test, for what a real one does not do.
type fakeServer struct {
	*httptest.Server
	mu       sync.Mutex
	metadata map[string]any
	answers  map[string]http.HandlerFunc // instead of the usual ones, by path
	requests []string                    // path and form of each
}

// newFakeServer starts one, which is the protected server too.
func newFakeServer(t *testing.T, change func(f *fakeServer)) *fakeServer {
	f := &fakeServer{answers: map[string]http.HandlerFunc{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	f.metadata = map[string]any{
		"issuer": f.URL, "authorization_endpoint": f.URL + "/authorize?tenant=1", "token_endpoint": f.URL + "/token",
		"registration_endpoint": f.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},
	}
	if change != nil {
		change(f)
	}
	return f
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	f.mu.Lock()
	f.requests = append(f.requests, r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.PostForm.Encode())
	answer := f.answers[r.URL.Path]
	f.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, r)
	case r.URL.Path == "/.well-known/oauth-authorization-server":
		writeJSON(w, 200, f.metadata)
	case r.URL.Path == "/register":
		writeJSON(w, 201, map[string]any{"client_id": "registered"})
	case r.URL.Path == "/token":
		writeJSON(w, 200, map[string]any{"access_token": "the-access-token", "token_type": "bearer"})
	default:
		http.NotFound(w, r)
	}
}

func (f *fakeServer) got(path string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.requests {
		if strings.HasPrefix(q, path+" ") {
			all = append(all, q)
		}
	}
	return all
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// fakeStage is a stage without a real authorization server.
func fakeStage(t *testing.T, change ...func(*Options)) *stage {
	return stageAt(t, nil, change...)
}

// A server is made known when it is connected and when somebody signs in to it, which may be at once: both
// have to mean the same credentials.
func TestSignIn_ServerMadeKnownAtOnce(t *testing.T) {
	m, err := New(t.Context(), Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for round := range 100 {
		var got [4]*Server
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = m.Server(fmt.Sprint(round), ServerOptions{URL: "https://mail.example/mcp"}) })
		}
		all.Wait()
		for _, s := range got {
			if s != m.servers[fmt.Sprint(round)] {
				t.Fatalf("round %d: one has another server than the manager knows", round)
			}
		}
	}
}

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

func TestSignIn_Clients(t *testing.T) {
	const public = "https://50005-id.sandbox.example"
	document := func(f *fakeServer) { f.metadata["client_id_metadata_document_supported"] = true }
	for name, test := range map[string]struct {
		change  func(f *fakeServer)
		oauth   catalog.OAuth
		public  string
		learned bool
		id      string
		auth    string // of the request for a token
	}{
		"registered":           {id: "registered", auth: "client_id=registered"},
		"given, with a secret": {oauth: catalog.OAuth{ClientID: "given", ClientSecret: "s3cr3t-word"}, id: "given", auth: "Basic Z2l2ZW46czNjcjN0LXdvcmQ= "},
		"given, with a secret in a form": {change: func(f *fakeServer) {
			f.metadata["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
		}, oauth: catalog.OAuth{ClientID: "given", ClientSecret: "s3cr3t-word"}, id: "given", auth: "client_secret=s3cr3t-word"},
		"by a document":                         {change: document, public: public, id: public + "/oauth/client.json", auth: "client_id=https"},
		"by a document, but no TLS":             {change: document, id: "registered"},
		"by a document that may not be reached": {change: document, public: public, learned: true, id: "registered"},
		"by a document, and no other way": {change: func(f *fakeServer) {
			document(f)
			delete(f.metadata, "registration_endpoint")
		}, public: public, learned: true, id: public + "/oauth/client.json"},
		"registered with a secret": {change: func(f *fakeServer) {
			f.metadata["token_endpoint_auth_methods_supported"] = []string{"client_secret_basic"}
			f.answers["/register"] = func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 201, map[string]any{"client_id": "registered", "client_secret": "s3cr3t-word", "token_endpoint_auth_method": "client_secret_basic"})
			}
		}, id: "registered", auth: "Basic cmVnaXN0ZXJlZDpzM2NyM3Qtd29yZA== "},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeStage(t, func(o *Options) {
				if test.learned {
					o.PublicURL = ""
				} else if test.public != "" {
					o.PublicURL = test.public
				}
			})
			s.hush("s3cr3t-word", "the-access-token")
			if test.learned {
				r := httptest.NewRequest("POST", "http://"+strings.TrimPrefix(test.public, "https://")+"/mcp", nil)
				s.m.Learn(r)
			}
			f := newFakeServer(t, test.change)
			s.server("far", f.URL, test.oauth)
			a := s.authorize("far", false)
			if got := query(t, a, "client_id"); got != test.id {
				t.Errorf("client %q", got)
			}
			b, err := s.m.SubmitCode(t.Context(), "far", control.CodeRequest{Code: "the-code", State: query(t, a, "state")})
			if err != nil {
				t.Fatal(err)
			}
			s.is(b, control.AuthorizationAuthorized)
			if got := f.got("/token"); len(got) != 1 || !strings.Contains(got[0], test.auth) {
				t.Errorf("asked for a token with %q", got)
			}
			if strings.HasSuffix(test.id, "client.json") {
				w := httptest.NewRecorder()
				s.m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/oauth/client.json", nil))
				var d struct {
					ID        string   `json:"client_id"`
					Redirects []string `json:"redirect_uris"`
				}
				if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || d.ID != test.id || !slices.Equal(d.Redirects, []string{public + "/oauth/callback"}) {
					t.Errorf("the document is %s", w.Body)
				}
			}
		})
	}
	t.Run("registered again for more scopes, and without any where they are not known", func(t *testing.T) {
		s := fakeStage(t)
		f := newFakeServer(t, func(f *fakeServer) {
			f.answers["/register"] = func(w http.ResponseWriter, r *http.Request) {
				var q struct{ Scope string }
				_ = json.NewDecoder(r.Body).Decode(&q)
				if strings.Contains(q.Scope, "odd") {
					writeJSON(w, 400, map[string]any{"error": "invalid_client_metadata"})
					return
				}
				writeJSON(w, 201, map[string]any{"client_id": "may " + q.Scope, "scope": q.Scope})
			}
		})
		for i, test := range []struct{ scopes, client string }{{"a", "may a"}, {"a", "may a"}, {"a b", "may a b"}, {"odd", "may "}, {"a b odd", "may "}} {
			name := fmt.Sprint(i)
			s.server(name, f.URL, catalog.OAuth{Scopes: strings.Fields(test.scopes)})
			if got := query(t, s.authorize(name, false), "client_id"); got != test.client {
				t.Errorf("%s: client %q", test.scopes, got)
			}
		}
		if n := len(f.got("/register")); n != 4 {
			t.Errorf("%d registrations", n)
		}
	})
}

func TestSignIn_TokensThatCannotBeRenewed(t *testing.T) {
	signedIn := func(t *testing.T, answer map[string]any) (*stage, *Server, *fakeServer) {
		s := fakeStage(t)
		s.hush("the-access-token")
		f := newFakeServer(t, func(f *fakeServer) {
			f.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, answer) }
		})
		s.server("far", f.URL)
		a := s.authorize("far", false)
		if _, err := s.m.SubmitCode(t.Context(), "far", control.CodeRequest{Code: "the-code", State: query(t, a, "state")}); err != nil {
			t.Fatal(err)
		}
		server, _ := s.m.server("far")
		return s, server, f
	}
	t.Run("expire", func(t *testing.T) {
		s, server, _ := signedIn(t, map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "expires_in": 60})
		s.later(59 * time.Second)
		if token, err := server.Bearer(t.Context()); err != nil || token != secret.Value("the-access-token") {
			t.Errorf("%v", err)
		}
		s.later(time.Second)
		b := s.read("far")
		s.is(b, control.AuthorizationFailed)
		token, err := server.Bearer(t.Context())
		if err != nil || token != "" {
			t.Errorf("%v", err)
		}
		_, err = server.Challenged(t.Context(), 401, nil, "")
		s.needsSignIn(err, "the access has expired")
	})
	t.Run("but by the same token again", func(t *testing.T) {
		s, server, f := signedIn(t, map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "expires_in": 60, "refresh_token": "the-refresh-token"})
		s.hush("the-refresh-token")
		f.mu.Lock()
		f.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, 200, map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "expires_in": 60})
		}
		f.mu.Unlock()
		for range 2 {
			s.later(time.Minute)
			if _, err := server.Bearer(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := f.got("/token"); len(got) != 3 || !strings.Contains(got[2], "grant_type=refresh_token") || !strings.Contains(got[2], "refresh_token=the-refresh-token") {
			t.Errorf("tokens were asked for with %q", got)
		}
	})
	t.Run("are refused", func(t *testing.T) {
		s, server, _ := signedIn(t, map[string]any{"access_token": "the-access-token", "token_type": "Bearer"})
		_, err := server.Challenged(t.Context(), 401, []string{`Bearer error="invalid_token"`}, "the-access-token")
		s.needsSignIn(err, "the server does not take the access")
		s.is(s.read("far"), control.AuthorizationFailed)
	})
	t.Run("are refused again and again", func(t *testing.T) {
		s, server, f := signedIn(t, map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "refresh_token": "the-refresh-token"})
		s.hush("the-refresh-token")
		if again, err := server.Challenged(t.Context(), 401, nil, "the-access-token"); !again || err != nil {
			t.Errorf("%t, %v", again, err)
		}
		_, err := server.Challenged(t.Context(), 401, nil, "the-access-token")
		s.needsSignIn(err, "the server does not take the access")
		if n := len(f.got("/token")); n != 2 {
			t.Errorf("%d tokens", n)
		}
	})
	t.Run("are of a type that nobody can send", func(t *testing.T) {
		s := fakeStage(t)
		f := newFakeServer(t, func(f *fakeServer) {
			f.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, 200, map[string]any{"access_token": "the-access-token", "token_type": "DPoP"})
			}
		})
		s.server("far", f.URL)
		a := s.authorize("far", false)
		b, err := s.m.SubmitCode(t.Context(), "far", control.CodeRequest{Code: "the-code", State: query(t, a, "state")})
		if err != nil || b.Status != control.AuthorizationFailed || !strings.Contains(b.Failure.Message, "not of the type Bearer") {
			t.Errorf("%+v, %v", b, err)
		}
	})
	t.Run("are not enough, though nothing is missing", func(t *testing.T) {
		s, server, _ := signedIn(t, map[string]any{"access_token": "the-access-token", "token_type": "Bearer", "scope": "a b"})
		for _, challenge := range []string{`Bearer error="insufficient_scope", scope="b"`, `Bearer`, ``} {
			if again, err := server.Challenged(t.Context(), 403, []string{challenge}, "the-access-token"); again || err != nil {
				t.Errorf("%t, %v", again, err)
			}
		}
		s.is(s.authorize("far", false), control.AuthorizationAuthorized)
	})
}

func TestSignIn_CallbackPage(t *testing.T) {
	s := fakeStage(t)
	f := newFakeServer(t, func(f *fakeServer) {
		f.answers["/token"] = func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, 400, map[string]any{"error": "invalid_grant", "error_description": "code " + r.PostForm.Get("code") + " <b>is</b> bad"})
		}
	})
	name := "far <script>"
	s.server(name, f.URL)
	a := s.authorize(name, false)
	if a.Name != "mcp-servers/far%20%3Cscript%3E/authorization" {
		t.Errorf("name %q", a.Name)
	}
	get := func(method, query string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.m.Handler().ServeHTTP(w, httptest.NewRequest(method, "/oauth/callback?"+query, nil))
		s.note(w.Body.String())
		return w
	}
	state := query(t, a, "state")
	for _, method := range []string{"HEAD", "POST"} { // nothing is used up
		if w := get(method, "code=c&state="+state); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for _, q := range []string{"", "code=c", "state=" + state, "code=c&state=x"} {
		if w := get("GET", q); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "Nothing was changed") {
			t.Errorf("%q: %d %s", q, w.Code, w.Body)
		}
	}
	if now := s.read(name); now != a {
		t.Errorf("%+v", now)
	}
	s.hush("c0de-of-it")
	w := get("GET", "code=c0de-of-it&state="+state)
	text := w.Body.String()
	if w.Code != http.StatusBadRequest || !strings.Contains(text, "invalid_grant (code *** &lt;b&gt;is&lt;/b&gt; bad)") || strings.Contains(text, "<script>") {
		t.Errorf("%d %s", w.Code, text)
	}
	for header, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8"} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	s.is(s.read(name), control.AuthorizationFailed)
}

func TestSignIn_PublicURL(t *testing.T) {
	s := fakeStage(t, func(o *Options) { o.PublicURL = "" })
	f := newFakeServer(t, nil)
	s.server("far", f.URL)
	_, err := s.m.Authorize(t.Context(), "far", "", control.AuthorizeRequest{})
	if e := errorOf(t, err); e.Code != control.FailedPrecondition || !strings.Contains(e.Message, "--public-url") {
		t.Error(e)
	}
	for _, step := range []struct {
		host    string
		headers map[string]string
		want    string
	}{
		{"bad host\"", nil, ""},
		{"127.0.0.1:50005", nil, "http://127.0.0.1:50005"},
		{"localhost:50005", nil, "http://127.0.0.1:50005"},
		{"127.0.0.1:50005", map[string]string{"X-Forwarded-Host": "evil.example/x?"}, "http://127.0.0.1:50005"},
		{"10.0.0.1", map[string]string{"Forwarded": `for=1.2.3.4;host="50005-id.sandbox.example";proto=https, host=inner`}, "https://50005-id.sandbox.example"},
		{"other.example", nil, "https://50005-id.sandbox.example"}, // once
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = step.host
		for name, value := range step.headers {
			r.Header.Set(name, value)
		}
		s.m.Learn(r)
		got, _ := s.m.public.redirect()
		if strings.TrimSuffix(got, "/oauth/callback") != step.want {
			t.Errorf("after %s %v: %q", step.host, step.headers, got)
		}
	}
	if n := strings.Count(s.log.String(), "public URL learned"); n != 2 {
		t.Errorf("said %d times", n)
	}
	for host, want := range map[string]string{"a.example": "https://a.example", "a.example:8080": "https://a.example:8080", "10.1.2.3:50005": "http://10.1.2.3:50005", "[::1]:1": "http://[::1]:1", "[2001:db8::1]": "http://[2001:db8::1]"} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = host
		if got, _ := baseOf(r); got != want {
			t.Errorf("%s: %q", host, got)
		}
		r.Header.Set("X-Forwarded-Host", "front.example, inner.example")
		r.Header.Set("X-Forwarded-Proto", "http, https")
		if got, _ := baseOf(r); got != "http://front.example" {
			t.Errorf("%s behind a proxy: %q", host, got)
		}
	}
}

func TestSignIn_Lifetime(t *testing.T) {
	s := fakeStage(t)
	f := newFakeServer(t, nil)
	_, err := s.m.Authorize(t.Context(), "nobody", "", control.AuthorizeRequest{})
	if errorOf(t, err).Code != control.NotFound {
		t.Error(err)
	}
	s.server("far", f.URL+"/mcp")
	other := "https://other.example/mcp"
	_, err = s.m.Authorize(t.Context(), "far", "", control.AuthorizeRequest{RemoteURL: &other})
	if errorOf(t, err).Code != control.FailedPrecondition {
		t.Error(err)
	}
	_, err = s.m.Authorize(t.Context(), "far", `"x"`, control.AuthorizeRequest{})
	if errorOf(t, err).Status != 412 {
		t.Error(err)
	}
	t.Run("all who ask at once share an attempt", func(t *testing.T) {
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]bool{}
		for range 20 {
			all.Go(func() {
				a := s.authorize("far", false)
				mu.Lock()
				defer mu.Unlock()
				seen[a.UID] = true
			})
		}
		all.Wait()
		if len(seen) != 1 || len(f.got("/register")) != 1 {
			t.Errorf("%d attempts, %d registrations", len(seen), len(f.got("/register")))
		}
	})
	t.Run("one who leaves stops nothing", func(t *testing.T) {
		held, leave := make(chan bool), make(chan bool)
		slow := newFakeServer(t, func(f *fakeServer) {
			f.answers["/register"] = func(w http.ResponseWriter, _ *http.Request) {
				held <- true
				<-leave
				writeJSON(w, 201, map[string]any{"client_id": "registered"})
			}
		})
		s.server("slow", slow.URL)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.m.Authorize(ctx, "slow", "", control.AuthorizeRequest{})
			done <- err
		}()
		<-held
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(leave)
		s.is(s.authorize("slow", false), control.AuthorizationPending)
		if n := len(slow.got("/register")); n != 1 {
			t.Errorf("%d registrations", n)
		}
	})
	t.Run("known again it stays, changed it is new", func(t *testing.T) {
		a := s.read("far")
		old := s.m.Server("far", ServerOptions{URL: f.URL + "/mcp"})
		if b := s.read("far"); a != b {
			t.Errorf("%+v, then %+v", a, b)
		}
		s.server("far", f.URL+"/mcp", catalog.OAuth{Scopes: []string{}})
		if _, err := s.m.Authorization("far"); errorOf(t, err).Code != control.NotFound {
			t.Error(err)
		}
		if page := s.open(s.web.URL + "/oauth/callback?code=the-code&state=" + query(t, a, "state")); !strings.Contains(page, "Nothing was changed") {
			t.Errorf("the page says: %s", page)
		}
		if old.SignedIn() {
			t.Error("what was before has been signed in")
		}
	})
	t.Run("removed while tokens are asked for", func(t *testing.T) {
		held, leave := make(chan bool), make(chan bool)
		slow := newFakeServer(t, func(f *fakeServer) {
			f.answers["/token"] = func(w http.ResponseWriter, _ *http.Request) {
				held <- true
				<-leave
				writeJSON(w, 200, map[string]any{"access_token": "the-access-token", "token_type": "Bearer"})
			}
		})
		s.server("gone", slow.URL)
		a := s.authorize("gone", false)
		done := make(chan control.Authorization)
		go func() {
			b, _ := s.m.SubmitCode(t.Context(), "gone", control.CodeRequest{Code: "the-code", State: query(t, a, "state")})
			done <- b
		}()
		<-held
		server, _ := s.m.server("gone")
		s.m.Remove("gone")
		close(leave)
		if b := <-done; b.Status != control.AuthorizationFailed || server.SignedIn() {
			t.Errorf("%+v", b)
		}
	})
}
