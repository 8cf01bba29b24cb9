package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/control"
)

type serversAddOptions struct {
	*app
	source configSource
}

const serversAddLong = `Add a server to the running gateway, and wait until it is ready.

NAME alone is a server of the catalogue, or one that the gateway has known before. Anything else is
defined as in the configuration, by an object of that one name:

  mcp-gateway servers add time
  mcp-gateway servers add mine --config '{"mine": {"command": "node", "args": ["server.js"]}}'

One that is there already is left as it is. One that does not start stays listed as failed, and can be
added again. A remote server may want a sign-in first: "mcp-gateway servers signin NAME".`

func newServersAddCommand(a *app) *cobra.Command {
	o := &serversAddOptions{app: a}
	cmd := &cobra.Command{
		Use:               "add NAME [--config JSON | --config-file FILE]",
		Short:             "Add a server to the running gateway",
		Long:              serversAddLong,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeCatalog,
		RunE:              func(cmd *cobra.Command, args []string) error { return runServersAdd(cmd, o, args[0]) },
	}
	cmd.Flags().StringVar(&o.source.inline, "config", "", "define the server by this `JSON`; - reads standard input")
	cmd.Flags().StringVar(&o.source.file, "config-file", "", "read that from `FILE`; - is standard input")
	cmd.MarkFlagFilename("config-file", "json")
	return cmd
}

// runServersAdd adds a server, and says what it waits for where it does.
func runServersAdd(cmd *cobra.Command, o *serversAddOptions, name string) error {
	registration, err := o.registration(cmd, name)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	defer o.waitingForServer(name)()
	if _, err := o.control().AddServer(ctx, control.AddRequest{Server: name, Registration: registration}); err != nil {
		return advise(err, name, "\"mcp-gateway catalog search WORD\" finds servers, and --config JSON defines another")
	}
	return o.showAfter(ctx, name)
}

// registration is the definition that was given, nil for none.
func (o *serversAddOptions) registration(cmd *cobra.Command, name string) (json.RawMessage, error) {
	if !cmd.Flags().Changed("config") && !cmd.Flags().Changed("config-file") {
		return nil, nil
	}
	data, err := o.source.read(cmd, nil, o.app)
	if err != nil {
		return nil, err
	}
	registration, fault := document.Check(data)
	if fault != nil {
		return nil, badConfig(fmt.Errorf("read the definition: %w", fault), "")
	}
	if members, ok := document.Object(registration); ok && (len(members) != 1 || members[0].Name != name) {
		return nil, badConfig(fmt.Errorf("add server %q: the definition must name %q and nothing else", name, name),
			fmt.Sprintf("the form is '{%q: {…}}'", name))
	}
	return registration, nil
}

// waitingForServer tells a person why a start takes long.
func (a *app) waitingForServer(name string) (done func()) {
	return a.waiting("waiting for server %q, which may be installed first; its lines: mcp-gateway logs -f --server %s", name, shellQuote(name))
}

// showAfter tells a script how the server is now, and a person only what is left to do.
func (a *app) showAfter(ctx context.Context, name string) error {
	server, err := a.control().Server(ctx, name)
	if err != nil {
		return err
	}
	row := newServerRow(server)
	if a.global.json {
		return writeJSON(a.Out, row)
	}
	if row.State == control.ServerSignInRequired {
		fmt.Fprintf(a.Err, "server %q waits for a sign-in: mcp-gateway servers signin %s\n", name, shellQuote(name))
	}
	return nil
}

func newServersRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a server from the running gateway",
		Long: `Remove a server from the running gateway.

Its tools go at once, its calls in flight end with an error, its processes end.`,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.control().RemoveServer(cmd.Context(), args[0]); err != nil || !a.global.json {
				return advise(err, args[0], listsServers)
			}
			return writeJSON(a.Out, map[string]any{"removed": true, "name": args[0]})
		},
	}
}

func newServersRestartCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart a server now",
		Long: `Restart a server now, and wait until it is ready.

Its calls in flight end with an error. Failures before are forgotten, and with them the wait until the next
try.`,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeOneServer,
		RunE: func(cmd *cobra.Command, args []string) error {
			defer a.waitingForServer(args[0])()
			if _, err := a.control().RestartServer(cmd.Context(), args[0]); err != nil {
				return advise(err, args[0], listsServers)
			}
			return a.showAfter(cmd.Context(), args[0])
		},
	}
}
