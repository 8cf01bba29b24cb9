package e2e_test

import (
	"fmt"
	"testing"

	"mcp-gateway/internal/mcptest"
)

// A remote server that only lacks a sign-in does not fail the start (A4): one line says what to do, and one
// tool stands for it.
func TestStart_SignInIsNoFailure(t *testing.T) {
	as := mcptest.StartAuthorizationServer(t, nil)
	p := newPlace(t)
	t.Cleanup(func() { _, _, _ = p.command(t, "stop") })
	exit, stdout, stderr := p.shell(t, p.startLine(fmt.Sprintf(`{"far":{"url":%q}}`, mcptest.StartProtectedGo(t, as))))
	if exit != 0 || stdout != "" || stderr != "server \"far\" needs a sign-in: mcp-gateway servers signin far\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
	s := p.status(t)
	if s.State != "ready" || len(s.Servers) != 1 || s.Servers[0].State != "sign_in_required" || s.Tools != 1 {
		t.Errorf("status %+v", s)
	}
}
