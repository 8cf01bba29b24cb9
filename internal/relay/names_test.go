package relay

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/wire"
)

// clientName is what the strictest clients accept of the names that the gateway makes itself.
var clientName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// tools is a listing of a server with tools of these names.
func tools(server string, names ...string) *listing {
	l := &listing{server: server}
	for _, name := range names {
		l.tools = append(l.tools, fmt.Appendf(nil, `{"name":%s,"inputSchema":{"type":"object"}}`, wire.Quote(name)))
	}
	return l
}

// exposedTools lists what is exposed as "exposed=server/own".
func exposedTools(t *table) []string {
	var out []string
	for _, r := range t.order {
		out = append(out, r.exposed+"="+r.server+"/"+r.name)
	}
	return out
}

func TestB4_ExposedNames(t *testing.T) {
	long := strings.Repeat("l", 70)
	for _, c := range []struct {
		name     string
		listings []*listing
		want     []string
	}{
		{"a legal name that no other has stays", []*listing{tools("a", "x", "Y.z-1_"), tools("b", "y")},
			[]string{"x=a/x", "Y.z-1_=a/Y.z-1_", "y=b/y"}},
		{"B28 the server that sorts first keeps an equal name", []*listing{tools("a", "x"), tools("b", "x"), tools("c", "x")},
			[]string{"x=a/x", "b_x=b/x", "c_x=c/x"}},
		{"B29 other characters become _", []*listing{tools("a b/c", "repo:list all", "x"), tools("b", "x", "日本")},
			[]string{"a_b_c_repo_list_all=a b/c/repo:list all", "x=a b/c/x", "b_x=b/x", "b___=b/日本"}},
		{"names taken by their owners come first", []*listing{tools("a", "x"), tools("b", "x"), tools("c", "b_x")},
			[]string{"x=a/x", "b_x_" + digits(origin{"b", "x"}) + "=b/x", "b_x=c/b_x"}},
		{"two names that become the same", []*listing{tools("a", "r:s", "r s")},
			[]string{"a_r_s=a/r:s", "a_r_s_" + digits(origin{"a", "r s"}) + "=a/r s"}},
		{"own names of up to 128 stay", []*listing{tools("a", long, strings.Repeat("m", 129))},
			[]string{long + "=a/" + long, "a_" + strings.Repeat("m", 53) + "_" + digits(origin{"a", strings.Repeat("m", 129)}) + "=a/" + strings.Repeat("m", 129)}},
		{"longer than 64 on collision is cut", []*listing{tools("a", long), tools("b", long)},
			[]string{long + "=a/" + long, "b_" + long[:53] + "_" + digits(origin{"b", long}) + "=b/" + long}},
		{"exactly 64 is not", []*listing{tools("a", long[:62]), tools("b", long[:62])},
			[]string{long[:62] + "=a/" + long[:62], "b_" + long[:62] + "=b/" + long[:62]}},
		{"equal servers after cleaning", []*listing{tools("a b", "!"), tools("a/b", "!")},
			[]string{"a_b__=a b/!", "a_b___" + digits(origin{"a/b", "!"}) + "=a/b/!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, _ := build(&listing{}, c.listings, newGiven())
			if got := exposedTools(table); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			for _, r := range table.order {
				if name, _ := wire.GetString(r.element, "name"); name != r.exposed || table.tools[name] != r {
					t.Errorf("listed as %q, routed as %q", name, r.exposed)
				}
			}
		})
	}
}

// digits are the hash at the end of a name that was cut.
func digits(o origin) string {
	name := shorten("", o, "")
	return strings.TrimPrefix(name, "_")
}

