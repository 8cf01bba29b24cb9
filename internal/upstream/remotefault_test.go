package upstream

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/wire"
)

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// What a person reads who has given a URL that does not work.
func TestRemoteFaults(t *testing.T) {
	always := func(f answerFunc) func(*webServer) {
		return func(s *webServer) {
			for _, what := range []string{"server/discover", "initialize", "GET"} {
				s.on(what, f)
			}
		}
	}
	for _, test := range []struct {
		name   string
		server func(*webServer)
		ready  ReadyFunc
		want   string // a pattern
		hint   string
	}{
		{"a page", always(status(200, "<html><title>Welcome</title></html>")), nil,
			`^server "far" \[handshake_invalid\]: URL/mcp after 0\.\d s: POST initialize: the answer is no message of MCP: HTTP 200 text/html; charset=utf-8: Welcome$`, "MCP endpoint"},
		{"not found", always(status(404, "404 page not found\n")), nil,
			`^server "far" \[unreachable\]: URL/mcp after 0\.\d s: POST initialize: HTTP 404 Not Found: 404 page not found; nor does it speak HTTP\+SSE: GET: HTTP 404 Not Found: 404 page not found$`, "MCP endpoint"},
		{"in trouble", always(status(503, "<html>Service\r\nUnavailable s3cr3t</html>")), nil,
			`^server "far" \[unreachable\]: URL/mcp after 0\.\d s: POST initialize: HTTP 503 Service Unavailable: Service Unavailable \*\*\*$`, "in trouble"},
		{"credentials wanted", always(func(w http.ResponseWriter, r *http.Request, q request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://h/.well-known/oauth-protected-resource"`)
			status(401, "")(w, r, q)
		}), nil, `^server "far" \[sign_in_required\]: URL/mcp after 0\.\d s: POST server/discover: HTTP 401 Unauthorized \(Bearer resource_metadata="https://h/\.well-known/oauth-protected-resource"\)$`, `"headers": {"Authorization"`},
		{"credentials refused, without a challenge", always(status(403, "no")), nil, `\[sign_in_required\]: URL/mcp after 0\.\d s: POST initialize: HTTP 403 Forbidden: no$`, `"headers": {"Authorization"`},
		{"credentials wanted for the lists", func(s *webServer) { s.on("tools/list", status(401, "")) },
			func(ctx context.Context, c Conn) error {
				_, err := ListAll(ctx, c, "tools/list", "tools", nil)
				return err
			}, `\[sign_in_required\].*POST tools/list: HTTP 401 Unauthorized$`, "headers"},
		{"refused by the server", func(s *webServer) {
			s.on("initialize", func(w http.ResponseWriter, _ *http.Request, q request) {
				writeJSON(w, wire.ErrorReply(q.msg.ID, []byte(`{"code":-32603,"message":"not today"}`)))
			})
		}, nil, `\[handshake_invalid\].*: invalid handshake: initialize: the server answered with error -32603: not today$`, "is it an MCP server?"},
		{"an unknown revision", func(s *webServer) {
			s.on("initialize", func(w http.ResponseWriter, _ *http.Request, q request) {
				writeJSON(w, wire.Reply(q.msg.ID, []byte(`{"protocolVersion":"1999-01-01","capabilities":{}}`)))
			})
		}, nil, `\[handshake_invalid\].*it wants protocol version "1999-01-01"`, ""},
		{"redirected elsewhere", always(func(w http.ResponseWriter, r *http.Request, q request) {
			http.Redirect(w, r, "https://elsewhere.example/mcp?key=s3cr3t", http.StatusMovedPermanently)
		}), nil, `\[unreachable\]: URL/mcp after 0\.\d s: POST initialize: HTTP 301 Moved Permanently to https://elsewhere\.example/mcp\?…$`, "redirects to another origin"},
		{"a session that is not known at once", func(s *webServer) { s.on("tools/list", status(404, "")) },
			func(ctx context.Context, c Conn) error {
				_, err := ListAll(ctx, c, "tools/list", "tools", nil)
				return err
			}, `\[unreachable\].*the server does not know the session any more`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newWebServer(t)
			test.server(s)
			f := newRemotePeer(t, s.URL+"/mcp").refused(test.ready)
			got := strings.ReplaceAll(f.Error(), s.URL, "URL")
			if !regexp.MustCompile(test.want).MatchString(got) {
				t.Errorf("%s\nwant %s", got, test.want)
			}
			contains(t, f.Hint, test.hint)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		f := newRemotePeer(t, "http://"+closedPort(t)+"/mcp").refused(nil)
		contains(t, f.Error(), "[unreachable]", "POST server/discover: dial tcp 127.0.0.1:", "connection refused")
		contains(t, f.Hint, "is it running")
	})
	t.Run("no such host", func(t *testing.T) {
		f := newRemotePeer(t, "http://no-such-host.invalid/mcp").refused(nil)
		contains(t, f.Error(), "[unreachable]", "POST server/discover: dial tcp: lookup no-such-host.invalid")
	})
	t.Run("HTTP where TLS is wanted", func(t *testing.T) {
		s := newWebServer(t)
		f := newRemotePeer(t, strings.Replace(s.URL, "http:", "https:", 1)).refused(nil)
		contains(t, f.Error(), "[unreachable]", "http: server gave HTTP response to HTTPS client")
	})
	t.Run("a certificate that nobody trusts", func(t *testing.T) {
		s := httptest.NewTLSServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		defer s.Close()
		f := newRemotePeer(t, s.URL).refused(nil)
		contains(t, f.Error(), "[unreachable]", "certificate signed by unknown authority")
		contains(t, f.Hint, "SSL_CERT_FILE")
	})
	t.Run("no answer in time", func(t *testing.T) {
		s := newWebServer(t)
		s.on("server/discover", hang)
		s.on("initialize", hang)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the limit has passed"))
		defer cancel()
		_, err := newRemotePeer(t, s.URL).dialer.Dial(ctx, nil)
		contains(t, err.Error(), "[handshake_timeout]", "no answer to initialize: the limit has passed")
	})
	t.Run("a URL that is none, authorities that cannot be read", func(t *testing.T) {
		f := newRemotePeer(t, "http://h:port/mcp").refused(nil)
		contains(t, f.Error(), `server "far" [bad_config]`)
		f = newRemotePeer(t, "http://h/mcp", func(o *RemoteOptions) { o.Env = []string{"SSL_CERT_FILE=/no/such/file"} }).refused(nil)
		contains(t, f.Error(), `server "far" [bad_config]: http://h/mcp: read the certificate authorities of SSL_CERT_FILE`)
	})
	t.Run("a proxy that is none", func(t *testing.T) {
		f := newRemotePeer(t, "http://h.example/mcp", func(o *RemoteOptions) { o.Env = []string{"HTTP_PROXY=http://u:hunter2@[::1/", "no_proxy=x"} }).refused(nil)
		contains(t, f.Error(), "[unreachable]")
		if strings.Contains(f.Error(), "hunter2") {
			t.Errorf("the proxy's password is in %q", f.Error())
		}
	})
}

