// Package daemon puts the gateway into the background and keeps it single: the fixed paths, the lock
// and the pid file, the token file, and the start of the same binary in a session of its own with a
// report back to the launcher.
package daemon

import "path/filepath"

// Paths names every fixed file of a gateway. Root moves them all below one folder; an empty Root, or
// "/", means the paths of the contract.
type Paths struct{ Root string }

func (p Paths) at(fixed string) string {
	if p.Root == "" {
		return fixed
	}
	return filepath.Join(p.Root, fixed)
}

// Token is the file with the bearer token.
func (p Paths) Token() string { return p.at("/etc/mcp-gateway/.token") }

// Catalog is the file that extends or overrides the embedded catalogue.
func (p Paths) Catalog() string { return p.at("/etc/mcp-gateway/catalog.json") }

// Pid is the file with the process id of the running gateway.
func (p Paths) Pid() string { return p.at("/run/mcp-gateway.pid") }

// Lock is the file that a running gateway keeps locked.
func (p Paths) Lock() string { return p.at("/run/mcp-gateway.lock") }

// Socket is the unix socket of the control side. It may be longer than a socket address can hold:
// control.Listen and control.Client reach it all the same.
func (p Paths) Socket() string { return p.at("/run/mcp-gateway.sock") }

// Log is the log file.
func (p Paths) Log() string { return p.at("/var/log/mcp-gateway.log") }

// Servers is the folder that servers are installed into.
func (p Paths) Servers() string { return p.at("/var/lib/mcp-gateway/servers") }
