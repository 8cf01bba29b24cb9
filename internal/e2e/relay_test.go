package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
)

// TestMessagesPassByteForByte sends and receives integers of 20 digits, keys in odd order and
// unknown fields.
func TestMessagesPassByteForByte(t *testing.T) {
	r := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil})).openRaw(t)

	const params = `{"zz":[{"b":1,"a":12345678901234567890}], "arguments" : {"z":12345678901234567890,"a":1.0,"e":1E+2,"é":"\u00e9 \/ <&>","n":-0.0},"name":"raw","future":null}`
	if got := text(r.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":` + params + `}`)); got != params {
		t.Errorf("the server received\n%s\nsent was\n%s", got, params)
	}
	if got, want := r.send(request(1, "rich", "{}")), `{"jsonrpc":"2.0","id":1,"result":`+payload.RichResult+`}`; got != want {
		t.Errorf("B50: the client received\n%s\nsent was\n%s", got, want)
	}
	if got, want := r.send(request(2, "error", "{}")), `{"jsonrpc":"2.0","id":2,"error":`+payload.ErrorAnswer+`}`; got != want {
		t.Errorf("the client received\n%s\nsent was\n%s", got, want)
	}
	if list := r.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(list, payload.RichTool) {
		t.Errorf("B42: the definition of rich is not in\n%s", list)
	}
}

