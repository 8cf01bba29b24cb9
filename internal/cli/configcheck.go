package cli

import (
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
)

func newConfigCommand(a *app) *cobra.Command {
	return group(a, "config", "Work on a configuration", newConfigCheckCommand(a))
}

type configCheckOptions struct {
	*app
	source configSource
}

func newConfigCheckCommand(a *app) *cobra.Command {
	o := &configCheckOptions{app: a}
	cmd := &cobra.Command{
		Use:   "check [--config JSON | --config-file FILE | -]",
		Short: "Check a configuration and show what it would run, without starting anything",
		Long: `Check a configuration and show what it would run, without starting anything.

Every problem is printed, not only the first. Values of secrets and of environment variables are shown
as stars.`,
		Args: configArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return runConfigCheck(cmd, o, args) },
	}
	o.source.bind(cmd)
	return cmd
}

// checkedServer is a server as "config check" shows it.
type checkedServer struct {
	Name string   `json:"name"`
	Kind string   `json:"kind"`
	Runs string   `json:"runs"`
	Dir  string   `json:"dir"`
	Envs []string `json:"envs"` // the names
}

// runConfigCheck shows what a configuration would run.
func runConfigCheck(cmd *cobra.Command, o *configCheckOptions, args []string) error {
	data, err := o.source.read(cmd, args, o.app)
	if err != nil {
		return err
	}
	checked, _, err := checkConfig(data, o.paths())
	if err != nil {
		return err
	}
	servers := []checkedServer{}
	for _, server := range checked.Servers {
		servers = append(servers, o.show(server))
	}
	if o.global.json {
		return writeJSON(o.Out, map[string]any{"servers": servers, "warnings": append([]string{}, checked.Warnings...)})
	}
	t := table{header: []string{"SERVER", "KIND", "RUNS"}}
	for _, server := range servers {
		t.add(server.Name, server.Kind, server.Runs)
	}
	if err := t.write(o.Out, o.outWidth()); err != nil {
		return err
	}
	_, err = io.WriteString(o.Err, warningText(checked.Warnings, secret.NewScrubber(checked.Secrets())))
	return err
}

func (o *configCheckOptions) show(server config.Server) checkedServer {
	plan := server.Launch.WithState(filepath.Join(o.paths().Servers(), "state", server.Name))
	return checkedServer{Name: server.Name, Kind: string(plan.Kind), Runs: gateway.LaunchText(plan), Dir: plan.Dir,
		Envs: append([]string{}, slices.Sorted(maps.Keys(plan.Env))...)}
}
