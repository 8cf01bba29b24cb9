// Package controltest is a gateway that starts nothing and keeps its state in memory: what the control
// side's API is about, for tests of both its ends.
package controltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/control"
)

// Memory is such a gateway. It knows the servers "time", "mail" and "github/o/r", of which the last two are
// remote and want a sign-in, and "broken", which never starts.
type Memory struct {
	mu         sync.Mutex
	gateway    *control.Gateway
	report     control.ConfigurationReport
	known      map[string]control.ServerType // what can be added
	signIns    map[string]*control.Authorization
	attempts   int
	changed    chan struct{}
	generation int
}

var _ control.Backend = (*Memory)(nil)

const broken = "broken" // the server that never starts

// New makes a gateway that is ready, with "time" in it.
func New() *Memory {
	m := &Memory{changed: make(chan struct{}), signIns: map[string]*control.Authorization{},
		known: map[string]control.ServerType{"time": control.TypeStdio, broken: control.TypeStdio, "mail": control.TypeRemote, "github/o/r": control.TypeRemote}}
	m.begin(control.StartRequest{Servers: []string{"time"}})
	return m
}

// Starting makes a gateway that is still being started.
func Starting() *Memory {
	m := New()
	m.gateway.State, m.gateway.URL = control.GatewayProvisioning, ""
	m.report.Complete, m.report.Servers[0].Outcome = false, control.OutcomePending
	return m
}

// Settle ends the start: the gateway is ready, or has failed.
func (m *Memory) Settle(state control.GatewayState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := *m.gateway
	g.State = state
	if state == control.GatewayFailed {
		g.Failure = control.Errorf(control.FailedPrecondition, `server "time" did not start`)
		m.report.Servers[0].Outcome, m.report.Servers[0].Reason = control.OutcomeFailed, "exit status 1"
	} else {
		g.URL = "http://127.0.0.1:50005/mcp"
	}
	m.gateway = &g
	m.tell()
}

// begin makes the gateway anew. It is called before there is anybody else, or under mu.
func (m *Memory) begin(q control.StartRequest) {
	m.gateway = &control.Gateway{Name: "sandboxes/sb-1/mcp-gateway", UID: "g1", State: control.GatewayReady, URL: "http://127.0.0.1:50005/mcp"}
	m.report = control.ConfigurationReport{Mode: control.ModeDynamic, Complete: true}
	if q.Static {
		m.report.Mode = control.ModeStatic
	}
	if q.GatewayURL != nil {
		m.report.Mode = control.ModeAttached
	}
	for _, name := range q.Servers {
		m.add(name, control.OutcomeApplied, "")
	}
	m.tell()
}

func (m *Memory) tell() {
	m.generation++
	m.report.Generation = fmt.Sprint("g-", m.generation)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Memory) add(name string, outcome control.Outcome, reason string) control.ServerRef {
	ref := control.ServerRef{Name: name, Type: m.known[name]}
	m.gateway.Servers = append(m.gateway.Servers, ref)
	m.report.Servers = append(m.report.Servers, control.ConfiguredServer{Server: ref, Outcome: outcome, Reason: reason})
	m.report.Complete = m.report.Complete && outcome == control.OutcomeApplied
	return ref
}

func (m *Memory) find(name string) (control.ServerRef, bool) {
	if m.gateway != nil {
		for _, server := range m.gateway.Servers {
			if server.Name == name {
				return server, true
			}
		}
	}
	return control.ServerRef{}, false
}

// Sandbox implements control.Backend.
func (m *Memory) Sandbox() string { return "sb-1" }

// Status implements control.Backend.
func (m *Memory) Status() control.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := control.Status{State: control.StateReady, PID: 7, URL: "http://127.0.0.1:50005/mcp", Tools: 2}
	for _, server := range m.report.Servers {
		if server.Outcome == control.OutcomeApplied && server.Server.Type == control.TypeStdio {
			s.Servers = append(s.Servers, control.ServerStatus{Name: server.Server.Name, State: "ready", PID: 8, Tools: 2,
				Since: time.Date(2026, 1, 2, 4, 4, 5, 123456789, time.FixedZone("", 3600))})
		} else if server.Outcome == control.OutcomeApplied {
			s.Servers = append(s.Servers, control.ServerStatus{Name: server.Server.Name, State: "sign_in_required"})
		}
	}
	return s
}

// Tools implements control.Backend.
func (m *Memory) Tools() []control.Tool {
	return []control.Tool{{Name: "now", OriginalName: "now", Server: "time"}}
}

// Stop implements control.Backend: there is no program to end.
func (m *Memory) Stop(context.Context) {}

// Changed implements control.Backend.
func (m *Memory) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Gateway implements control.Backend.
func (m *Memory) Gateway() (control.Gateway, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gateway == nil {
		return control.Gateway{}, control.Errorf(control.NotFound, "there is no gateway")
	}
	return *m.gateway, nil
}

// Report implements control.Backend.
func (m *Memory) Report() control.ConfigurationReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report
}

// Definition implements control.Backend.
func (m *Memory) Definition(name string) (control.Definition, error) {
	return control.Definition{Kind: "command", Runs: "server " + name, Envs: []string{"KEY"}, Headers: []string{}}, nil
}

