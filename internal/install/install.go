// Package install turns a launch plan into a process that can be started: it finds launchers, clones
// repositories and runs install commands. It alone writes below the servers' folder.
package install

import (
	"context"
	"log/slog"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/process"
)

// Options are what New takes.
type Options struct {
	Host      *process.Host
	Dir       string   // the servers' folder
	BaseEnv   []string // the environment that the gateway was started in
	GitHubURL string   // empty means https://github.com
	Log       *slog.Logger
	Progress  func(server, line string) // lines of install commands; may be nil
}

// Installer prepares servers.
type Installer struct{ o Options }

// New makes an installer.
func New(o Options) *Installer { return &Installer{o: o} }

// Prepare does everything that has to be done before the server can be started. Its errors are *fault.Fault.
func (i *Installer) Prepare(ctx context.Context, server string, l catalog.Launch) (process.Spec, error) {
	return process.Spec{}, &fault.Fault{Server: server, Cause: fault.BadConfig}
}
