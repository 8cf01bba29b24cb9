package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/telemetry"
)

type logsOptions struct {
	*app
	follow bool
	server string
	lines  int
}

func newLogsCommand(a *app) *cobra.Command {
	o := &logsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log: the gateway's own lines and what servers wrote to standard error",
		Args:  none,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runLogs(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with what is written from now on")
	flags.StringVar(&o.server, "server", "", "show the lines of the server `NAME` alone")
	flags.IntVarP(&o.lines, "lines", "n", 100, "begin with the last `N` lines; -1 means all")
	cmd.RegisterFlagCompletionFunc("server", a.completeServers)
	return cmd
}

// runLogs copies the end of the log file to standard output.
func runLogs(ctx context.Context, o *logsOptions) error {
	path := o.paths().Log()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !o.follow {
		return &statedError{verdict: verdict{exit: exitNotRunning, code: "no_log"},
			err: fmt.Errorf("there is no log at %q: no gateway has run here", path)}
	}
	out := &countingWriter{Writer: o.Out}
	if err := telemetry.Tail(ctx, path, o.server, o.follow, o.lines, out); err != nil {
		return err
	}
	if out.written == 0 && o.server != "" && o.lines != 0 {
		fmt.Fprintf(o.Err, "no line of a server %q in %s\n", o.server, path)
	}
	return nil
}

// countingWriter knows whether anything was written.
type countingWriter struct {
	io.Writer
	written int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.written += n
	return n, err
}
