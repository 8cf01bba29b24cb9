package cli

import (
	"strings"
	"testing"

	"mcp-gateway/internal/control"
)

func TestTable(t *testing.T) {
	made := table{header: []string{"NAME", "DESCRIPTION"}}
	made.add("größe", "one\ntwo\tthree "+strings.Repeat("x", 40))
	made.add("b", "")
	var terminal, pipe strings.Builder
	made.write(&terminal, 40)
	made.write(&pipe, 0)
	if want := "NAME   DESCRIPTION\ngröße  one two three xxxxxxxxxxxxxxxxxx…\nb\n"; terminal.String() != want {
		t.Errorf("terminal:\n%s", terminal.String())
	}
	if want := "größe\tone two three " + strings.Repeat("x", 40) + "\nb\t\n"; pipe.String() != want {
		t.Errorf("pipe: %q", pipe.String())
	}
	var empty strings.Builder
	(&table{header: []string{"NAME"}}).write(&empty, 80)
	if empty.String() != "" {
		t.Errorf("empty: %q", empty.String())
	}
}

func TestStatusTable(t *testing.T) {
	status := control.Status{State: control.StateDegraded, URL: "http://127.0.0.1:50005/mcp", PID: 7, UptimeSeconds: 3661.9, Tools: 1,
		Servers: []control.ServerStatus{{Name: "time", State: "ready", PID: 8, Tools: 1},
			{Name: "x", State: "failed", Restarts: 3, LastError: "server \"x\" [exited_before_ready]: exit status 1"}}}
	var b strings.Builder
	if err := writeStatus(&b, status, 100); err != nil {
		t.Fatal(err)
	}
	want := `degraded  http://127.0.0.1:50005/mcp  pid 7, up 1h1m1s, 2 servers, 1 tool
SERVER  STATE   PID  RESTARTS  TOOLS  LAST ERROR
time    ready   8    0         1
x       failed  -    3         0      server "x" [exited_before_ready]: exit status 1
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
