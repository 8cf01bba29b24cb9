// Command catalogcheck tries every entry of a catalogue on this machine: it installs each by
// "mcp-gateway pull", starts it through the gateway with made-up values, and lists its tools. What it
// sees is kept in a journal, so that it can be stopped and goes on where it was, and is written into
// the catalogue as the entries' "proven". Each entry gets a root of its own, which is removed
// afterwards. "make catalog-check" runs it; CI does not: that runs "make catalog-sample", which starts a
// few of the proven entries again, chosen by the commit, and fails where one does not start any more.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mcp-gateway/internal/catalog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	catalog, binary, work string
	only, kinds           string
	again                 string
	jobs                  int
	installLimit          time.Duration
	startLimit            time.Duration
	leastFree             int
	write                 bool
	sample                int
	seed                  string
	heaviest              int
}

func parse(args []string, errOut io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("catalogcheck", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&o.catalog, "catalog", "catalog.json", "check this `FILE`")
	flags.StringVar(&o.binary, "binary", "bin/mcp-gateway", "the gateway's `PROGRAM`")
	flags.StringVar(&o.work, "work", ".cache/catalog-check", "keep journal, caches and roots in this `DIR`")
	flags.StringVar(&o.only, "only", "", "try these `NAMES` alone, separated by commas")
	flags.StringVar(&o.kinds, "kinds", "", "try these `KINDS` alone, as in npm,pypi")
	flags.StringVar(&o.again, "again", "none", "`WHICH` of the entries in the journal to try again: none, failed or all")
	flags.IntVar(&o.jobs, "jobs", 1, "try `N` entries at a time")
	flags.DurationVar(&o.installLimit, "install-limit", 10*time.Minute, "give up an install after this `TIME`")
	flags.DurationVar(&o.startLimit, "start-limit", time.Minute, "give up a start after this `TIME`")
	flags.IntVar(&o.leastFree, "least-free", 10, "empty the caches when fewer `GIB` of the disk are free")
	flags.BoolVar(&o.write, "write", true, "write what was seen into the catalogue")
	flags.IntVar(&o.sample, "sample", 0, "only start `N` of the entries that are proven to start, and change nothing")
	flags.StringVar(&o.seed, "seed", "", "choose the sample by this `TEXT`, such as a commit")
	flags.IntVar(&o.heaviest, "heaviest", 150, "take no entry of more than `MB` megabytes into the sample")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || o.jobs < 1 || o.sample < 0 || !slices.Contains([]string{"none", "failed", "all"}, o.again) {
		err := fmt.Errorf("wrong arguments: %q", args)
		fmt.Fprintln(errOut, err)
		return nil, err
	}
	return o, nil
}

// run checks what is still to be checked, and tells the figures.
func run(ctx context.Context, args, env []string, out, errOut io.Writer) int {
	o, err := parse(args, errOut)
	if err != nil {
		return 2
	}
	c, err := newCheck(o, env)
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	defer c.journal.Close()
	if o.sample > 0 {
		return c.runSample(ctx, out)
	}
	c.all(ctx, out)
	if o.write {
		if err := writeProven(o.catalog, c.journal.seen); err != nil {
			fmt.Fprintln(errOut, err)
			return 1
		}
	}
	if err := c.summary(out); err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	if ctx.Err() != nil {
		fmt.Fprintln(errOut, "interrupted: the same command goes on from here")
		return 1
	}
	return 0
}

// check is one run over a catalogue.
type check struct {
	*options
	env     []string
	entries []*catalog.Entry
	journal *journal
}

func newCheck(o *options, env []string) (*check, error) {
	for _, path := range []*string{&o.catalog, &o.binary, &o.work} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, err
		}
		*path = absolute
	}
	text, err := os.ReadFile(o.catalog)
	if err != nil {
		return nil, err
	}
	cat, err := catalog.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", o.catalog, err)
	}
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return nil, err
	}
	j, err := openJournal(filepath.Join(o.work, "journal.jsonl"), cat.Entries())
	if err != nil {
		return nil, err
	}
	return &check{options: o, env: env, entries: cat.Entries(), journal: j}, nil
}

// wanted lists the entries that are to be tried now.
func (c *check) wanted() []*catalog.Entry {
	var entries []*catalog.Entry
	for _, e := range c.entries {
		seen, known := c.journal.seen[e.Name]
		switch {
		case e.Runs == catalog.None,
			c.only != "" && !slices.Contains(strings.Split(c.only, ","), e.Name),
			c.kinds != "" && !slices.Contains(strings.Split(c.kinds, ","), string(e.Runs)),
			known && c.again == "none",
			known && c.again == "failed" && seen.Level == catalog.Started:
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// all tries the wanted entries, a few at a time, until it is interrupted.
func (c *check) all(ctx context.Context, out io.Writer) {
	wanted := c.wanted()
	todo := make(chan *catalog.Entry)
	var group sync.WaitGroup
	var mu sync.Mutex // a line at a time
	done := 0
	for range c.jobs {
		group.Go(func() {
			for e := range todo {
				seen := c.try(ctx, e)
				if ctx.Err() != nil {
					return // it may have failed for that reason alone
				}
				mu.Lock()
				done++
				if err := c.journal.add(seen); err != nil {
					fmt.Fprintln(out, err)
				}
				fmt.Fprintf(out, "%3d/%d  %-28s %s\n", done, len(wanted), e.Name, seen)
				mu.Unlock()
			}
		})
	}
	for _, e := range wanted {
		select {
		case todo <- e:
		case <-ctx.Done():
		}
	}
	close(todo)
	group.Wait()
}
