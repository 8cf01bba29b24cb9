package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
)

// The sentences of the model that are about sign-ins, against a real authorization server.

// protected is a gateway with a remote server behind an authorization server, and a user.
type protected struct {
	*testGateway
	as      *mcptest.AuthorizationServer
	browser *mcptest.Browser
}

const farPath = "/v1/mcp-servers/far/authorization"

func startProtected(t *testing.T, change func(g *testGateway)) *protected {
	t.Helper()
	as := mcptest.StartAuthorizationServer(t, nil)
	return protectedBy(t, as, mcptest.StartProtectedGo(t, as), change)
}

func protectedBy(t *testing.T, as *mcptest.AuthorizationServer, server string, change func(g *testGateway)) *protected {
	t.Helper()
	g := prepare(t, map[string]entry{"a": {Args: []string{"-tool=x"}}}).withServers(`{"far":{"url":` + quoted(server) + `}}`)
	if change != nil {
		change(g)
	}
	p := &protected{testGateway: g.up(), as: as, browser: mcptest.NewBrowser(t)}
	t.Cleanup(func() {
		for _, secret := range append(as.Secrets(), "code_challenge", "/auth?") {
			if strings.Contains(p.log(), secret) {
				t.Errorf("%q stands in the log", secret)
			}
		}
	})
	return p
}

// authorization reads an answer that must be one.
func (p *protected) authorization(r reply, status int) (a control.Authorization) {
	p.t.Helper()
	r.into(p.t, &a)
	if r.status != status || a.ETag == "" || a.Name != "mcp-servers/far/authorization" || a.Server != "mcp-servers/far" {
		p.t.Errorf("%d %s, want %d", r.status, r.body, status)
	}
	return a
}

func (p *protected) authorize(body string, status int) control.Authorization {
	p.t.Helper()
	return p.authorization(p.api("POST", farPath+"/authorize", body), status)
}

func (p *protected) read() control.Authorization {
	p.t.Helper()
	return p.authorization(p.api("GET", farPath, ""), 200)
}

