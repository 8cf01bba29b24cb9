package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

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
	o          Options
	ctx        context.Context
	cancel     context.CancelFunc
	down       *downstream.Server
	roster     atomic.Pointer[roster] // replaced under mu
	tables     [2]atomic.Pointer[table]
	background background
	calls      atomic.Int64 // numbers them
	held       sync.Map     // calls that wait for their client, by requestState
	book       taskBook

	mu        sync.Mutex // one rebuild of the tables at a time
	builtIns  []BuiltIn
	given     *given
	noted     map[note]bool
	listeners map[*listener]struct{}
	silent    bool // nobody listens any more, since the gateway is being stopped
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

// New makes a relay without servers. Attach and Start come next.
func New(ctx context.Context, o Options) *Relay {
	if o.HeldFor == 0 {
		o.HeldFor = defaultHeldFor
	}
	r := &Relay{o: o, given: newGiven(), noted: map[note]bool{}, listeners: map[*listener]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.roster.Store(newRoster(nil))
	r.rebuild()
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

// rebuild makes new tables of what the servers list now and publishes them.
func (r *Relay) rebuild() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.roster.Load()
	own := r.ownListing(now)
	split := false
	for e := range r.tables {
		var listings []*listing
		for _, name := range now.names {
			m := now.members[name]
			if !m.routed.Load() {
				continue
			}
			if listing := m.links[e].listing.Load(); listing != nil {
				listings = append(listings, listing)
			}
			split = split || m.links[legacy] != m.links[modern]
		}
		if e == modern && !split {
			r.tables[modern].Store(r.tables[legacy].Load())
			break
		}
		t, notes := build(own, listings, r.given)
		r.tables[e].Store(t)
		r.log(notes)
	}
	r.given.bound(maxGiven, r.tables[legacy].Load(), r.tables[modern].Load())
}

// maxNotes bounds how many notes about listings are remembered so that each is logged once.
const maxNotes = 10_000

// log writes the notes that have not been written. The caller holds mu.
func (r *Relay) log(notes []note) {
	for _, n := range notes {
		if !r.noted[n] && len(r.noted) < maxNotes {
			r.noted[n] = true
			r.o.Log.Info("list changed on the way", telemetry.KeyServer, n.server, telemetry.KeyLine, n.text)
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
	rounds  map[*call]*gathering  // calls whose clients are asked between two rounds

	elicited map[string]*downstream.Session // whom an elicitation by URL was given to
	early    []wire.Msg                     // about tasks that are not known yet
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
const announced = `{"roots":{"listChanged":true},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},` +
	`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},"extensions":{"` + tasksExtension + `":{}}}`

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
	now := r.roster.Load()
	for _, name := range now.names {
		m := now.members[name]
		row := Status{Name: name, State: m.links[legacy].server.State(), Tools: count[name]}
		if m.unsigned.Load() {
			row.State.State = StateSignInRequired
		}
		servers = append(servers, row)
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
		server := route.server
		if route.own != nil {
			server = ownName
		}
		out = append(out, Tool{route.exposed, route.name, server, description})
	}
	return out
}
