package cli

import "github.com/spf13/cobra"

// newExitCodesTopic makes a help topic: a command without a run function, shown by "help exit-codes".
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `What the exit codes mean.

  0  done
  1  failed: a server did not start, a gateway runs already, or anything else
  2  usage or configuration: nothing was started
  3  not authorized: the token was refused, or a file may not be read
  4  not running, not ready, or waited too long
  5  the tool reported an error, or there is no such tool

"status" ends with 0 when the gateway serves (ready or degraded), and else with 4.
With --json the last line of standard error is {"error": {"code", "message", "details"}}.`,
	}
}
