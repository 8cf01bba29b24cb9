package control

import (
	"context"
	"net/http"
	"time"
)

// The command line's own operations: their JSON is what its commands print.

// waitInterval is how often a waiting request looks at the status, of which not every change is told.
const waitInterval = 20 * time.Millisecond

// status answers at once, or with ?wait= when the gateway has settled, at the latest after that time.
func (a *api) status(q request) (answer, error) {
	wait, _, err := q.wait()
	if err != nil {
		return answer{}, err
	}
	return ok(await(q.Context(), a.b, wait)), nil
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

// await returns the status as soon as the gateway has settled, or the time is over.
func await(ctx context.Context, b Backend, wait time.Duration) Status {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		status := b.Status()
		if status.Servers == nil {
			status.Servers = []ServerStatus{}
		}
		if status.settled() || status.State == StateStopping { // a program that ends answers first
			return status
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return status
		}
	}
}
