package cli

import (
	"github.com/spf13/cobra"

	"mcp-gateway/internal/demo"
)

func newDemoServerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "demo-server",
		Short: "A small MCP server on standard input and output, to try things out with",
		Long: `A small MCP server on standard input and output, to try things out with.

  mcp-gateway --config '{"demo": {"command": "mcp-gateway", "args": ["demo-server"]}}'`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo.Run(cmd.Context(), a.In, a.Out) },
	}
}