// The parts of a URL that may be secret, and the entry's headers, are in no error and no log line.
func TestB75_RemoteSecrets(t *testing.T) {
	for name, answer := range map[string]answerFunc{
		"echoed": func(w http.ResponseWriter, r *http.Request, q request) {
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte("bad token " + r.Header.Get("Authorization") + " for " + r.URL.String()))
		},
		"dropped": func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) },
		"page":    status(200, "<html>"),
		"error":   status(500, ""),
	} {
		s := newWebServer(t)
		for _, what := range []string{"server/discover", "initialize", "GET"} {
			s.on(what, answer)
		}
		u, _ := url.Parse(s.URL)
		u.User, u.Path, u.RawQuery, u.Fragment = url.UserPassword("me", "s3cr3t"), "/mcp", "apiKey=query-s3cr3t&x=hidden", "fragment"
		p := newRemotePeer(t, u.String(), withHeaders(map[string]secret.Value{"Authorization": "Bearer s3cr3t"}))
		f := p.refused(nil)
		text := f.Error() + f.Hint + p.logged()
		for _, part := range []string{"s3cr3t", "hidden", "fragment", "me:"} {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q is in %s", name, part, text)
			}
		}
		contains(t, f.Error(), s.URL+"/mcp?…")
	}
	t.Run("refused", func(t *testing.T) {
		p := newRemotePeer(t, "http://me:s3cr3t@"+closedPort(t)+"/mcp?key=hidden")
		if text := p.refused(nil).Error() + p.logged(); strings.Contains(text, "s3cr3t") || strings.Contains(text, "hidden") {
			t.Error(text)
		}
	})
	t.Run("credentials that are refused", func(t *testing.T) {
		s := newWebServer(t)
		s.on("server/discover", status(401, ""))
		f := newRemotePeer(t, s.URL, withHeaders(map[string]secret.Value{"Authorization": "Bearer x"})).refused(nil)
		contains(t, f.Hint, "does not take the credentials in the entry's headers")
		var e *StatusError
		if !errors.As(error(f), &e) || !e.SignIn() || f.Cause != fault.SignInRequired {
			t.Errorf("%v", f)
		}
	})
}

