package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit keeps a shell from hanging on a gateway that does not answer.
const completionLimit = 2 * time.Second

type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeServers offers the servers of the running gateway.
func (a *app) completeServers(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := a.completion(cmd)
	defer cancel()
	status, err := a.control().Status(ctx)
	names := []string{}
	if err == nil {
		for _, server := range status.Servers {
			names = append(names, server.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeOneServer offers them for a command that takes one.
func (a *app) completeOneServer(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeServers(cmd, args, toComplete)
}

// completeTools offers the tools of the gateway that the flags name.
func (a *app) completeTools(remote *remoteFlags) completer {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := []string{}
		if len(args) > 0 {
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := a.completion(cmd)
		defer cancel()
		tools, err := listTools(ctx, a, *remote)
		if err == nil {
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCatalog offers the names of the catalogue.
func (a *app) completeCatalog(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	a.settle(cmd)
	cat, err := loadCatalog(a.paths())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cat.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completion prepares a look at the gateway: cobra runs no PersistentPreRun for completions.
func (a *app) completion(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	a.settle(cmd)
	ctx := cmd.Context()
	return context.WithTimeout(ctx, completionLimit)
}

// completeMoreOfCatalog offers the names of the catalogue that are not there yet.
func (a *app) completeMoreOfCatalog(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	names, directive := a.completeCatalog(cmd, nil, toComplete)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), directive
}
