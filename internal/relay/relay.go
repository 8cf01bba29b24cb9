package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// Member describes one server to relay for.
type Member struct {
	Name    string
	Options catalog.Options
	Remote  bool // it is reached by its URL, and says itself which revision it speaks
	// Dial makes the dialer for connections to it: of 2026-07-28 where modern is set, if it is a process.
	Dial func(modern bool, h upstream.Handler, id upstream.Identity) upstream.Dialer
}

// Options configure a Relay.
type Options struct {
	Version      string        // of the gateway, as it presents itself
	ToolsOnly    bool          // hide prompts, resources and what belongs to them
	StartTimeout time.Duration // of a server whose entry names none
	HeldFor      time.Duration // how long a call waits for its client of 2026-07-28; 0 means 2 minutes
	Log          *slog.Logger
}

// Relay implements downstream.Handler over a set of servers.
type Relay struct {
	o       Options
	ctx     context.Context
	cancel  context.CancelFunc
	down    *downstream.Server
	members map[string]*member // by name; fixed once started
	names   []string           // sorted
	tables  [2]atomic.Pointer[table]
	tasks   tasks
	calls   atomic.Int64 // numbers them
	held    sync.Map     // calls that wait for their client, by requestState

	mu        sync.Mutex // one rebuild of the tables at a time
	given     *given
	noted     map[note]bool
	ready     bool
	listeners map[*listener]struct{}
	silent    bool // nobody listens any more, since the gateway is being stopped
}

// member is one server: a link for each era of clients, which is the same one unless the entry asks
// for both.
type member struct {
	Member
	links [2]*link
}

// eras of clients, as indices.
const (
	legacy = 0
	modern = 1
)

func era(x *downstream.Exchange) int {
	if x.Modern() {
		return modern
	}
	return legacy
}

// New makes a relay over the members. Attach and Start come next.
func New(ctx context.Context, members []Member, o Options) *Relay {
	if o.HeldFor == 0 {
		o.HeldFor = defaultHeldFor
	}
	r := &Relay{o: o, members: map[string]*member{}, given: newGiven(), noted: map[note]bool{}, listeners: map[*listener]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for _, m := range members {
		r.members[m.Name] = r.newMember(m)
		r.names = append(r.names, m.Name)
	}
	slices.Sort(r.names)
	empty, _ := build(nil, r.given)
	r.tables[legacy].Store(empty)
	r.tables[modern].Store(empty)
	return r
}

func (r *Relay) newMember(m Member) *member {
	out := &member{Member: m}
	switch m.Options.Protocol {
	case "modern":
		l := r.newLink(out, true, nil)
		out.links = [2]*link{l, l}
	case "both":
		out.links = [2]*link{r.newLink(out, false, nil), r.newLink(out, true, nil)}
	default:
		l := r.newLink(out, false, nil)
		out.links = [2]*link{l, l}
	}
	return out
}

// Attach gives the relay the endpoint whose sessions it tells of changes.
func (r *Relay) Attach(d *downstream.Server) { r.down = d }

// each calls f for every link once.
func (r *Relay) each(f func(*link)) {
	for _, name := range r.names {
		m := r.members[name]
		f(m.links[legacy])
		if m.links[modern] != m.links[legacy] {
			f(m.links[modern])
		}
	}
}

// Start starts all servers side by side and publishes the table once all are ready. It returns a
// fault for each server that is not, when ctx ends at the latest.
func (r *Relay) Start(ctx context.Context) []*fault.Fault {
	var mu sync.Mutex
	var faults []*fault.Fault
	var starts sync.WaitGroup
	r.each(func(l *link) {
		starts.Go(func() {
			if err := l.server.Start(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, l.fault(err))
			}
		})
	})
	starts.Wait()
	if len(faults) > 0 {
		return distinct(faults)
	}
	r.mu.Lock()
	r.ready = true
	r.mu.Unlock()
	r.rebuild()
	return nil
}

// distinct sorts the faults by server. A server with a process for each era fails in both for one cause.
func distinct(faults []*fault.Fault) []*fault.Fault {
	slices.SortFunc(faults, func(a, b *fault.Fault) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(string(a.Cause), string(b.Cause)))
	})
	return slices.CompactFunc(faults, func(a, b *fault.Fault) bool { return a.Server == b.Server && a.Cause == b.Cause })
}

// Close ends every server and waits until all processes are gone, which ctx hurries.
func (r *Relay) Close(ctx context.Context) {
	r.cancel()
	var closing sync.WaitGroup
	r.each(func(l *link) { closing.Go(func() { l.server.Close(ctx) }) })
	closing.Wait()
	r.tasks.end()
}

