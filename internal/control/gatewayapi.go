package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// getGateway answers at once, or with ?wait= when the gateway is ready. Who waits wants it ready: failed
// and expired are errors then.
func (a *api) getGateway(q request) (answer, error) {
	wait, waits, err := q.wait()
	if err != nil {
		return answer{}, err
	}
	var g Gateway
	settled := func() bool {
		g, err = a.b.Gateway()
		return err != nil || g.State != GatewayProvisioning
	}
	in := settled() || waits && a.until(q.Context(), wait, settled)
	switch {
	case err != nil:
		return answer{}, err
	case waits && g.State == GatewayFailed:
		return answer{}, a.notReady(FailedPrecondition, failureText(g), g.Failure)
	case waits && !in:
		return answer{}, a.notReady(DeadlineExceeded, fmt.Sprintf("the gateway is still being started after %s", wait), nil)
	}
	return ok(shown(g)), nil
}

func failureText(g Gateway) string {
	if g.Failure == nil || g.Failure.Message == "" {
		return "the gateway could not be started"
	}
	return g.Failure.Message
}

// notReady is the error of a wait, with what became of the servers.
func (a *api) notReady(code Code, message string, failure *Error) *Error {
	e := &Error{Code: code, Message: message}
	reported := false
	if failure != nil {
		e.Details = failure.Details
		for _, detail := range failure.Details {
			var kind struct {
				Type string `json:"@type"`
			}
			reported = reported || json.Unmarshal(detail, &kind) == nil && kind.Type == TypeConfigurationReport
		}
	}
	if !reported {
		e.Details = append(e.Details[:len(e.Details):len(e.Details)], Detail(TypeConfigurationReport, a.currentReport()))
	}
	return e
}

// shown is a gateway with its lists as lists.
func shown(g Gateway) Gateway {
	if g.Servers == nil {
		g.Servers = []ServerRef{}
	}
	return g
}

const lookInterval = time.Second // between looks at what changes without being told, as an expiry

// until looks until what it looks at has settled; false where the time is over or the caller has gone.
func (a *api) until(ctx context.Context, wait time.Duration, settled func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		changed := a.b.Changed() // taken before the look, so that no change is missed
		if settled() {
			return true
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return settled()
		}
	}
}

// startGateway answers 202 while the gateway is being started, else 200.
func (a *api) startGateway(q request) (answer, error) {
	var start StartRequest
	err := q.read(
		field{name: "servers", read: texts(&start.Servers)},
		field{name: "static", read: boolean(&start.Static)},
		field{name: "gatewayUrl", read: address(&start.GatewayURL)},
	)
	if err != nil {
		return answer{}, err
	}
	if start.GatewayURL != nil && len(start.Servers) > 0 {
		return answer{}, badRequest([]Violation{{"servers", "has to be empty beside gatewayUrl: a shared gateway has its own servers", invalid}})
	}
	g, err := a.b.StartGateway(q.Context(), start)
	if err != nil {
		return answer{}, err
	}
	got := ok(shown(g))
	if g.State == GatewayProvisioning {
		got.status = http.StatusAccepted
	}
	return got, nil
}

func (a *api) stopGateway(q request) (answer, error) {
	if err := q.readNothing(); err != nil {
		return answer{}, err
	}
	return ok(struct{}{}), a.b.StopGateway(q.Context())
}

func (a *api) report(request) (answer, error) {
	if _, err := a.b.Gateway(); err != nil {
		return answer{}, err
	}
	return ok(a.currentReport()), nil
}

func (a *api) currentReport() ConfigurationReport {
	report := a.b.Report()
	if report.Servers == nil {
		report.Servers = []ConfiguredServer{}
	}
	return report
}

// added is the answer to an add (AddMcpGatewayServerResponse).
type added struct {
	Server ServerRef `json:"server"`
}

func (a *api) addServer(q request) (answer, error) {
	var add AddRequest
	err := q.read(
		field{name: "server", required: true, read: text(&add.Server)},
		field{name: "registration", read: object(&add.Registration)},
	)
	if err != nil {
		return answer{}, err
	}
	server, err := a.b.AddServer(q.Context(), add)
	if err != nil {
		return answer{}, err
	}
	return ok(added{server}), nil
}

func (a *api) removeServer(q request) (answer, error) {
	return ok(struct{}{}), a.b.RemoveServer(q.Context(), q.server)
}

func (a *api) restartServer(q request) (answer, error) {
	if err := q.readNothing(); err != nil {
		return answer{}, err
	}
	if err := a.b.RestartServer(q.Context(), q.server); err != nil {
		return answer{}, err
	}
	return a.getServer(q)
}

// serverList is all live servers.
type serverList struct {
	Servers []LiveServer `json:"servers"`
}

func (a *api) listServers(request) (answer, error) {
	if _, err := a.b.Gateway(); err != nil {
		return answer{}, err
	}
	return ok(serverList{liveServers(a.b.Status(), a.b.Report())}), nil
}

func (a *api) getServer(q request) (answer, error) {
	if _, err := a.b.Gateway(); err != nil {
		return answer{}, err
	}
	for _, server := range liveServers(a.b.Status(), a.b.Report()) {
		if server.Name != q.server {
			continue
		}
		definition, err := a.b.Definition(server.Name)
		if err == nil {
			server.Definition = &definition
		}
		return ok(server), nil
	}
	return answer{}, notFound("there is no server %.200q", strings.ToValidUTF8(q.server, "\uFFFD"))
}

func (a *api) openAPI(request) (answer, error) { return ok(json.RawMessage(description)), nil }
