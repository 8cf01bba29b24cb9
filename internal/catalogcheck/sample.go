package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"mcp-gateway/internal/catalog"
)

// order lists the entries that a sample is taken from, in an order that the seed decides: those that were
// seen to start, are light enough, are not compiled, and are of use without a network.
func (c *check) order() []*catalog.Entry {
	ready := []catalog.Kind{catalog.NPM, catalog.PyPI, catalog.Command}
	var entries []*catalog.Entry
	for _, e := range c.entries {
		p := e.Proven
		if p.Level == catalog.Started && p.Megabytes > 0 && p.Megabytes <= c.heaviest &&
			slices.Contains(ready, e.Runs) && !slices.Contains(e.Needs, "network") {
			entries = append(entries, e)
		}
	}
	place := func(e *catalog.Entry) string {
		sum := sha256.Sum256([]byte(c.seed + "\x00" + e.Name))
		return string(sum[:])
	}
	slices.SortFunc(entries, func(a, b *catalog.Entry) int { return cmp.Compare(place(a), place(b)) })
	return entries
}

// sample is a sample being taken. Its members wait for nothing but each other's turn to print.
type sample struct {
	*check
	out    io.Writer
	mu     sync.Mutex // guards what follows
	left   []*catalog.Entry
	places int // still to be filled
	failed []string
}

// runSample starts the sample, and tells which entries do not start any more. One that fails is tried
// once more, since a registry may have had a hiccup; one whose runtime the machine lacks gives its place to
// the next.
func (c *check) runSample(ctx context.Context, out io.Writer) int {
	s := &sample{check: c, out: out, left: c.order(), places: c.sample}
	fmt.Fprintf(out, "a sample of %d of the %d light entries that are proven to start, chosen by %q:\n", c.sample, len(s.left), c.seed)
	var group sync.WaitGroup
	for range c.jobs {
		group.Go(func() {
			for e := s.next(); e != nil && ctx.Err() == nil; e = s.next() {
				s.member(ctx, e)
			}
		})
	}
	group.Wait()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out, "interrupted")
	case s.places > 0:
		fmt.Fprintf(out, "FAIL: there are %d entries too few for a sample of %d\n", s.places, c.sample)
	case len(s.failed) > 0:
		fmt.Fprintf(out, "FAIL: %d of %d entries that catalog.json says have started do not: %s\n", len(s.failed), c.sample, strings.Join(s.failed, ", "))
	default:
		fmt.Fprintf(out, "all %d started\n", c.sample)
		return 0
	}
	return 1
}

// next takes a place of the sample, and gives the entry that is to fill it; nil if there is none.
func (s *sample) next() *catalog.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == 0 || len(s.left) == 0 {
		return nil
	}
	e := s.left[0]
	s.places, s.left = s.places-1, s.left[1:]
	return e
}

// member tries one entry of the sample.
func (s *sample) member(ctx context.Context, e *catalog.Entry) {
	seen := s.try(ctx, e)
	first := seen.Reason
	lacking := strings.Contains(first, ": needs ") // nothing to try again: the machine stays what it is
	if seen.Level != catalog.Started && !lacking && ctx.Err() == nil {
		seen = s.try(ctx, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "  %-28s %s\n", e.Name, seen)
	switch {
	case lacking:
		s.places++
		fmt.Fprintf(s.out, "  %-28s is left out: this machine has not what it runs on\n", "")
	case seen.Level != catalog.Started:
		s.failed = append(s.failed, e.Name)
	default:
		if first != "" {
			fmt.Fprintf(s.out, "  %-28s has started at the second try; the first: %s\n", "", first)
		}
		if seen.Tools != e.Proven.Tools {
			fmt.Fprintf(s.out, "  %-28s had %d tools on %s\n", "", e.Proven.Tools, e.Proven.Date)
		}
	}
}
