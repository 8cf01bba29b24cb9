package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
)

// fleet is what was asked for of this gateway, and how far that has come. Every start, addition, removal
// and restart is a task of its own, which goes on when its caller has left.
type fleet struct {
	g     *gateway
	ctx   context.Context // of the program: its end ends what is under way
	tasks sync.WaitGroup

	mu         sync.Mutex
	phase      phase
	closed     bool   // the program is ending: nothing begins any more
	uid        string // of the gateway, from one start to the next
	generation string // of what is asked for
	plan       plan   // of the last start
	known      map[string]config.Server
	servers    []*asked       // all that was asked for, in that order
	shared     *asked         // the gateway that this one is attached to, instead of servers of its own
	start      *attempt       // the last one
	stopped    chan struct{}  // closed when the stop that is under way is over
	failure    *control.Error // of the last start
	changed    chan struct{}
}

// asked is one server that was asked for.
type asked struct {
	server  config.Server
	outcome control.Outcome
	reason  string // of a failure
	since   time.Time
	agent   bool // an agent has added it
	// unproven means that it was added and has never served since.
	unproven bool
	work     *work
}

// work is what is being done about one server.
type work struct {
	deed   deed
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it is over
	err    error         // then
}

type deed int

const (
	adding deed = iota
	removing
	restarting
)

func newFleet(ctx context.Context, g *gateway) *fleet {
	f := &fleet{g: g, ctx: ctx, known: map[string]config.Server{}, changed: make(chan struct{})}
	for _, server := range g.o.Servers {
		f.known[server.Name] = server
	}
	return f
}

// ref names a server as the API does.
func ref(server config.Server) control.ServerRef {
	out := control.ServerRef{Name: server.Name, Type: control.TypeStdio}
	if server.Launch.Kind == catalog.Remote {
		out.Type = control.TypeRemote
	}
	return out
}

// announce wakes all who wait for a change. The caller holds mu.
func (f *fleet) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Changed is closed at the next change.
func (f *fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// find returns the server of that name, nil where none was asked for. The caller holds mu.
func (f *fleet) find(name string) *asked {
	for _, a := range f.servers {
		if a.server.Name == name {
			return a
		}
	}
	return nil
}

// settle notes what became of a server. The caller holds mu.
func (f *fleet) settle(a *asked, outcome control.Outcome, reason string) {
	a.outcome, a.reason, a.since = outcome, reason, time.Now()
}

// writable tells why servers can be neither added nor removed now; nil where they can. The caller holds mu.
func (f *fleet) writable() error {
	switch {
	case f.phase != phaseReady || f.closed:
		return refused("the gateway is not ready: it is %s", f.phase)
	case f.shared != nil:
		return refused("the gateway is attached to a shared one, read-only")
	}
	return nil
}

// refused is the error of a request that does not fit the gateway's state.
func refused(format string, args ...any) *control.Error {
	return control.Errorf(control.FailedPrecondition, format, args...)
}

// work puts a task about a server to work. The caller holds mu.
func (f *fleet) work(a *asked, d deed, do func(ctx context.Context, e *engine, a *asked) error) *work {
	e := f.g.engine.Load()
	ctx, cancel := context.WithCancelCause(e.ctx)
	w := &work{deed: d, cancel: cancel, done: make(chan struct{})}
	a.work = w
	e.tasks.Go(func() {
		defer cancel(nil)
		err := do(ctx, e, a)
		f.mu.Lock()
		defer f.mu.Unlock()
		w.err, a.work = err, nil
		close(w.done)
		f.announce()
	})
	f.announce()
	return w
}

// wait waits for a task, as long as its caller stays.
func (w *work) wait(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the server: %w", context.Cause(ctx))
	}
}

// add asks for one more server and waits for its end; all who ask for the same one share that.
func (f *fleet) add(ctx context.Context, q control.AddRequest, agent bool) (control.ServerRef, error) {
	for {
		server, w, err := f.beginAdd(q, agent)
		if err != nil || w == nil {
			return ref(server), err
		}
		if err := w.wait(ctx); err != nil {
			return control.ServerRef{}, err
		}
		if w.deed == adding {
			return ref(server), w.err
		}
	}
}

// beginAdd begins an addition or joins the one that there is. Without a task the server is there already;
// a task that is no addition has to be over first.
func (f *fleet) beginAdd(q control.AddRequest, agent bool) (config.Server, *work, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.writable(); err != nil {
		return config.Server{}, nil, err
	}
	server, err := f.lookup(q.Server, q.Registration, agent)
	if err != nil {
		return config.Server{}, nil, err
	}
	a := f.find(server.Name)
	if agent && registers(q) && a != nil && !a.agent {
		return server, nil, refused("server %q was asked for by the gateway's operator, with properties of its own", server.Name)
	}
	if a != nil && a.work != nil && a.work.deed == removing {
		return server, a.work, nil
	}
	if a != nil && a.outcome != control.OutcomeFailed {
		switch {
		case registers(q) && !same(a.server, server):
			return server, nil, refused("server %q is there already, with another definition; remove it first", server.Name)
		case a.work != nil && a.work.deed == adding:
			return server, a.work, nil
		}
		return server, nil, nil
	}
	if a == nil {
		if len(f.servers) >= config.MaxServers {
			return server, nil, control.Errorf(control.ResourceExhausted, "%d servers are asked for, which is the most; remove one first", len(f.servers))
		}
		a = &asked{agent: agent, unproven: true}
		f.servers = append(f.servers, a)
	}
	a.server = server
	f.learn(server, registers(q) && !agent)
	f.generation = rand.Text()
	return server, f.launch(a), nil
}

