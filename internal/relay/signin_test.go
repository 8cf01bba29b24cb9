package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// guarded is a remote server that wants a token, and what a gateway knows of the sign-in to it.
type guarded struct {
	t      *testing.T
	remote *mcptest.RemoteServer
	front  *httptest.Server

	mu       sync.Mutex
	wanted   string // token that the server wants for every request, "" for none
	forCalls string // token that it wants for tools/call
	token    string // that the user's sign-in has brought
	attempt  int
	broken   error // what comes of a new sign-in
}

var _ upstream.Credentials = (*guarded)(nil)

func guard(t *testing.T, kind string) *guarded {
	s := &guarded{t: t, remote: mcptest.StartRemote(t, kind), wanted: "good", attempt: 1}
	s.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		wanted := s.wanted
		if s.forCalls != "" && r.Header.Get("Mcp-Method") == "tools/call" {
			wanted = s.forCalls
		}
		s.mu.Unlock()
		if wanted != "" && r.Header.Get("Authorization") != "Bearer "+wanted {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.remote.ServeHTTP(w, r)
	}))
	t.Cleanup(s.front.Close)
	return s
}

// Bearer implements upstream.Credentials.
func (s *guarded) Bearer(context.Context) (secret.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return secret.Value(s.token), nil
}

// Challenged implements upstream.Credentials.
func (s *guarded) Challenged(context.Context, int, []string, secret.Value) (bool, error) {
	return false, &upstream.SignInRequiredError{Server: "far"}
}

// invite is the relay's way to a sign-in.
func (s *guarded) invite(context.Context) (relay.Invitation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return relay.Invitation{ID: fmt.Sprint("attempt-", s.attempt), URL: fmt.Sprintf("https://login.example/?attempt=%d", s.attempt)}, s.broken
}

func (s *guarded) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// signIn is what a user does, and the gateway learns.
func (s *guarded) signIn(g *rig) {
	s.t.Helper()
	s.set(func() { s.token = "good" })
	if f := g.relay.SignedIn(s.t.Context(), "far"); f != nil {
		s.t.Errorf("signed in: %v", f)
	}
}

func (s *guarded) member(g *rig) relay.Member {
	remote := upstream.NewRemote(upstream.RemoteOptions{
		Server: "far", URL: s.front.URL, Limit: 64 << 20, Log: g.out, Scrub: func(s string) string { return s }, Credentials: s,
	})
	return relay.Member{Name: "far", Remote: true, SignIn: s.invite, Dial: func(_ bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
		return &upstream.RemoteDialer{Remote: remote, Handler: h, Identity: id}
	}}
}

// startGuarded starts a gateway with the server and another one.
func startGuarded(t *testing.T, s *guarded) *rig {
	t.Helper()
	g := newRig(t, map[string]server{"near": flags("-prefix=near_")}, rigOptions{})
	if faults := g.relay.Start(t.Context(), append(g.members, s.member(g))); len(faults) > 0 {
		t.Fatal(faults)
	}
	return g
}

// guardedRig starts a gateway with a guarded server and another one.
func guardedRig(t *testing.T, kind string) (*guarded, *rig) {
	s := guard(t, kind)
	return s, startGuarded(t, s)
}

// Clients with and without a way to show a URL.
var (
	shows = mcptest.ClientOptions{Capabilities: `{"elicitation":{"url":{}}}`, Answer: answers("me")}
	plain = mcptest.ClientOptions{}
)

const signInURL = "https://login.example/?attempt=1"

// invitedByError reads the error that wants a URL opened.
func invitedByError(t *testing.T, r mcptest.Reply) {
	t.Helper()
	refused(t, r, wire.CodeURLElicitation, `"far"`, "signed in")
	contains(t, string(wire.Get(r.Error, "data")), `{"elicitations":[{"mode":"url","elicitationId":"attempt-1","url":"`+signInURL+`","message":`)
}

// invitedByText reads a tool's result that tells the URL.
func invitedByText(t *testing.T, r mcptest.Reply) {
	t.Helper()
	contains(t, string(r.Result), `"isError":true`)
	contains(t, r.Text(), `"far"`, signInURL)
}

