package gateway

import (
	"context"
	"errors"
	"testing"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/fault"
)

// A session of its own that ends while its server is being installed for another one does not wait for that.
func TestWaitForAnotherInstallEnds(t *testing.T) {
	p := &preparation{server: config.Server{Name: "x"}, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	ended := errors.New("the session has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	_, err := p.get(ctx)
	var failed *fault.Fault
	if !errors.As(err, &failed) || failed.Server != "x" || failed.Cause != fault.InstallFailed || !errors.Is(err, ended) {
		t.Errorf("error %v", err)
	}
}
