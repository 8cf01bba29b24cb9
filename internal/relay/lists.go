package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mcp-gateway/internal/telemetry"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// feature is one kind of list that servers have.
type feature struct {
	capability string
	method     string // that reads the list
	member     string // of the result, the array
	changed    string // the server's notification that the list is another one
	tools      bool   // stays when only tools are exposed
	of         func(*listing) *[][]byte
}

var features = []feature{
	{"tools", "tools/list", "tools", "notifications/tools/list_changed", true, func(l *listing) *[][]byte { return &l.tools }},
	{"prompts", "prompts/list", "prompts", "notifications/prompts/list_changed", false, func(l *listing) *[][]byte { return &l.prompts }},
	{"resources", "resources/list", "resources", "notifications/resources/list_changed", false, func(l *listing) *[][]byte { return &l.resources }},
	{"resources", "resources/templates/list", "resourceTemplates", "notifications/resources/list_changed", false, func(l *listing) *[][]byte { return &l.templates }},
}

// readLists reads a new connection's lists, all pages, and publishes them. It is what makes a server
// ready: one whose tools cannot be read is not.
func (l *link) readLists(ctx context.Context, c upstream.Conn) error {
	hello := c.Hello()
	out := &listing{server: l.m.Name, member: l.m, conn: c, options: l.m.Options, instructions: hello.Instructions, capabilities: hello.Capabilities}
	last := l.listing.Load()
	if l.m.Remote {
		l.modern.Store(hello.Version == upstream.Modern)
		l.shared.Store(hello.Stateless)
	}
	if l.session != nil {
		l.attend(c) // a session's own process is listed by the shared one
		return nil
	}
	for _, f := range features {
		if !hello.Can(f.capability) || l.r.o.ToolsOnly && !f.tools {
			continue
		}
		elements, err := l.read(ctx, c, f)
		switch {
		case err == nil:
			*f.of(out) = elements
		case f.tools && last == nil:
			return err
		default:
			l.r.o.Log.Warn("list not read", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, f.method, telemetry.KeyError, err)
			if last != nil {
				*f.of(out) = *f.of(last)
			}
		}
	}
	l.publish(out)
	l.attend(c)
	l.r.rebuild()
	l.m.unsigned.Store(false)
	changed := featuresOf(hello.Capabilities)
	if last == nil && !slices.Contains(changed, features[0].changed) { // a tool may have stood for it
		changed = append(changed, features[0].changed)
	}
	l.announce(changed...)
	return nil
}

// publish makes a fresh connection's lists the server's, and reads again what has changed meanwhile.
func (l *link) publish(out *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing.Store(out)
	l.rereadDirty()
}

func (l *link) read(ctx context.Context, c upstream.Conn, f feature) ([][]byte, error) {
	var meta []byte
	if l.modern.Load() {
		meta = upstream.ModernMeta(l.identity())
	}
	elements, err := upstream.ListAll(ctx, c, f.method, f.member, meta)
	if f.tools && l.m.Remote && l.modern.Load() {
		elements = l.withoutBadHeaders(elements)
	}
	return elements, err
}

// withoutBadHeaders leaves out the tools that cannot be called by HTTP, since the protocol does not allow
// what they want repeated in headers.
func (l *link) withoutBadHeaders(tools [][]byte) [][]byte {
	return slices.DeleteFunc(tools, func(tool []byte) bool {
		_, err := upstream.ParamHeaders(wire.Get(tool, "inputSchema"))
		if err != nil {
			name, _ := wire.GetString(tool, "name")
			l.r.o.Log.Warn("tool left out", telemetry.KeyServer, l.m.Name, telemetry.KeyTool, name, telemetry.KeyError, err)
		}
		return err != nil
	})
}

// announce tells the clients that lists have changed, unless they do not know the server yet, or not any
// more.
func (l *link) announce(methods ...string) {
	if l.m.routed.Load() && l.m.gone() == nil {
		l.r.announce(methods...)
	}
}

// featuresOf lists the notifications of the lists that a server has.
func featuresOf(capabilities []byte) (changed []string) {
	hello := upstream.Hello{Capabilities: capabilities}
	for _, f := range features[:3] {
		if hello.Can(f.capability) {
			changed = append(changed, f.changed)
		}
	}
	return changed
}

const (
	burst     = 10 * time.Millisecond // changes this close together are read once
	listLimit = 30 * time.Second      // for reading lists again
)

// reload reads lists again after the server has said that they changed. One goroutine does so for a
// link; what changes meanwhile, it reads once more.
func (l *link) reload(c upstream.Conn, changed string) {
	if l.session != nil {
		l.session.Send(wire.Notification(changed, nil), true) // the shared process lists for all
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirty == nil {
		l.dirty = map[string]bool{}
	}
	l.dirty[changed] = true
	if now := l.listing.Load(); now != nil && now.conn == c {
		l.rereadDirty() // else a start is about to publish what it reads
	}
}

// rereadDirty begins to read what has changed. The caller holds mu.
func (l *link) rereadDirty() {
	if len(l.dirty) > 0 && !l.reading {
		l.reading = l.r.background.start(l.rereads)
	}
}

func (l *link) rereads() {
	for {
		select {
		case <-time.After(burst):
		case <-l.r.ctx.Done():
		}
		l.mu.Lock()
		dirty := l.dirty
		l.dirty = nil
		if len(dirty) == 0 || l.r.ctx.Err() != nil {
			l.reading = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.reread(dirty)
	}
}

// reread reads the lists that changed, publishes them, and tells the clients: reading comes first,
// and an equal list is told of too, since the client has no other way to know.
func (l *link) reread(dirty map[string]bool) {
	last := l.listing.Load()
	ctx, cancel := context.WithTimeoutCause(l.r.ctx, listLimit, fmt.Errorf("the limit of %s has passed", listLimit))
	defer cancel()
	out := *last
	for _, f := range features {
		if !dirty[f.changed] || l.r.o.ToolsOnly && !f.tools {
			continue
		}
		elements, err := l.read(ctx, last.conn, f)
		if l.m.gone() != nil {
			return
		}
		if err != nil {
			l.r.o.Log.Warn("changed list not read", telemetry.KeyServer, l.m.Name, telemetry.KeyMethod, f.method, telemetry.KeyError, err)
			continue
		}
		*f.of(&out) = elements
	}
	if !l.listing.CompareAndSwap(last, &out) {
		return // the server was started again, and everything read then
	}
	l.r.rebuild()
	for _, f := range features[:3] {
		if dirty[f.changed] {
			l.announce(f.changed)
		}
	}
}

// capable tells whether any server of an era has the capability.
func (r *Relay) capable(e int, name string) bool { return r.tables[e].Load().capable(name) }