// invitedByInput reads an answer that wants input, and returns the state to come back with.
func invitedByInput(t *testing.T, r mcptest.Reply) string {
	t.Helper()
	questions, state := inputs(t, r)
	if len(questions) != 1 {
		t.Errorf("questions %s", r.Result)
	}
	contains(t, string(questions["sign-in"]), `{"method":"elicitation/create","params":{"mode":"url","elicitationId":"attempt-1","url":"`+signInURL+`"`)
	return state
}

func TestServerThatWantsASignIn(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			s, g := guardedRig(t, kind)
			if st := g.state("far"); st.State != relay.StateSignInRequired {
				t.Errorf("state %+v", st)
			}
			c, old, m, mp := g.legacy(shows), g.legacy(plain), g.modern(shows), g.modern(plain)
			c.Listen()
			old.Listen()
			if tools := c.Tools(); tools[0] != "far-authorize" || slices.Contains(tools, "echo") || !slices.Contains(tools, "near_whoami") {
				t.Errorf("tools %v", tools)
			}
			invitedByError(t, c.Request("tools/call", mcptest.CallParams("far-authorize", "{}")))
			invitedByText(t, old.Request("tools/call", mcptest.CallParams("far-authorize", "{}")))
			invitedByText(t, g.legacy(mcptest.ClientOptions{Version: "2025-06-18", Capabilities: shows.Capabilities}).Request("tools/call", mcptest.CallParams("far-authorize", "{}")))
			r := mp.Request("tools/call", mcptest.CallParams("far-authorize", "{}"))
			invitedByText(t, r)
			contains(t, string(r.Result), `"resultType":"complete"`)
			state := invitedByInput(t, m.Request("tools/call", mcptest.CallParams("far-authorize", "{}")))
			equal(t, "asked again too early", invitedByInput(t, m.Request("tools/call", retry("far-authorize", state, `{"sign-in":{"action":"accept"}}`))), state)
			r = m.Request("tools/call", retry("far-authorize", state, `{"sign-in":{"action":"decline"}}`))
			contains(t, r.Text(), "did not agree")
			contains(t, string(r.Result), `"isError":true`)
			x := listen(m, `{"toolsListChanged":true}`)

			s.signIn(g)
			c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
			x.Await(mcptest.IsMethod("notifications/tools/list_changed"))
			equal(t, "the end of the elicitation", string(c.Await(mcptest.IsMethod("notifications/elicitation/complete")).Params), `{"elicitationId":"attempt-1"}`)
			if st := g.state("far"); st.State != upstream.StateReady {
				t.Errorf("state %+v", st)
			}
			for what, client := range map[string]*mcptest.Client{"legacy": c, "old": old, "modern": m} {
				if tools := client.Tools(); slices.Contains(tools, "far-authorize") || !slices.Contains(tools, "echo") {
					t.Errorf("%s: tools %v", what, tools)
				}
				equal(t, what, client.Call("echo", "{}").Text(), "{}")
			}
			contains(t, m.Request("tools/call", retry("far-authorize", state, `{"sign-in":{"action":"accept"}}`)).Text(), "has signed in")
			for _, message := range old.Seen() {
				if message.Method == "notifications/elicitation/complete" {
					t.Error("who was given none is told of the elicitation's end")
				}
			}
			for _, text := range []string{"login.example", "attempt-1"} {
				if strings.Contains(g.logged(), text) {
					t.Errorf("%q is in the log", text)
				}
			}
		})
	}
}

// A credential that is not taken any more is met by a call, on whatever connection.
func TestCallThatMeetsASignIn(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			s, g := guardedRig(t, kind)
			s.signIn(g)
			c, old, m := g.legacy(shows), g.legacy(plain), g.modern(shows)
			c.Listen()
			for _, client := range []*mcptest.Client{c, old, m} {
				equal(t, "call", client.Call("echo", "{}").Text(), "{}")
			}
			s.set(func() { s.wanted = "better" })
			invitedByError(t, c.Request("tools/call", mcptest.CallParams("echo", "{}")))
			invitedByText(t, old.Request("tools/call", mcptest.CallParams("echo", "{}")))
			state := invitedByInput(t, m.Request("tools/call", mcptest.CallParams("echo", "{}")))
			if st := g.state("far"); st.State != relay.StateSignInRequired {
				t.Errorf("state %+v", st)
			}
			if !slices.Contains(c.Tools(), "echo") {
				t.Error("its tools are hidden")
			}
			equal(t, "others", c.Call("near_whoami", "{}").Text(), "near")
			s.set(func() { s.wanted = "good" })
			s.signIn(g)
			c.Await(mcptest.IsMethod("notifications/elicitation/complete"))
			equal(t, "the request again", m.Request("tools/call", retry("echo", state, `{"sign-in":{"action":"accept"}}`)).Text(), "{}")
			for _, client := range []*mcptest.Client{c, old, m} {
				equal(t, "call", client.Call("echo", "{}").Text(), "{}")
			}
			if st := g.state("far"); st.State != upstream.StateReady {
				t.Errorf("state %+v", st)
			}
		})
	}
}

