package control_test

import (
	"log/slog"
	"net"
	"testing"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/control/controltest"
	"mcp-gateway/internal/httpd"
	"mcp-gateway/internal/mcptest"
)

// Answers are as described, whatever is asked. The gateway behind the API keeps state but starts nothing.
func TestAnswersAreAsDescribed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const token = "6f1f0c3e-5a52-4b0e-9b9f-0d0f6a3f7a11"
	door := httpd.New(httpd.Options{Token: token, Control: control.Handler(controltest.New()), Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- door.Serve(t.Context(), l) }()
	defer func() {
		door.Shutdown(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	mcptest.CheckAPI(t, "http://"+l.Addr().String(), token)
}
