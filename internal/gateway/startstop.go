package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/relay"
	"mcp-gateway/internal/telemetry"
)

// phase is how far the gateway has come.
type phase int

// The phases. A start leads from none or failed by way of provisioning to ready or failed, a stop from any
// by way of stopping to none.
const (
	phaseNone phase = iota
	phaseProvisioning
	phaseReady
	phaseFailed
	phaseStopping
)

// String says the phase within a sentence.
func (p phase) String() string {
	return [...]string{"stopped", "provisioning", "ready", "failed", "stopping"}[p]
}

// plan is what a start asks for.
type plan struct {
	servers []config.Server
	later   []*asked // tried once the others serve: what becomes of them keeps nobody from starting
	again   bool     // asks for what there was last
	static  bool     // closes the agents' door where the program would open it
	attach  string   // URL of a shared gateway; excludes servers
}

// attempt is one start.
type attempt struct {
	done   chan struct{} // closed when the gateway is ready or has failed
	err    error         // then
	cancel context.CancelCauseFunc
}

// attachedName is what logs, status and tool lists call the gateway that this one is attached to.
const attachedName = "attached"

// StartGateway implements control.Backend: it converges on the gateway that there is.
func (f *fleet) StartGateway(ctx context.Context, q control.StartRequest) (control.Gateway, error) {
	for {
		gateway, wait, err := f.startOnce(q)
		if wait == nil {
			return gateway, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return control.Gateway{}, fmt.Errorf("wait for the gateway's stop: %w", context.Cause(ctx))
		}
	}
}

// startOnce begins a start, or returns what there is; the channel tells when to look again.
func (f *fleet) startOnce(q control.StartRequest) (control.Gateway, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted, err := f.read(q)
	switch {
	case err != nil:
		return control.Gateway{}, nil, err
	case f.closed:
		return control.Gateway{}, nil, refused("the gateway is ending")
	case f.phase == phaseStopping:
		return control.Gateway{}, f.stopped, nil
	case f.phase == phaseProvisioning || f.phase == phaseReady:
		if err := f.differs(q, wanted); err != nil {
			return control.Gateway{}, nil, err
		}
		out := f.gateway()
		out.Reused = true
		return out, nil, nil
	}
	if empty(q) {
		wanted = f.again()
	}
	f.provision(wanted, nil)
	return f.gateway(), nil, nil
}

func empty(q control.StartRequest) bool {
	return len(q.Servers) == 0 && !q.Static && q.GatewayURL == nil
}

// read checks a request and finds its servers. The caller holds mu.
func (f *fleet) read(q control.StartRequest) (plan, error) {
	p := plan{static: q.Static}
	if q.GatewayURL != nil {
		p.attach = *q.GatewayURL
		if message := catalog.CheckURL(p.attach); message != "" {
			return plan{}, invalid("gatewayUrl", message)
		}
		if len(q.Servers) > 0 {
			return plan{}, invalid("servers", "must be empty with gatewayUrl: a shared gateway has its own")
		}
	}
	for _, name := range q.Servers {
		if slices.ContainsFunc(p.servers, func(s config.Server) bool { return s.Name == name }) {
			continue
		}
		server, err := f.lookup(name, nil, false)
		if err != nil {
			return plan{}, err
		}
		p.servers = append(p.servers, server)
	}
	if len(p.servers) > config.MaxServers {
		return plan{}, invalid("servers", fmt.Sprintf("%d servers, at most %d are allowed", len(p.servers), config.MaxServers))
	}
	return p, nil
}

// again is the plan of a start that asks for nothing: what there was last. A server that has never served,
// since its addition failed or was cut off, is no condition of it. The caller holds mu.
func (f *fleet) again() plan {
	p := plan{static: f.plan.static, attach: f.plan.attach, again: true}
	if p.attach != "" {
		return p
	}
	for _, a := range f.servers {
		if a.unproven {
			p.later = append(p.later, a)
		} else {
			p.servers = append(p.servers, a.server)
		}
	}
	return p
}

