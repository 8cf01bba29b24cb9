package signin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for.
const patience = 60 * time.Second

// stage is a gateway's sign-ins with everything around them: an authorization server, protected servers, a
// web server that receives the redirects, a user with a browser.
type stage struct {
	*testing.T
	as      *mcptest.AuthorizationServer
	web     *httptest.Server
	browser *mcptest.Browser
	options Options
	m       *Manager

	mu      sync.Mutex
	shift   time.Duration
	log     bytes.Buffer
	changes []string
	secrets []string // that must be in no log line and no error
	errors  []string
}

// newStage starts an authorization server and a manager.
func newStage(t *testing.T, as map[string]any, change ...func(*Options)) *stage {
	t.Helper()
	return stageAt(t, mcptest.StartAuthorizationServer(t, as), change...)
}

// stageAt makes a stage with an authorization server that runs already.
func stageAt(t *testing.T, as *mcptest.AuthorizationServer, change ...func(*Options)) *stage {
	t.Helper()
	s := &stage{T: t, as: as, browser: mcptest.NewBrowser(t)}
	s.web = httptest.NewUnstartedServer(nil)
	s.options = Options{
		PublicURL: "http://" + s.web.Listener.Addr().String(),
		Log:       slog.New(slog.NewTextHandler(lockedWriter{s}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:       s.now,
		Changed:   s.changed,
	}
	for _, f := range change {
		f(&s.options)
	}
	s.start()
	s.web.Config.Handler = s.m.Handler()
	s.web.Start()
	t.Cleanup(func() {
		s.web.Close()
		s.m.Close()
		s.silent()
	})
	return s
}

func (s *stage) start() {
	s.Helper()
	var err error
	if s.m, err = New(s.Context(), s.options); err != nil {
		s.Fatal(err)
	}
}

// restart makes a new manager, as after a restart of the gateway.
func (s *stage) restart() {
	s.Helper()
	s.m.Close()
	s.start()
	s.web.Config.Handler = s.m.Handler()
}

type lockedWriter struct{ s *stage }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.shift)
}

// later lets time pass.
func (s *stage) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shift += d
}

func (s *stage) changed(server string, status control.AuthorizationStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, server+" "+string(status))
}

func (s *stage) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.changes, ", ")
}

// hush notes a text that must not be seen.
func (s *stage) hush(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, texts...)
}

// note keeps what people or callers have read.
func (s *stage) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, text)
}

