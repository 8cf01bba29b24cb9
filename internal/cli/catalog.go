package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog"
)

func newCatalogCommand(a *app) *cobra.Command {
	installed := false
	list := func(*cobra.Command, []string) error {
		if installed {
			return runCatalogInstalled(a)
		}
		return runCatalogList(a)
	}
	ls := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the servers of the catalogue", Args: none, RunE: list}
	ls.Flags().BoolVar(&installed, "installed", false, "only those that a start needs no network for, and clones")
	cmd := group(a, "catalog", "Show the servers that a configuration can name", ls,
		newCatalogSearchCommand(a), newCatalogShowCommand(a), newCatalogValidateCommand(a))
	cmd.RunE = list
	cmd.Long = `Show the servers that a configuration can name.

They are those built into the program, extended or overridden by ` + a.paths().Catalog() + `.`
	return cmd
}

// runCatalogList lists all entries.
func runCatalogList(a *app) error {
	cat, err := loadCatalog(a.paths())
	if err != nil {
		return err
	}
	if a.global.json {
		return writeJSON(a.Out, append([]*catalog.Entry{}, cat.Entries()...))
	}
	return catalogTable(cat.Entries()).write(a.Out, a.outWidth())
}

func catalogTable(entries []*catalog.Entry) *table {
	t := &table{header: []string{"NAME", "RUNS", "DESCRIPTION"}}
	for _, entry := range entries {
		t.add(entry.Name, string(entry.Runs), entry.Description)
	}
	return t
}

func newCatalogShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show one server: its properties, and an example to paste",
		Args:              one("NAME"),
		ValidArgsFunction: a.completeCatalog,
		RunE:              func(_ *cobra.Command, args []string) error { return runCatalogShow(a, args[0]) },
	}
}

// runCatalogShow shows one entry whole.
func runCatalogShow(a *app, name string) error {
	cat, err := loadCatalog(a.paths())
	if err != nil {
		return err
	}
	entry, ok := cat.Lookup(name)
	if !ok {
		near := append([]string{}, cat.Nearest(name)...)
		text := fmt.Sprintf("there is no server %q in the catalogue", name)
		if len(near) > 0 {
			text += ": did you mean " + orList(near) + "?"
		}
		return &statedError{err: errors.New(text), verdict: verdict{exit: exitUsage, code: "unknown_server",
			hint: `"mcp-gateway catalog" lists them`, details: map[string]any{"server": name, "nearest": near}}}
	}
	if a.global.json {
		return writeJSON(a.Out, entry)
	}
	_, err = io.WriteString(a.Out, entryText(entry))
	return err
}

// entryText is an entry as a person reads it.
func entryText(e *catalog.Entry) string {
	var b strings.Builder
	title := e.Name
	if e.Title != "" {
		title += "  " + e.Title
	}
	fmt.Fprintf(&b, "%s\n%s\n\n", title, e.Description)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s%s\n", name+":", value)
		}
	}
	field("runs", strings.TrimSpace(string(e.Runs)+" "+catalog.Pinned(e.Package, e.Version)+catalog.Pinned(e.Repository, e.Commit)+e.URL+e.Command))
	field("source", e.Source)
	field("license", e.License)
	field("needs", strings.Join(e.Needs, ", "))
	if e.Runs != catalog.None {
		field("proven", provenText(e.Proven))
	}
	field("not here", e.Reason)
	field("note", e.Note)
	if len(e.Properties) > 0 {
		fmt.Fprintf(&b, "\nproperties:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Properties)) {
		fmt.Fprintf(&b, "  %s: %s\n", name, propertyText(e.Properties[name]))
	}
	if e.Runs != catalog.None {
		fmt.Fprintf(&b, "\nexample:\n  mcp-gateway --config %s\n", shellQuote(exampleConfig(e)))
	}
	return b.String()
}

func provenText(p catalog.Proven) string {
	text := p.Level
	if p.Tools > 0 {
		text += " with " + count(p.Tools, "tool")
	}
	if p.Date != "" {
		text += " on " + p.Date
	}
	if p.Megabytes > 0 {
		text += fmt.Sprintf(", takes %d MB", p.Megabytes)
	}
	return text
}

func propertyText(p catalog.Property) string {
	parts := []string{p.Allowed()}
	if mustBeGiven(p) {
		parts = append(parts, "required")
	}
	if p.Secret {
		parts = append(parts, "secret")
	}
	if len(p.Default) > 0 {
		parts = append(parts, "default "+string(p.Default))
	}
	text := strings.Join(parts, ", ")
	if p.Description != "" {
		text += ". " + p.Description
	}
	return text
}

// mustBeGiven says whether a configuration without the property is refused.
func mustBeGiven(p catalog.Property) bool { return p.Required && len(p.Default) == 0 }

// exampleConfig is a configuration with the properties that it must have, to be pasted.
func exampleConfig(e *catalog.Entry) string {
	var members []member
	for _, name := range slices.Sorted(maps.Keys(e.Properties)) {
		if p := e.Properties[name]; mustBeGiven(p) {
			members = append(members, member{name, exampleValue(name, p)})
		}
	}
	properties, err := joinObject(members)
	if err != nil {
		return ""
	}
	whole, err := joinObject([]member{{e.Name, properties}})
	if err != nil {
		return ""
	}
	return string(whole)
}

func exampleValue(name string, p catalog.Property) json.RawMessage {
	lower := strings.ToLower(name)
	text := constantName(name)
	if containsAny(lower, "path", "dir") {
		text = "/tmp"
	}
	if len(p.Enum) > 0 {
		text = p.Enum[0]
	}
	switch {
	case p.Type == "array":
		return json.RawMessage("[" + string(quote(text)) + "]")
	case p.Type == "integer", p.Type == "number":
		return json.RawMessage("1")
	case p.Type == "boolean":
		return json.RawMessage("true")
	}
	return quote(text)
}

// constantName writes apiKey as API_KEY, so that a reader sees that it is to be replaced.
func constantName(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