// differs tells how a request does not fit the gateway that there is. The caller holds mu.
func (f *fleet) differs(q control.StartRequest, wanted plan) error {
	names := func(servers []config.Server) (out []string) {
		for _, s := range servers {
			out = append(out, s.Name)
		}
		slices.Sort(out)
		return out
	}
	switch {
	case empty(q):
		return nil
	case wanted.attach != f.plan.attach:
		return refused("the gateway is %s, and attached to something else than asked for; stop it first", f.phase)
	case len(wanted.servers) > 0 && !slices.Equal(names(wanted.servers), names(f.plan.servers)) &&
		!slices.Equal(names(wanted.servers), f.names()):
		return refused("the gateway is %s with other servers than asked for; add the missing ones, or stop it first", f.phase)
	case wanted.static && f.mode() == control.ModeDynamic, !wanted.static && f.plan.static:
		return refused("the gateway is %s in mode %s; stop it first", f.phase, f.mode())
	}
	return nil
}

// mode tells how the gateway came to its servers. The caller holds mu.
func (f *fleet) mode() control.Mode {
	switch {
	case f.plan.attach != "":
		return control.ModeAttached
	case f.g.o.Dynamic && !f.plan.static:
		return control.ModeDynamic
	}
	return control.ModeStatic
}

// provision begins a start in a goroutine of its own. settled, where there is one, is called when all
// servers are ready and before anybody is told so. The caller holds mu.
func (f *fleet) provision(p plan, settled func() error) *attempt {
	f.uid, f.generation = rand.Text(), rand.Text()
	f.plan, f.phase, f.failure, f.shared = p, phaseProvisioning, nil, nil
	if p.attach != "" {
		f.shared = &asked{server: config.Server{Name: attachedName, Launch: catalog.Launch{Kind: catalog.Remote, URL: p.attach}}}
		f.settle(f.shared, control.OutcomePending, "")
	} else {
		var servers []*asked
		for _, server := range p.servers {
			f.learn(server, false)
			earlier := f.find(server.Name)
			servers = append(servers, &asked{server: server, agent: p.again && earlier != nil && earlier.agent})
		}
		f.servers = append(servers, p.later...)
		for _, a := range f.servers {
			f.settle(a, control.OutcomePending, "")
		}
	}
	e := f.g.newEngine()
	if f.mode() == control.ModeDynamic {
		e.relay.SetBuiltIns(f.discovery())
	}
	ctx, cancel := context.WithCancelCause(f.ctx)
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	f.start = a
	f.g.engine.Store(e)
	f.tasks.Go(func() {
		defer cancel(nil)
		f.conclude(e, a, f.bringAllUp(ctx, e, p, settled))
	})
	f.announce()
	return a
}

// bringAllUp starts all servers within the budget.
func (f *fleet) bringAllUp(ctx context.Context, e *engine, p plan, settled func() error) error {
	limit := f.g.o.StartupTimeout
	budget, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the start-up limit of %s has passed", limit))
	defer cancel()
	var members []relay.Member
	if p.attach != "" {
		members = append(members, f.g.attachment(p.attach))
	}
	for _, server := range p.servers {
		members = append(members, f.g.member(server))
	}
	faults := f.g.missing(budget, p.servers)
	if len(faults) == 0 {
		faults = f.g.startServers(budget, e.relay, members)
	}
	if err := cutShort(ctx, budget); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	for _, fl := range faults {
		if p.attach != "" && fl.Cause == fault.SignInRequired { // it has no entry to put headers into
			fl.Hint = "set MCP_GATEWAY_ATTACH_TOKEN, or --attach-token-file, to a token that the shared gateway takes"
		}
		f.g.log.Error("server kept the gateway from starting", telemetry.KeyServer, fl.Server, telemetry.KeyCause, string(fl.Cause), telemetry.KeyError, fl)
	}
	if len(faults) > 0 {
		return &StartError{Faults: faults, Total: len(members)}
	}
	if settled != nil {
		return settled()
	}
	return nil
}

// cutShort returns why a start was ended from outside. Nothing, where its own limit had passed before: ending
// the servers that were late takes a while, in which the launcher gives up, and it waits for their names.
func cutShort(ctx, budget context.Context) error {
	if cause := context.Cause(ctx); cause != nil && context.Cause(budget) == cause {
		return cause
	}
	return nil
}

