package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// The test binary is the program too: scripts run it, and so does the launcher.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"mcp-gateway": func() {
			os.Exit(Main(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ()))
		},
	})
}

// leakless fails the package when a test leaves a goroutine behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// TestScripts runs the commands as users do: each script has a root of its own and any free port.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			root := filepath.Join(e.WorkDir, "root")
			e.Setenv("MCP_GATEWAY_ROOT", root)
			e.Setenv("MCP_GATEWAY_LISTEN", "127.0.0.1:0")
			e.Setenv("HOME", e.WorkDir)
			e.Defer(func() {
				for _, root := range []string{root, filepath.Join(e.WorkDir, "shared")} {
					stop := exec.Command("mcp-gateway", "stop", "--root", root)
					stop.Env = e.Vars
					stop.Run() // most scripts have ended theirs
				}
			})
			return nil
		},
	})
}
