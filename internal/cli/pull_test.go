package cli

import (
	"errors"
	"testing"
	"time"

	"mcp-gateway/internal/fault"
)

// D2 and A5: what a pull or a start says of installs that fail, last too long, or lack a runtime.
func TestD2_InstallFailureTexts(t *testing.T) {
	failed := &fault.Fault{Server: "memory", Cause: fault.InstallFailed, Ran: "npm install @modelcontextprotocol/server-memory@9.9.9",
		Ended: "exit status 1", After: 1200 * time.Millisecond,
		Stderr: []string{"npm error code ETARGET", "npm error notarget No matching version found for @modelcontextprotocol/server-memory@9.9.9.",
			"npm error A complete log of this run can be found in: /root/.npm/_logs/x.log"}}
	late := &fault.Fault{Server: "time", Cause: fault.InstallFailed, Ran: "uv pip install --python venv mcp-server-time==2026.10.19",
		Ended: "still running", After: 54 * time.Second, Err: errors.New("the start-up limit of 55s has passed"),
		Hint: "install it ahead of time: mcp-gateway pull time; or raise --startup-timeout"}
	old := &fault.Fault{Server: "box", Cause: fault.NotFound, Err: errors.New(`needs Node.js 22.14.0 or newer: "/usr/bin/node" is 20.20.2`),
		Hint: "install Node.js 22.14.0 or newer with npm: https://nodejs.org, or the packages nodejs and npm"}
	none := &fault.Fault{Server: "fetch", Cause: fault.NotFound,
		Err:  errors.New(`needs Python 3.10 or newer: there is none, and command "uv" not found on PATH "/usr/bin:/bin"`),
		Hint: "install uv (pip install uv), or Python 3.10 or newer with the package python3-venv"}
	for _, test := range []struct {
		name   string
		failed failedServers
	}{
		{"not-installed", failedServers{[]*fault.Fault{failed, none}, 3, notInstalled}},
		{"install-too-long", failedServers{[]*fault.Fault{late}, 1, notStarted}},
		{"missing-runtimes", failedServers{[]*fault.Fault{old, none}, 4, notStarted}},
	} {
		t.Run(test.name, func(t *testing.T) {
			golden(t, "failure/"+test.name+".txt", failureText(test.failed, nil, nil))
		})
	}
}
