package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/httpd"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/signin"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
)

// maxMessage is the default limit of a server's message in bytes.
const maxMessage = 64 << 20

// build makes the parts that every start shares, and the door.
func (g *gateway) build(ctx context.Context) (err error) {
	if g.o.MaxMessage == 0 {
		g.o.MaxMessage = maxMessage
	}
	g.installer = install.New(install.Options{
		Host: g.host, Dir: g.o.Paths.Servers(), BaseEnv: g.o.Env, GitHubURL: g.o.GitHubURL, Log: g.log,
		Progress: func(server, deed string) {
			g.log.Info("preparing server", telemetry.KeyServer, server, telemetry.KeyLine, deed)
		},
		Output: g.o.Log.ServerLine,
	})
	g.fleet = newFleet(ctx, g)
	g.signins, err = signin.New(g.base, signin.Options{
		PublicURL: g.o.PublicURL, Dir: g.o.StateDir, Env: g.o.Env, Log: g.log, Changed: g.signInChanged,
	})
	if err != nil {
		return err
	}
	g.httpd = httpd.New(httpd.Options{
		Token: g.o.Token, AllowedOrigins: g.o.AllowedOrigins, MCP: g.learning(http.HandlerFunc(g.mcp)), Control: g.learning(control.Handler(g)),
		Callback: g.signins.Handler(), Health: g.health, Log: g.log,
	})
	return nil
}

// mcp serves MCP once the gateway is ready.
func (g *gateway) mcp(w http.ResponseWriter, r *http.Request) {
	e := g.engine.Load()
	switch {
	case e != nil && e.serves.Load():
		e.down.ServeHTTP(w, r)
	case e != nil:
		httpd.Unready(w, r, "the gateway is starting; try again in a second")
	case g.state() == control.StateFailed:
		httpd.Unready(w, r, "the gateway could not be started; its control side says why, and can start it again")
	default:
		httpd.Unready(w, r, "the gateway was stopped; its control side can start it again")
	}
}

// local is what the unix socket serves, without a token: its file mode protects it.
func (g *gateway) local() http.Handler {
	operations := control.Handler(g)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			g.mcp(w, r)
			return
		}
		operations.ServeHTTP(w, r)
	})
}

// member says how the relay connects to a server.
func (g *gateway) member(server config.Server) relay.Member {
	if server.Launch.Kind == catalog.Remote {
		return g.remote(server)
	}
	prepare := &preparation{server: server, installer: g.installer, turn: make(chan struct{}, 1)}
	return relay.Member{
		Name: server.Name, Options: server.Options,
		Dial: func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
			return &dialer{prepare: prepare, stdio: upstream.StdioDialer{
				Server: server.Name, Modern: modern, Host: g.host, Handler: h, Identity: id, Limit: g.o.MaxMessage,
				Log: g.log, NoCancel: server.Options.NoCancel,
				Stderr: func(line string) { g.o.Log.ServerLine(server.Name, line) },
				Scrub:  g.o.Secrets.Scrub,
			}}
		},
	}
}

// remote says how the relay connects to a server that is reached by its URL.
func (g *gateway) remote(server config.Server) relay.Member {
	remote := upstream.NewRemote(upstream.RemoteOptions{
		Server: server.Name, URL: server.Launch.URL, Headers: server.Launch.Headers, SSE: server.Launch.Transport == "sse",
		Env: g.o.Env, Limit: g.o.MaxMessage, Log: g.log, Scrub: g.o.Secrets.Scrub, Credentials: g.signedIn(server),
	})
	out := reached(server.Name, server.Options, remote)
	out.SignIn = g.signIn(server.Name)
	return out
}

// attachment says how the relay connects to a shared gateway. The bearer goes to nobody else than the one
// that it was given for.
func (g *gateway) attachment(address string) relay.Member {
	headers := map[string]secret.Value{}
	if g.o.AttachToken != "" && (g.o.Attach == "" || sameOrigin(g.o.Attach, address)) {
		headers["Authorization"] = "Bearer " + g.o.AttachToken
	}
	return reached(attachedName, catalog.Options{}, upstream.NewRemote(upstream.RemoteOptions{
		Server: attachedName, URL: address, Headers: headers, Env: g.o.Env, Limit: g.o.MaxMessage, Log: g.log, Scrub: g.o.Secrets.Scrub,
	}))
}

func sameOrigin(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && upstream.Origin(x) == upstream.Origin(y)
}

// reached is the member for a server that is reached by its URL.
func reached(name string, o catalog.Options, remote *upstream.Remote) relay.Member {
	return relay.Member{
		Name: name, Options: o, Remote: true,
		Dial: func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
			d := &upstream.RemoteDialer{Remote: remote, Protocol: o.Protocol, Handler: h, Identity: id}
			if d.Protocol == "both" {
				d.Protocol = map[bool]string{false: "legacy", true: "modern"}[modern]
			}
			return d
		},
	}
}

