package gateway

import (
	"net/url"
	"slices"
	"strings"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/upstream"
)

// Gateway implements control.Backend.
func (f *fleet) Gateway() (control.Gateway, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == phaseNone || f.phase == phaseStopping {
		return control.Gateway{}, notFound("no gateway: it was stopped")
	}
	return f.gateway(), nil
}

// gateway is the resource. The caller holds mu.
func (f *fleet) gateway() control.Gateway {
	id := f.g.o.SandboxID
	if id == "" {
		id = "-"
	}
	out := control.Gateway{Name: "sandboxes/" + url.PathEscape(id) + "/mcp-gateway", UID: f.uid, Servers: f.refs(), Failure: f.failure}
	switch f.phase {
	case phaseReady:
		out.State, out.URL = control.GatewayReady, f.g.publicURL()
	case phaseFailed:
		out.State = control.GatewayFailed
	default:
		out.State = control.GatewayProvisioning
	}
	return out
}

// refs lists all that was asked for. The caller holds mu.
func (f *fleet) refs() []control.ServerRef {
	out := []control.ServerRef{}
	for _, a := range f.servers {
		out = append(out, ref(a.server))
	}
	return out
}

// Definition implements control.Backend.
func (f *fleet) Definition(name string) (control.Definition, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.find(name)
	if a == nil {
		return control.Definition{}, f.notAsked(name)
	}
	return define(a.server, f.g.o.Paths.Servers()), nil
}

// Report implements control.Backend.
func (f *fleet) Report() control.ConfigurationReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.report()
}

// report is the report. The caller holds mu.
func (f *fleet) report() control.ConfigurationReport {
	r := control.ConfigurationReport{Generation: f.generation, Mode: f.mode(), Servers: []control.ConfiguredServer{}}
	r.Complete = f.phase == phaseReady
	if r.Mode == control.ModeAttached {
		r.DormantServers = f.refs()
		return r
	}
	for _, a := range f.servers {
		r.Servers = append(r.Servers, control.ConfiguredServer{Server: ref(a.server), Outcome: a.outcome, Reason: a.reason})
		r.Complete = r.Complete && a.outcome == control.OutcomeApplied
	}
	return r
}

// rows completes the live servers by those that were asked for and do not live.
func (f *fleet) rows(live []control.ServerStatus) []control.ServerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.current() {
		if slices.ContainsFunc(live, func(s control.ServerStatus) bool { return s.Name == a.server.Name }) {
			continue
		}
		row := control.ServerStatus{Name: a.server.Name, State: upstream.StateStopped, Since: a.since}
		switch {
		case a.outcome == control.OutcomeFailed:
			row.State, row.LastError = upstream.StateFailed, a.reason
		case a.outcome == control.OutcomePending && f.phase != phaseNone:
			row.State = upstream.StateStarting
		}
		live = append(live, row)
	}
	slices.SortFunc(live, func(a, b control.ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	return live
}

// state is the phase as status shows it.
func (f *fleet) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed || f.phase == phaseStopping:
		return control.StateStopping
	case f.phase == phaseReady:
		return control.StateReady
	case f.phase == phaseFailed:
		return control.StateFailed
	case f.phase == phaseNone:
		return control.StateStopped
	}
	return control.StateStarting
}
