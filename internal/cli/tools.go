package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/control"
)

func newToolsCommand(a *app) *cobra.Command {
	remote := &remoteFlags{}
	cmd := group(a, "tools", "List and call tools, here or at any other gateway",
		newToolsListCommand(a, remote), newToolsCallCommand(a, remote), newToolsInspectCommand(a, remote))
	cmd.Long = `List and call tools.

Without --url they are those of the gateway here, over its socket, without a token. With --url they are
those of any MCP endpoint; its token is taken from ` + clientTokenVariable + `, or else from ` + tokenVariable + `.`
	remote.bind(cmd)
	return cmd
}

func newToolsListCommand(a *app, remote *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the tools, with the server of each and its name there",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runToolsList(cmd.Context(), a, *remote) },
	}
}

// runToolsList lists the tools. What a tool is called at its server only the gateway here can say.
func runToolsList(ctx context.Context, a *app, remote remoteFlags) error {
	tools, err := listTools(ctx, a, remote)
	if err != nil {
		return err
	}
	if a.global.json {
		return writeJSON(a.Out, tools)
	}
	t := table{header: []string{"NAME", "SERVER", "ORIGINAL NAME", "DESCRIPTION"}}
	for _, tool := range tools {
		t.add(tool.Name, tool.Server, tool.OriginalName, tool.Description)
	}
	return t.write(a.Out, a.outWidth())
}

func listTools(ctx context.Context, a *app, remote remoteFlags) ([]control.Tool, error) {
	if remote.url == "" {
		tools, err := a.control().Tools(ctx)
		if err != nil {
			return nil, err
		}
		return append([]control.Tool{}, tools...), nil
	}
	client, err := connect(ctx, a, remote)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, err := client.tools(ctx)
	if err != nil {
		return nil, err
	}
	tools := []control.Tool{}
	for _, t := range found {
		tools = append(tools, control.Tool{Name: t.Name, OriginalName: t.Name, Description: t.Description})
	}
	return tools, nil
}

func newToolsInspectCommand(a *app, remote *remoteFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "inspect NAME",
		Short:             "Show the whole definition of a tool, with the schema of its arguments",
		Args:              one("NAME"),
		ValidArgsFunction: a.completeTools(remote),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runToolsInspect(cmd.Context(), a, *remote, args[0])
		},
	}
}

// runToolsInspect writes a tool's definition: as the server sent it for scripts, indented for people.
func runToolsInspect(ctx context.Context, a *app, remote remoteFlags, name string) error {
	client, err := connect(ctx, a, remote)
	if err != nil {
		return err
	}
	defer client.Close()
	t, err := client.find(ctx, name)
	if err != nil {
		return err
	}
	if a.global.json || a.outWidth() == 0 {
		_, err = fmt.Fprintf(a.Out, "%s\n", t.raw)
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, t.raw, "", "  "); err != nil {
		return fmt.Errorf("read the tool's definition: %w", err)
	}
	_, err = fmt.Fprintln(a.Out, cleanText(b.String()))
	return err
}

// find returns the tool of that name, or an error with the names that may have been meant.
func (c *mcpClient) find(ctx context.Context, name string) (tool, error) {
	tools, err := c.tools(ctx)
	if err != nil {
		return tool{}, err
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		if t.Name == name {
			return t, nil
		}
		names[i] = t.Name
	}
	near := append([]string{}, catalog.Nearest(name, names)...)
	v := verdict{exit: exitTool, code: "unknown_tool", hint: `"mcp-gateway tools ls" lists them`,
		details: map[string]any{"tool": name, "nearest": near}}
	text := fmt.Sprintf("there is no tool %q", name)
	if len(near) > 0 {
		text += ": did you mean " + orList(near) + "?"
	}
	return tool{}, &statedError{verdict: v, err: errors.New(text)}
}
