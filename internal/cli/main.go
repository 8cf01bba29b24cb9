// Package cli is the command line: one command a file, each with its options, its constructor and its
// run function. It is the only place that reads the environment, that writes for people, and that
// gives errors an exit code.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Main runs one command line and returns the exit code of the process. The first SIGINT, SIGTERM or
// SIGHUP ends the command in order; after a second one Main returns at once, whatever is still going on.
func Main(ctx context.Context, args []string, streams Streams, env []string) int {
	signals := make(chan os.Signal, 2)
	watched := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	signal.Notify(signals, watched...)
	defer signal.Stop(signals)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan int, 1)
	go func() { done <- execute(ctx, args, &streams, newEnvironment(env)) }()

	interrupted := false
	for {
		select {
		case code := <-done:
			return code
		case sig := <-signals:
			if interrupted {
				return forcedCode(sig)
			}
			interrupted = true
			cancel(&interruptedError{signal: sig})
		}
	}
}

// execute runs the command and tells its error.
func execute(ctx context.Context, args []string, streams *Streams, env environment) int {
	app := &app{Streams: streams, env: env}
	root := newRootCommand(app)
	// cobra would take the process's own arguments for a nil slice.
	root.SetArgs(append([]string{}, args...))
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	// A flag that was refused may stand before the one that asks for JSON.
	if slices.Contains(args, "--json") || env.get(jsonVariable) == "true" {
		app.global.json = true
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return app.tell(command, err)
}

// forcedCode is what a shell would report for a process that the signal has ended.
func forcedCode(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitFailed
}

// interruptedError is the cause of a command's context after a signal.
type interruptedError struct{ signal os.Signal }

func (e *interruptedError) Error() string { return "interrupted by signal: " + e.signal.String() }
