package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/gateway"
)

// The exit codes, explained to users by "help exit-codes".
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2
	exitUnauthorized = 3
	exitNotRunning   = 4
	exitTool         = 5
)

// notRunning is the name of an error that most commands can meet.
const notRunning = "not_running"

// verdict is what an error means to the caller.
type verdict struct {
	exit    int
	code    string // the error's name in JSON
	hint    string // what the reader can do next; may be empty
	details any    // for JSON; may be nil
}

// statedError is an error whose verdict is known where it arises.
type statedError struct {
	verdict
	err   error
	quiet bool // everything a person needs to know has been printed already
}

func (e *statedError) Error() string { return e.err.Error() }
func (e *statedError) Unwrap() error { return e.err }

// usage marks an error of how the command was written.
func usage(err error) error {
	return &statedError{verdict: verdict{exit: exitUsage, code: "usage"}, err: err}
}

// hinted marks an error that is none of the special kinds, with something that the reader can do.
func hinted(err error, hint string) error {
	return &statedError{verdict: verdict{exit: exitFailed, code: "failed", hint: hint}, err: err}
}

// judge is the one place where errors get their exit code, their name and their hint.
func judge(err error) verdict {
	var (
		stated    *statedError
		refused   *config.Error
		start     *gateway.StartError
		pull      *pullError
		running   *daemon.AlreadyRunning
		port      *daemon.PortInUse
		died      *daemon.Died
		interrupt *interruptedError
		told      *control.Error
	)
	switch {
	case errors.As(err, &stated):
		return stated.verdict
	case errors.As(err, &refused):
		return verdict{exit: exitUsage, code: "bad_config", details: map[string]any{"problems": refused.Problems}}
	case errors.As(err, &start):
		return verdict{exit: exitFailed, code: "start_failed"}
	case errors.As(err, &pull):
		return verdict{exit: exitFailed, code: "pull_failed"}
	case errors.As(err, &running):
		return verdict{exit: exitFailed, code: "already_running", details: runningDetails(running)}
	case errors.As(err, &port):
		return verdict{exit: exitFailed, code: "port_in_use",
			hint: portHint(port), details: portDetails(port)}
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return verdict{exit: exitFailed, code: "failed", hint: "--listen takes an address of this machine, or 0.0.0.0 for all of them"}
	case errors.Is(err, control.ErrNotRunning):
		return verdict{exit: exitNotRunning, code: notRunning}
	case errors.As(err, &died):
		return verdict{exit: exitFailed, code: "gateway_died", details: map[string]any{"ended": died.Ended, "lines": died.Lines}}
	case errors.Is(err, daemon.ErrLimit):
		return verdict{exit: exitFailed, code: "timed_out"}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{exit: exitNotRunning, code: "timed_out"}
	case errors.As(err, &interrupt):
		return verdict{exit: exitFailed, code: "interrupted"}
	case errors.As(err, &told):
		return toldVerdict(told)
	case errors.Is(err, fs.ErrPermission):
		return verdict{exit: exitUnauthorized, code: "permission_denied",
			hint: "run this as root, or as the user who started the gateway; or put all files elsewhere with --root DIR"}
	}
	return verdict{exit: exitFailed, code: "failed"}
}

// toldVerdict is that of an error that the gateway answered with.
func toldVerdict(e *control.Error) verdict {
	exit := exitFailed
	switch e.Code {
	case control.InvalidArgument:
		exit = exitUsage
	case control.Unauthenticated, control.PermissionDenied:
		exit = exitUnauthorized
	case control.DeadlineExceeded, control.Unavailable:
		exit = exitNotRunning
	}
	v := verdict{exit: exit, code: snakeCase(string(e.Code))}
	if len(e.Details) > 0 {
		v.details = map[string]any{"details": e.Details}
	}
	return v
}

func runningDetails(r *daemon.AlreadyRunning) map[string]any {
	return map[string]any{"pid": r.PID, "listen": r.Listen, "started": r.Started}
}

// portHint helps to find a gateway that another root hides from "stop".
func portHint(p *daemon.PortInUse) string {
	if p.Comm != "mcp-gateway" {
		return "end that program, or choose another address with --listen"
	}
	return fmt.Sprintf(`end it by "mcp-gateway stop" with its --root, which "ps -fp %d" shows, or choose another address with --listen`, p.PID)
}

func portDetails(p *daemon.PortInUse) map[string]any {
	return map[string]any{"listen": p.Addr, "pid": p.PID, "command": p.Comm}
}
