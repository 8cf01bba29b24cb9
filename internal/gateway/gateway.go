// Package gateway runs one gateway: it builds the parts, owns their lifetime, and is the only place
// where all rooms meet.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/httpd"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
)

// Options configure a gateway. Zero values of limits mean the defaults.
type Options struct {
	Paths          daemon.Paths
	Listen         string // address for TCP, as "0.0.0.0:50005"
	Token          secret.Value
	StartupTimeout time.Duration
	Servers        []config.Server
	Secrets        *secret.Scrubber // of the configuration and the token; nil for none
	Log            *telemetry.Log
	Env            []string // the environment that servers get, beside their own
	Expose         string   // "all", or "tools" to hide prompts and resources
	AllowedOrigins []string // of browser pages
	GitHubURL      string   // where repositories are cloned from; empty means GitHub
	Version        string

	MaxBody     int // bytes of a client's message
	MaxMessage  int // bytes of a server's message
	MaxSessions int
	MaxCalls    int           // in flight
	SessionIdle time.Duration // after which a session ends
}

// StartError says which servers kept the gateway from starting. All of them are named.
type StartError struct {
	Faults []*fault.Fault
	Total  int // servers configured
}

// Error joins the faults in one line.
func (e *StartError) Error() string {
	all := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		all[i] = f.Error()
	}
	return strings.Join(all, "; ")
}

// Limits of ending.
const (
	drainLimit = 5 * time.Second  // calls in flight get this long to be answered
	stopLimit  = 10 * time.Second // then servers get this long until they are killed
	failLimit  = 2 * time.Second  // and this long after a start that failed: its caller waits for the reason
)

// gateway is one running gateway.
type gateway struct {
	o         Options
	log       *slog.Logger
	host      *process.Host
	installer *install.Installer
	relay     *relay.Relay
	down      *downstream.Server
	httpd     *httpd.Server
	address   net.Addr
	ready     atomic.Bool
	stopping  atomic.Bool
	started   time.Time
	stop      context.CancelFunc
}

// Run takes the lock, listens, starts all servers side by side, calls ready once, and serves until
// ctx ends; then it drains and cleans up. A failure before ready is a *StartError, a
// *daemon.AlreadyRunning, or another error, and nothing is left behind.
func Run(ctx context.Context, o Options, ready func(control.Status) error) (err error) {
	lock, err := daemon.Acquire(o.Paths, daemon.Info{Listen: o.Listen})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	tcp, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return daemon.ListenError(o.Listen, err)
	}
	defer tcp.Close()
	socket, err := control.Listen(o.Paths.Socket())
	if err != nil {
		return err
	}
	defer socket.Close()
	host, err := process.NewHost(process.HostOptions{Log: o.Log.Logger()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()

	g := &gateway{o: o, log: o.Log.Logger(), host: host, address: tcp.Addr(), started: time.Now()}
	ctx, g.stop = context.WithCancel(ctx)
	defer g.stop()
	return g.run(ctx, tcp, socket, ready)
}

// run builds the parts and joins their goroutines.
func (g *gateway) run(ctx context.Context, tcp, socket net.Listener, ready func(control.Status) error) error {
	// The parts outlive ctx: they drain after it has ended.
	base := context.WithoutCancel(ctx)
	g.build(base)
	local := &http.Server{Handler: g.local(), ReadHeaderTimeout: drainLimit}
	serving, stopServing := context.WithCancel(base)
	var group errgroup.Group
	failed := make(chan struct{})
	serve := func(f func() error) {
		group.Go(func() error {
			err := f()
			if err != nil {
				close(failed)
			}
			return err
		})
	}
	serve(func() error { return g.httpd.Serve(base, tcp) })
	group.Go(func() error {
		if err := local.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the control socket: %w", err)
		}
		return nil
	})
	group.Go(func() error { g.down.Run(serving); return nil })

	err := g.start(ctx, ready)
	if err == nil {
		giveBack()
		group.Go(func() error { rest(serving); return nil })
		select {
		case <-ctx.Done():
		case <-failed:
		}
		g.log.Info("gateway stopping", telemetry.KeyCount, g.down.InFlight())
	}
	limit := stopLimit
	if err != nil {
		limit = failLimit
	}
	g.end(base, local, limit)
	stopServing()
	return errors.Join(err, group.Wait())
}

