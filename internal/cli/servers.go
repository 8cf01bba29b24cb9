package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
)

func newServersCommand(a *app) *cobra.Command {
	cmd := group(a, "servers", "List, add, remove and restart servers, and sign in to them",
		newServersListCommand(a), newServersInspectCommand(a), newServersAddCommand(a), newServersRemoveCommand(a),
		newServersRestartCommand(a), newServersSignInCommand(a))
	cmd.Long = `List, add, remove and restart the servers of the running gateway, and sign in to remote ones.

All of it goes over the gateway's socket and needs no token. Connected clients are told when tools come
and go.`
	return cmd
}

const listsServers = `"mcp-gateway servers ls" lists them`

// advise adds what can be done about a server that the gateway has refused to deal with; unknown is for one
// that is not there.
func advise(err error, name, unknown string) error {
	var told *control.Error
	if !errors.As(err, &told) {
		return err
	}
	v := toldVerdict(told)
	switch {
	case told.Code == control.NotFound:
		v.hint = unknown
	case told.Code == control.FailedPrecondition && len(told.Details) > 0: // why it did not start
		v.hint = fmt.Sprintf("its last lines are shown by %q", "mcp-gateway logs --server "+shellQuote(name))
	default:
		return err
	}
	return &statedError{verdict: v, err: err}
}

// serverRow is a server as scripts read it.
type serverRow struct {
	Name       string            `json:"name"`
	Type       string            `json:"type"`
	State      string            `json:"state"`
	Outcome    string            `json:"outcome"`
	PID        int               `json:"pid"`
	Restarts   int               `json:"restarts"`
	Tools      int               `json:"tools"`
	LastError  string            `json:"last_error"`
	Since      *time.Time        `json:"since"`
	Definition *serverDefinition `json:"definition,omitempty"`
}

// serverDefinition is how a server was asked for.
type serverDefinition struct {
	Kind    string   `json:"kind"`
	Runs    string   `json:"runs"`
	Envs    []string `json:"envs"`    // the names
	Headers []string `json:"headers"` // the names
}

func newServerRow(s control.LiveServer) serverRow {
	row := serverRow{Name: s.Name, Type: string(s.Type), State: snakeCase(s.State), Outcome: string(s.Outcome),
		PID: s.PID, Restarts: s.Restarts, Tools: s.Tools, LastError: s.LastError}
	if !s.Since.IsZero() {
		row.Since = &s.Since
	}
	if d := s.Definition; d != nil {
		row.Definition = &serverDefinition{Kind: d.Kind, Runs: d.Runs, Envs: append([]string{}, d.Envs...), Headers: append([]string{}, d.Headers...)}
	}
	return row
}

// pid shows that no process runs as a dash.
func (s serverRow) pid() string {
	if s.PID == 0 {
		return "-"
	}
	return strconv.Itoa(s.PID)
}

// snakeCase turns a value of the control side into the form of the command line's JSON.
func snakeCase(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func newServersListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the servers that were asked for, each with its state",
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runServersList(cmd.Context(), a) },
	}
}

func runServersList(ctx context.Context, a *app) error {
	servers, err := a.control().Servers(ctx)
	if err != nil {
		return err
	}
	rows := []serverRow{}
	t := table{header: []string{"SERVER", "TYPE", "STATE", "PID", "RESTARTS", "TOOLS", "LAST ERROR"}, whole: true}
	for _, server := range servers {
		row := newServerRow(server)
		rows = append(rows, row)
		t.add(row.Name, cmp.Or(row.Type, "-"), row.State, row.pid(), strconv.Itoa(row.Restarts), strconv.Itoa(row.Tools), row.LastError)
	}
	if a.global.json {
		return writeJSON(a.Out, rows)
	}
	return t.write(a.Out, a.outWidth())
}

func newServersInspectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show one server: its state, and how it was asked for",
		Long: `Show one server: its state, and how it was asked for.

Values of variables, headers and secret properties are never shown.`,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeOneServer,
		RunE:              func(cmd *cobra.Command, args []string) error { return runServersInspect(cmd.Context(), a, args[0]) },
	}
}

func runServersInspect(ctx context.Context, a *app, name string) error {
	server, err := a.control().Server(ctx, name)
	if err != nil {
		return advise(err, name, listsServers)
	}
	row := newServerRow(server)
	if a.global.json {
		return writeJSON(a.Out, row)
	}
	_, err = io.WriteString(a.Out, serverText(row))
	return err
}

// serverText shows a server, a field a line; what is empty is left out.
func serverText(s serverRow) string {
	var b strings.Builder
	field := func(name, value string) {
		if value = cleanLine(value); value != "" && value != "-" {
			fmt.Fprintf(&b, "%-9s %s\n", name+":", value)
		}
	}
	field("name", s.Name)
	field("type", s.Type)
	field("state", s.State)
	if s.Since != nil {
		field("since", s.Since.Format(time.RFC3339))
	}
	field("outcome", s.Outcome)
	field("pid", s.pid())
	field("restarts", strconv.Itoa(s.Restarts))
	field("tools", strconv.Itoa(s.Tools))
	field("error", s.LastError)
	if d := s.Definition; d != nil {
		field("kind", d.Kind)
		field("runs", d.Runs)
		field("envs", strings.Join(d.Envs, ", "))
		field("headers", strings.Join(d.Headers, ", "))
	}
	return b.String()
}