// StartGateway implements control.Backend.
func (m *Memory) StartGateway(_ context.Context, q control.StartRequest) (control.Gateway, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gateway != nil {
		reused := *m.gateway
		reused.Reused = true
		for _, name := range q.Servers {
			if _, there := m.find(name); !there {
				return control.Gateway{}, control.Errorf(control.FailedPrecondition, "the gateway runs without server %q", name)
			}
		}
		return reused, nil
	}
	for _, name := range q.Servers {
		if m.known[name] == "" {
			return control.Gateway{}, control.Errorf(control.NotFound, "there is no server %q", name)
		}
	}
	m.begin(q)
	return *m.gateway, nil
}

// StopGateway implements control.Backend.
func (m *Memory) StopGateway(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gateway = nil
	m.report = control.ConfigurationReport{Mode: control.ModeDynamic}
	m.tell()
	return nil
}

// AddServer implements control.Backend.
func (m *Memory) AddServer(_ context.Context, q control.AddRequest) (control.ServerRef, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gateway == nil || m.report.Mode == control.ModeAttached {
		return control.ServerRef{}, control.Errorf(control.FailedPrecondition, "the gateway takes no servers")
	}
	if ref, there := m.find(q.Server); there {
		return ref, nil
	}
	if q.Registration != nil {
		var entries map[string]json.RawMessage
		if json.Unmarshal(q.Registration, &entries) != nil || len(entries) != 1 || entries[q.Server] == nil {
			return control.ServerRef{}, control.Errorf(control.FailedPrecondition, "the registration does not define %q alone", q.Server)
		}
		m.known[q.Server] = control.TypeStdio
	}
	if m.known[q.Server] == "" {
		return control.ServerRef{}, control.Errorf(control.NotFound, "there is no server %q", q.Server)
	}
	defer m.tell()
	if q.Server == broken {
		m.add(broken, control.OutcomeFailed, "exit status 1")
		return control.ServerRef{}, control.Errorf(control.FailedPrecondition, "server %q: exit status 1", broken)
	}
	return m.add(q.Server, control.OutcomeApplied, ""), nil
}

// RemoveServer implements control.Backend.
func (m *Memory) RemoveServer(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.find(name); !there {
		return control.Errorf(control.NotFound, "there is no server %q", name)
	}
	m.gateway.Servers = slices.DeleteFunc(slices.Clone(m.gateway.Servers), func(s control.ServerRef) bool { return s.Name == name })
	m.report.Servers = slices.DeleteFunc(slices.Clone(m.report.Servers), func(s control.ConfiguredServer) bool { return s.Server.Name == name })
	m.tell()
	return nil
}

// RestartServer implements control.Backend.
func (m *Memory) RestartServer(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.find(name); !there {
		return control.Errorf(control.NotFound, "there is no server %q", name)
	}
	if name == broken {
		return control.Errorf(control.FailedPrecondition, "server %q: exit status 1", broken)
	}
	return nil
}

var began = time.Date(2026, 1, 2, 4, 4, 5, 123456789, time.FixedZone("", 3600))

// Authorize implements control.Backend.
func (m *Memory) Authorize(_ context.Context, server, ifMatch string, q control.AuthorizeRequest) (control.Authorization, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.signIns[server]
	switch {
	case m.known[server] == "":
		return control.Authorization{}, control.Errorf(control.NotFound, "there is no server %q", server)
	case m.known[server] != control.TypeRemote:
		return control.Authorization{}, control.Errorf(control.FailedPrecondition, "server %q needs no sign-in", server)
	case ifMatch != "" && (a == nil || a.ETag != ifMatch):
		return control.Authorization{}, control.ETagMismatch("")
	case a != nil && (a.Status == control.AuthorizationPending || a.Status == control.AuthorizationAuthorized && !q.ForceReauth):
		return *a, nil
	}
	m.attempts++
	a = &control.Authorization{
		Name: control.AuthorizationName(server), Server: control.ServerName(server), UID: fmt.Sprint("a", m.attempts),
		Status: control.AuthorizationPending, AuthorizationURL: fmt.Sprintf("https://as.example/authorize?state=s%d&x=<y>", m.attempts),
		CreatedAt: began, UpdatedAt: began, ExpiresAt: began.Add(10 * time.Minute), ETag: fmt.Sprintf(`"a%d-1"`, m.attempts),
	}
	m.signIns[server] = a
	m.tell()
	return *a, nil
}

// Authorization implements control.Backend.
func (m *Memory) Authorization(server string) (control.Authorization, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.signIns[server]; a != nil {
		return *a, nil
	}
	return control.Authorization{}, control.Errorf(control.NotFound, "nobody has signed in to %q; known are %s", server,
		strings.Join(slices.Sorted(maps.Keys(m.known)), ", "))
}

// SubmitCode implements control.Backend.
func (m *Memory) SubmitCode(_ context.Context, server string, q control.CodeRequest) (control.Authorization, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.signIns[server]
	if a == nil || a.Status != control.AuthorizationPending || q.State != strings.Replace(a.UID, "a", "s", 1) {
		return control.Authorization{}, control.Errorf(control.FailedPrecondition, "the state belongs to no pending sign-in")
	}
	ended := *a
	ended.AuthorizationURL, ended.ExpiresAt, ended.Status = "", time.Time{}, control.AuthorizationAuthorized
	ended.ETag = strings.Replace(a.ETag, "-1", "-2", 1)
	if q.Error != "" {
		ended.Status = control.AuthorizationFailed
		ended.Failure = control.Errorf(control.PermissionDenied, "the sign-in was refused")
	}
	m.signIns[server] = &ended
	m.tell()
	return ended, nil
}
