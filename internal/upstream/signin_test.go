package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/secret"
)

// fakeCredentials are a user's in a test.
type fakeCredentials struct {
	mu         sync.Mutex
	token      secret.Value
	bearerErr  error
	challenged func(c *fakeCredentials, status int, challenges []string, used secret.Value) (bool, error)
	seen       []string // the challenges, each with its status and token
}

var _ Credentials = (*fakeCredentials)(nil)

func (c *fakeCredentials) Bearer(context.Context) (secret.Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.bearerErr
}

func (c *fakeCredentials) Challenged(_ context.Context, status int, challenges []string, used secret.Value) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, fmt.Sprintf("%d %s %q", status, used.Reveal(), challenges))
	if c.challenged == nil {
		return false, nil
	}
	return c.challenged(c, status, challenges, used)
}

func (c *fakeCredentials) set(token secret.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
}

func (c *fakeCredentials) challenges() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen...)
}

func with(c Credentials) func(*RemoteOptions) {
	return func(o *RemoteOptions) { o.Credentials = c }
}

// guarded lets only requests with the current token through to a server.
type guarded struct {
	*webServer
	mu    sync.Mutex
	token string
	got   []string // verb or method of each request, with what it carried
}

func newGuarded(t *testing.T, token string) *guarded {
	g := &guarded{webServer: newWebServer(t), token: token}
	inner := g.webServer.Config.Handler
	g.webServer.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.mu.Lock()
		want := g.token
		g.got = append(g.got, r.Method+" "+got)
		g.mu.Unlock()
		if got != want {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="/there", error="invalid_token"`)
			http.Error(w, "the token "+got+" is not known here", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return g
}

func (g *guarded) want(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = token
}

func (g *guarded) requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.got...)
}

func TestSignIn_TokenOnEveryRequest(t *testing.T) {
	for _, kind := range append(withSession, mcptest.RemoteStateless) {
		t.Run(kind, func(t *testing.T) {
			s := mcptest.StartRemote(t, kind)
			p := dialRemote(t, s.URL, with(&fakeCredentials{token: "letter"}))
			if kind == mcptest.RemoteStateless {
				meta := ModernMeta(p.dialer.Identity)
				if _, err := ListAll(t.Context(), p.conn, "tools/list", "tools", meta); err != nil {
					t.Fatal(err)
				}
			} else {
				p.call("echo", "{}")
			}
			p.conn.Close(context.Background())
		})
	}
	g := newGuarded(t, "letter")
	g.on("GET", hang)
	p := dialRemote(t, g.URL, with(&fakeCredentials{token: "letter"}))
	p.call("echo", "{}")
	p.conn.Close(context.Background())
	verbs := map[string]bool{}
	for _, q := range g.requests() {
		verb, token, _ := strings.Cut(q, " ")
		if verbs[verb] = true; token != "letter" {
			t.Errorf("%s with %q", verb, token)
		}
	}
	if !verbs["GET"] || !verbs["POST"] || !verbs["DELETE"] {
		t.Errorf("requests %v", verbs)
	}
}

func TestSignIn_OldTransport(t *testing.T) {
	s := newOldServer(t)
	p := dialRemote(t, s.URL+"/sse", with(&fakeCredentials{token: "letter"}), func(o *RemoteOptions) { o.SSE = true })
	p.call("echo", "{}")
	p.conn.Close(context.Background())
	for _, q := range s.requests {
		if got := q.header.Get("Authorization"); got != "Bearer letter" {
			t.Errorf("%s %s: %q", q.verb, q.rpc, got)
		}
	}
}

func TestSignIn_EntrysOwnCredentialsComeFirst(t *testing.T) {
	c := &fakeCredentials{token: "letter"}
	g := newGuarded(t, "own")
	p := dialRemote(t, g.URL, with(c), withHeaders(map[string]secret.Value{"authorization": "Bearer own"}))
	p.call("echo", "{}")
	g.want("other")
	var e *StatusError
	if err := p.begin("echo", "{}", "").failure(); !errors.As(err, &e) || e.Status != 401 {
		t.Errorf("%v", err)
	}
	if len(c.challenges()) > 0 {
		t.Errorf("challenged: %v", c.challenges())
	}
}

func TestSignIn_ChallengeIsAnsweredOnce(t *testing.T) {
	c := &fakeCredentials{token: "first"}
	g := newGuarded(t, "first")
	p := dialRemote(t, g.URL, with(c))
	p.call("echo", "{}")
	t.Run("and the request sent again", func(t *testing.T) {
		g.want("second")
		c.challenged = func(c *fakeCredentials, _ int, _ []string, _ secret.Value) (bool, error) {
			c.token = "second"
			return true, nil
		}
		if got := p.call("echo", `{"n":12345678901234567890}`); got != `{"n":12345678901234567890}` {
			t.Errorf("got %s", got)
		}
		if seen := c.challenges(); len(seen) != 1 || seen[0] != `401 first ["Bearer resource_metadata=\"/there\", error=\"invalid_token\""]` {
			t.Errorf("challenges %q", seen)
		}
	})
	t.Run("not twice", func(t *testing.T) {
		g.want("third")
		before := len(g.requests())
		err := p.begin("echo", "{}", "").failure()
		contains(t, err.Error(), "POST tools/call: HTTP 401 Unauthorized", "the token *** is not known here")
		if got := len(g.requests()) - before; got != 2 {
			t.Errorf("%d requests", got)
		}
	})
	t.Run("where it stands, the server's answer is the error, without the token", func(t *testing.T) {
		c.challenged = nil
		c.set(secret.Value(strings.Repeat("long", 100))) // the error has less of the body
		err := p.begin("echo", "{}", "").failure()
		contains(t, err.Error(), "HTTP 401", "the token ***")
		if strings.Contains(err.Error()+p.logged(), "longlong") {
			t.Errorf("the token is in %v", err)
		}
	})
}

func TestSignIn_Required(t *testing.T) {
	needed := &SignInRequiredError{Server: "far"}
	refuse := func(*fakeCredentials, int, []string, secret.Value) (bool, error) { return false, needed }
	t.Run("to connect", func(t *testing.T) {
		c := &fakeCredentials{challenged: refuse}
		g := newGuarded(t, "letter")
		f := newRemotePeer(t, g.URL, with(c)).refused(nil)
		var e *SignInRequiredError
		if !errors.As(error(f), &e) || e != needed || f.Cause != fault.SignInRequired {
			t.Errorf("%v", f)
		}
		contains(t, f.Error(), "POST server/discover: a user has to sign in to it")
		contains(t, f.Hint, "mcp-gateway servers signin far")
		if n := len(g.requests()); n != 1 {
			t.Errorf("%d requests", n) // the others would end alike
		}
	})
	t.Run("for a call", func(t *testing.T) {
		c := &fakeCredentials{token: "letter", challenged: refuse}
		g := newGuarded(t, "letter")
		p := dialRemote(t, g.URL, with(c))
		g.want("other")
		var e *SignInRequiredError
		if err := p.begin("echo", "{}", "").failure(); !errors.As(err, &e) || Retryable(err) {
			t.Errorf("%v", err)
		}
		g.want("letter")
		p.call("echo", "{}") // the connection is as good as before
	})
	t.Run("where the answer is forbidden, and scopes are missing", func(t *testing.T) {
		c := &fakeCredentials{token: "letter", challenged: refuse}
		g := newGuarded(t, "letter")
		g.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			status(http.StatusForbidden, "")(w, r, q)
		})
		p := dialRemote(t, g.URL, with(c))
		var e *SignInRequiredError
		if err := p.begin("echo", "{}", "").failure(); !errors.As(err, &e) {
			t.Errorf("%v", err)
		}
		if seen := c.challenges(); len(seen) != 1 || !strings.HasPrefix(seen[0], "403 letter ") {
			t.Errorf("challenges %q", seen)
		}
	})
	t.Run("since the token cannot be renewed", func(t *testing.T) {
		c := &fakeCredentials{bearerErr: &SignInRequiredError{Server: "far", Reason: "the authorization server refused to renew the token"}}
		g := newGuarded(t, "letter")
		f := newRemotePeer(t, g.URL, with(c)).refused(nil)
		contains(t, f.Error(), "[sign_in_required]", "a user has to sign in to it again: the authorization server refused")
		if n := len(g.requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("for the stream of the GET, which is then not tried again", func(t *testing.T) {
		c := &fakeCredentials{token: "letter", challenged: refuse}
		g := newGuarded(t, "letter")
		asked := make(chan bool, 100)
		g.on("GET", func(w http.ResponseWriter, r *http.Request, q request) {
			asked <- true
			status(http.StatusUnauthorized, "")(w, r, q)
		})
		p := dialRemote(t, g.URL, with(c))
		<-asked
		p.call("echo", "{}")
		idle := make(chan bool, 1)
		go func() {
			p.conn.(*streamable).wait.Wait() // for whoever would ask again
			idle <- true
		}()
		wait(t, "the end of the tries", idle)
		if len(asked) > 0 {
			t.Errorf("asked %d more times", len(asked))
		}
	})
	t.Run("for the rest of a stream that broke off", func(t *testing.T) {
		c := &fakeCredentials{token: "letter", challenged: refuse}
		g := newGuarded(t, "letter")
		g.on("tools/call", func(w http.ResponseWriter, _ *http.Request, _ request) {
			g.want("other")
			writeEvents(w, "id: 1\nretry: 1\ndata:\n\n")
		})
		p := dialRemote(t, g.URL, with(c))
		var e *SignInRequiredError
		if err := p.begin("echo", "{}", "").failure(); !errors.As(err, &e) {
			t.Errorf("%v", err)
		}
		if n := len(c.challenges()); n != 1 {
			t.Errorf("%d challenges", n)
		}
	})
}