func TestRemote_Redirects(t *testing.T) {
	other := newWebServer(t) // of another origin: it must not be asked anything
	headers := withHeaders(map[string]secret.Value{"X-Key": "s3cr3t"})
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := newWebServer(t)
		moved := http.NewServeMux()
		moved.Handle("/mcp/", s)
		moved.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/mcp/", code) })
		front := httptest.NewServer(moved)
		defer front.Close()
		p := dialRemote(t, front.URL+"/mcp", headers)
		p.call("echo", "{}")
		for _, q := range s.got("initialize", "tools/call") {
			if q.header.Get("X-Key") != "s3cr3t" || len(q.body) == 0 {
				t.Errorf("%s lost something on its way: %v %s", q.rpc, q.header, q.body)
			}
		}
		p.conn.Close(context.Background())
	}
	for name, to := range map[string]string{"another port": other.URL, "another host": strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "another scheme": "https://127.0.0.1:1/"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			s := newWebServer(t)
			redirect := func(w http.ResponseWriter, r *http.Request, _ request) { http.Redirect(w, r, to, code) }
			for _, what := range []string{"server/discover", "initialize", "GET"} {
				s.on(what, redirect)
			}
			contains(t, newRemotePeer(t, s.URL, headers).refused(nil).Error(), "[unreachable]", " to "+to)
			if name == "another port" && code == 307 { // later, too
				s.on("server/discover", nil)
				s.on("initialize", nil)
				s.on("tools/call", redirect)
				contains(t, dialRemote(t, s.URL, headers).begin("echo", "{}", "").failure().Error(), "HTTP 307 Temporary Redirect")
			}
		}
	}
	t.Run("in a circle", func(t *testing.T) {
		s := newWebServer(t)
		round := func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
		}
		for _, what := range []string{"server/discover", "initialize", "GET"} {
			s.on(what, round)
		}
		contains(t, newRemotePeer(t, s.URL).refused(nil).Error(), "HTTP 307 Temporary Redirect")
	})
	if len(other.got()) > 0 {
		t.Errorf("another origin was asked: %s", other.order())
	}
}

