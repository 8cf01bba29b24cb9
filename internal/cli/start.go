package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/config"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

const (
	tokenVariable       = "GATEWAY_ACCESS_TOKEN"
	clientTokenVariable = "MCP_GATEWAY_TOKEN"
)

// reportMargin is what the launcher waits beyond the start-up limit for the reason; with the grace
// that follows it still ends before the 60 s of an SDK.
const reportMargin = time.Second

// startOptions are those of the commands that start a gateway.
type startOptions struct {
	*app
	source configSource
	tuning tuning
}

// tuning are the settings that a gateway is started with. They travel to the daemon as JSON.
type tuning struct {
	AllowedOrigins []string `json:"allowed_origins,omitempty"`
	Expose         choice   `json:"expose,omitempty"`
	LogLevel       choice   `json:"log_level,omitempty"`
	GitHubURL      string   `json:"github_url,omitempty"`
	MaxBody        size     `json:"max_body"`
	MaxMessage     size     `json:"max_message"`
	MaxSessions    int      `json:"max_sessions"`
	MaxCalls       int      `json:"max_calls"`
}

func (o *startOptions) bind(cmd *cobra.Command) {
	o.source.bind(cmd)
	t := &o.tuning
	t.Expose, t.LogLevel, t.MaxBody, t.MaxMessage = "all", "info", 64<<20, 64<<20
	flags := cmd.Flags()
	flags.StringSliceVar(&t.AllowedOrigins, "allow-origin", nil, "let browser pages of this `ORIGIN` in (repeatable)")
	flags.Var(t.Expose.of("all", "tools"), "expose", "`WHAT` clients see: all, or tools alone")
	flags.Var(t.LogLevel.of("debug", "info", "warn", "error"), "log-level", "the lowest `LEVEL` in the log: debug, info, warn or error")
	flags.Var(&t.MaxBody, "max-body", "largest message of a client, a `SIZE` as in 64MiB")
	flags.Var(&t.MaxMessage, "max-message", "largest message of a server, a `SIZE` as in 64MiB")
	flags.IntVar(&t.MaxSessions, "max-sessions", 1000, "at most `N` sessions at a time")
	flags.IntVar(&t.MaxCalls, "max-calls", 1000, "at most `N` calls in flight")
	flags.StringVar(&t.GitHubURL, "github-url", "", "clone github/OWNER/REPO from this `URL` instead of GitHub")
	for name, variable := range map[string]string{
		"allow-origin": "MCP_GATEWAY_ALLOW_ORIGIN", "expose": "MCP_GATEWAY_EXPOSE",
		"log-level": "MCP_GATEWAY_LOG_LEVEL", "max-body": "MCP_GATEWAY_MAX_BODY", "max-message": "MCP_GATEWAY_MAX_MESSAGE",
		"max-sessions": "MCP_GATEWAY_MAX_SESSIONS", "max-calls": "MCP_GATEWAY_MAX_CALLS",
		"github-url": "MCP_GATEWAY_GITHUB_URL",
	} {
		fromEnvironment(flags, name, variable)
	}
}

// check refuses settings that no gateway can work with.
func (o *startOptions) check() error {
	if _, _, err := net.SplitHostPort(o.global.listen); err != nil {
		return usage(fmt.Errorf("--listen %q: HOST:PORT is needed, as in 0.0.0.0:50005", o.global.listen))
	}
	for _, limit := range []struct {
		flag  string
		value int
	}{{"--max-sessions", o.tuning.MaxSessions}, {"--max-calls", o.tuning.MaxCalls}} {
		if limit.value < 1 {
			return usage(fmt.Errorf("%s %d: a number above 0 is needed", limit.flag, limit.value))
		}
	}
	for _, origin := range o.tuning.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
			return usage(fmt.Errorf("--allow-origin %q: an origin is needed, as in https://example.com", origin))
		}
	}
	return nil
}

// order is what the launcher hands to the daemon over a pipe: everything that must not stand in
// arguments or environment, and what was already decided.
type order struct {
	Config         []byte        `json:"config"`
	Token          string        `json:"token"`
	Root           string        `json:"root"`
	Listen         string        `json:"listen"`
	StartupTimeout time.Duration `json:"startup_timeout"`
	JSON           bool          `json:"json"`
	Tuning         tuning        `json:"tuning"`
}