// rebuild makes new tables of what the servers list now and publishes them.
func (r *Relay) rebuild() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		return
	}
	split := false
	for e := range r.tables {
		var listings []*listing
		for _, name := range r.names {
			l := r.members[name].links[e]
			if listing := l.listing.Load(); listing != nil {
				listings = append(listings, listing)
			}
			split = split || r.members[name].links[legacy] != r.members[name].links[modern]
		}
		if e == modern && !split {
			r.tables[modern].Store(r.tables[legacy].Load())
			break
		}
		t, notes := build(listings, r.given)
		r.tables[e].Store(t)
		r.log(notes)
	}
}

// maxNotes bounds how many notes about listings are remembered so that each is logged once.
const maxNotes = 10_000

// log writes the notes that have not been written. The caller holds mu.
func (r *Relay) log(notes []note) {
	for _, n := range notes {
		if !r.noted[n] && len(r.noted) < maxNotes {
			r.noted[n] = true
			r.o.Log.Info("list changed on the way", telemetry.KeyServer, n.server, "note", n.text)
		}
	}
}

// link is one connection line to a server: the process that serves clients of one era, or of both.
type link struct {
	r       *Relay
	m       *member
	session *downstream.Session // whose own process it is, nil for one that all share
	modern  atomic.Bool         // the server speaks 2026-07-28
	shared  atomic.Bool         // a remote server keeps nothing of its clients
	server  *upstream.Server
	listing atomic.Pointer[listing]

	mu      sync.Mutex
	dirty   map[string]bool       // lists to be read again
	reading bool                  // a goroutine reads them
	level   string                // the log level that the server was asked for
	single  string                // the lowest level that a request of 2026-07-28 wanted
	watched map[string]int        // subscriptions by the server's own URI
	asks    map[askKey]*asked     // the server's requests that a client has been given
	listens map[string]*listening // open subscriptions/listen towards the server
	unknown map[string]bool       // unknown notifications that were logged

	elicited map[string]*downstream.Session // whom an elicitation by URL was given to
}

func (r *Relay) newLink(m *member, modern bool, s *downstream.Session) *link {
	l := &link{r: r, m: m, session: s, watched: map[string]int{}}
	l.modern.Store(modern)
	timeout := m.Options.StartTimeout
	if timeout == 0 {
		timeout = r.o.StartTimeout
	}
	l.server = upstream.NewServer(r.ctx, upstream.ServerOptions{
		Name: m.Name, Dialer: m.Dial(modern, l, l.identity()), StartTimeout: timeout, Log: r.o.Log,
		Ready: l.readLists, Ended: l.ended, Keep: m.Remote && s == nil,
	})
	return l
}

// announced are the capabilities that a server shared by all sessions is told of: what any client
// may have. Whether the client in question has it, is checked when the server asks.
const announced = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}`

func (r *Relay) identity() upstream.Identity {
	return upstream.Identity{
		ClientInfo:   fmt.Appendf(nil, `{"name":"mcp-gateway","version":%s}`, wire.Quote(r.o.Version)),
		Capabilities: []byte(announced),
	}
}

// identity is what the server is told: a session's own server, what its client has declared.
func (l *link) identity() upstream.Identity {
	id := l.r.identity()
	if l.session != nil {
		id.Capabilities = orEmpty(l.session.Capabilities, []byte("{}"))
	}
	return id
}

// fault makes a fault of whatever kept a server from being ready.
func (l *link) fault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return &fault.Fault{Server: l.m.Name, Cause: fault.HandshakeInvalid, Err: err}
}

// Status is one server's part of the gateway's status.
type Status struct {
	Name  string
	State upstream.State
	Tools int // exposed
}

// Status lists the servers, sorted by name, and counts the exposed tools. With a process for each
// era, the one for older clients is shown.
func (r *Relay) Status() (servers []Status, tools int) {
	t := r.tables[legacy].Load()
	count := map[string]int{}
	for _, route := range t.order {
		count[route.server]++
	}
	for _, name := range r.names {
		servers = append(servers, Status{Name: name, State: r.members[name].links[legacy].server.State(), Tools: count[name]})
	}
	return servers, len(t.order)
}

// Tool is one exposed tool and where it comes from.
type Tool struct{ Name, OriginalName, Server, Description string }

// Tools lists the exposed tools in the order of tools/list.
func (r *Relay) Tools() []Tool {
	var out []Tool
	for _, route := range r.tables[legacy].Load().order {
		description, _ := wire.GetString(route.element, "description")
		out = append(out, Tool{route.exposed, route.name, route.server, description})
	}
	return out
}