// Some servers list their tools to everybody.
func TestServerThatWantsASignInForCallsAlone(t *testing.T) {
	s := guard(t, mcptest.RemoteStateless)
	s.wanted, s.forCalls = "", "good"
	g := startGuarded(t, s)
	c := g.legacy(shows)
	if tools := c.Tools(); !slices.Contains(tools, "echo") || slices.Contains(tools, "far-authorize") {
		t.Errorf("tools %v", tools)
	}
	invitedByError(t, c.Request("tools/call", mcptest.CallParams("echo", "{}")))
	refused(t, g.legacy(plain).Request("prompts/get", `{"name":"x"}`), wire.CodeInvalidParams, "x")
	s.signIn(g)
	equal(t, "call", c.Call("echo", "{}").Text(), "{}")
}

func TestSignInThatCannotBegin(t *testing.T) {
	s, g := guardedRig(t, mcptest.RemoteStateless)
	s.set(func() { s.broken = errors.New("the authorization server is down") })
	r := g.legacy(shows).Request("tools/call", mcptest.CallParams("far-authorize", "{}"))
	contains(t, r.Text(), `"far"`, "cannot be begun", "is down")
	s.set(func() { s.broken = nil })
	s.signIn(g)
	s.set(func() { s.wanted, s.broken = "better", errors.New("the authorization server is down") })
	refused(t, g.legacy(shows).Request("tools/call", mcptest.CallParams("echo", "{}")), wire.CodeInternal, `"far"`, "cannot be begun", "is down")
}

// Added, restarted and removed while it waits for its sign-in; without a way to sign in, it is a fault.
func TestServersThatWaitForASignInComeAndGo(t *testing.T) {
	s := guard(t, mcptest.RemoteSessions)
	g := one(t)
	c := g.legacy(shows)
	c.Listen()
	poor := s.member(g)
	poor.SignIn = nil
	if f := g.relay.Add(t.Context(), poor); f == nil || f.Cause != fault.SignInRequired {
		t.Errorf("fault %v", f)
	}
	for range 2 {
		if f := g.relay.Add(t.Context(), s.member(g)); f != nil {
			t.Fatal(f)
		}
		c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
		if f := g.relay.Restart(t.Context(), "far"); f != nil {
			t.Error(f)
		}
		if st := g.state("far"); st.State != relay.StateSignInRequired {
			t.Errorf("state %+v", st)
		}
		invitedByError(t, c.Request("tools/call", mcptest.CallParams("far-authorize", "{}")))
		g.remove("far")
		c.Await(mcptest.IsMethod("notifications/tools/list_changed"))
		refused(t, c.Request("tools/call", mcptest.CallParams("far-authorize", "{}")), wire.CodeInvalidParams, "unknown tool")
	}
	if f := g.relay.SignedIn(t.Context(), "far"); f == nil {
		t.Error("a server that is not there is signed in to")
	}
}

// A sign-in forced anew, while the old credential serves, ends no call.
func TestSignedInEndsNoCall(t *testing.T) {
	for _, kind := range append(knowing, mcptest.RemoteStateless) {
		s, g := guardedRig(t, kind)
		s.signIn(g)
		c := g.legacy(shows)
		x := c.BeginCall("wait", "{}")
		happens(t, "the call", s.remote.Waiting)
		s.signIn(g)
		equal(t, kind, c.Call("echo", "{}").Text(), "{}")
		x.Cancel("")
		happens(t, "the cancellation", s.remote.Cancelled)
		if r, err := x.Wait(); err == nil {
			t.Errorf("%s: the call was ended: %s", kind, r.Raw)
		}
	}
}
