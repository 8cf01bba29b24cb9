package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCatalogSearchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "search WORD...",
		Short: "Find servers by name, description and properties",
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return errors.New("WORD is missing")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runCatalogSearch(a, args) },
	}
}

// runCatalogSearch lists the entries that have all words, the best first.
func runCatalogSearch(a *app, words []string) error {
	cat, err := loadCatalog(a.paths())
	if err != nil {
		return err
	}
	found := cat.Search(words...)
	if a.global.json {
		return writeJSON(a.Out, found)
	}
	if len(found) == 0 {
		text := fmt.Sprintf("no server has %s", andList(words))
		if near := cat.Nearest(words[0]); len(words) == 1 && len(near) > 0 {
			text += ": did you mean " + orList(near) + "?"
		}
		fmt.Fprintln(a.Err, cleanLine(text))
		return nil
	}
	return catalogTable(found).write(a.Out, a.outWidth())
}

// andList writes words as in "a", "b" and "c".
func andList(words []string) string {
	list := orList(words)
	if at := strings.LastIndex(list, `" or "`); at >= 0 {
		return list[:at] + `" and "` + list[at+len(`" or "`):]
	}
	return list
}
