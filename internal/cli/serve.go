package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/gateway"
)

const serveLong = `Start the servers and serve them in the foreground.

The same as "mcp-gateway --config …", but the command stays: its log goes to standard error and to the
log file. SIGTERM or SIGINT lets the calls in flight finish and ends with 0; a second one ends at once.`

func newServeCommand(a *app) *cobra.Command {
	o := &startOptions{app: a}
	cmd := &cobra.Command{
		Use:   "serve [--config JSON | --config-file FILE | -]",
		Short: "Start the servers and serve them in the foreground",
		Long:  serveLong,
		Args:  configArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return runServe(cmd, o, args) },
	}
	o.bind(cmd)
	return cmd
}

// runServe runs the gateway in this process until a signal ends it.
func runServe(cmd *cobra.Command, o *startOptions, args []string) error {
	given, on, err := o.prepare(cmd, args)
	if err != nil {
		return err
	}
	failed := func(err error) error {
		return &startFailure{err: err, warnings: on.checked.Warnings, scrub: on.scrub}
	}
	log, err := given.openLog(on, o.Err)
	if err != nil {
		return failed(err)
	}
	defer log.Close()
	ctx := cmd.Context()
	served := false
	err = gateway.Run(ctx, given.gatewayOptions(on, log, o.env), func(status control.Status) error {
		served = true
		io.WriteString(o.Err, signInText(status))
		return notifyService(o.env, "READY=1")
	})
	if served {
		notifyService(o.env, "STOPPING=1")
	}
	if cause := context.Cause(ctx); !served && cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return fmt.Errorf("start the gateway: %w", cause)
	}
	if err != nil && !served {
		return failed(err)
	}
	return err
}

// notifyVariable is for this process: a server must not speak for it.
const notifyVariable = "NOTIFY_SOCKET"

// notifyService tells a service manager that started this process about its state, in the way of
// systemd: one datagram to the socket that the variable names, where a leading @ means an abstract name.
func notifyService(env environment, state string) error {
	socket := env.get(notifyVariable)
	if socket == "" {
		return nil
	}
	if strings.HasPrefix(socket, "@") {
		socket = "\x00" + socket[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
