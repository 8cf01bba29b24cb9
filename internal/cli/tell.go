package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/config"
)

// app is what every command works with.
type app struct {
	*Streams
	env    environment
	global globalFlags
}

// tell writes an error to standard error and returns the exit code. A person gets the reason in the
// first line and what to do in a last one; a script that asked for JSON gets one object in the last line.
func (a *app) tell(command *cobra.Command, err error) int {
	var reported *reportedFailure
	if errors.As(err, &reported) {
		io.WriteString(a.Err, reported.report.Text)
		return reported.report.Code
	}
	v := judge(err)
	if v.code == notRunning {
		v.hint = a.notRunningHint()
	}
	var start *startFailure
	if errors.As(err, &start) {
		io.WriteString(a.Err, start.report(a.global.json).Text)
		return v.exit
	}
	if a.global.json {
		writeErrorJSON(a.Err, v, err)
		return v.exit
	}
	var stated *statedError
	if errors.As(err, &stated) && stated.quiet {
		return v.exit
	}
	var refused *config.Error
	if errors.As(err, &refused) {
		io.WriteString(a.Err, refusalText(refused))
		return v.exit
	}
	if v.code == "usage" && v.hint == "" {
		v.hint = fmt.Sprintf("see %q", command.CommandPath()+" --help")
	}
	fmt.Fprintln(a.Err, cleanText(err.Error()))
	if v.hint != "" {
		fmt.Fprintln(a.Err, "hint: "+v.hint)
	}
	return v.exit
}

// notRunningHint says where a gateway was looked for: it may run with another root.
func (a *app) notRunningHint() string {
	return fmt.Sprintf(`none answers at %s; start one with "mcp-gateway --config JSON", or give the --root of one that runs`, a.paths().Socket())
}

// errorObject is an error as scripts read it.
type errorObject struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Details any    `json:"details"`
}

func writeErrorJSON(w io.Writer, v verdict, err error) {
	details := v.details
	if details == nil {
		details = struct{}{}
	}
	object := errorObject{Code: v.code, Message: cleanLine(err.Error()), Hint: v.hint, Details: details}
	writeJSON(w, map[string]errorObject{"error": object})
}

// writeJSON writes one value in one line.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// refusalText tells why a configuration was refused: everything in the first line, then, where there
// are several problems, each on its own.
func refusalText(refused *config.Error) string {
	var b strings.Builder
	fmt.Fprintln(&b, cleanLine(refused.Error()))
	if len(refused.Problems) > 1 {
		for _, p := range refused.Problems {
			fmt.Fprintln(&b, "  "+cleanLine(p.String()))
		}
	}
	return clipLines(b.String(), maxFailureBytes)
}