// silent wants no secret in anything that was logged or told.
func (s *stage) silent() {
	s.Helper()
	if s.as != nil {
		s.hush(s.as.Secrets()...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.log.String() + strings.Join(s.errors, "\n")
	for _, secret := range s.secrets {
		if len(secret) > 8 && strings.Contains(told, secret) {
			s.Errorf("%q is in a log line or an error:\n%s", secret, told)
		}
	}
}

// connect connects to a server as the gateway does.
func (s *stage) connect(name string) (upstream.Conn, error) {
	s.Helper()
	server, err := s.m.server(name)
	if err != nil {
		s.Fatal(err)
	}
	d := &upstream.RemoteDialer{
		Remote: upstream.NewRemote(upstream.RemoteOptions{
			Server: name, URL: server.o.URL, Credentials: server, Limit: 1 << 20, Log: s.options.Log, Scrub: func(text string) string { return text },
		}),
		Handler: nobody{}, Identity: upstream.Identity{ClientInfo: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(`{}`)},
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	c, err := d.Dial(ctx, nil)
	if err != nil {
		s.note(err.Error())
		return nil, err
	}
	s.Cleanup(func() { c.Close(context.Background()) })
	return c, nil
}

// connected wants the connection to be made.
func (s *stage) connected(name string) upstream.Conn {
	s.Helper()
	c, err := s.connect(name)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

type nobody struct{}

func (nobody) Notified(upstream.Conn, wire.Msg) {}
func (nobody) Asked(upstream.Conn, wire.Msg)    {}

// call calls a tool.
func (s *stage) call(c upstream.Conn, tool string) error {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	params := fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, tool)
	if c.Hello().Version == upstream.Modern {
		params = wire.Edit(params, wire.Change{Key: "_meta", Value: upstream.ModernMeta(upstream.Identity{ClientInfo: []byte(`{"name":"test","version":"1"}`), Capabilities: []byte(`{}`)})})
	}
	result, err := upstream.Ask(ctx, c, "tools/call", params)
	if err != nil {
		s.note(err.Error())
		return err
	}
	if !bytes.Contains(result, []byte(tool+" done")) {
		s.Errorf("%s answered %s", tool, result)
	}
	return nil
}

// works wants a call to succeed.
func (s *stage) works(c upstream.Conn, tool string) {
	s.Helper()
	if err := s.call(c, tool); err != nil {
		s.Errorf("%s: %v", tool, err)
	}
}

// needsSignIn wants an error to say that a user has to sign in.
func (s *stage) needsSignIn(err error, reason string) {
	s.Helper()
	var e *upstream.SignInRequiredError
	if !errors.As(err, &e) || !strings.Contains(e.Error(), reason) {
		s.Fatalf("no sign-in is wanted for %q: %v", reason, err)
	}
}

// server makes a server known.
func (s *stage) server(name, at string, o ...catalog.OAuth) {
	s.Helper()
	options := ServerOptions{URL: at}
	if len(o) > 0 {
		options.OAuth = o[0]
	}
	s.m.Server(name, options)
}

// authorize begins a sign-in, or gets the one that there is.
func (s *stage) authorize(name string, force bool) control.Authorization {
	s.Helper()
	a, err := s.m.Authorize(s.Context(), name, "", control.AuthorizeRequest{ForceReauth: force})
	if err != nil {
		s.Fatal(err)
	}
	s.check(a)
	return a
}

// read reads the sign-in.
func (s *stage) read(name string) control.Authorization {
	s.Helper()
	a, err := s.m.Authorization(name)
	if err != nil {
		s.Fatal(err)
	}
	s.check(a)
	return a
}

// check wants what holds of every sign-in.
func (s *stage) check(a control.Authorization) {
	s.Helper()
	pending := a.Status == control.AuthorizationPending
	if pending != (a.AuthorizationURL != "") || pending == a.ExpiresAt.IsZero() || (a.Status == control.AuthorizationFailed) != (a.Failure != nil) {
		s.Errorf("sign-in %+v", a)
	}
	if u, err := url.Parse(a.AuthorizationURL); err == nil && pending {
		s.hush(a.AuthorizationURL, u.RawQuery, u.Query().Get("state"), u.Query().Get("code_challenge"))
	}
	if a.Failure != nil {
		s.note(a.Failure.Message)
	}
}

// is wants a sign-in to have a status.
func (s *stage) is(a control.Authorization, status control.AuthorizationStatus) {
	s.Helper()
	if a.Status != status {
		s.Fatalf("the sign-in is %s, not %s: %+v", a.Status, status, a.Failure)
	}
}

// signIn signs in to a server as a user does.
func (s *stage) signIn(name string, force bool) control.Authorization {
	s.Helper()
	a := s.authorize(name, force)
	s.is(a, control.AuthorizationPending)
	page := s.open(s.browser.Agree(a.AuthorizationURL))
	if !strings.HasPrefix(page, "200 ") {
		s.Fatalf("the page says: %s", page)
	}
	a = s.read(name)
	s.is(a, control.AuthorizationAuthorized)
	return a
}

// open opens the page that a user is sent to.
func (s *stage) open(at string) string {
	s.Helper()
	if u, err := url.Parse(at); err == nil {
		s.hush(at, u.RawQuery, u.Query().Get("code"), u.Query().Get("state"))
	}
	page := s.browser.Open(at)
	s.note(page)
	return page
}
