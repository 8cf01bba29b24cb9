package relay

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// listing is what one server lists; its elements are the server's own bytes.
type listing struct {
	server       string // "" for the gateway itself
	member       *member
	own          map[string]handler // of the gateway's own tools
	conn         upstream.Conn      // on which it was read
	options      catalog.Options
	tools        [][]byte
	prompts      [][]byte
	resources    [][]byte
	templates    [][]byte
	instructions string
	capabilities []byte
}

// route says where an exposed name leads.
type route struct {
	member   *member // nil for a tool of the gateway's own
	own      handler // of such a tool
	server   string
	name     string // the server's own
	exposed  string
	element  []byte // as it is listed to clients
	headers  []downstream.ParamHeader
	template *template // of a resource template
}

// table is everything that clients see of all servers: made whole, published, never changed.
type table struct {
	tools     map[string]*route
	prompts   map[string]*route
	resources map[string]*route // by exposed URI
	templates []*route
	order     []*route // tools as listed

	// Ready-made results of the lists, for the revisions before 2026-07-28 and for it.
	lists [2]map[string][]byte

	instructions string
	members      map[string]*member // that are routed to
	listings     []*listing         // theirs
	uris         map[origin]string  // exposed, of listed resources
	sources      map[string]bool    // servers that list resources or templates
}

// given remembers the names that have been exposed, so that none changes its meaning.
type given struct {
	tools, prompts, resources, templates map[string]origin
}

func newGiven() *given {
	return &given{map[string]origin{}, map[string]origin{}, map[string]origin{}, map[string]origin{}}
}

// maxGiven is how many names of a kind are remembered before those that nothing has any more are forgotten: a
// server may change its lists for ever.
const maxGiven = 20_000

// bound forgets the names of each kind that no table has any more, where there are more than the limit.
func (g *given) bound(limit int, tables ...*table) {
	kept := func(names map[string]origin, used func(t *table) map[string]*route) map[string]origin {
		if len(names) <= limit {
			return names
		}
		left := map[string]origin{}
		for _, t := range tables {
			for name := range used(t) {
				left[name] = names[name]
			}
		}
		return left
	}
	g.tools = kept(g.tools, func(t *table) map[string]*route { return t.tools })
	g.prompts = kept(g.prompts, func(t *table) map[string]*route { return t.prompts })
	g.resources = kept(g.resources, func(t *table) map[string]*route { return t.resources })
	g.templates = kept(g.templates, func(t *table) map[string]*route {
		exposed := map[string]*route{}
		for _, r := range t.templates {
			exposed[r.exposed] = r
		}
		return exposed
	})
}

func givenTools(g *given) map[string]origin   { return g.tools }
func givenPrompts(g *given) map[string]origin { return g.prompts }

// note is something about a listing that belongs into the log.
type note struct{ server, text string }

// build merges the listings, which come sorted by server, behind the gateway's own.
func build(own *listing, listings []*listing, g *given) (*table, []note) {
	b := &builder{t: &table{
		tools: map[string]*route{}, prompts: map[string]*route{}, resources: map[string]*route{},
		members: map[string]*member{}, listings: listings, uris: map[origin]string{}, sources: map[string]bool{},
	}, prefix: map[string]string{}}
	for _, l := range listings {
		b.prefix[l.server] = l.options.Prefix
		b.t.members[l.server] = l.member
	}
	b.tools(append([]*listing{own}, listings...), g)
	b.prompts(listings, g)
	b.resources(listings, g)
	b.t.instructions = mergeInstructions(listings)
	return b.t, b.notes
}

type builder struct {
	t      *table
	prefix map[string]string
	notes  []note
}

// maxNote bounds a note, which repeats what a server has written.
const maxNote = 500

func (b *builder) note(server, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + "…"
	}
	b.notes = append(b.notes, note{server, text})
}

// element is one entry of a list with its key.
type element struct {
	origin
	raw []byte
}

// maxKey bounds the name or URI of an element in bytes.
const maxKey = 8 << 10

