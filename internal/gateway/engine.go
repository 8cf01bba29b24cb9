package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
)

// engine is what one start makes and its stop ends: the servers and the clients' sessions.
type engine struct {
	relay  *relay.Relay
	down   *downstream.Server
	serves atomic.Bool // everything is ready
	began  time.Time
	ctx    context.Context // of what is done about single servers
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // that
	beat   sync.WaitGroup
	still  context.CancelFunc // ends the beat
}

// newEngine makes the parts that relay. Nothing is started yet.
func (g *gateway) newEngine() *engine {
	e := &engine{began: time.Now()}
	e.ctx, e.cancel = context.WithCancelCause(g.base)
	e.relay = relay.New(g.base, relay.Options{
		Version: g.o.Version, ToolsOnly: g.o.Expose == "tools", StartTimeout: g.o.StartupTimeout, Log: g.log,
	})
	e.down = downstream.New(e.relay, downstream.Options{
		MaxBody: g.o.MaxBody, MaxSessions: g.o.MaxSessions, MaxInFlight: g.o.MaxCalls, SessionIdle: g.o.SessionIdle, Log: g.log,
	})
	e.relay.Attach(e.down)
	beating, still := context.WithCancel(g.base)
	e.still = still
	e.beat.Go(func() { e.down.Run(beating) })
	return e
}

// closeEngine lets the calls in flight finish, which drain bounds, and ends sessions and servers, which
// limit hurries.
func (g *gateway) closeEngine(e *engine, drain, limit time.Duration) {
	e.cancel(errStopped)
	e.down.Drain()
	e.relay.EndListening()
	draining, cancel := context.WithTimeout(g.base, drain)
	e.drain(draining)
	cancel()
	e.down.Close()
	hurry, cancel := context.WithTimeout(g.base, limit)
	defer cancel()
	e.relay.Close(hurry)
	e.tasks.Wait()
	e.still()
	e.beat.Wait()
}

// drain waits until no call is in flight, as long as ctx lets it.
func (e *engine) drain(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for e.down.InFlight() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// missing looks for runtimes that servers lack, before any of them is started.
func (g *gateway) missing(ctx context.Context, servers []config.Server) []*fault.Fault {
	list := make([]install.Server, len(servers))
	for i, s := range servers {
		list[i] = toInstall(s)
	}
	return g.installer.Check(ctx, list)
}

// waitNote is how often a start that takes long says what it waits for.
const waitNote = 10 * time.Second

// startServers starts all servers and says meanwhile which ones are waited for.
func (g *gateway) startServers(ctx context.Context, r *relay.Relay, members []relay.Member) []*fault.Fault {
	began := time.Now()
	started := make(chan []*fault.Fault, 1)
	go func() { started <- r.Start(ctx, members) }()
	tick := time.NewTicker(waitNote)
	defer tick.Stop()
	for {
		select {
		case faults := <-started:
			return faults
		case <-tick.C:
			servers, _ := r.Status()
			for _, s := range servers {
				if s.State.State == upstream.StateStarting {
					g.log.Info("still waiting for a server", telemetry.KeyServer, s.Name, telemetry.KeyDuration, time.Since(began).Round(time.Second))
				}
			}
		}
	}
}
