package control

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// LiveServer is a server that was asked for, as it is at one moment (beyond the model).
type LiveServer struct {
	Name string     `json:"name"`
	Type ServerType `json:"type,omitempty"`
	// State is starting, ready, stopped, failed, signInRequired, or dormant for one that waits until another
	// gateway is detached.
	State      string      `json:"state"`
	Outcome    Outcome     `json:"outcome,omitempty"`
	PID        int         `json:"pid"` // 0 when no process runs
	Restarts   int         `json:"restarts"`
	Tools      int         `json:"tools"`
	LastError  string      `json:"lastError,omitempty"`
	Since      time.Time   `json:"since,omitzero"`       // when it got into this state
	Definition *Definition `json:"definition,omitempty"` // only where one server is read
}

// stateDormant is that of servers that were asked for before another gateway was attached.
const stateDormant = "dormant"

// unseen are the states of servers that have no process or connection yet, or none any more.
var unseen = map[Outcome]string{OutcomePending: StateStarting, OutcomeApplied: StateStopped, OutcomeFailed: StateFailed}

// liveServers joins what was asked for with what lives, sorted by name.
func liveServers(status Status, report ConfigurationReport) []LiveServer {
	all := map[string]LiveServer{}
	for _, server := range report.DormantServers {
		all[server.Name] = LiveServer{Name: server.Name, Type: server.Type, State: stateDormant}
	}
	for _, asked := range report.Servers {
		all[asked.Server.Name] = LiveServer{Name: asked.Server.Name, Type: asked.Server.Type,
			State: unseen[asked.Outcome], Outcome: asked.Outcome, LastError: asked.Reason}
	}
	for _, row := range status.Servers {
		server := all[row.Name]
		server.Name, server.State, server.PID = row.Name, camelCase(row.State), row.PID
		server.Restarts, server.Tools = row.Restarts, row.Tools
		if !row.Since.IsZero() {
			server.Since = row.Since.UTC()
		}
		if row.LastError != "" {
			server.LastError = row.LastError
		}
		all[row.Name] = server
	}
	list := make([]LiveServer, 0, len(all))
	for _, server := range all {
		list = append(list, server)
	}
	slices.SortFunc(list, func(a, b LiveServer) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// camelCase turns "sign_in_required" into the form that values have in the API.
func camelCase(s string) string {
	words := strings.Split(s, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
