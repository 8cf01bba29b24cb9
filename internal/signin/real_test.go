package signin

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// protected are the servers that users sign in to.
var protected = map[string]func(testing.TB, *mcptest.AuthorizationServer) string{
	"the TypeScript SDK's server": mcptest.StartProtectedTypeScript,
	"the Go SDK's server":         mcptest.StartProtectedGo,
}

// With both kinds of servers, the whole way: nobody is signed in, a user signs in, the token is renewed, more
// access is asked for.
func TestSignIn_RealServers(t *testing.T) {
	as := mcptest.StartAuthorizationServer(t, map[string]any{"lifetime": 60})
	for name, start := range protected {
		t.Run(name, func(t *testing.T) {
			s := stageAt(t, as)
			s.server("far", start(t, as))
			_, err := s.connect("far")
			s.needsSignIn(err, "a user has to sign in to it")
			before := as.Count("refresh_token")
			s.signIn("far", false)
			c := s.connected("far")
			s.works(c, "read")

			s.later(55 * time.Second) // of 60
			s.works(c, "read")
			if n := as.Count("refresh_token") - before; n != 1 {
				t.Errorf("renewed %d times", n)
			}

			s.needsSignIn(s.call(c, "write"), "it asks for more access")
			s.works(c, "read")
			first := s.read("far")
			a := s.authorize("far", false) // what there is does not suffice, so there is no need to force it
			s.is(a, control.AuthorizationPending)
			if scope := query(t, a, "scope"); !holdsAll(scope, "read", "write") || a.UID == first.UID {
				t.Errorf("asked for %q by %s", scope, a.UID)
			}
			s.open(s.browser.Agree(a.AuthorizationURL))
			s.is(s.read("far"), control.AuthorizationAuthorized)
			s.works(c, "write")
			s.works(c, "read")
			for _, g := range as.Granted() {
				if g.Grant != "registration" && !strings.HasSuffix(g.Resource, "/mcp") {
					t.Errorf("%s for the resource %q", g.Grant, g.Resource)
				}
			}
		})
	}
}