// preparation installs a server once, however many connections are made to it.
type preparation struct {
	server    config.Server
	installer *install.Installer

	turn chan struct{} // holds an element while somebody uses what follows
	done bool
	spec process.Spec
}

// get returns the process to start. What failed is tried again by the next call. Who waits for another's
// install stops waiting with ctx.
func (p *preparation) get(ctx context.Context) (process.Spec, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return process.Spec{}, &fault.Fault{Server: p.server.Name, Cause: fault.InstallFailed,
			Err: fmt.Errorf("wait for its install: %w", context.Cause(ctx))}
	}
	if p.done {
		return p.spec, nil
	}
	spec, err := p.installer.Prepare(ctx, toInstall(p.server))
	if err != nil {
		return p.spec, err
	}
	p.spec, p.done = spec, true
	return spec, nil
}

func toInstall(s config.Server) install.Server {
	return install.Server{Name: s.Name, Launch: s.Launch, User: s.Options.User}
}

// dialer prepares a server and connects to it.
type dialer struct {
	prepare *preparation
	stdio   upstream.StdioDialer
}

// Dial implements upstream.Dialer.
func (d *dialer) Dial(ctx context.Context, ready upstream.ReadyFunc) (upstream.Conn, error) {
	spec, err := d.prepare.get(ctx)
	if err != nil {
		return nil, err
	}
	stdio := d.stdio
	stdio.Spec = spec
	return stdio.Dial(ctx, ready)
}

// health counts for /health.
func (g *gateway) health() httpd.Health {
	out := httpd.Health{Status: httpd.Starting}
	e := g.engine.Load()
	if e == nil {
		out.Status = g.state()
		return out
	}
	servers, tools := e.relay.Status()
	out.Servers, out.Tools = len(servers), tools
	if e.serves.Load() {
		out.Status = httpd.OK
		if degraded(servers) {
			out.Status = httpd.Degraded
		}
	}
	return out
}

// degraded tells whether a server does not serve. One that waits for its user's sign-in is well.
func degraded(servers []relay.Status) bool {
	return slices.ContainsFunc(servers, func(s relay.Status) bool {
		return s.State.State != upstream.StateReady && s.State.State != relay.StateSignInRequired
	})
}

// localURL is the endpoint for clients on this machine.
func (g *gateway) localURL() string { return "http://" + reachable(g.address.String()) + "/mcp" }

// Status implements control.Backend.
func (g *gateway) Status() control.Status {
	out := control.Status{
		State: g.state(), URL: g.localURL(), PID: pid(),
		UptimeSeconds: time.Since(g.started).Seconds(), Servers: []control.ServerStatus{},
	}
	if e := g.engine.Load(); e != nil {
		var servers []relay.Status
		servers, out.Tools = e.relay.Status()
		if out.State == control.StateReady && degraded(servers) {
			out.State = control.StateDegraded
		}
		for _, s := range servers {
			out.Servers = append(out.Servers, g.row(s))
		}
	}
	out.Servers = g.rows(out.Servers)
	return out
}

func (g *gateway) row(s relay.Status) control.ServerStatus {
	row := control.ServerStatus{
		Name: s.Name, State: s.State.State, PID: s.State.PID, Restarts: s.State.Restarts, Tools: s.Tools,
		SkippedLines: s.State.Skipped, Since: s.State.Since,
	}
	if s.State.LastErr != nil {
		row.LastError = g.reason(s.State.LastErr)
	}
	return row
}

// Tools implements control.Backend.
func (g *gateway) Tools() []control.Tool {
	e := g.engine.Load()
	if e == nil {
		return []control.Tool{}
	}
	tools := e.relay.Tools()
	out := make([]control.Tool, len(tools))
	for i, t := range tools {
		out[i] = control.Tool{Name: t.Name, OriginalName: t.OriginalName, Server: t.Server, Description: t.Description}
	}
	return out
}

// Stop implements control.Backend.
func (g *gateway) Stop(context.Context) {
	g.log.Info("gateway told to stop", telemetry.KeyPeer, "control side")
	g.stop()
}

// Sandbox implements control.Backend.
func (g *gateway) Sandbox() string { return g.o.SandboxID }

// AddServer implements control.Backend.
func (g *gateway) AddServer(ctx context.Context, q control.AddRequest) (control.ServerRef, error) {
	return g.add(ctx, q, false)
}

// RemoveServer implements control.Backend.
func (g *gateway) RemoveServer(ctx context.Context, name string) error {
	return g.remove(ctx, name, false)
}

// RestartServer implements control.Backend.
func (g *gateway) RestartServer(ctx context.Context, name string) error { return g.restart(ctx, name) }
