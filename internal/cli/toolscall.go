package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

type toolsCallOptions struct {
	*app
	remote   *remoteFlags
	args     []string
	argsJSON string
}

const toolsCallLong = `Call a tool and print its result.

--arg NAME=VALUE gives one argument. The value is taken as JSON where it is JSON of a type that the
tool's schema allows there, and else as text; an argument that the schema calls a string is always
text. --args-json gives all arguments as one object; an --arg beside it replaces a member.

On a terminal the texts of the result are printed, and what the tool tells of its progress. In a pipe, and
with --json, it is the result object, byte for byte as the server sent it. Exit code 5 means that the tool
reported an error, or that there is no such tool.

  mcp-gateway tools call get_current_time --arg timezone=Europe/Berlin`

func newToolsCallCommand(a *app, remote *remoteFlags) *cobra.Command {
	o := &toolsCallOptions{app: a, remote: remote}
	cmd := &cobra.Command{
		Use:               "call NAME [--arg NAME=VALUE]... [--args-json JSON | @FILE | -]",
		Short:             "Call a tool and print its result",
		Long:              toolsCallLong,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeTools(remote),
		RunE:              func(cmd *cobra.Command, args []string) error { return runToolsCall(cmd.Context(), o, args[0]) },
	}
	// Not a slice flag of comma-separated values: a value may hold commas.
	cmd.Flags().StringArrayVar(&o.args, "arg", nil, "one argument, `NAME=VALUE` (repeatable)")
	cmd.Flags().StringVar(&o.argsJSON, "args-json", "", "all arguments as a `JSON` object; @FILE reads a file, - standard input")
	return cmd
}

// runToolsCall calls the tool and prints the result.
func runToolsCall(ctx context.Context, o *toolsCallOptions, name string) error {
	given, err := o.given()
	if err != nil {
		return err
	}
	client, err := connect(ctx, o.app, *o.remote)
	if err != nil {
		return err
	}
	defer client.Close()
	t, err := client.find(ctx, name)
	if err != nil {
		return err
	}
	arguments, err := buildArguments(given, o.args, t.InputSchema)
	if err != nil {
		return err
	}
	done := o.waiting("waiting for tool %q; Ctrl-C cancels the call", name)
	result, err := client.call(ctx, name, arguments)
	done()
	if err != nil {
		return o.callError(fmt.Errorf("call tool %q: %w", name, err))
	}
	if o.global.json || o.outWidth() == 0 {
		_, err = fmt.Fprintf(o.Out, "%s\n", result)
	} else {
		err = writeResult(o.Out, result)
	}
	if err != nil {
		return err
	}
	var outcome struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(result, &outcome) == nil && outcome.IsError {
		return &statedError{verdict: verdict{exit: exitTool, code: "tool_error",
			hint: fmt.Sprintf("its arguments are shown by %q", "mcp-gateway tools inspect "+shellQuote(name))},
			err: fmt.Errorf("tool %q reported an error", name)}
	}
	return nil
}

// callError adds where the gateway here tells more than it tells its clients.
func (o *toolsCallOptions) callError(err error) error {
	var answered *rpcError
	if o.remote.url != "" || !errors.As(err, &answered) {
		return err
	}
	return hinted(err, `"mcp-gateway status" shows how its server is, and "mcp-gateway logs" what it wrote`)
}

// given returns the object of --args-json, or nil without one.
func (o *toolsCallOptions) given() ([]byte, error) {
	var data []byte
	var err error
	path, isFile := strings.CutPrefix(o.argsJSON, "@")
	switch {
	case o.argsJSON == "":
		return nil, nil
	case o.argsJSON == "-":
		data, err = io.ReadAll(o.In)
	case isFile:
		data, err = os.ReadFile(path)
	default:
		data = []byte(o.argsJSON)
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the arguments: %w", err))
	}
	if _, err := splitObject(data); err != nil {
		return nil, usage(fmt.Errorf("--args-json: a JSON object is needed: %w", err))
	}
	return bytes.TrimSpace(data), nil
}

// member is one member of a JSON object, with its value as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// splitObject reads an object's members in their order.
func splitObject(data []byte) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	open, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("it is something else")
	}
	var members []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return members, nil
}

// joinObject writes members as an object.
func joinObject(members []member) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// buildArguments puts the arguments of a call together. An object alone is passed on as it was given.
func buildArguments(given []byte, pairs []string, schema json.RawMessage) (json.RawMessage, error) {
	if len(pairs) == 0 && given != nil {
		return given, nil
	}
	var members []member
	if given != nil {
		var err error
		if members, err = splitObject(given); err != nil {
			return nil, err
		}
	}
	types := newArgumentTypes(schema)
	seen := map[string]bool{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage(fmt.Errorf("--arg %q: NAME=VALUE is needed", pair))
		}
		if seen[name] {
			return nil, usage(fmt.Errorf("--arg %q is given twice: give a list as JSON, as in --arg '%s=[1, 2]'", name, name))
		}
		seen[name] = true
		members = setMember(members, member{name, types.value(name, value)})
	}
	return joinObject(members)
}

func setMember(members []member, m member) []member {
	for i := range members {
		if members[i].name == m.name {
			members[i] = m
			return members
		}
	}
	return append(members, m)
}
