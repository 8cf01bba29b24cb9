package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/httpd"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
)

// maxMessage is the default limit of a server's message in bytes.
const maxMessage = 64 << 20

// build makes the parts, from the servers to the door.
func (g *gateway) build(ctx context.Context) {
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
	g.relay = relay.New(ctx, relay.Options{
		Version: g.o.Version, ToolsOnly: g.o.Expose == "tools", StartTimeout: g.o.StartupTimeout, Log: g.log,
	})
	g.down = downstream.New(g.relay, downstream.Options{
		MaxBody: g.o.MaxBody, MaxSessions: g.o.MaxSessions, MaxInFlight: g.o.MaxCalls, SessionIdle: g.o.SessionIdle, Log: g.log,
	})
	g.relay.Attach(g.down)
	g.httpd = httpd.New(httpd.Options{
		Token: g.o.Token, AllowedOrigins: g.o.AllowedOrigins, MCP: http.HandlerFunc(g.mcp), Control: control.Handler(g),
		Health: g.health, Log: g.log,
	})
}

// mcp serves MCP once the gateway is ready.
func (g *gateway) mcp(w http.ResponseWriter, r *http.Request) {
	if !g.ready.Load() {
		httpd.Unready(w, r)
		return
	}
	g.down.ServeHTTP(w, r)
}

// local is what the unix socket serves, without a token: its file mode protects it.
func (g *gateway) local() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", g.mcp)
	mux.Handle("/", control.Handler(g))
	return mux
}

// member says how the relay connects to a server.
func (g *gateway) member(server config.Server) relay.Member {
	if server.Launch.Kind == catalog.Remote {
		return g.remote(server)
	}
	prepare := &preparation{server: server, installer: g.installer}
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
		Env: g.o.Env, Limit: g.o.MaxMessage, Log: g.log, Scrub: g.o.Secrets.Scrub,
	})
	return relay.Member{
		Name: server.Name, Options: server.Options, Remote: true,
		Dial: func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer {
			d := &upstream.RemoteDialer{Remote: remote, Protocol: server.Options.Protocol, Handler: h, Identity: id}
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

	mu   sync.Mutex
	done bool
	spec process.Spec
}

// get returns the process to start. What failed is tried again by the next call.
func (p *preparation) get(ctx context.Context) (process.Spec, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	servers, tools := g.relay.Status()
	out := httpd.Health{Status: httpd.OK, Servers: len(servers), Tools: tools}
	if !g.ready.Load() {
		out.Status = httpd.Starting
		return out
	}
	for _, s := range servers {
		if s.State.State != upstream.StateReady {
			out.Status = httpd.Degraded
		}
	}
	return out
}

// Status implements control.Backend.
func (g *gateway) Status() control.Status {
	servers, tools := g.relay.Status()
	out := control.Status{
		State: control.StateStarting, URL: "http://" + reachable(g.address.String()) + "/mcp", PID: pid(),
		UptimeSeconds: time.Since(g.started).Seconds(), Servers: make([]control.ServerStatus, len(servers)), Tools: tools,
	}
	switch {
	case g.stopping.Load():
		out.State = control.StateStopping
	case g.ready.Load():
		out.State = control.StateReady
	}
	for i, s := range servers {
		row := control.ServerStatus{
			Name: s.Name, State: s.State.State, PID: s.State.PID, Restarts: s.State.Restarts, Tools: s.Tools,
			SkippedLines: s.State.Skipped, Since: s.State.Since,
		}
		if s.State.LastErr != nil {
			row.LastError = g.o.Secrets.Scrub(s.State.LastErr.Error())
		}
		if out.State == control.StateReady && s.State.State != upstream.StateReady {
			out.State = control.StateDegraded
		}
		out.Servers[i] = row
	}
	return out
}

// Tools implements control.Backend.
func (g *gateway) Tools() []control.Tool {
	tools := g.relay.Tools()
	out := make([]control.Tool, len(tools))
	for i, t := range tools {
		out[i] = control.Tool{Name: t.Name, OriginalName: t.OriginalName, Server: t.Server, Description: t.Description}
	}
	return out
}

// Stop implements control.Backend.
func (g *gateway) Stop(context.Context) {
	g.log.Info("gateway told to stop", telemetry.KeyPeer, "control socket")
	g.stop()
}
