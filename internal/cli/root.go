package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
)

// globalFlags are those of every command.
type globalFlags struct {
	root           string
	listen         string
	startupTimeout time.Duration
	json           bool
}

// defaultStartupTimeout leaves an SDK that waits for 60 s the time to read the reason of a failure.
const defaultStartupTimeout = 55 * time.Second

func (a *app) paths() daemon.Paths { return daemon.Paths{Root: a.global.root} }

func (a *app) control() *control.Client { return control.NewClient(a.paths().Socket()) }

const rootLong = `Start MCP servers and serve them all as one MCP endpoint.

  mcp-gateway --config '{"time": {}, "filesystem": {"paths": ["/tmp"]}}'
  mcp-gateway status

The first command returns when the endpoint, http://HOST:50005/mcp, answers with every server's
tools, or fails and says why; the gateway goes on in the background. Clients send the token of
/etc/mcp-gateway/.token as "Authorization: Bearer TOKEN". GATEWAY_ACCESS_TOKEN sets the token; without
it, one is made.

The configuration is an object, server name to properties. A server is
  "NAME": {...}                        an entry of the catalogue ("mcp-gateway catalog")
  "github/OWNER/REPO": {"runCmd": "…"} a clone; installCmd runs in it first
  "NAME": {"runCmd": "…"}              a command for /bin/sh
  "NAME": {"command": "…", "args": []} a command without a shell
  "NAME": {"url": "https://…"}         a remote server
Linux passes no argument over 128 KiB: give a larger configuration with --config-file FILE, or with -
on standard input.`

func newRootCommand(a *app) *cobra.Command {
	o := &startOptions{app: a}
	root := &cobra.Command{
		Use:               "mcp-gateway [--config JSON | --config-file FILE | -]",
		Short:             "Start MCP servers and serve them all as one MCP endpoint",
		Long:              rootLong,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              rootArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.settle(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.given(cmd, args) {
				return a.helpInstead(cmd, errors.New("neither a configuration nor a command is given"))
			}
			return runStart(cmd, o, args)
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.CompletionOptions.HiddenDefaultCmd = false

	flags := root.PersistentFlags()
	flags.StringVar(&a.global.root, "root", "", "put all of the gateway's files below `DIR`")
	flags.StringVar(&a.global.listen, "listen", "0.0.0.0:50005", "serve on this `ADDRESS`")
	flags.DurationVar(&a.global.startupTimeout, "startup-timeout", defaultStartupTimeout, "fail when the servers are not ready after `DURATION`")
	flags.BoolVar(&a.global.json, "json", false, "write JSON, also of errors (the last line of standard error)")
	fromEnvironment(flags, "root", "MCP_GATEWAY_ROOT")
	fromEnvironment(flags, "listen", "MCP_GATEWAY_LISTEN")
	fromEnvironment(flags, "startup-timeout", "MCP_GATEWAY_STARTUP_TIMEOUT")
	fromEnvironment(flags, "json", jsonVariable)
	o.bind(root)

	root.AddCommand(newServeCommand(a), newDaemonCommand(a), newStatusCommand(a), newStopCommand(a),
		newLogsCommand(a), newServersCommand(a), newToolsCommand(a), newCatalogCommand(a), newPullCommand(a), newConfigCommand(a),
		newDoctorCommand(a), newVersionCommand(a), newDemoServerCommand(a), newExitCodesTopic())
	checkHelpTopics(root)
	return finish(root)
}

// checkHelpTopics makes help on what is not there a mistake: cobra would show the help of the whole program.
func checkHelpTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
			return fmt.Errorf("there is no help on %q", strings.Join(args, " "))
		}
		return nil
	}
}

// rootArgs takes "-" for standard input and nothing else: another word was meant as a command.
func rootArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		return usage(fmt.Errorf("%s: give the configuration as --config JSON", text))
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf(": did you mean %q?", near[0])
	}
	return usage(errors.New(text))
}

// finish makes every command of the tree report wrong arguments in the same way: one line.
func finish(command *cobra.Command) *cobra.Command {
	command.SuggestionsMinimumDistance = 2
	if check := command.Args; check != nil {
		command.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var stated *statedError
			if err == nil || errors.As(err, &stated) {
				return err
			}
			return usage(err)
		}
	}
	for _, child := range command.Commands() {
		finish(child)
	}
	return command
}

// group makes a command that only holds others. Without one of them it shows its help, as a mistake.
func group(a *app, use, short string, children ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += fmt.Sprintf(": did you mean %q?", near[0])
			}
			return errors.New(text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.helpInstead(cmd, fmt.Errorf("%q needs a command", cmd.CommandPath()))
		},
	}
	command.AddCommand(children...)
	return command
}

// helpInstead shows a person the help of a command that was given nothing to do; a script gets the error.
func (a *app) helpInstead(cmd *cobra.Command, err error) error {
	if !a.global.json {
		cmd.SetOut(a.Err)
		cmd.Help()
	}
	return &statedError{verdict: verdict{exit: exitUsage, code: "usage"}, quiet: true, err: err}
}

// one takes a single argument, which is called so in the usage line.
func one(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing", name)
		case len(args) > 1:
			return fmt.Errorf("unexpected argument %q", args[1])
		}
		return nil
	}
}

// none takes no arguments.
func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

const jsonVariable = "MCP_GATEWAY_JSON"

const environmentAnnotation = "mcp-gateway-environment"

// fromEnvironment gives a flag a variable that sets it, and says so in the help. Of several the first one
// that is set counts.
func fromEnvironment(flags *pflag.FlagSet, name string, variables ...string) {
	flag := flags.Lookup(name)
	flag.Usage += " ($" + strings.Join(variables, ", $") + ")"
	flags.SetAnnotation(name, environmentAnnotation, variables)
}

// settle completes the global flags: from the environment, and with a root that stays the same for a
// daemon in another folder.
func (a *app) settle(cmd *cobra.Command) error {
	if err := applyEnvironment(cmd, a.env); err != nil {
		return err
	}
	if a.global.startupTimeout <= 0 {
		return usage(fmt.Errorf("--startup-timeout %s: a time above 0 is needed, as in 55s", a.global.startupTimeout))
	}
	if a.global.root == "" {
		return nil
	}
	root, err := filepath.Abs(a.global.root)
	if err != nil {
		return fmt.Errorf("find the root %q: %w", a.global.root, err)
	}
	a.global.root = root
	return nil
}

// applyEnvironment sets the flags that were not given from their variables.
func applyEnvironment(cmd *cobra.Command, env environment) error {
	var failed error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		for _, variable := range flag.Annotations[environmentAnnotation] {
			value := env.get(variable)
			if flag.Changed || value == "" || failed != nil {
				continue
			}
			if err := cmd.Flags().Set(flag.Name, value); err != nil {
				failed = usage(fmt.Errorf("environment variable %s=%q: %w", variable, value, err))
			}
		}
	})
	return failed
}