// start brings all servers up within the budget, then writes the token and reports.
func (g *gateway) start(ctx context.Context, ready func(control.Status) error) error {
	g.log.Info("gateway starting", telemetry.KeyListen, g.address.String(), telemetry.KeyServers, len(g.o.Servers), telemetry.KeyVersion, g.o.Version)
	budget, cancel := context.WithTimeoutCause(ctx, g.o.StartupTimeout, fmt.Errorf("the start-up limit of %s has passed", g.o.StartupTimeout))
	defer cancel()
	faults := g.missing(budget)
	if len(faults) == 0 {
		faults = g.startServers(budget)
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	if len(faults) > 0 {
		for _, f := range faults {
			g.log.Error("server kept the gateway from starting", telemetry.KeyServer, f.Server, telemetry.KeyCause, string(f.Cause), telemetry.KeyError, f)
		}
		return &StartError{Faults: faults, Total: len(g.o.Servers)}
	}
	if err := daemon.WriteToken(g.o.Paths, g.o.Token); err != nil {
		return err
	}
	g.ready.Store(true)
	status := g.Status()
	g.log.Info("gateway ready", telemetry.KeyURL, status.URL, telemetry.KeyTools, status.Tools, telemetry.KeyDuration, time.Since(g.started))
	if err := ready(status); err != nil {
		return fmt.Errorf("report that the gateway is ready: %w", err)
	}
	return nil
}

// missing looks for runtimes that servers lack, before any of them is started.
func (g *gateway) missing(ctx context.Context) []*fault.Fault {
	servers := make([]install.Server, len(g.o.Servers))
	for i, s := range g.o.Servers {
		servers[i] = toInstall(s)
	}
	return g.installer.Check(ctx, servers)
}

// waitNote is how often a start that takes long says what it waits for.
const waitNote = 10 * time.Second

// startServers starts all servers and says meanwhile which ones are waited for.
func (g *gateway) startServers(ctx context.Context) []*fault.Fault {
	members := make([]relay.Member, len(g.o.Servers))
	for i, server := range g.o.Servers {
		members[i] = g.member(server)
	}
	started := make(chan []*fault.Fault, 1)
	go func() { started <- g.relay.Start(ctx, members) }()
	tick := time.NewTicker(waitNote)
	defer tick.Stop()
	for {
		select {
		case faults := <-started:
			return faults
		case <-tick.C:
			servers, _ := g.relay.Status()
			for _, s := range servers {
				if s.State.State == upstream.StateStarting {
					g.log.Info("still waiting for a server", telemetry.KeyServer, s.Name, telemetry.KeyDuration, time.Since(g.started).Round(time.Second))
				}
			}
		}
	}
}

// end drains calls in flight, then ends sessions and servers.
func (g *gateway) end(base context.Context, local *http.Server, limit time.Duration) {
	g.stopping.Store(true)
	g.relay.EndListening()
	drain, cancel := context.WithTimeout(base, drainLimit)
	g.drain(drain)
	cancel()
	g.down.Close()
	hurry, cancel := context.WithTimeout(base, limit)
	defer cancel()
	g.relay.Close(hurry)
	short, cancelShort := context.WithTimeout(base, time.Second)
	defer cancelShort()
	g.httpd.Shutdown(short)
	if local.Shutdown(short) != nil {
		local.Close()
	}
	g.log.Info("gateway stopped")
}

// drain waits until no call is in flight, as long as ctx lets it.
func (g *gateway) drain(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for g.down.InFlight() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