// conclude publishes how a start has ended. After one that failed nothing is left when that is told.
func (f *fleet) conclude(e *engine, a *attempt, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.announce()
	defer close(a.done)
	if err == nil && f.phase == phaseStopping {
		err = fmt.Errorf("start the gateway: %w", errStopped)
	}
	if err == nil {
		for _, s := range f.current() {
			if !s.unproven {
				f.settle(s, control.OutcomeApplied, "")
			}
		}
		f.phase = phaseReady
		e.serves.Store(true)
		for _, s := range f.plan.later {
			f.launch(s)
		}
		servers, tools := e.relay.Status()
		f.awaitSignIns(servers)
		f.g.log.Info("gateway ready", telemetry.KeyURL, f.g.localURL(), telemetry.KeyTools, tools, telemetry.KeyDuration, time.Since(e.began))
		return
	}
	f.mu.Unlock()
	f.g.log.Error("gateway not started", telemetry.KeyError, err)
	f.g.closeEngine(e, 0, failLimit)
	f.mu.Lock()
	a.err = err
	f.blame(err)
	f.g.engine.Store(nil)
	if f.phase == phaseProvisioning { // else it is being stopped
		f.phase = phaseFailed
	}
	f.failure = refused("%s", f.g.o.Secrets.Scrub(err.Error()))
	f.failure.Details = []json.RawMessage{control.Detail(control.TypeConfigurationReport, f.report())}
}

// current lists what the gateway consists of. The caller holds mu.
func (f *fleet) current() []*asked {
	if f.shared != nil {
		return []*asked{f.shared}
	}
	return f.servers
}

// blame notes what became of each server at a start that failed. The caller holds mu.
func (f *fleet) blame(err error) {
	reasons := map[string]string{}
	var start *StartError
	if errors.As(err, &start) {
		for _, fl := range start.Faults {
			reasons[fl.Server] = f.g.reason(fl)
		}
	}
	for _, s := range f.current() {
		reason, ok := reasons[s.server.Name]
		switch {
		case ok:
		case start != nil:
			reason = "not kept, since a gateway starts with all of its servers or none"
		default:
			reason = f.g.o.Secrets.Scrub(err.Error())
		}
		f.settle(s, control.OutcomeFailed, reason)
	}
}

var errStopped = errors.New("the gateway was stopped")

// StopGateway implements control.Backend. The stop goes on when its caller leaves.
func (f *fleet) StopGateway(ctx context.Context) error {
	f.mu.Lock()
	f.beginStop(stopLimit)
	stopped := f.stopped
	f.mu.Unlock()
	if stopped == nil {
		return nil
	}
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the gateway's stop: %w", context.Cause(ctx))
	}
}

// beginStop ends the gateway in a goroutine of its own. What was asked for is kept for the next start. The
// caller holds mu.
func (f *fleet) beginStop(limit time.Duration) {
	switch f.phase {
	case phaseNone, phaseStopping:
		return
	case phaseFailed:
		f.phase, f.failure = phaseNone, nil
		f.announce()
		return
	}
	e, start := f.g.engine.Load(), f.start
	f.g.log.Info("gateway stopping", telemetry.KeyCount, e.down.InFlight())
	f.phase = phaseStopping
	stopped := make(chan struct{})
	f.stopped = stopped
	f.tasks.Go(func() {
		start.cancel(errStopped)
		<-start.done // one that fails closes its engine itself
		if start.err == nil {
			f.g.closeEngine(e, drainLimit, limit)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.phase, f.failure, f.stopped = phaseNone, nil, nil
		f.g.engine.Store(nil)
		f.g.log.Info("gateway stopped")
		close(stopped)
		f.announce()
	})
	f.announce()
}

// close ends everything and waits for it.
func (f *fleet) close(limit time.Duration) {
	f.mu.Lock()
	f.closed = true
	f.beginStop(limit)
	f.mu.Unlock()
	f.tasks.Wait()
}
