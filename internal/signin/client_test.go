package signin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/secret"
)

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
