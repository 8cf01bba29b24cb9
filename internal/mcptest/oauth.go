package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// node starts a script of testdata with Node and the packages of the tests, and returns its first line. It
// ends with stop.
func node(t testing.TB, script string, arguments ...string) (line string, stop func()) {
	t.Helper()
	root := Root(t)
	modules := filepath.Join(root, ".cache", "npm", "node_modules")
	program := filepath.Join(modules, "node", "bin", "node")
	Need(t, program)
	Need(t, filepath.Join(modules, "oidc-provider"))
	c := exec.Command(program, append([]string{filepath.Join(root, "internal", "mcptest", "testdata", script)}, arguments...)...)
	c.Env = append(os.Environ(), "NODE_PATH="+modules, "NODE_NO_WARNINGS=1")
	var complaints bytes.Buffer
	c.Stderr = &complaints
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err = lines.ReadString('\n')
	stop = sync.OnceFunc(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, lines)
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", script, complaints.String())
		}
	})
	if err != nil {
		stop()
		t.Fatalf("%s did not start: %s", script, complaints.String())
	}
	return strings.TrimSpace(line), stop
}

// AuthorizationServer is a real one, oidc-provider: with pages for sign-in and consent, dynamic registration,
// PKCE, resource indicators and refresh tokens. It grants the scopes read and write.
type AuthorizationServer struct {
	URL string

	t       testing.TB
	options map[string]any
	stop    func()
}

// StartAuthorizationServer starts one; it ends with the test. Options are those of the script: lifetime (of
// access tokens in seconds), registration, methods, clients.
func StartAuthorizationServer(t testing.TB, options map[string]any) *AuthorizationServer {
	t.Helper()
	s := &AuthorizationServer{t: t, options: map[string]any{"port": 0}}
	for name, value := range options {
		s.options[name] = value
	}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *AuthorizationServer) start() {
	s.t.Helper()
	text, err := json.Marshal(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.URL, s.stop = node(s.t, "authorization-server.cjs", string(text))
}

// Restart ends it and starts it at the same address, where it knows nothing of what was.
func (s *AuthorizationServer) Restart() {
	s.t.Helper()
	at, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	s.stop()
	s.options["port"] = at.Port()
	s.start()
}

// Granted is something that the authorization server has given.
type Granted struct{ Grant, Resource, Client string }

// Granted lists registrations and tokens, in their order.
func (s *AuthorizationServer) Granted() []Granted { return s.ask(nil).Record }

// Count counts what was granted of a kind: registration, authorization_code, refresh_token.
func (s *AuthorizationServer) Count(grant string) (n int) {
	for _, g := range s.Granted() {
		if g.Grant == grant {
			n++
		}
	}
	return n
}

// Secrets lists every code and token that there was since the last start.
func (s *AuthorizationServer) Secrets() []string { return s.ask(nil).Ever }

// Drop makes the server forget everything of these kinds: AccessToken, RefreshToken, Client, Session.
func (s *AuthorizationServer) Drop(kinds ...string) { s.ask(map[string]any{"drop": kinds}) }

// Down makes the server answer everything with 503, or not any more.
func (s *AuthorizationServer) Down(down bool) { s.ask(map[string]any{"down": down}) }

type testAnswer struct {
	Ever   []string
	Record []Granted
}

func (s *AuthorizationServer) ask(what map[string]any) (answer testAnswer) {
	s.t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.Post(s.URL+"/test", "application/json", bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// StartProtectedTypeScript starts an MCP server of the TypeScript SDK that takes tokens of an authorization
// server, and returns its URL. Its tools are read and write; the latter needs the scope write.
func StartProtectedTypeScript(t testing.TB, s *AuthorizationServer) string {
	t.Helper()
	at, stop := node(t, "protected-server.cjs", s.URL)
	t.Cleanup(stop)
	return at
}

// StartProtectedGo starts one of the Go SDK that does the same.
func StartProtectedGo(t testing.TB, s *AuthorizationServer) string {
	t.Helper()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	resource, metadata := web.URL+"/mcp", web.URL+"/.well-known/oauth-protected-resource/mcp"
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	for _, name := range []string{"read", "write"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("%s done", name), nil
		})
	}
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return introspect(s.URL, resource, token)
	}
	guard := func(scopes ...string) http.Handler {
		return auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata, Scopes: scopes})(inner)
	}
	reads, writes := guard("read"), guard("read", "write")
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"name":"write"`)) {
			writes.ServeHTTP(w, r)
		} else {
			reads.ServeHTTP(w, r)
		}
	})
	mux.Handle("/.well-known/oauth-protected-resource/mcp", auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{s.URL}, ScopesSupported: []string{"read"},
	}))
	return resource
}

// introspect asks an authorization server for a token (RFC 7662), which must be for this resource.
func introspect(issuer, resource, token string) (*auth.TokenInfo, error) {
	request, err := http.NewRequest(http.MethodPost, issuer+"/token/introspection", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth("resource", "secret-of-the-resource")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Active     bool
		Aud, Scope string
		Exp        int64
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if !answer.Active || answer.Aud != resource {
		return nil, fmt.Errorf("%w: not active, or not for this server", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{Scopes: strings.Fields(answer.Scope), Expiration: time.Unix(answer.Exp, 0)}, nil
}
