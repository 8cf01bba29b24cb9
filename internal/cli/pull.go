package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/install"
	"mcp-gateway/internal/process"
	"mcp-gateway/internal/secret"
)

const pullLong = `Install servers ahead of time, so that starting them needs no network.

  mcp-gateway pull time fetch
  mcp-gateway pull --config FILE          every server of a configuration
  mcp-gateway pull github/OWNER/REPO@REF  a clone, at a branch, tag or whole commit

Each server gets a folder of its own below %s, in the exact version that
the catalogue names; what is there already stays as it is. When one cannot be installed, the others still
are, and the command fails with the reason.

--prune then removes every other install and clone, but nothing that a running gateway uses and nothing
that servers have stored. Without any name it removes what no entry of the catalogue asks for any more.`

type pullOptions struct {
	*app
	config    string
	prune     bool
	jobs      int
	githubURL string
}

func newPullCommand(a *app) *cobra.Command {
	o := &pullOptions{app: a}
	cmd := &cobra.Command{
		Use:               "pull NAME... | --config FILE",
		Short:             "Install servers ahead of time",
		Long:              fmt.Sprintf(pullLong, a.paths().Servers()),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeMoreOfCatalog,
		RunE:              func(cmd *cobra.Command, args []string) error { return runPull(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "install the servers of this configuration: a `FILE`, JSON, or - for standard input")
	flags.BoolVar(&o.prune, "prune", false, "remove what is not named")
	flags.IntVar(&o.jobs, "jobs", 0, "install `N` servers at a time (default: as many as there are CPUs)")
	flags.StringVar(&o.githubURL, "github-url", "", "clone github/OWNER/REPO from this `URL` instead of GitHub")
	fromEnvironment(flags, "github-url", "MCP_GATEWAY_GITHUB_URL")
	return cmd
}

// pullError says which servers could not be installed.
type pullError struct {
	faults []*fault.Fault
	total  int
}

func (e *pullError) Error() string {
	all := make([]string, len(e.faults))
	for i, f := range e.faults {
		all[i] = f.Error()
	}
	return strings.Join(all, "; ")
}

// runPull installs servers side by side, and tells what it did for each.
func runPull(ctx context.Context, o *pullOptions, names []string) error {
	if o.jobs < 0 {
		return usage(fmt.Errorf("--jobs %d: a number above 0 is needed", o.jobs))
	}
	if len(names) == 0 && o.config == "" && !o.prune {
		return usage(errors.New("NAME is missing: name servers, or give a configuration with --config"))
	}
	servers, warnings, err := o.servers(names)
	if err != nil {
		return err
	}
	host, err := process.NewHost(process.HostOptions{})
	if err != nil {
		return err
	}
	defer host.Close()
	progress := newPullProgress(o.Streams, servers)
	installer := install.New(install.Options{
		Host: host, Dir: o.paths().Servers(), BaseEnv: o.env.without(tokenVariable, clientTokenVariable, notifyVariable),
		GitHubURL: o.githubURL, Jobs: o.jobs, Progress: progress.say,
	})
	rows := make([]pulledServer, len(servers))
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() { rows[i] = progress.pull(ctx, installer, server) })
	}
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("install servers: %w", cause)
	}
	failed := &pullError{total: len(rows)}
	for _, row := range rows {
		if row.fault != nil {
			failed.faults = append(failed.faults, row.fault)
		}
	}
	removed := []string{}
	if o.prune && len(failed.faults) == 0 {
		if removed, err = o.pruned(ctx, installer, servers, len(names) > 0 || o.config != ""); err != nil {
			return fmt.Errorf("remove what is not used: %w", err)
		}
	}
	if err := o.show(rows, removed); err != nil {
		return err
	}
	if len(failed.faults) > 0 {
		return &startFailure{err: failed, warnings: warnings, scrub: secretsOf(servers)}
	}
	fmt.Fprint(o.Err, warningText(warnings, secretsOf(servers)))
	return nil
}