// TestB55_SlowCallDelaysNoOther has a call in flight that ends only after the others have been
// answered.
func TestB55_SlowCallDelaysNoOther(t *testing.T) {
	r := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil})).openRaw(t)
	gate := filepath.Join(t.TempDir(), "gate")
	slow := make(chan string, 1)
	go func() {
		answer, err := r.try(request(1, "wait_for", fmt.Sprintf(`{"path":%q}`, gate)))
		slow <- fmt.Sprint(text(answer), err)
	}()
	// received counts only once the slow call is with the server.
	r.send(request(2, "received", `{"method":"tools/call","wait":2}`))
	for _, m := range []string{request(3, "echo", "{}"), `{"jsonrpc":"2.0","id":4,"method":"ping"}`, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`} {
		if got := r.send(m); !strings.Contains(got, `"result"`) {
			t.Errorf("%s is answered by %s", m, got)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-slow; got != "it is there<nil>" {
		t.Errorf("the slow call gave %s", got)
	}
}

// TestB19_B20_KilledServer kills a server with a call in flight: that call gets an error that names
// it, the next one works, and neither a zombie nor a grandchild is left.
func TestB19_B20_KilledServer(t *testing.T) {
	g := newPlace(t).start(t, mcptest.Config(t, map[string][]string{"fake": nil, "other": {"-prefix=other."}}))
	r := g.openRaw(t)
	grandchild, err := strconv.Atoi(text(r.send(request(1, "spawn_setsid", `{"stubborn":true}`))))
	if err != nil {
		t.Fatal(err)
	}
	flying := make(chan string, 1)
	go func() {
		answer, err := r.try(request(2, "cancellable", "{}"))
		flying <- fmt.Sprint(answer, err)
	}()
	r.send(request(3, "received", `{"method":"tools/call","wait":3}`))
	old := g.status(t).Servers[0].Pid
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := <-flying; !strings.Contains(got, `"error"`) || !strings.Contains(got, "fake") {
		t.Errorf("the call in flight gave %s", got)
	}
	if got := text(r.send(request(4, "whoami", "{}"))); got != "fake" {
		t.Errorf("the next call gave %s", got)
	}
	s := g.status(t)
	if s.Servers[0].Pid == old || s.Servers[0].State != "ready" {
		t.Errorf("after the restart: %+v", s)
	}
	if !gone(grandchild) {
		t.Errorf("the grandchild %d is left", grandchild)
	}
	if zombies := childrenIn(t, s.Pid, "Z"); len(zombies) > 0 {
		t.Errorf("zombies: %v", zombies)
	}
}

// childrenIn are the children of a process in a state.
func childrenIn(t *testing.T, parent int, state string) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		_, after, _ := strings.Cut(string(data), ") ")
		if strings.HasPrefix(after, fmt.Sprintf("%s %d ", state, parent)) {
			found = append(found, string(data))
		}
	}
	return found
}

// faults are servers that misbehave, each in one way; every one must be ready and its tool "echo"
// answer. The key is the server's name and the prefix of its tools.
var faults = map[string]struct {
	name  string
	flags []string
}{
	"b01":    {"B01 banner on stdout", []string{"-banner"}},
	"b02":    {"B02 notice of a package client on stdout", []string{"-print=npm notice new version"}},
	"b04":    {"B04 CR LF and blank lines", []string{"-crlf", "-blank-lines"}},
	"b07":    {"B07 characters in pieces", []string{"-bytewise", "-byte-delay=1ms"}},
	"b08":    {"B08 flood on stderr", []string{"-stderr-flood=262144"}},
	"b30":    {"B30 lists in pages", []string{"-page=1"}},
	"b34":    {"B34 tools alone, strict", []string{"-only=tools", "-exit-on-unknown-request"}},
	"b36":    {"B36 one name twice", []string{"-tool=echo", "-duplicate"}},
	"b37":    {"B37 to B44 odd schemas", []string{"-tool=echo", "-odd-schemas"}},
	"b49":    {"B49 asks for roots at start", []string{"-ask-at-start"}},
	"b51":    {"B51 dies of a second initialize", []string{"-exit-on-second-initialize"}},
	"b53":    {"B53 notifications of unknown methods", []string{"-odd-notifications=10ms"}},
	"bom":    {"byte order mark", []string{"-bom"}},
	"string": {"string ids", []string{"-string-ids"}},
	"double": {"answers twice", []string{"-double"}},
	"stray":  {"answers that nobody asked for", []string{"-stray"}},
	"batch":  {"answers in arrays", []string{"-batch"}},
}

// TestFaultyServers serves all of them through one gateway.
func TestFaultyServers(t *testing.T) {
	servers := map[string][]string{}
	for name, f := range faults {
		servers[name] = append(f.flags, "-id="+name, "-prefix="+name+".")
	}
	g := newPlace(t).start(t, mcptest.Config(t, servers))
	r := g.openRaw(t)
	for name, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			const args = `{"text":"“≤” 🎉"}`
			if got := text(r.send(request(1, name+".echo", args))); !strings.Contains(got, args) {
				t.Errorf("echo gave %s", got)
			}
		})
	}
	for _, c := range []struct{ name, tool, args, want string }{
		{"B03 noise in the middle", "b01.noise", "{}", "answered"},
		{"B05 a line of 5 MiB", "b01.big", `{"bytes":5242880}`, strings.Repeat("x", 5242880)},
		{"B07 characters in pieces", "b07.unicode", "{}", "“≤” ≠ 日本語 🎉"},
		{"B36 the first of two", "b36.ping", "{}", "b36/b36.ping {}"},
		{"B41 no schema", "b37.null_schema", "{}", "b37/b37.null_schema {}"},
		{"B53 one that sends more of them", "b53.odd_notification", "{}", "sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(r.send(request(1, c.tool, c.args))); got != c.want {
				t.Errorf("got %.100s", got)
			}
		})
	}
	t.Run("lists", func(t *testing.T) { listsOfFaultyServers(t, r) })
}

func listsOfFaultyServers(t *testing.T, r *raw) {
	answer := r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct {
			Tools []struct{ Name, Description string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	var order []string
	pings := 0
	for _, tool := range list.Result.Tools {
		server, name, _ := strings.Cut(tool.Name, ".")
		if count[server]++; count[server] == 1 {
			order = append(order, server)
		}
		if server == "b36" && name == "ping" {
			pings++
			if tool.Description != "The first of two." {
				t.Errorf("B36: the one kept is %q", tool.Description)
			}
		}
	}
	if pings != 1 {
		t.Errorf("B36: ping is listed %d times", pings)
	}
	if count["b30"] != count["b01"] {
		t.Errorf("B30: %d tools in pages, %d without", count["b30"], count["b01"])
	}
	if count["b37"] != len(payload.OddTools)+1 {
		t.Errorf("B37 to B44: %d tools are listed of %d", count["b37"], len(payload.OddTools)+1)
	}
	for _, name := range []string{"refs", "root_one_of", "additional", "additional_typed"} {
		def := strings.Replace(payload.OddTools[name], `"name":"`, `"name":"b37.`, 1)
		if !strings.Contains(answer, def) {
			t.Errorf("B37, B38, B44: %s is not listed as it is", name)
		}
	}
	if !slices.IsSorted(order) {
		t.Errorf("B28: servers are listed in the order %v", order)
	}
}