func TestRemote_Environment(t *testing.T) {
	t.Run("proxy", func(t *testing.T) {
		s := newWebServer(t) // takes any host, as a proxy does
		for _, env := range [][]string{{"HTTP_PROXY=" + s.URL}, {"http_proxy=" + strings.TrimPrefix(s.URL, "http://")}} {
			p := dialRemote(t, "http://mcp.example/mcp", func(o *RemoteOptions) { o.Env = env })
			if got := p.call("echo", `{"a":1}`); got != `{"a":1}` {
				t.Errorf("got %s", got)
			}
		}
		f := newRemotePeer(t, "http://"+closedPort(t), func(o *RemoteOptions) {
			o.Env = []string{"HTTP_PROXY=" + s.URL, "no_proxy=127.0.0.1"}
		}).refused(nil)
		contains(t, f.Error(), "connection refused")
	})
	t.Run("certificate authorities", func(t *testing.T) {
		s := newWebServer(t)
		tls := httptest.NewUnstartedServer(s)
		tls.EnableHTTP2 = true
		tls.StartTLS()
		defer tls.Close()
		protocols := make(chan string, 1)
		s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			protocols <- r.Proto
			writeEvents(w, event(echoReply(q.msg)))
		})
		dir := t.TempDir()
		file := filepath.Join(dir, "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, env := range []string{"SSL_CERT_FILE=" + file, "SSL_CERT_DIR=/no/such/dir:" + dir} {
			p := dialRemote(t, tls.URL, func(o *RemoteOptions) { o.Env = []string{env} })
			p.call("echo", "{}")
			if protocol := <-protocols; protocol != "HTTP/2.0" {
				t.Errorf("spoken was %s", protocol)
			}
			p.conn.Close(context.Background())
		}
	})
	t.Run("a host of the entry's own", func(t *testing.T) {
		s := newWebServer(t)
		hosts := make(chan string, 1)
		s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
			hosts <- r.Host
			writeJSON(w, echoReply(q.msg))
		})
		dialRemote(t, s.URL, withHeaders(map[string]secret.Value{"host": "other.example", "accept-encoding": "br"})).call("echo", "{}")
		if host := <-hosts; host != "other.example" {
			t.Errorf("host %q", host)
		}
	})
	t.Run("cookies of a load balancer", func(t *testing.T) {
		s := newWebServer(t)
		s.on("initialize", func(w http.ResponseWriter, r *http.Request, q request) {
			http.SetCookie(w, &http.Cookie{Name: "node", Value: "7"})
			s.initialize(w, q)
		})
		p := dialRemote(t, s.URL)
		p.call("echo", "{}")
		if got := s.got("tools/call")[0].header.Get("Cookie"); got != "node=7" {
			t.Errorf("cookie %q", got)
		}
		other := &remotePeer{peer: p.peer, remote: p.remote, dialer: p.dialer} // another session of the same server
		other.connect()
		if got := s.got("initialize")[1].header.Get("Cookie"); got != "" {
			t.Errorf("a new session begins with the cookie %q", got)
		}
	})
}

func TestRemote_ServerThatCannotBeReachedAnyMore(t *testing.T) {
	s := newWebServer(t)
	p := dialRemote(t, s.URL)
	p.call("echo", "{}")
	s.CloseClientConnections()
	s.Close()
	p.remote.transport.CloseIdleConnections() // else the call may find one whose end is not noticed yet
	err := p.begin("echo", "{}", "").failure()
	if !Retryable(err) {
		t.Errorf("the call cannot be made again: %v", err)
	}
	contains(t, p.ended().Error(), "POST tools/call: dial tcp", "connection refused")
}

// A sandbox that was paused finds its connections dead; those that were idle are not used again.
func TestB06_IdleConnectionsAfterAPause(t *testing.T) {
	s := newWebServer(t)
	var mu sync.Mutex
	from := map[string]bool{}
	s.on("tools/call", func(w http.ResponseWriter, r *http.Request, q request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr] = true
		writeJSON(w, echoReply(q.msg))
	})
	p := dialRemote(t, s.URL)
	for range 5 {
		p.call("echo", "{}")
	}
	if len(from) != 1 {
		t.Fatalf("%d connections", len(from))
	}
	p.remote.clock.ahead.Add(int64(time.Hour)) // as if the wall clock had gone on alone
	for range 5 {
		p.call("echo", "{}")
	}
	if len(from) != 2 {
		t.Errorf("%d connections", len(from))
	}
}

func TestRemote_LostSessionIsOpenedAgain(t *testing.T) {
	s := newWebServer(t)
	p := newRemotePeer(t, s.URL)
	server := newTestServer(t.Context(), p.dialer)
	defer server.Close(context.Background(), nil)
	for n := 1; n <= 3; n++ {
		c, err := server.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.conn = c
		p.call("echo", "{}")
		if st := server.State(); st.State != StateReady || st.PID != 0 {
			t.Errorf("state %+v", st)
		}
		s.forget()
		if err := p.begin("echo", "{}", "").failure(); !Retryable(err) {
			t.Fatal(err)
		}
		<-c.Done()
	}
	if n := len(s.got("initialize")); n != 3 {
		t.Errorf("%d sessions", n)
	}
}
