package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/install"
)

// pulledServer is what was done for one server, as scripts read it.
type pulledServer struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	State   string       `json:"state"` // installed, present, nothing or failed
	Version string       `json:"version"`
	Command []string     `json:"command"` // what a start runs, before the server's own arguments
	Seconds float64      `json:"seconds"`
	Missing []string     `json:"missing"` // programs that some of its tools need
	Error   *faultDetail `json:"error,omitempty"`

	fault *fault.Fault
}

const stateFailed = "failed"

// pullProgress tells a person at a terminal what is done for which server; anybody else gets the
// results alone.
type pullProgress struct {
	out   *Streams
	show  bool
	width int // of the longest name

	mu sync.Mutex // a line at a time
}

func newPullProgress(out *Streams, servers []install.Server) *pullProgress {
	p := &pullProgress{out: out, show: out.errIsTerminal()}
	for _, s := range servers {
		p.width = max(p.width, len(s.Name))
	}
	return p
}

// say prints one line about one server.
func (p *pullProgress) say(server, deed string) {
	if !p.show {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out.Err, "%-*s  %s\n", p.width, cleanLine(server), cleanLine(deed))
}

// pull installs one server.
func (p *pullProgress) pull(ctx context.Context, installer *install.Installer, s install.Server) pulledServer {
	start := time.Now()
	row := pulledServer{Name: s.Name, Kind: string(s.Launch.Kind), Command: []string{}, Missing: []string{}}
	result, err := installer.Pull(ctx, s)
	row.Seconds = time.Since(start).Round(time.Millisecond).Seconds()
	if err != nil {
		if !errors.As(err, &row.fault) {
			row.fault = &fault.Fault{Server: s.Name, Cause: fault.InstallFailed, Err: err}
		}
		row.State = stateFailed
		clean := cleanFault(row.fault, secretsOf([]install.Server{s}))
		detail := detailOf(clean, maxStderrLines)
		row.Error = &detail
		p.say(s.Name, "failed after "+seconds(row.Seconds))
		return row
	}
	row.State, row.Version = result.State, result.Version
	row.Command = append(row.Command, result.Argv...)
	row.Missing = append(row.Missing, result.Missing...)
	p.say(s.Name, row.news())
	return row
}

// news is what happened, in a few words.
func (r pulledServer) news() string {
	text := map[string]string{
		install.StateInstalled: "installed in " + seconds(r.Seconds),
		install.StatePresent:   "is installed already",
		install.StateNothing:   "needs no install",
	}[r.State]
	if len(r.Missing) > 0 {
		text += "; some of its tools need " + strings.Join(r.Missing, ", ")
	}
	return text
}

func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }

// show prints the results.
func (o *pullOptions) show(rows []pulledServer, removed []string) error {
	if o.global.json {
		return writeJSON(o.Out, map[string]any{"servers": rows, "removed": removed})
	}
	t := table{header: []string{"SERVER", "STATE", "VERSION", "TIME"}}
	for _, row := range rows {
		t.add(row.Name, row.State, row.Version, seconds(row.Seconds))
	}
	for _, folder := range removed {
		t.add(folder, "removed", "", "")
	}
	return t.write(o.Out, o.outWidth())
}