func TestB4_Prefix(t *testing.T) {
	a, b := tools("a", "x", "y"), tools("b", "x")
	a.options = catalog.Options{Prefix: "one_"}
	table, _ := build(&listing{}, []*listing{a, b}, newGiven())
	if got := exposedTools(table); !slices.Equal(got, []string{"one_x=a/x", "one_y=a/y", "x=b/x"}) {
		t.Errorf("got %q", got)
	}
	b.options = catalog.Options{Prefix: "one_"}
	table, _ = build(&listing{}, []*listing{a, b}, newGiven())
	if got := exposedTools(table); !slices.Equal(got, []string{"one_x=a/x", "one_y=a/y", "b_one_x=b/x"}) {
		t.Errorf("got %q", got)
	}
}

// The mapping follows from what is configured and listed, not from the order in which servers become
// ready: the relay builds only once all are, and from then on a name keeps its meaning.
func TestB4_NamesKeepTheirMeaning(t *testing.T) {
	g := newGiven()
	first, _ := build(&listing{}, []*listing{tools("b", "x"), tools("c", "x", "z")}, g)
	if got := exposedTools(first); !slices.Equal(got, []string{"x=b/x", "c_x=c/x", "z=c/z"}) {
		t.Fatalf("got %q", got)
	}
	t.Run("when a server that sorts before is added", func(t *testing.T) {
		second, _ := build(&listing{}, []*listing{tools("a", "x", "z", "new"), tools("b", "x"), tools("c", "x", "z")}, g)
		want := []string{"a_x=a/x", "a_z=a/z", "new=a/new", "x=b/x", "c_x=c/x", "z=c/z"}
		if got := exposedTools(second); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("when a tool goes, and comes at another server", func(t *testing.T) {
		third, _ := build(&listing{}, []*listing{tools("c", "x"), tools("d", "x")}, g)
		if got := exposedTools(third); !slices.Equal(got, []string{"c_x=c/x", "d_x=d/x"}) {
			t.Errorf("got %q", got)
		}
		fourth, _ := build(&listing{}, []*listing{tools("b", "x"), tools("c", "x")}, g)
		if got := exposedTools(fourth); !slices.Equal(got, []string{"x=b/x", "c_x=c/x"}) {
			t.Errorf("got %q", got)
		}
	})
}

// A server that changes its lists for ever does not fill the memory.
func TestNamesThatAreRememberedAreBounded(t *testing.T) {
	g := newGiven()
	for n := range 20 {
		l := tools("a", fmt.Sprint("tool-", n), "stays", strings.Repeat("x", maxKey+1))
		l.prompts = [][]byte{fmt.Appendf(nil, `{"name":"prompt-%d"}`, n)}
		l.resources = [][]byte{fmt.Appendf(nil, `{"uri":"file:///%d"}`, n)}
		l.templates = [][]byte{fmt.Appendf(nil, `{"uriTemplate":"file:///%d/{x}"}`, n)}
		made, notes := build(&listing{}, []*listing{l}, g)
		g.bound(5, made)
		for kind, names := range map[string]map[string]origin{"tools": g.tools, "prompts": g.prompts, "resources": g.resources, "templates": g.templates} {
			if len(names) > 5 {
				t.Fatalf("%d %s are remembered", len(names), kind)
			}
		}
		if g.tools["stays"] != (origin{"a", "stays"}) || g.templates[fmt.Sprintf("file:///%d/{x}", n)].server != "a" {
			t.Fatal("what is listed is forgotten")
		}
		if len(made.order) != 2 || len(notes) != 1 || len(notes[0].text) > maxNote+len("…") {
			t.Fatalf("%d tools with %d notes: a name that is too long is listed, or repeated at length", len(made.order), len(notes))
		}
	}
}

func TestB4_NamesAreTheSameAtEveryStart(t *testing.T) {
	names := []string{"x", "y", "a_x", "b_x", "b_a_x", "x:", "x;", strings.Repeat("n", 66)}
	servers := []string{"a", "b", "b_a", "c c"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var listings []*listing
		for _, server := range servers {
			var own []string
			for _, name := range names {
				if r.IntN(2) == 0 {
					own = append(own, name)
				}
			}
			listings = append(listings, tools(server, own...))
		}
		first, _ := build(&listing{}, listings, newGiven())
		second, _ := build(&listing{}, listings, newGiven())
		if !slices.Equal(exposedTools(first), exposedTools(second)) {
			t.Fatalf("%q is not %q", exposedTools(first), exposedTools(second))
		}
		checkTable(t, first, listings)
	}
}

// checkTable makes sure that every tool is exposed once, under a legal name of its own.
func checkTable(t *testing.T, table *table, listings []*listing) {
	t.Helper()
	seen := map[string]bool{}
	origins := map[origin]bool{}
	for _, r := range table.order {
		if !clientName.MatchString(r.exposed) {
			t.Errorf("%q is not legal", r.exposed)
		}
		if seen[r.exposed] || origins[origin{r.server, r.name}] {
			t.Errorf("%q of %q is exposed twice", r.name, r.server)
		}
		seen[r.exposed], origins[origin{r.server, r.name}] = true, true
		if table.tools[r.exposed] != r {
			t.Errorf("%q leads elsewhere", r.exposed)
		}
	}
	for _, l := range listings {
		for _, raw := range l.tools {
			if name, ok := wire.GetString(raw, "name"); ok && name != "" && !origins[origin{l.server, name}] {
				t.Errorf("%q of %q is not exposed", name, l.server)
			}
		}
	}
	for _, lists := range table.lists {
		for method, list := range lists {
			if !wire.Valid(list) {
				t.Errorf("%s is not JSON: %s", method, list)
			}
		}
	}
}

// FuzzTable builds tables of arbitrary listings, twice with the same memory.
func FuzzTable(f *testing.F) {
	f.Add("a", `{"name":"x"}`, "b", `{"name":"x","inputSchema":null}`, `{"uri":"u:x"}`, `{"uriTemplate":"u:{+x}"}`)
	f.Add("\x00", `{}`, "\x01", `{"name":"\ud800","inputSchema":{"properties":{"a":{"x-mcp-header":"A"}}}}`, `{"uri":1}`, `{"uriTemplate":"{"}`)
	f.Add("a/b", `{"name":"é","name":"y"}`, "a", `[`, `{"uri":"mcp-gateway://a/b"}`, `{"uriTemplate":"mcp-gateway://{x}"}`)
	f.Fuzz(func(t *testing.T, server1, tool1, server2, tool2, resource, template string) {
		if server1 >= server2 || server1 == "" { // the empty name is the gateway's own (contract C4)
			return
		}
		for _, raw := range []string{tool1, tool2, resource, template} {
			if !wire.Valid([]byte(raw)) {
				return
			}
		}
		listings := []*listing{
			{server: server1, tools: [][]byte{[]byte(tool1), []byte(tool2), []byte(tool1)}, resources: [][]byte{[]byte(resource)}, templates: [][]byte{[]byte(template)}},
			{server: server2, tools: [][]byte{[]byte(tool2), []byte(tool1)}, prompts: [][]byte{[]byte(tool1)}, resources: [][]byte{[]byte(resource)}, templates: [][]byte{[]byte(template)}},
		}
		g := newGiven()
		first, _ := build(&listing{}, listings, g)
		checkTable(t, first, listings)
		second, _ := build(&listing{}, listings, g)
		if !slices.Equal(exposedTools(first), exposedTools(second)) {
			t.Errorf("%q became %q", exposedTools(first), exposedTools(second))
		}
		for _, l := range listings {
			for _, raw := range l.resources {
				uri, ok := wire.GetString(raw, "uri")
				if !ok {
					continue
				}
				if server, own, known := first.resource(first.exposedURI(l.server, uri)); !known || server != l.server || own != uri {
					t.Errorf("%q of %q leads to %q of %q", uri, l.server, own, server)
				}
			}
		}
	})
}
