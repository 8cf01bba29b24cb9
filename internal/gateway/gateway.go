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
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/httpd"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/signin"
	"mcp-gateway/internal/telemetry"
)

// Options configure a gateway. Zero values of limits mean the defaults.
type Options struct {
	Paths          daemon.Paths
	Listen         string // address for TCP, as "0.0.0.0:50005"
	Token          secret.Value
	StartupTimeout time.Duration
	Servers        []config.Server
	Catalog        *catalog.Catalog // from which servers can be added by name; nil for none
	Secrets        *secret.Scrubber // of the configuration and the tokens; it learns those of servers that are added
	Log            *telemetry.Log
	Env            []string // the environment that servers get, beside their own
	Expose         string   // "all", or "tools" to hide prompts and resources
	AllowedOrigins []string // of browser pages
	GitHubURL      string   // where repositories are cloned from; empty means GitHub
	Version        string

	Early       bool         // serve, and say so, before the servers are ready; a start that fails does not end the program
	Static      bool         // the first start is static: agents see the servers that were asked for
	Dynamic     bool         // agents may find and add servers, and remove what they added, unless a start is static
	Attach      string       // URL of a shared gateway that is served instead of servers of its own
	AttachToken secret.Value // for shared gateways; with Attach, for its origin alone
	SandboxID   string       // of this sandbox; empty where it is not known
	PublicURL   string       // under which clients reach this gateway; empty where it has to be learned
	StateDir    string       // keeps the credentials of sign-ins; empty for memory alone

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

// gateway is one running program: a door that stays, and behind it at most one gateway at a time, which the
// fleet starts and stops.
type gateway struct {
	*fleet
	o         Options
	log       *slog.Logger
	host      *process.Host
	installer *install.Installer
	signins   *signin.Manager
	httpd     *httpd.Server
	address   net.Addr
	engine    atomic.Pointer[engine] // nil while there is none
	base      context.Context        // outlives the signal to end, since the parts drain after it
	started   time.Time
	stop      context.CancelFunc
}

// Run takes the lock, listens, starts all servers side by side, calls ready once, and serves until
// ctx ends; then it drains and cleans up. A failure before ready is a *StartError, a
// *daemon.AlreadyRunning, or another error, and nothing is left behind. With Early it calls ready as soon
// as it listens.
func Run(ctx context.Context, o Options, ready func(control.Status) error) (err error) {
	light := make(ballast, ballastSize)
	defer runtime.KeepAlive(light)
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

	if o.Secrets == nil {
		o.Secrets = &secret.Scrubber{}
	}
	o.Secrets.Add(o.Token, o.AttachToken)
	g := &gateway{o: o, log: o.Log.Logger(), host: host, address: tcp.Addr(), base: context.WithoutCancel(ctx), started: time.Now()}
	ctx, g.stop = context.WithCancel(ctx)
	defer g.stop()
	return g.run(ctx, tcp, socket, ready)
}

// run builds the parts and joins their goroutines.
func (g *gateway) run(ctx context.Context, tcp, socket net.Listener, ready func(control.Status) error) error {
	if err := g.build(ctx); err != nil {
		return err
	}
	first, err := g.begin()
	if err != nil {
		return err
	}
	local := &http.Server{Handler: g.local(), ReadHeaderTimeout: drainLimit}
	group, serving := errgroup.WithContext(ctx) // serving ends with ctx, and when one of the two doors breaks
	group.Go(func() error { return g.httpd.Serve(g.base, tcp) })
	group.Go(func() error {
		if err := local.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the control socket: %w", err)
		}
		return nil
	})

	err = g.open(first, ready)
	limit := failLimit
	resting, wake := context.WithCancel(g.base)
	if err == nil {
		group.Go(func() error { rest(resting); return nil })
		limit = stopLimit
		<-serving.Done()
	}
	g.end(local, limit)
	wake()
	return errors.Join(err, group.Wait())
}

// begin begins the first start, before the door opens, so that nobody finds a program without a gateway.
func (g *gateway) begin() (*attempt, error) {
	g.log.Info("gateway starting", telemetry.KeyListen, g.address.String(), telemetry.KeyServers, len(g.o.Servers), telemetry.KeyVersion, g.o.Version)
	token := func() error { return daemon.WriteToken(g.o.Paths, g.o.Token) }
	if g.o.Early {
		if err := token(); err != nil {
			g.signins.Close()
			return nil, err
		}
		token = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.provision(plan{servers: g.o.Servers, static: g.o.Static, attach: g.o.Attach}, token), nil
}

// open reports: when all servers are ready, or at once where that is wanted.
func (g *gateway) open(first *attempt, ready func(control.Status) error) error {
	if !g.o.Early {
		<-first.done
		if first.err != nil {
			return first.err
		}
	}
	if err := ready(g.Status()); err != nil {
		return fmt.Errorf("report that the gateway is ready: %w", err)
	}
	return nil
}

// end ends the gateway, then the door.
func (g *gateway) end(local *http.Server, limit time.Duration) {
	g.fleet.close(limit)
	g.signins.Close()
	short, cancel := context.WithTimeout(g.base, time.Second)
	defer cancel()
	g.httpd.Shutdown(short)
	if local.Shutdown(short) != nil {
		local.Close()
	}
}