func query(t *testing.T, a control.Authorization, name string) string {
	t.Helper()
	u, err := url.Parse(a.AuthorizationURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

func holdsAll(scope string, wanted ...string) bool {
	for _, w := range wanted {
		if !strings.Contains(" "+scope+" ", " "+w+" ") {
			return false
		}
	}
	return true
}

// errorOf is a control side's error.
func errorOf(t *testing.T, err error) *control.Error {
	t.Helper()
	var e *control.Error
	if !errors.As(err, &e) {
		t.Fatalf("no error of the control side: %v", err)
	}
	return e
}

// Seed 2: "Start the sign-in; show its URL to the user", "Read the authorization for progress", "Only an
// authorized result means that credentials are ready".
func TestSeed2_SignInPendingThenAuthorized(t *testing.T) {
	s := newStage(t, nil)
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	if _, err := s.m.Authorization("far"); errorOf(t, err).Code != control.NotFound {
		t.Error(err)
	}
	a := s.authorize("far", false)
	s.is(a, control.AuthorizationPending)
	if a.Name != "mcp-servers/far/authorization" || a.Server != "mcp-servers/far" || a.ExpiresAt.Sub(a.CreatedAt) != 10*time.Minute {
		t.Errorf("%+v", a)
	}
	for name, want := range map[string]string{"code_challenge_method": "S256", "response_type": "code", "redirect_uri": s.web.URL + "/oauth/callback"} {
		if got := query(t, a, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, force := range []bool{false, true} { // repeated while pending: the same
		if again := s.authorize("far", force); again != a {
			t.Errorf("%+v, then %+v", a, again)
		}
	}
	back := s.browser.Agree(a.AuthorizationURL)
	if now := s.read("far"); now != a { // the user has agreed, but no token is there
		t.Errorf("%+v", now)
	}
	page := s.open(back)
	if !strings.HasPrefix(page, "200 ") || !strings.Contains(page, "signed in to &#34;far&#34;") {
		t.Errorf("the page says: %s", page)
	}
	b := s.read("far")
	s.is(b, control.AuthorizationAuthorized)
	if b.UID != a.UID || b.ETag == a.ETag {
		t.Errorf("%+v, then %+v", a, b)
	}
	s.works(s.connected("far"), "read")
	if again := s.authorize("far", false); again != b {
		t.Errorf("%+v, then %+v", b, again)
	}
	if page := s.open(back); !strings.HasPrefix(page, "400 ") || !strings.Contains(page, "Nothing was changed") {
		t.Errorf("opened again, the page says: %s", page)
	}
	s.works(s.connected("far"), "read")
	if got := s.seen(); got != "far pending, far authorized" {
		t.Errorf("changes: %s", got)
	}
}

func TestSignIn_Denied(t *testing.T) {
	s := newStage(t, nil)
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	a := s.authorize("far", false)
	page := s.open(s.browser.Refuse(a.AuthorizationURL))
	if !strings.HasPrefix(page, "400 ") || !strings.Contains(page, "Not signed in") {
		t.Errorf("the page says: %s", page)
	}
	b := s.read("far")
	s.is(b, control.AuthorizationFailed)
	if b.Failure.Code != control.PermissionDenied || !strings.Contains(b.Failure.Message, "access_denied") || b.UID != a.UID || b.ETag == a.ETag {
		t.Errorf("%+v, %v", b, b.Failure)
	}
	_, err := s.connect("far")
	s.needsSignIn(err, "")
	if c := s.signIn("far", false); c.UID == a.UID { // asked again, it starts anew
		t.Errorf("%+v", c)
	}
	if n := s.as.Count("registration"); n != 1 {
		t.Errorf("%d registrations", n)
	}
	if got := s.seen(); got != "far pending, far failed, far pending, far authorized" {
		t.Errorf("changes: %s", got)
	}
}

func TestSignIn_Expired(t *testing.T) {
	s := newStage(t, nil)
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	a := s.authorize("far", false)
	back := s.browser.Agree(a.AuthorizationURL)
	s.later(10 * time.Minute)
	page := s.open(back)
	if !strings.HasPrefix(page, "400 ") || !strings.Contains(page, "Nothing was changed") {
		t.Errorf("the page says: %s", page)
	}
	b := s.read("far")
	s.is(b, control.AuthorizationFailed)
	server, _ := s.m.server("far")
	select {
	case <-server.newest.over:
	default:
		t.Error("those who wait for its end are left waiting")
	}
	if b.Failure.Code != control.DeadlineExceeded || b.UID != a.UID || b.ETag == a.ETag {
		t.Errorf("%+v, %v", b, b.Failure)
	}
	s.signIn("far", false)
	s.works(s.connected("far"), "read")
}

// Seed 2: "Reauthorize only when a new sign-in is meant", "Keep the identity, so a later attempt is not taken
// for an earlier one".
func TestSeed2_SignInForcedAgain(t *testing.T) {
	s := newStage(t, nil)
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	old := s.authorize("far", false)
	s.later(10 * time.Minute)
	late := s.browser.Agree(old.AuthorizationURL) // of an attempt that has expired by now
	a := s.signIn("far", false)
	c := s.connected("far")

	b := s.authorize("far", true)
	s.is(b, control.AuthorizationPending)
	if b.UID == a.UID || b.UID == old.UID {
		t.Errorf("%+v, then %+v", a, b)
	}
	if again := s.authorize("far", true); again != b {
		t.Errorf("%+v, then %+v", b, again)
	}
	s.works(c, "read") // with what there is
	if page := s.open(late); !strings.HasPrefix(page, "400 ") || !strings.Contains(page, "Nothing was changed") {
		t.Errorf("the page says: %s", page)
	}
	if now := s.read("far"); now != b {
		t.Errorf("%+v", now)
	}
	t.Run("with a stale ETag", func(t *testing.T) {
		_, err := s.m.Authorize(t.Context(), "far", a.ETag, control.AuthorizeRequest{})
		if e := errorOf(t, err); e.Code != control.FailedPrecondition || e.Status != 412 || !strings.HasPrefix(e.Message, "etag_mismatch:") ||
			!strings.Contains(string(e.Details[0]), strings.ReplaceAll(b.ETag, `"`, `\"`)) {
			t.Errorf("%+v", e)
		}
		if same, err := s.m.Authorize(t.Context(), "far", b.ETag, control.AuthorizeRequest{}); err != nil || same != b {
			t.Errorf("%+v, %v", same, err)
		}
	})
	s.open(s.browser.Refuse(b.AuthorizationURL))
	s.is(s.read("far"), control.AuthorizationFailed)
	s.works(c, "read") // still
	s.signIn("far", true)
	s.works(c, "read")
	if n := s.as.Count("authorization_code"); n != 2 {
		t.Errorf("%d codes were exchanged", n)
	}
}

func TestSignIn_RenewedOnceForAll(t *testing.T) {
	s := newStage(t, map[string]any{"lifetime": 600})
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	a := s.signIn("far", false)
	c := s.connected("far")
	once := func(t *testing.T) {
		before := s.as.Count("refresh_token")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { s.works(c, "read") })
		}
		all.Wait()
		if n := s.as.Count("refresh_token") - before; n != 1 {
			t.Errorf("renewed %d times", n)
		}
	}
	t.Run("when its time is over", func(t *testing.T) {
		s.later(11 * time.Minute)
		once(t)
	})
	t.Run("when the server does not take it any more", func(t *testing.T) {
		s.later(2 * time.Minute)
		s.as.Drop("AccessToken")
		once(t)
	})
	if now := s.read("far"); now != a {
		t.Errorf("%+v, then %+v", a, now)
	}
	t.Run("not while the authorization server is in trouble, but afterwards", func(t *testing.T) {
		s.later(595 * time.Second)
		s.as.Down(true)
		server, _ := s.m.server("far")
		if token, err := server.Bearer(t.Context()); err != nil || token == "" { // it is good for some seconds yet
			t.Errorf("%v", err)
		}
		s.later(10 * time.Second)
		err := s.call(c, "read")
		if err == nil || !strings.Contains(err.Error(), `renew the access to server "far": HTTP 503`) {
			t.Errorf("%v", err)
		}
		s.is(s.read("far"), control.AuthorizationAuthorized)
		s.as.Down(false)
		s.works(c, "read")
	})
}

func TestSignIn_RenewalRefused(t *testing.T) {
	s := newStage(t, map[string]any{"lifetime": 60})
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	a := s.signIn("far", false)
	c := s.connected("far")
	s.as.Drop("AccessToken", "RefreshToken")
	s.needsSignIn(s.call(c, "read"), "the authorization server refused to renew the access: invalid_grant")
	b := s.read("far")
	s.is(b, control.AuthorizationFailed)
	if b.UID != a.UID || b.ETag == a.ETag || b.Failure.Code != control.Unauthenticated {
		t.Errorf("%+v, %v", b, b.Failure)
	}
	s.needsSignIn(s.call(c, "read"), "refused to renew") // the reason stays
	s.signIn("far", false)
	s.works(c, "read")
	if n := s.as.Count("registration"); n != 1 {
		t.Errorf("%d registrations", n)
	}
	if got := s.seen(); got != "far pending, far authorized, far failed, far pending, far authorized" {
		t.Errorf("changes: %s", got)
	}
}

// An authorization server that was started again knows neither tokens nor clients.
func TestSignIn_AuthorizationServerRestarted(t *testing.T) {
	as := mcptest.StartAuthorizationServer(t, nil)
	t.Run("after a sign-in", func(t *testing.T) {
		s := stageAt(t, as)
		s.server("far", mcptest.StartProtectedGo(t, s.as))
		s.signIn("far", false)
		c := s.connected("far")
		s.hush(s.as.Secrets()...)
		s.as.Restart()
		s.needsSignIn(s.call(c, "read"), "refused to renew the access: invalid_client")
		s.signIn("far", false)
		s.works(c, "read")
	})
	t.Run("while one is pending", func(t *testing.T) {
		s := stageAt(t, as)
		s.server("far", mcptest.StartProtectedGo(t, s.as))
		a := s.authorize("far", false)
		back := s.browser.Agree(a.AuthorizationURL)
		s.as.Restart()
		if page := s.open(back); !strings.HasPrefix(page, "400 ") || !strings.Contains(page, "invalid_client") {
			t.Errorf("the page says: %s", page)
		}
		s.is(s.read("far"), control.AuthorizationFailed)
		s.signIn("far", false)
		s.works(s.connected("far"), "read")
	})
	t.Run("while nobody comes back", func(t *testing.T) { // the user sees an error there
		s := stageAt(t, as)
		s.server("far", mcptest.StartProtectedGo(t, s.as))
		s.authorize("far", false)
		s.as.Restart()
		s.later(10 * time.Minute)
		s.signIn("far", false)
	})
	t.Run("while it is gone", func(t *testing.T) {
		s := stageAt(t, as)
		s.server("far", mcptest.StartProtectedGo(t, s.as))
		s.as.Down(true)
		_, err := s.m.Authorize(t.Context(), "far", "", control.AuthorizeRequest{})
		if e := errorOf(t, err); e.Code != control.Unavailable || !strings.Contains(e.Message, "HTTP 503") && !strings.Contains(e.Message, "503") {
			t.Errorf("%v", e)
		}
		s.as.Down(false)
		s.signIn("far", false)
	})
}

func TestSignIn_CodeSubmittedByAnApplication(t *testing.T) {
	s := newStage(t, nil)
	s.server("far", mcptest.StartProtectedGo(t, s.as))
	s.server("other", mcptest.StartProtectedGo(t, s.as))
	a := s.authorize("far", false)
	back, err := url.Parse(s.browser.Agree(a.AuthorizationURL))
	if err != nil {
		t.Fatal(err)
	}
	answer := control.CodeRequest{Code: back.Query().Get("code"), State: back.Query().Get("state"), Issuer: back.Query().Get("iss")}
	s.hush(answer.Code)
	for what, q := range map[string]control.CodeRequest{"nothing": {}, "no code": {State: answer.State}, "no state": {Code: answer.Code}} {
		if _, err := s.m.SubmitCode(t.Context(), "far", q); errorOf(t, err).Code != control.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	wrong := answer
	wrong.State = "wrong"
	for server, q := range map[string]control.CodeRequest{"far": wrong, "other": answer} {
		if _, err := s.m.SubmitCode(t.Context(), server, q); errorOf(t, err).Code != control.FailedPrecondition {
			t.Errorf("%s: %v", server, err)
		}
	}
	if now := s.read("far"); now != a {
		t.Errorf("%+v", now)
	}
	b, err := s.m.SubmitCode(t.Context(), "far", answer)
	if err != nil {
		t.Fatal(err)
	}
	s.is(b, control.AuthorizationAuthorized)
	if _, err := s.m.SubmitCode(t.Context(), "far", answer); errorOf(t, err).Code != control.FailedPrecondition {
		t.Errorf("a second time: %v", err)
	}
	s.works(s.connected("far"), "read")
	t.Run("of another authorization server", func(t *testing.T) {
		a := s.authorize("other", false)
		for _, issuer := range []string{"", "https://evil.example"} {
			b, err := s.m.SubmitCode(t.Context(), "other", control.CodeRequest{Code: "c0de-of-another", State: query(t, a, "state"), Issuer: issuer})
			if err != nil {
				t.Fatal(err)
			}
			s.is(b, control.AuthorizationFailed)
			if !strings.Contains(b.Failure.Message, "not of the authorization server that was asked") {
				t.Error(b.Failure)
			}
			a = s.authorize("other", false)
		}
	})
}
