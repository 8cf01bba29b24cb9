package control

import (
	"context"
	"net/http"
)

// The command line's own operations: their JSON is what its commands print.

// status answers at once, or with ?wait= when the gateway has settled, at the latest after that time.
func (a *api) status(q request) (answer, error) {
	wait, _, err := q.wait()
	if err != nil {
		return answer{}, err
	}
	var status Status
	a.until(q.Context(), wait, func() bool {
		status = a.b.Status()
		return status.settled() || status.State == StateStopping // a program that ends answers first
	})
	if status.Servers == nil {
		status.Servers = []ServerStatus{}
	}
	return ok(status), nil
}

func (a *api) tools(request) (answer, error) {
	return ok(append([]Tool{}, a.b.Tools()...)), nil
}

// stop ends the whole program. It goes on when the caller has gone.
func (a *api) stop(q request) (answer, error) {
	if err := q.readNothing(); err != nil {
		return answer{}, err
	}
	a.b.Stop(context.WithoutCancel(q.Context()))
	return answer{status: http.StatusAccepted, body: struct{}{}}, nil
}