// collect reads the keys of one kind of list; what has none, one that is too long, or one that came before, is
// left out.
func (b *builder) collect(listings []*listing, of func(*listing) [][]byte, key string) []element {
	var all []element
	for _, l := range listings {
		seen := map[string]bool{}
		for _, raw := range of(l) {
			name, ok := wire.GetString(raw, key)
			switch {
			case !ok || name == "" && key == "name":
				b.note(l.server, "an element without a %q was left out of the list: %.200s", key, raw)
			case len(name) > maxKey:
				b.note(l.server, "an element whose %q has %d bytes was left out of the list: %.200s", key, len(name), name)
			case seen[name]:
				b.note(l.server, "%q is listed twice, the first one counts", name)
			default:
				seen[name] = true
				all = append(all, element{origin{l.server, name}, raw})
			}
		}
	}
	return all
}

// allowed applies the entry's allow and deny patterns to a tool's own name.
func allowed(o catalog.Options, name string) bool {
	match := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, name)
			return ok && err == nil
		})
	}
	return (len(o.Allow) == 0 || match(o.Allow)) && !match(o.Deny)
}

func origins(all []element) []origin {
	out := make([]origin, len(all))
	for i, e := range all {
		out[i] = e.origin
	}
	return out
}

// route leads to an element under its own name.
func (b *builder) route(e element) *route {
	return &route{member: b.t.members[e.server], server: e.server, name: e.name, exposed: e.name, element: e.raw}
}

func (b *builder) tools(listings []*listing, g *given) {
	all := b.collect(listings, func(l *listing) [][]byte { return l.tools }, "name")
	options := map[string]catalog.Options{}
	for _, l := range listings {
		options[l.server] = l.options
	}
	all = slices.DeleteFunc(all, func(e element) bool { return !allowed(options[e.server], e.name) })
	names := expose(origins(all), b.prefix, g.tools)
	var listed [2][][]byte // by the clients' era
	for _, e := range all {
		r := b.route(e)
		if r.exposed = names[e.origin]; e.server == "" {
			r.own = listings[0].own[e.name]
		}
		if r.exposed != e.name {
			r.element = wire.Edit(r.element, wire.Change{Key: "name", Value: wire.Quote(r.exposed)})
			if b.prefix[e.server]+e.name != r.exposed {
				b.note(e.server, "tool %q is exposed as %q", e.name, r.exposed)
			}
		}
		newer, _ := acceptable(r.element, modern)
		older, changes := acceptable(r.element, legacy)
		for _, change := range changes {
			b.note(e.server, "tool %q %s", e.name, change)
		}
		listed[modern], listed[legacy] = append(listed[modern], newer), append(listed[legacy], older)
		r.element = older
		r.headers = paramHeaders(r.element)
		b.t.tools[r.exposed] = r
		b.t.order = append(b.t.order, r)
	}
	b.list("tools/list", "tools", listed)
}

func (b *builder) prompts(listings []*listing, g *given) {
	all := b.collect(listings, func(l *listing) [][]byte { return l.prompts }, "name")
	names := expose(origins(all), b.prefix, g.prompts)
	var listed [][]byte
	for _, e := range all {
		r := b.route(e)
		if r.exposed = names[e.origin]; r.exposed != e.name {
			r.element = wire.Edit(r.element, wire.Change{Key: "name", Value: wire.Quote(r.exposed)})
		}
		b.t.prompts[r.exposed] = r
		listed = append(listed, r.element)
	}
	b.list("prompts/list", "prompts", [2][][]byte{listed, listed})
}

// ownScheme begins the URIs under which a resource is exposed whose own URI another server has:
// mcp-gateway://<server, percent-encoded>/<the server's own URI>.
const ownScheme = "mcp-gateway://"

func ownURI(o origin) string { return ownScheme + url.PathEscape(o.server) + "/" + o.name }

// parseOwnURI undoes ownURI.
func parseOwnURI(uri string) (o origin, ok bool) {
	rest, ok := strings.CutPrefix(uri, ownScheme)
	if !ok {
		return origin{}, false
	}
	server, name, ok := strings.Cut(rest, "/")
	if !ok {
		return origin{}, false
	}
	server, err := url.PathUnescape(server)
	return origin{server, name}, err == nil
}