// servers are those that were named and those of the configuration, sorted by name; everything that is
// wrong with them is said at once.
func (o *pullOptions) servers(names []string) ([]install.Server, []string, error) {
	cat, err := loadCatalog(o.paths())
	if err != nil {
		return nil, nil, err
	}
	found := map[string]install.Server{}
	var problems []config.Problem
	for _, name := range names {
		server, problem := nameServer(cat, name)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		found[server.Name] = server
	}
	if len(problems) > 0 {
		return nil, nil, &config.Error{Problems: problems}
	}
	var warnings []string
	if o.config != "" {
		checked, err := o.readConfig()
		if err != nil {
			return nil, nil, err
		}
		warnings = checked.Warnings
		for _, s := range checked.Servers {
			found[s.Name] = install.Server{Name: s.Name, Launch: s.Launch, User: s.Options.User, Ref: found[s.Name].Ref}
		}
	}
	servers := make([]install.Server, 0, len(found))
	for _, s := range found {
		servers = append(servers, s)
	}
	slices.SortFunc(servers, func(a, b install.Server) int { return strings.Compare(a.Name, b.Name) })
	return servers, warnings, nil
}

// readConfig takes JSON as it is, and anything else for a file.
func (o *pullOptions) readConfig() (*config.Config, error) {
	data := []byte(o.config)
	var err error
	switch {
	case o.config == "-":
		data, err = readConfig(o.In, "standard input")
	case !strings.HasPrefix(strings.TrimSpace(o.config), "{"):
		data, err = readConfigFile(o.config)
	}
	if err != nil {
		return nil, err
	}
	checked, _, err := checkConfig(data, o.paths())
	return checked, err
}

var githubName = regexp.MustCompile(`^github/([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)(?:@([!-~]+))?$`)

// nameServer is the server that a word of the command line names.
func nameServer(cat *catalog.Catalog, name string) (install.Server, *config.Problem) {
	if strings.HasPrefix(name, "github/") {
		match := githubName.FindStringSubmatch(name)
		if match == nil || strings.Trim(match[1], ".") == "" || strings.Trim(match[2], ".") == "" {
			return install.Server{}, &config.Problem{Server: name, Message: "is not of the form github/<owner>/<repo>[@<ref>]"}
		}
		key, _, _ := strings.Cut(name, "@")
		return install.Server{Name: key, Ref: match[3], Launch: catalog.Launch{Kind: catalog.GitHub, Owner: match[1], Repo: match[2]}}, nil
	}
	entry, ok := cat.Lookup(name)
	if !ok {
		hint := "see mcp-gateway catalog"
		if near := cat.Nearest(name); len(near) > 0 {
			hint = "did you mean " + orList(near) + "? " + hint
		}
		return install.Server{}, &config.Problem{Server: name, Message: "is not in the catalogue", Hint: hint}
	}
	if entry.Runs == catalog.None {
		return install.Server{}, &config.Problem{Server: name, Message: "cannot be run here: " + entry.Reason}
	}
	return install.Server{Name: name, Launch: entry.Bare()}, nil
}

// secretsOf knows every secret of these servers.
func secretsOf(servers []install.Server) *secret.Scrubber {
	var values []secret.Value
	for _, s := range servers {
		values = append(values, s.Launch.Secrets...)
	}
	return secret.NewScrubber(values)
}

// pruned removes what is neither named nor used by a running gateway. Without names everything counts
// as named that the catalogue asks for, and every clone.
func (o *pullOptions) pruned(ctx context.Context, installer *install.Installer, servers []install.Server, named bool) ([]string, error) {
	keep := install.Keep{Servers: servers, Clones: !named}
	if !named {
		cat, err := loadCatalog(o.paths())
		if err != nil {
			return nil, err
		}
		for _, entry := range cat.Entries() {
			keep.Servers = append(keep.Servers, install.Server{Name: entry.Name, Launch: entry.Bare()})
		}
	}
	if status, err := o.control().Status(ctx); err == nil {
		for _, server := range status.Servers {
			keep.Names = append(keep.Names, server.Name)
		}
	}
	if _, err := os.Stat(o.paths().Servers()); os.IsNotExist(err) {
		return []string{}, nil
	}
	return installer.Prune(ctx, keep)
}
