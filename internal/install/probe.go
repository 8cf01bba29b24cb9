package install

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-gateway/internal/process"
)

// probeLimit ends a program that should only tell its version.
const probeLimit = 10 * time.Second

// probes remembers what programs have said about themselves, so that of many servers one asks.
type probes struct {
	mu    sync.Mutex
	known map[string]*probed
}

type probed struct {
	done  chan struct{} // closed when lines and err are there
	lines []string
	err   error
}

// probe runs a program that tells something about itself, once for each question. What failed is asked
// again.
func (j *job) probe(ctx context.Context, argv ...string) ([]string, error) {
	key := strings.Join(argv, "\x00")
	j.probes.mu.Lock()
	p, known := j.probes.known[key]
	if !known {
		p = &probed{done: make(chan struct{})}
		if j.probes.known == nil {
			j.probes.known = map[string]*probed{}
		}
		j.probes.known[key] = p
	}
	j.probes.mu.Unlock()
	if known {
		select {
		case <-p.done:
			return p.lines, p.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p.lines, p.err = j.ask(ctx, argv)
	if p.err != nil {
		j.probes.mu.Lock()
		delete(j.probes.known, key)
		j.probes.mu.Unlock()
	}
	close(p.done)
	return p.lines, p.err
}

func (j *job) ask(ctx context.Context, argv []string) ([]string, error) {
	limited, cancel := context.WithTimeoutCause(ctx, probeLimit, fmt.Errorf("no answer after %s", probeLimit))
	defer cancel()
	var tail process.Tail
	exit, err := j.opts.Host.Run(limited, process.Spec{Name: j.server, Argv: argv, Env: j.env, Dir: "/"}, tail.Add)
	if err == nil && !exit.Success() {
		err = errors.New(exit.String())
	}
	return tail.Lines(), err
}

// versionOf asks a program for its version; nil means that it does not tell.
func (j *job) versionOf(ctx context.Context, n need, path string) []int {
	question := map[string]string{"java": "-version", "dotnet": "--list-runtimes"}[n.name]
	if question == "" {
		question = "--version"
	}
	lines, err := j.probe(ctx, path, question)
	if err != nil {
		return nil
	}
	return readVersion(n.name, lines)
}

// answers are the lines in which programs tell their version, beside others with numbers.
var answers = map[string]*regexp.Regexp{
	"node":   regexp.MustCompile(`^v([0-9.]+)`),
	"java":   regexp.MustCompile(`version "([0-9.]+)`),
	"dotnet": regexp.MustCompile(`^Microsoft\.NETCore\.App ([0-9.]+)`),
}

// readVersion finds the version in what a program printed; of several, the newest.
func readVersion(program string, lines []string) []int {
	var newest []int
	for _, line := range lines {
		if match := answers[program].FindStringSubmatch(line); match != nil {
			if v := numbers(match[1]); slices.Compare(v, newest) > 0 {
				newest = v
			}
		}
	}
	return newest
}
