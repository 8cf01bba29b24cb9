package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
)

// newDaemonCommand makes the command that the launcher runs in the background. Nobody types it.
func newDaemonCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "daemon",
		Short:  "The gateway in the background",
		Hidden: true,
		Args:   none,
		RunE:   func(cmd *cobra.Command, _ []string) error { return runDaemon(cmd.Context(), a) },
	}
}

// runDaemon takes its order from the launcher, reports once, and serves until it is told to end.
func runDaemon(ctx context.Context, a *app) error {
	ready, err := daemon.ReadyFile()
	if err != nil {
		return &statedError{verdict: verdict{exit: exitUsage, code: "usage",
			hint: `use "mcp-gateway --config JSON" or "mcp-gateway serve"`},
			err: fmt.Errorf("daemon is started by mcp-gateway itself: %w", err)}
	}
	stdin, ok := a.In.(*os.File)
	if !ok {
		return errors.New("read the order: standard input is no file")
	}
	start, err := daemon.Receive(ctx, stdin, ready)
	if err != nil {
		return err
	}
	defer start.Close()

	var given order
	if err := json.Unmarshal(start.Input(), &given); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	reported := false
	fail := func(err error, on *ground) error {
		if errors.Is(err, daemon.ErrLauncherGone) {
			return err // to the launcher, if it is there, that would be news of itself
		}
		failure := &startFailure{err: err, scrub: secret.NewScrubber(given.tokens())}
		if on != nil {
			failure.warnings, failure.scrub = on.checked.Warnings, on.scrub
		}
		return start.Report(failure.report(given.JSON))
	}
	checked, cat, err := checkConfig(given.Config, daemon.Paths{Root: given.Root})
	if err != nil {
		return fail(err, nil)
	}
	on := given.on(checked, cat)
	log, err := given.openLog(on, nil)
	if err != nil {
		return fail(err, on)
	}
	defer log.Close()
	err = gateway.Run(start.Context(), given.gatewayOptions(on, log, a.env), func(status control.Status) error {
		reported = true
		return start.Report(daemon.Report{OK: true, Text: signInText(status), Status: statusJSON(status)})
	})
	if err != nil && !reported {
		return fail(err, on)
	}
	return err
}
