package signin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

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
