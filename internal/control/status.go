// Package control is the operator's side of a running gateway: an HTTP API by which it is read, extended and
// signed in, and the command line's client of it. Over TCP the bearer token protects it; over the unix
// socket, the file mode. openapi.json describes it. The gateway itself is behind the interface Backend.
package control

import "time"

// The states of a gateway.
const (
	StateStarting   = "starting"
	StateReady      = "ready"
	StateDegraded   = "degraded" // it serves, and at least one server does not
	StateStopping   = "stopping"
	StateFailed     = "failed"
	StateStopped    = "stopped"     // the program runs, and its gateway can be started again
	StateNotRunning = "not_running" // said by the command line, never by a gateway
)

// ServerSignInRequired is the state of a remote server that waits for a user's sign-in.
const ServerSignInRequired = "sign_in_required"

// Status is a gateway as it is at one moment.
type Status struct {
	State         string         `json:"state"`
	URL           string         `json:"url"`
	PID           int            `json:"pid"`
	UptimeSeconds float64        `json:"uptime_seconds"`
	Servers       []ServerStatus `json:"servers"`
	Tools         int            `json:"tools"`
}

// ServerStatus is one server as it is at one moment.
type ServerStatus struct {
	Name         string    `json:"name"`
	State        string    `json:"state"`
	PID          int       `json:"pid"` // 0 when no process runs
	Restarts     int       `json:"restarts"`
	Tools        int       `json:"tools"`
	LastError    string    `json:"last_error"`
	SkippedLines int64     `json:"skipped_lines"` // lines on its stdout that were no messages
	Since        time.Time `json:"since"`         // when it got into this state
}

// Tool is one exposed tool.
type Tool struct {
	Name         string `json:"name"` // as clients see it
	OriginalName string `json:"original_name"`
	Server       string `json:"server"`
	Description  string `json:"description"`
}

// settled tells whether nothing is under way that a waiting caller would wait for: a gateway that was stopped
// does not become ready by itself.
func (s Status) settled() bool {
	return s.State == StateReady || s.State == StateDegraded || s.State == StateFailed || s.State == StateStopped
}