// learn remembers a definition, and its secrets before anything can print them. The caller holds mu.
func (f *fleet) learn(server config.Server, registered bool) {
	f.g.o.Secrets.Add(server.Launch.Secrets...)
	if registered {
		f.known[server.Name] = server
	}
}

// launch begins to start a server that is not there. The caller holds mu.
func (f *fleet) launch(a *asked) *work {
	f.settle(a, control.OutcomePending, "")
	server := a.server
	f.g.log.Info("adding server", telemetry.KeyServer, server.Name)
	return f.work(a, adding, func(ctx context.Context, e *engine, a *asked) error {
		failed := f.bringUp(ctx, e, server)
		f.mu.Lock()
		defer f.mu.Unlock()
		if failed == nil {
			f.settle(a, control.OutcomeApplied, "")
			a.unproven = false
			return nil
		}
		reason := f.endedBy(ctx, failed)
		f.settle(a, control.OutcomeFailed, reason)
		f.g.log.Error("server not added", telemetry.KeyServer, server.Name, telemetry.KeyCause, string(failed.Cause), telemetry.KeyError, failed)
		return f.faultError(reason, failed)
	})
}

// bringUp installs, starts and routes one server.
func (f *fleet) bringUp(ctx context.Context, e *engine, server config.Server) *fault.Fault {
	budget, cancel := context.WithTimeout(ctx, f.g.o.StartupTimeout)
	defer cancel()
	if missing := f.g.missing(budget, []config.Server{server}); len(missing) > 0 {
		return missing[0]
	}
	return e.relay.Add(ctx, f.g.member(server))
}

// remove takes a server away, and waits until it is gone.
func (f *fleet) remove(ctx context.Context, name string, agent bool) error {
	for {
		w, mine, err := f.beginRemove(name, agent)
		if err != nil {
			return err
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
		if mine {
			return w.err
		}
	}
}

var errRemoved = errors.New("it was removed while it was being added")

// beginRemove begins a removal, or tells what has to be over first.
func (f *fleet) beginRemove(name string, agent bool) (w *work, mine bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.writable(); err != nil {
		return nil, false, err
	}
	a := f.find(name)
	switch {
	case a == nil:
		return nil, false, f.notAsked(name)
	case agent && !a.agent:
		return nil, false, refused("server %q was not added with mcp-add, so it can only be removed by the gateway's operator", name)
	case a.work != nil && a.work.deed == adding:
		a.work.cancel(errRemoved)
		return a.work, false, nil
	case a.work != nil:
		return a.work, false, nil
	}
	f.g.log.Info("removing server", telemetry.KeyServer, name)
	return f.work(a, removing, func(ctx context.Context, e *engine, a *asked) error {
		limited, cancel := context.WithTimeout(ctx, stopLimit) // which hurries, and leaves nothing out
		defer cancel()
		e.relay.Remove(limited, name)
		f.g.signins.Remove(name) // with its credentials: they were for this server
		f.mu.Lock()
		defer f.mu.Unlock()
		f.servers = slices.DeleteFunc(f.servers, func(other *asked) bool { return other == a })
		f.generation = rand.Text()
		return nil
	}), true, nil
}

// restart makes a server ready again: one that is there anew, one that failed as if it were added.
func (f *fleet) restart(ctx context.Context, name string) error {
	for {
		w, err := f.beginRestart(name)
		if err != nil {
			return err
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
		if w.deed != removing {
			return w.err
		}
	}
}

func (f *fleet) beginRestart(name string) (*work, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.writable(); err != nil {
		return nil, err
	}
	a := f.find(name)
	switch {
	case a == nil:
		return nil, f.notAsked(name)
	case a.work != nil:
		return a.work, nil
	case a.outcome == control.OutcomeFailed:
		return f.launch(a), nil
	}
	f.g.log.Info("restarting server", telemetry.KeyServer, name)
	return f.work(a, restarting, func(ctx context.Context, e *engine, _ *asked) error {
		failed := e.relay.Restart(ctx, name)
		f.mu.Lock()
		defer f.mu.Unlock()
		if failed == nil {
			return nil
		}
		return f.faultError(f.endedBy(ctx, failed), failed)
	}), nil
}

// endedBy is why a task about a server has failed: what ended the task, where something has, else the
// server's own failure.
func (f *fleet) endedBy(ctx context.Context, failed *fault.Fault) string {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Sprintf("server %q: %v", failed.Server, cause)
	}
	return f.g.reason(failed)
}

// notAsked is the error about a server that nobody has asked for. The caller holds mu.
func (f *fleet) notAsked(name string) error {
	return notFound("server %q is not in this gateway%s", name, didYouMean(name, f.names()))
}

// names lists all that was asked for, sorted. The caller holds mu.
func (f *fleet) names() []string {
	names := make([]string, len(f.servers))
	for i, a := range f.servers {
		names[i] = a.server.Name
	}
	slices.Sort(names)
	return names
}

// maxReason bounds the text about one server's failure.
const maxReason = 1000

// reason is a failure in one line, with the last thing that the server said, and without secrets.
func (g *gateway) reason(err error) string {
	text := err.Error()
	var failed *fault.Fault
	if errors.As(err, &failed) && len(failed.Stderr) > 0 {
		text += ": " + failed.Stderr[len(failed.Stderr)-1]
	}
	text = g.o.Secrets.Scrub(text)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// faultError is the error of a request that was accepted and whose server then failed. The caller holds mu.
func (f *fleet) faultError(reason string, failed *fault.Fault) *control.Error {
	e := refused("%s", reason)
	e.Details = append(e.Details, control.Detail(control.TypeErrorInfo, map[string]any{
		"reason": strings.ToUpper(string(failed.Cause)), "domain": "mcp-gateway",
		"metadata": map[string]string{"server": failed.Server},
	}), control.Detail(control.TypeConfigurationReport, f.report()))
	return e
}
