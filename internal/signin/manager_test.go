package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
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

// A host that taught nothing is not looked at again, unless a proxy says that it was reached by another.
func TestSignIn_PublicURLBehindAProxyOnThisMachine(t *testing.T) {
	s := fakeStage(t, func(o *Options) { o.PublicURL = "" })
	for _, forwarded := range []string{"", "", "", "50005-id.sandbox.example"} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = "127.0.0.1:50005"
		if forwarded != "" {
			r.Header.Set("X-Forwarded-Host", forwarded)
		}
		s.m.Learn(r)
	}
	if got := s.m.PublicURL(); got != "https://50005-id.sandbox.example" {
		t.Errorf("learned %q", got)
	}
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
