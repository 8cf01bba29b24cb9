package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
)

func exited(name string) *fault.Fault {
	return &fault.Fault{Server: name, Cause: fault.ExitedBeforeReady, Ran: "uvx mcp-server-time",
		Ended: "exit status 1", After: 312 * time.Millisecond,
		Stderr: []string{"Traceback (most recent call last):", `  File "server.py", line 3, in <module>`,
			"    import tzdata", "ModuleNotFoundError: No module named 'tzdata'"},
		Hint: `install it ahead of time with "mcp-gateway pull time"`}
}

func notFound(name string) *fault.Fault {
	return &fault.Fault{Server: name, Cause: fault.NotFound, Ran: "frobnicate --serve",
		Err:  errors.New(`find "frobnicate": not on PATH /usr/local/bin:/usr/bin:/bin`),
		Hint: "install it, or give its whole path"}
}

// A5 (issue: failure at start, told well): the text that an SDK shows, for each kind of failure.
func TestA5_FailureText(t *testing.T) {
	late := &fault.Fault{Server: "slow", Cause: fault.HandshakeTimeout, Ran: "sh -c 'sleep 99'",
		Ended: "still running", After: 55 * time.Second}
	clone := &fault.Fault{Server: "github/acme/tools", Cause: fault.CloneFailed,
		Ran: "git clone https://github.com/acme/tools", Err: errors.New("authentication required")}
	npm := &fault.Fault{Server: "npm", Cause: fault.InstallFailed, Ran: "npm install no-such", Ended: "exit status 1", After: time.Second,
		Stderr: []string{"npm error code E404", "npm error 404 Not Found - GET no-such",
			"npm error A complete log of this run can be found in: /root/.npm/_logs/x.log"}}
	node := &fault.Fault{Server: "node", Cause: fault.ExitedBeforeReady, Ran: "node x.js", Ended: "exit status 1", After: time.Second,
		Stderr: []string{"node:internal/modules/cjs/loader:1143", "  throw err;", "Error: Cannot find module '/x.js'",
			"    at Module._resolveFilename", "Node.js v20.1.0"}}
	shell := &fault.Fault{Server: "sh", Cause: fault.ExitedBeforeReady, Ran: "/bin/sh -c nope", Ended: "exit status 127",
		After: 20 * time.Millisecond, Stderr: []string{"/bin/sh: 1: nope: not found"}}
	for _, test := range []struct {
		name     string
		faults   []*fault.Fault
		total    int
		warnings []string
	}{
		{"one", []*fault.Fault{exited("time")}, 1, nil},
		{"one-of-three", []*fault.Fault{notFound("frob")}, 3, []string{`server "time": unknown property "tz" is ignored`}},
		{"several", []*fault.Fault{exited("a"), notFound("b"), late, clone}, 4, nil}, // B18, B79
		{"telling-lines", []*fault.Fault{npm, node, shell}, 3, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			golden(t, "failure/"+test.name+".txt", failureText(failedServers{test.faults, test.total, notStarted}, test.warnings, nil))
		})
	}
}