// visit opens the address that an authorization server sends a user to.
func (p *protected) visit(address string) (status int, page string) {
	p.t.Helper()
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// signIn signs the user in.
func (p *protected) signIn() {
	p.t.Helper()
	a := p.authorize("{}", 202)
	if status, page := p.visit(p.browser.Agree(a.AuthorizationURL)); status != 200 {
		p.t.Fatalf("callback: %d %s", status, page)
	}
	if a := p.read(); a.Status != control.AuthorizationAuthorized {
		p.t.Fatalf("after the callback: %+v", a)
	}
	eventually(p.t, "the server's tools", func() bool { return slices.Contains(p.client("").Tools(), "read") })
}

func TestSeed2_ProviderSignInMayBeNeeded(t *testing.T) {
	p := startProtected(t, nil) // which is no failure of the start
	if s := p.ready; s.State != control.StateReady || s.Servers[1].State != control.ServerSignInRequired {
		t.Errorf("status %+v", s)
	}
	if r := p.report(); !r.Complete || outcomes(r) != "a=applied far=applied" {
		t.Errorf("report %+v", r)
	}
	equal(t, "servers", names(p.gateway().Servers), "a:stdio far:remote")
	c := p.client("")
	c.Listen()
	if tools := c.Tools(); !slices.Equal(tools, []string{"far-authorize", "x"}) {
		t.Errorf("tools %v", tools)
	}
	if status, body := p.get("/health"); status != 200 || !strings.Contains(body, `"status":"ok"`) {
		t.Errorf("health %d %s", status, body)
	}
	contains(t, p.log(), "server needs a sign-in", "mcp-gateway servers signin far")

	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(c.Result("tools/call", mcptest.CallParams("far-authorize", "{}")), &result); err != nil || !result.IsError {
		t.Errorf("%v %+v", err, result)
	}
	a := p.read()
	contains(t, result.Content[0].Text, `"far"`, a.AuthorizationURL)
	p.signIn()
	c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
	if tools := c.Tools(); !slices.Equal(tools, []string{"x", "read", "write"}) {
		t.Errorf("tools after the sign-in: %v", tools)
	}
	equal(t, "a call", c.Call("read", "{}").Text(), "read done")
}

func TestSeed2_StartTheSignInAndShowItsURL(t *testing.T) {
	p := startProtected(t, nil)
	r := p.api("POST", farPath+"/authorize", "{}")
	a := p.authorization(r, 202)
	if a.Status != control.AuthorizationPending || a.AuthorizationURL == "" || a.ExpiresAt.IsZero() || a.UID == "" || a.Failure != nil {
		t.Errorf("%+v", a)
	}
	contains(t, a.AuthorizationURL, p.as.URL, "code_challenge_method=S256", url.QueryEscape(p.base()+"/oauth/callback"))
	if n := p.as.Count("authorization_code"); n != 0 {
		t.Errorf("the gateway went there itself: %d codes used", n)
	}
	p.api("POST", farPath+"/authorize", `{"remoteUrl":"https://elsewhere.example/mcp"}`).refusal(t, 409, control.FailedPrecondition)
	p.api("POST", "/v1/mcp-servers/a/authorization/authorize", `{}`).refusal(t, 409, control.FailedPrecondition, `"a"`)
}

func TestSeed2_ReadTheAuthorizationForProgress(t *testing.T) {
	p := startProtected(t, nil)
	p.api("GET", farPath, "").refusal(t, 404, control.NotFound)
	pending := p.authorize("{}", 202)
	if again := p.read(); again != pending {
		t.Errorf("%+v, want %+v", again, pending)
	}
	status, page := p.visit(p.browser.Refuse(pending.AuthorizationURL))
	if status != 400 || strings.Contains(page, "state") {
		t.Errorf("callback: %d %s", status, page)
	}
	denied := p.read()
	if denied.Status != control.AuthorizationFailed || denied.Failure == nil || denied.AuthorizationURL != "" || denied.ETag == pending.ETag || denied.UID != pending.UID {
		t.Errorf("%+v", denied)
	}
	contains(t, denied.Failure.Message, "denied")
	if again := p.authorize("{}", 202); again.UID == denied.UID || again.Status != control.AuthorizationPending {
		t.Errorf("asked again: %+v", again)
	}
}

func TestSeed2_OnlyAuthorizedMeansThatCredentialsAreReady(t *testing.T) {
	p := startProtected(t, nil)
	a := p.authorize("{}", 202)
	callback := p.browser.Agree(a.AuthorizationURL)
	p.as.Down(true) // the code arrives and cannot be used
	if status, _ := p.visit(callback); status != 400 {
		t.Errorf("callback: %d", status)
	}
	p.as.Down(false)
	if a := p.read(); a.Status != control.AuthorizationFailed || a.Failure == nil {
		t.Errorf("a code that brought no token: %+v", a)
	}
	if tools := p.client("").Tools(); !slices.Equal(tools, []string{"far-authorize", "x"}) {
		t.Errorf("tools %v", tools)
	}
	p.signIn()
	equal(t, "a call", p.client("").Call("read", "{}").Text(), "read done")
}

func TestSeed2_KeepTheIdentityOfEachAttempt(t *testing.T) {
	p := startProtected(t, nil)
	first := p.authorize("{}", 202)
	late := p.browser.Agree(first.AuthorizationURL)
	p.signIn() // the same attempt, finished by another visit
	done := p.read()
	if done.UID != first.UID || done.ETag == first.ETag {
		t.Errorf("%+v, then %+v", first, done)
	}
	second := p.authorize(`{"forceReauth":true}`, 202)
	if second.UID == first.UID {
		t.Errorf("the new attempt has the old identity: %+v", second)
	}
	if status, _ := p.visit(late); status != 400 {
		t.Errorf("a late callback: %d", status)
	}
	if now := p.read(); now != second {
		t.Errorf("a late callback has changed %+v to %+v", second, now)
	}
	req, _ := http.NewRequest("POST", p.base()+farPath+"/authorize", strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("If-Match", first.ETag)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	e := reply{answer.StatusCode, string(text)}.refusal(t, 412, control.FailedPrecondition, "etag_mismatch:")
	contains(t, string(e.Details[0]), control.TypeETagMismatch, quoted(second.ETag))
}

func TestSeed2_ReauthorizeOnlyWhenANewSignInIsMeant(t *testing.T) {
	p := startProtected(t, nil)
	pending := p.authorize("{}", 202)
	for _, body := range []string{"{}", `{"forceReauth":true}`} {
		if again := p.authorize(body, 202); again != pending {
			t.Errorf("%s while one is pending: %+v, want %+v", body, again, pending)
		}
	}
	p.signIn()
	done := p.read()
	if again := p.authorize("{}", 200); again != done {
		t.Errorf("without need: %+v, want %+v", again, done)
	}
	forced := p.authorize(`{"forceReauth":true}`, 202)
	c := p.client("")
	equal(t, "the old credentials serve", c.Call("read", "{}").Text(), "read done")
	if again := p.authorize(`{"forceReauth":true}`, 202); again != forced {
		t.Errorf("forced again: %+v, want %+v", again, forced)
	}
	if status, page := p.visit(p.browser.Agree(forced.AuthorizationURL)); status != 200 {
		t.Errorf("callback: %d %s", status, page)
	}
	equal(t, "the new ones serve", c.Call("read", "{}").Text(), "read done")
}

// An agent that adds a server is told how its user signs in.
func TestSignIn_OfAServerThatAnAgentAdds(t *testing.T) {
	as := mcptest.StartAuthorizationServer(t, nil)
	cat, err := catalog.Parse([]byte(`{"cloud": {"description": "Far away.", "runs": "remote", "url": ` + quoted(mcptest.StartProtectedGo(t, as)) + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := prepare(t, map[string]entry{})
	g.o.Dynamic, g.o.Catalog = true, cat
	c := g.up().client("")
	contains(t, says(t, c, "mcp-add", `{"server":"cloud"}`, false), `"tools":[]`, "call cloud-authorize")
	contains(t, says(t, c, "mcp-add", `{"server":"cloud"}`, false), "call cloud-authorize")
	contains(t, c.Call("cloud-authorize", "{}").Text(), as.URL)
}

// Removing a server takes its credentials along.
func TestSignIn_RemovalForgetsIt(t *testing.T) {
	p := startProtected(t, func(g *testGateway) { g.o.StateDir = t.TempDir() })
	p.signIn()
	if r := p.api("DELETE", gatewayPath+"/servers/far", ""); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	p.api("GET", farPath, "").refusal(t, 404, control.NotFound)
	if r := p.add("far", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if tools := p.client("").Tools(); !slices.Equal(tools, []string{"far-authorize", "x"}) {
		t.Errorf("tools %v", tools)
	}
}

// Credentials outlive the program where they are kept, and a stop of the gateway everywhere.
func TestSignIn_Outlives(t *testing.T) {
	as := mcptest.StartAuthorizationServer(t, nil)
	server, dir := mcptest.StartProtectedGo(t, as), t.TempDir()
	p := protectedBy(t, as, server, func(g *testGateway) { g.o.StateDir = dir })
	p.signIn()
	p.stopGateway()
	p.api("POST", gatewayPath+"/start", "{}")
	p.until(control.GatewayReady)
	equal(t, "after a stop", p.client("").Call("read", "{}").Text(), "read done")
	p.end()
	again := protectedBy(t, as, server, func(g *testGateway) { g.o.StateDir = dir })
	equal(t, "in another program", again.client("").Call("read", "{}").Text(), "read done")
}
