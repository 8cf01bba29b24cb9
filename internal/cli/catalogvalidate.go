package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog"
)

func newCatalogValidateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a catalogue file, and tell everything that is wrong with it",
		Long: `Check a catalogue file, and tell everything that is wrong with it. FILE may be - for standard input.

A file that passes can be used as ` + a.paths().Catalog() + `.`,
		Args: one("FILE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error { return runCatalogValidate(a, args[0]) },
	}
}

// runCatalogValidate parses one file as a catalogue.
func runCatalogValidate(a *app, file string) error {
	data, err := readCatalogFile(a.In, file)
	if err != nil {
		return badConfig(fmt.Errorf("read catalogue: %w", err), "")
	}
	checked, err := catalog.Parse(data)
	var refused *catalog.Error
	switch {
	case errors.As(err, &refused):
		return badCatalog(file, refused)
	case err != nil:
		return err
	}
	servers := len(checked.Names())
	if a.global.json {
		return writeJSON(a.Out, map[string]any{"file": file, "servers": servers})
	}
	_, err = fmt.Fprintf(a.Out, "%s: %s, no problem found\n", cleanLine(file), count(servers, "server"))
	return err
}

func readCatalogFile(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}

// badCatalog tells each problem on a line of its own.
func badCatalog(file string, refused *catalog.Error) error {
	var text strings.Builder
	fmt.Fprintf(&text, "catalogue %q has %s:", file, count(len(refused.Problems), "problem"))
	for _, problem := range refused.Problems {
		text.WriteString("\n  " + cleanLine(problem.String()))
	}
	return &statedError{err: errors.New(text.String()),
		verdict: verdict{exit: exitUsage, code: "bad_catalog", details: map[string]any{"problems": refused.Problems}}}
}