// The bound holds whatever comes in, and the first line names every server as long as names fit.
func TestA5_FailureTextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 70000)
	var faults []*fault.Fault
	var warnings []string
	for i := range 64 {
		f := exited(fmt.Sprintf("server-%02d", i))
		f.Ran, f.Hint, f.Err = "run "+long, "hint "+long, errors.New("err "+long)
		f.Stderr = append(f.Stderr, long, "\x1b[31mred\x1b[0m \x00\xff\xfe", "two\nlines")
		faults = append(faults, f)
		warnings = append(warnings, long)
	}
	for _, n := range []int{1, 2, 3, 7, 30, 63, 64} {
		text := failureText(failedServers{faults[:n], 64, notStarted}, warnings, nil)
		if len(text) >= 4096 {
			t.Errorf("%d servers: %d bytes", n, len(text))
		}
		first, _, _ := strings.Cut(text, "\n")
		for _, f := range faults[:n] {
			if !strings.Contains(first, `"`+f.Server+`"`) {
				t.Errorf("%d servers: %s is missing in %q", n, f.Server, first)
			}
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			t.Errorf("%d servers: the text has control characters or broken UTF-8", n)
		}
		failure := &startFailure{err: &gateway.StartError{Faults: faults[:n], Total: 64}, warnings: warnings}
		checkErrorJSON(t, failure.report(true).Text, "start_failed")
	}
	for i := range faults {
		faults[i].Server = strings.Repeat("é", 62) + fmt.Sprint(100+i)
	}
	text := failureText(failedServers{faults, 64, notStarted}, warnings, nil)
	if first, _, _ := strings.Cut(text, "\n"); len(text) >= 4096 || !strings.Contains(first, "and ") || !strings.HasSuffix(first, " more") {
		t.Errorf("%d bytes, first line %q", len(text), first)
	}
	checkErrorJSON(t, (&startFailure{err: &gateway.StartError{Faults: faults, Total: 64}}).report(true).Text, "start_failed")
}

func checkErrorJSON(t *testing.T, text, code string) {
	t.Helper()
	if len(text) >= 4096 || !strings.HasSuffix(text, "\n") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	text = lines[len(lines)-1]
	var object struct {
		Error struct {
			Code, Message string
			Details       map[string]any
		}
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if object.Error.Code != code || object.Error.Message == "" || object.Error.Details == nil {
		t.Errorf("error object is %+v", object.Error)
	}
}

// B75: what the configuration holds as secret is in no line of the text.
func TestB75_FailureTextIsScrubbed(t *testing.T) {
	const token = "s3cr3t-123"
	f := exited("leaky")
	f.Ran, f.Hint, f.Ended = "run --key "+token, "see "+token, token
	f.Err = errors.New("because of " + token)
	f.Stderr = []string{"TOKEN=" + token, "Error: " + token}
	failure := &startFailure{err: &gateway.StartError{Faults: []*fault.Fault{f}, Total: 1}, warnings: []string{token},
		scrub: secret.NewScrubber([]secret.Value{token})}
	for _, asJSON := range []bool{false, true} {
		if text := failure.report(asJSON).Text; strings.Contains(text, token) || !strings.Contains(text, "***") {
			t.Errorf("json %t: %s", asJSON, text)
		}
	}
	if strings.Contains(failure.Error(), token) {
		t.Error(failure.Error())
	}
}

// A7 and the other failures that are no server's.
func TestA7_OtherStartFailures(t *testing.T) {
	for _, test := range []struct {
		name, code string
		err        error
	}{
		{"already-running", "already_running", &daemon.AlreadyRunning{PID: 4711, Listen: "0.0.0.0:50005", Started: time.Now()}},
		{"port-in-use", "port_in_use", &daemon.PortInUse{Addr: "0.0.0.0:50005", PID: 42, Comm: "python3", Err: errors.New("address already in use")}},
		{"died", "gateway_died", &daemon.Died{Ended: "exit status 2", Lines: []string{"panic: boom", "goroutine 1"}}},
		{"limit", "timed_out", fmt.Errorf("wait for the gateway to be ready: %w (56s)", daemon.ErrLimit)},
	} {
		t.Run(test.name, func(t *testing.T) {
			failure := &startFailure{err: test.err, warnings: []string{"odd"}}
			text := failure.report(false).Text
			if first, _, _ := strings.Cut(text, "\n"); first != cleanLine(test.err.Error()) {
				t.Errorf("first line is %q", first)
			}
			if !strings.HasSuffix(text, "\nwarning: odd\n") {
				t.Errorf("warnings do not come last: %q", text)
			}
			if code := failure.report(false).Code; code != exitFailed {
				t.Errorf("exit code is %d", code)
			}
			checkErrorJSON(t, failure.report(true).Text, test.code)
		})
	}
}
