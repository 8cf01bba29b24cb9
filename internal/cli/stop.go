package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
)

type stopOptions struct {
	*app
	timeout time.Duration
}

func newStopCommand(a *app) *cobra.Command {
	o := &stopOptions{app: a}
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "End the running gateway and its servers",
		Long: `End the running gateway and its servers, and wait until they are gone.

Calls in flight get a few seconds to finish. Exit code 4 means that no gateway was running, or that it
was still there when the time was over.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStop(cmd.Context(), o) },
	}
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "wait at most `DURATION` for the end")
	return cmd
}

// goneInterval is how often the lock is looked at: the system tells nobody that a lock was given back.
const goneInterval = 20 * time.Millisecond

// runStop asks the gateway to end and waits until its lock is free: everything else goes before it.
func runStop(ctx context.Context, o *stopOptions) error {
	running, found := daemon.Running(o.paths())
	if err := o.control().Stop(ctx); err != nil {
		if errors.Is(err, control.ErrNotRunning) && found {
			return hinted(fmt.Errorf("gateway with pid %d does not answer: %w", running.PID, err),
				fmt.Sprintf("end it with: kill %d", running.PID))
		}
		return err
	}
	deadline := time.NewTimer(o.timeout)
	defer deadline.Stop()
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for {
		now, still := daemon.Running(o.paths())
		if !still || now.PID != running.PID {
			break
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return &statedError{verdict: verdict{exit: exitNotRunning, code: "timed_out",
				hint: fmt.Sprintf("end it with: kill -9 %d", running.PID)},
				err: fmt.Errorf("stop the gateway: pid %d is still there after %s", running.PID, o.timeout)}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if o.global.json {
		return writeJSON(o.Out, map[string]any{"stopped": true, "pid": running.PID})
	}
	return nil
}