func (b *builder) resources(listings []*listing, g *given) {
	all := b.collect(listings, func(l *listing) [][]byte { return l.resources }, "uri")
	var listed [][]byte
	for _, e := range all {
		r := b.uri(e, "uri", g.resources)
		b.t.sources[e.server] = true
		b.t.resources[r.exposed] = r
		b.t.uris[e.origin] = r.exposed
		listed = append(listed, r.element)
	}
	b.list("resources/list", "resources", [2][][]byte{listed, listed})
	all = b.collect(listings, func(l *listing) [][]byte { return l.templates }, "uriTemplate")
	listed = nil
	for _, e := range all {
		r := b.uri(e, "uriTemplate", g.templates)
		b.t.sources[e.server] = true
		r.template = parseTemplate(r.exposed)
		b.t.templates = append(b.t.templates, r)
		listed = append(listed, r.element)
	}
	b.list("resources/templates/list", "resourceTemplates", [2][][]byte{listed, listed})
}

// uri exposes a resource or template: under its own URI where that is free.
func (b *builder) uri(e element, key string, given map[string]origin) *route {
	r := b.route(e)
	holder, taken := given[e.name]
	if taken && holder != e.origin || strings.HasPrefix(e.name, ownScheme) {
		r.exposed = ownURI(e.origin)
		r.element = wire.Edit(r.element, wire.Change{Key: key, Value: wire.Quote(r.exposed)})
		b.note(e.server, "%s %q is exposed as %q", key, e.name, r.exposed)
	}
	given[r.exposed] = e.origin
	return r
}

// list makes the result of a list once, for each era.
func (b *builder) list(method, member string, elements [2][][]byte) {
	for era := range b.t.lists {
		joined := bytes.Join(elements[era], []byte(","))
		if b.t.lists[era] == nil {
			b.t.lists[era] = map[string][]byte{}
		}
		end := "]}"
		if era == modern {
			end = `],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
		}
		out := fmt.Appendf(make([]byte, 0, len(joined)+len(member)+80), `{"%s":[`, member)
		b.t.lists[era][method] = append(append(out, joined...), end...)
	}
}

// maxInstructions bounds the text that one server adds to the merged instructions.
const maxInstructions = 16 << 10

// mergeInstructions puts each server's instructions under its name; a single server's stay as they are.
func mergeInstructions(listings []*listing) string {
	var out []string
	for _, l := range listings {
		text := l.instructions
		if text == "" {
			continue
		}
		if len(listings) == 1 {
			return text
		}
		if len(text) > maxInstructions {
			text = strings.ToValidUTF8(text[:maxInstructions], "") + "\n…"
		}
		out = append(out, "# "+l.server+"\n\n"+text)
	}
	return strings.Join(out, "\n\n")
}

// maxSchemaDepth bounds how far a schema is looked into.
const maxSchemaDepth = 16

// paramHeaders finds the arguments that 2026-07-28 repeats in headers. Clients do not call a tool that wants
// that in a way which the protocol does not allow, so nothing is expected of them then.
func paramHeaders(tool []byte) []downstream.ParamHeader {
	found, err := upstream.ParamHeaders(wire.Get(tool, "inputSchema"))
	if err != nil {
		return nil
	}
	var out []downstream.ParamHeader
	for _, header := range found {
		out = append(out, downstream.ParamHeader(header))
	}
	return out
}

// nearest names the exposed tool that looks most like the one asked for, "" where none does.
func (t *table) nearest(name string) string {
	names := make([]string, len(t.order))
	for i, r := range t.order {
		names[i] = r.exposed
	}
	if near := catalog.Nearest(name, names); len(near) > 0 {
		return near[0]
	}
	return ""
}

// alone returns the one server that there is, nil where there are several or none.
func (t *table) alone() *listing {
	if len(t.listings) == 1 {
		return t.listings[0]
	}
	return nil
}

// capable tells whether any server has the capability.
func (t *table) capable(name string) bool {
	return slices.ContainsFunc(t.listings, func(l *listing) bool { return l.has(name) })
}

// only returns the one server with a capability, nil where there is none or several.
func (t *table) only(capability string) *member {
	var found *member
	for _, l := range t.listings {
		if !l.has(capability) {
			continue
		}
		if found != nil {
			return nil
		}
		found = l.member
	}
	return found
}

func (l *listing) has(capability string) bool {
	return wire.Kind(wire.Get(l.capabilities, capability)) == '{'
}