// prepare reads and checks everything that can be checked before anything starts.
func (o *startOptions) prepare(cmd *cobra.Command, args []string) (order, *config.Config, error) {
	if err := o.check(); err != nil {
		return order{}, nil, err
	}
	data, err := o.source.read(cmd, args, o.app)
	if err != nil {
		return order{}, nil, err
	}
	checked, err := checkConfig(data, o.paths())
	if err != nil {
		return order{}, nil, err
	}
	token := o.env.get(tokenVariable)
	if token == "" {
		token = daemon.NewToken().Reveal()
	}
	return order{Config: data, Token: token, Root: o.global.root, Listen: o.global.listen,
		StartupTimeout: o.global.startupTimeout, JSON: o.global.json, Tuning: o.tuning}, checked, nil
}

// runStart starts the gateway in the background and returns when it is ready.
func runStart(cmd *cobra.Command, o *startOptions, args []string) error {
	given, checked, err := o.prepare(cmd, args)
	if err != nil {
		return err
	}
	if running, ok := daemon.Running(o.paths()); ok {
		return &daemon.AlreadyRunning{PID: running.PID, Listen: running.Listen, Started: running.Started, Root: o.global.root}
	}
	input, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("write the daemon's order: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own program: %w", err)
	}
	scrub := scrubber(checked, given.Token)
	report, err := daemon.Launch(cmd.Context(), daemon.LaunchOptions{
		Argv:     daemonArgv(program, o.global.root),
		Env:      o.env.without(tokenVariable, clientTokenVariable),
		Input:    input,
		Limit:    given.StartupTimeout + reportMargin,
		Log:      o.paths().Log(),
		Scrubber: scrub,
	})
	switch {
	case err != nil:
		return &startFailure{err: err, warnings: checked.Warnings, scrub: scrub}
	case !report.OK:
		return &reportedFailure{report: report}
	}
	if o.global.json {
		fmt.Fprintf(o.Out, "%s\n", report.Status)
	}
	io.WriteString(o.Err, warningText(checked.Warnings, scrub))
	return nil
}

// daemonArgv is what a process list shows of the daemon: nothing secret, and which root is its own.
func daemonArgv(program, root string) []string {
	if root == "" {
		return []string{program, "daemon"}
	}
	return []string{program, "daemon", "--root", root}
}

// scrubber knows every secret of one start.
func scrubber(checked *config.Config, token string) *secret.Scrubber {
	return secret.NewScrubber(append(checked.Secrets(), secret.Value(token)))
}

// gatewayOptions turns an order into what the gateway takes.
func (g order) gatewayOptions(checked *config.Config, log *telemetry.Log, env environment) gateway.Options {
	return gateway.Options{
		Paths:          daemon.Paths{Root: g.Root},
		Listen:         g.Listen,
		Token:          secret.Value(g.Token),
		StartupTimeout: g.StartupTimeout,
		Servers:        checked.Servers,
		Secrets:        scrubber(checked, g.Token),
		Log:            log,
		Env:            env.without(tokenVariable, clientTokenVariable, notifyVariable),
		Expose:         string(g.Tuning.Expose),
		AllowedOrigins: g.Tuning.AllowedOrigins,
		GitHubURL:      g.Tuning.GitHubURL,
		Version:        readVersion().Version,
		MaxBody:        int(g.Tuning.MaxBody),
		MaxMessage:     int(g.Tuning.MaxMessage),
		MaxSessions:    g.Tuning.MaxSessions,
		MaxCalls:       g.Tuning.MaxCalls,
	}
}

// openLog opens the log of one start and writes the configuration's warnings into it.
func (g order) openLog(checked *config.Config, second io.Writer) (*telemetry.Log, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.Tuning.LogLevel)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	path := daemon.Paths{Root: g.Root}.Log()
	log, err := telemetry.OpenLog(path, telemetry.LogOptions{Level: level, Second: second})
	if err != nil {
		return nil, err
	}
	log.SetScrubber(scrubber(checked, g.Token))
	if err := log.CatchCrashes(); err != nil {
		log.Logger().Warn("a crash would leave no trace in the log", telemetry.KeyError, err)
	}
	for _, warning := range checked.Warnings {
		log.Logger().Warn("configuration", telemetry.KeyLine, warning)
	}
	return log, nil
}
