package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
)

type statusOptions struct {
	*app
	wait    bool
	timeout time.Duration
}

func newStatusCommand(a *app) *cobra.Command {
	o := &statusOptions{app: a}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the running gateway and its servers",
		Long: `Show the running gateway and its servers.

Exit code 0 means that it serves: its state is ready, or degraded where a server has failed since. Any
other state, and no gateway at all, is exit code 4.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until the gateway is ready or has failed, also when there is none yet")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "wait at most `DURATION`")
	return cmd
}

// runStatus shows the status and turns its state into an exit code.
func runStatus(ctx context.Context, o *statusOptions) error {
	status, err := o.ask(ctx)
	if errors.Is(err, control.ErrNotRunning) {
		status.State = control.StateNotRunning
	} else if err != nil && status.State == "" {
		return err
	}
	if o.global.json {
		if status.Servers == nil {
			status.Servers = []control.ServerStatus{}
		}
		if err := writeJSON(o.Out, status); err != nil {
			return err
		}
	} else if status.State != control.StateNotRunning {
		if err := writeStatus(o.Out, status, o.outWidth()); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if status.State == control.StateReady || status.State == control.StateDegraded {
		return nil
	}
	hint := `wait for it with "mcp-gateway status --wait"`
	if status.State == control.StateFailed {
		hint = `see "mcp-gateway logs"; "mcp-gateway stop" ends it, so that it can be started anew`
	}
	return &statedError{verdict: verdict{exit: exitNotRunning, code: "not_ready", hint: hint},
		err: fmt.Errorf("gateway is not ready: it is %s", status.State)}
}

func (o *statusOptions) ask(ctx context.Context) (control.Status, error) {
	if !o.wait {
		return o.control().Status(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	defer o.waiting("waiting for the gateway to be ready, at most %s", o.timeout)()
	status, err := o.control().Wait(waiting)
	if !errors.Is(err, context.DeadlineExceeded) {
		return status, err
	}
	if status.State == "" {
		status.State = control.StateNotRunning
	}
	return status, &statedError{verdict: verdict{exit: exitNotRunning, code: "timed_out"},
		err: fmt.Errorf("wait for the gateway to be ready: it is %s after %s", stateWords(status.State), o.timeout)}
}

func stateWords(state string) string {
	if state == control.StateNotRunning {
		return "not running"
	}
	return state
}

// writeStatus writes the gateway's own line and a row for each server: a table on a terminal of that
// width, else rows of tabs alone.
func writeStatus(w io.Writer, s control.Status, width int) error {
	if width > 0 {
		fmt.Fprintf(w, "%s  %s  pid %d, up %s, %s, %s\n", s.State, s.URL, s.PID,
			uptime(s.UptimeSeconds), count(len(s.Servers), "server"), count(s.Tools, "tool"))
	}
	t := table{header: []string{"SERVER", "STATE", "PID", "RESTARTS", "TOOLS", "LAST ERROR"}, whole: true}
	for _, server := range s.Servers {
		pid := "-"
		if server.PID != 0 {
			pid = strconv.Itoa(server.PID)
		}
		t.add(server.Name, server.State, pid, strconv.Itoa(server.Restarts), strconv.Itoa(server.Tools), server.LastError)
	}
	return t.write(w, width)
}

func uptime(seconds float64) string {
	return (time.Duration(seconds) * time.Second).String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
