package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/process"
)

// checkResult is one thing that doctor looked at.
type checkResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a gateway or its servers from working here",
		Long: `Look for what keeps a gateway or its servers from working here.

The exit code is 0 whenever it could look, whatever it found.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), a) },
	}
}

// runDoctor makes all checks and shows them.
func runDoctor(ctx context.Context, a *app) error {
	path := serverPath(a.env)
	checks := []checkResult{
		checkProgram(path, "sh", "runCmd and installCmd need it: install a shell"),
		checkProgram(path, "node", "servers from npm need Node.js: install nodejs and npm"),
		checkProgram(path, "npm", "servers from npm are installed with it: install nodejs and npm"),
		checkProgram(path, "uv", "servers from PyPI are installed with it, or else with python3 and its venv: pip install uv"),
		checkCatalog(a),
		checkWritable("log", a.paths().Log()),
		checkWritable("servers folder", a.paths().Servers()),
	}
	checks = append(checks, checkGateway(ctx, a)...)
	if a.global.json {
		return writeJSON(a.Out, map[string]any{"checks": checks})
	}
	t := table{header: []string{"CHECK", "OK", "DETAIL"}, whole: true}
	for _, c := range checks {
		ok, detail := "yes", c.Detail
		if !c.OK {
			ok = "no"
			if c.Hint != "" {
				detail += " (" + c.Hint + ")"
			}
		}
		t.add(c.Name, ok, detail)
	}
	return t.write(a.Out, a.outWidth())
}

// serverPath is the PATH that servers get.
func serverPath(env environment) string {
	return environment{list: process.ServerEnv(env.list, nil)}.get("PATH")
}

func checkProgram(path, name, hint string) checkResult {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && unix.Access(file, unix.X_OK) == nil {
			return checkResult{Name: name, OK: true, Detail: file}
		}
	}
	return checkResult{Name: name, Detail: "not found on the PATH " + path, Hint: hint}
}

func checkCatalog(a *app) checkResult {
	cat, err := loadCatalog(a.paths())
	if err != nil {
		return checkResult{Name: "catalogue", Detail: err.Error(), Hint: judge(err).hint}
	}
	return checkResult{Name: "catalogue", OK: true, Detail: count(len(cat.Names()), "server")}
}

// checkWritable looks at the file, or at the nearest folder above it that is there.
func checkWritable(name, path string) checkResult {
	at := path
	for {
		err := unix.Access(at, unix.W_OK)
		switch {
		case err == nil:
			return checkResult{Name: name, OK: true, Detail: path + " can be written"}
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at:
			at = filepath.Dir(at)
		default:
			return checkResult{Name: name, Detail: fmt.Sprintf("%s cannot be written: %v", at, err),
				Hint: "run this as root, or choose another folder with --root"}
		}
	}
}

// checkGateway looks at the running gateway, or at what a start would find.
func checkGateway(ctx context.Context, a *app) []checkResult {
	status, err := a.control().Status(ctx)
	if errors.Is(err, control.ErrNotRunning) {
		return []checkResult{{Name: "gateway", Detail: "not running", Hint: a.notRunningHint()},
			checkPort(a.global.listen)}
	}
	if err != nil {
		return []checkResult{{Name: "gateway", Detail: err.Error(), Hint: judge(err).hint}}
	}
	checks := []checkResult{{Name: "gateway", OK: status.State == control.StateReady,
		Detail: fmt.Sprintf("%s, pid %d, %s", status.State, status.PID, status.URL)}, checkToken(a.paths().Token())}
	for _, server := range status.Servers {
		check := checkResult{Name: "server " + server.Name, OK: server.State == control.StateReady, Detail: server.State}
		if !check.OK {
			check.Hint = fmt.Sprintf("see its lines with: mcp-gateway logs --server %s", shellQuote(server.Name))
		}
		if server.LastError != "" {
			check.Detail += ": " + server.LastError
		}
		checks = append(checks, check)
	}
	return checks
}

func checkPort(listen string) checkResult {
	pid, command, taken := daemon.PortHolder(listen)
	if !taken {
		return checkResult{Name: "port", OK: true, Detail: listen + " is free"}
	}
	holder := []string{listen + " is taken"}
	if pid != 0 {
		holder = append(holder, fmt.Sprintf("by %s, pid %d", command, pid))
	}
	return checkResult{Name: "port", Detail: strings.Join(holder, " "), Hint: "end that program, or choose another address with --listen"}
}

func checkToken(path string) checkResult {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return checkResult{Name: "token file", Detail: err.Error()}
	case info.Mode().Perm() != 0o600:
		return checkResult{Name: "token file", Detail: fmt.Sprintf("%s has mode %#o", path, info.Mode().Perm()),
			Hint: "others can read it: chmod 600 " + path}
	}
	return checkResult{Name: "token file", OK: true, Detail: path + " has mode 0600"}
}
