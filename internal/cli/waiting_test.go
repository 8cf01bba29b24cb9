package cli

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server's words must not steer the terminal.
func TestProgressText(t *testing.T) {
	for want, p := range map[string]mcp.ProgressNotificationParams{
		"progress: 3":                  {Progress: 3},
		"progress: 1.5 of 10":          {Progress: 1.5, Total: 10},
		"progress: 2 of 4: half there": {Progress: 2, Total: 4, Message: "half\x1b[2J\nthere"},
	} {
		if got := progressText(&p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
