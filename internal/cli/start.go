package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/catalog"
	"mcp-gateway/internal/config"
	"mcp-gateway/internal/daemon"
	"mcp-gateway/internal/gateway"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

const (
	tokenVariable       = "GATEWAY_ACCESS_TOKEN"
	clientTokenVariable = "MCP_GATEWAY_TOKEN"
	attachTokenVariable = "MCP_GATEWAY_ATTACH_TOKEN"
)

// reportMargin is what the launcher waits beyond the start-up limit for the reason; with the grace
// that follows it still ends before the 60 s of an SDK.
const reportMargin = time.Second

// startOptions are those of the commands that start a gateway.
type startOptions struct {
	*app
	source          configSource
	tuning          tuning
	attachTokenFile string
}

// tuning are the settings that a gateway is started with. They travel to the daemon as JSON.
type tuning struct {
	AllowedOrigins []string      `json:"allowed_origins,omitempty"`
	Expose         choice        `json:"expose,omitempty"`
	LogLevel       choice        `json:"log_level,omitempty"`
	GitHubURL      string        `json:"github_url,omitempty"`
	MaxBody        size          `json:"max_body"`
	MaxMessage     size          `json:"max_message"`
	MaxSessions    int           `json:"max_sessions"`
	MaxCalls       int           `json:"max_calls"`
	SessionIdle    time.Duration `json:"session_idle"`

	Wait      bool   `json:"wait"`
	Static    bool   `json:"static,omitempty"`
	Dynamic   bool   `json:"dynamic,omitempty"`
	Attach    string `json:"attach,omitempty"`
	SandboxID string `json:"sandbox_id,omitempty"`
	PublicURL string `json:"public_url,omitempty"`
	StateDir  string `json:"state_dir,omitempty"`
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
	flags.DurationVar(&t.SessionIdle, "session-idle", 30*time.Minute, "end a session that was idle for `DURATION`")
	flags.StringVar(&t.GitHubURL, "github-url", "", "clone github/OWNER/REPO from this `URL` instead of GitHub")
	for _, flag := range []string{"expose", "log-level"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(flags.Lookup(flag).Value.(*choiceValue).allowed, cobra.ShellCompDirectiveNoFileComp))
	}
	o.bindControl(cmd)
	for name, variable := range map[string]string{
		"allow-origin": "MCP_GATEWAY_ALLOW_ORIGIN", "expose": "MCP_GATEWAY_EXPOSE",
		"log-level": "MCP_GATEWAY_LOG_LEVEL", "max-body": "MCP_GATEWAY_MAX_BODY", "max-message": "MCP_GATEWAY_MAX_MESSAGE",
		"max-sessions": "MCP_GATEWAY_MAX_SESSIONS", "max-calls": "MCP_GATEWAY_MAX_CALLS",
		"github-url": "MCP_GATEWAY_GITHUB_URL", "session-idle": "MCP_GATEWAY_SESSION_IDLE",
	} {
		fromEnvironment(flags, name, variable)
	}
}

// bindControl binds what the control side goes by.
func (o *startOptions) bindControl(cmd *cobra.Command) {
	t := &o.tuning
	flags := cmd.Flags()
	flags.BoolVar(&t.Wait, "wait", true, "return when all servers are ready; with --wait=false at once")
	flags.BoolVar(&t.Static, "static", false, "only the control side adds servers")
	flags.BoolVar(&t.Dynamic, "dynamic", false, "let agents find and add servers of the catalogue, by tools of the gateway")
	flags.StringVar(&t.Attach, "attach", "", "serve the shared gateway at `URL`, read-only; bearer: $"+attachTokenVariable)
	flags.StringVar(&o.attachTokenFile, "attach-token-file", "", "read the shared gateway's bearer from `FILE`")
	flags.StringVar(&t.SandboxID, "sandbox-id", "", "this sandbox's `ID` in the names of the control side")
	flags.StringVar(&t.PublicURL, "public-url", "", "the `URL` that clients see the gateway at, as in https://50005-ID.example.com")
	flags.StringVar(&t.StateDir, "state-dir", "", "keep the credentials of sign-ins in `DIR`, across restarts")
	cmd.MarkFlagFilename("attach-token-file")
	cmd.MarkFlagDirname("state-dir")
	for name, variable := range map[string]string{
		"wait": "MCP_GATEWAY_WAIT", "static": "MCP_GATEWAY_STATIC", "dynamic": "MCP_GATEWAY_DYNAMIC", "attach": "MCP_GATEWAY_ATTACH",
		"attach-token-file": "MCP_GATEWAY_ATTACH_TOKEN_FILE", "public-url": "MCP_GATEWAY_PUBLIC_URL", "state-dir": "MCP_GATEWAY_STATE_DIR",
	} {
		fromEnvironment(flags, name, variable)
	}
	fromEnvironment(flags, "sandbox-id", "E2B_SANDBOX_ID", "CUBE_SANDBOX_ID")
}

// given says whether there is something to start at all.
func (o *startOptions) given(cmd *cobra.Command, args []string) bool {
	return o.tuning.Attach != "" || o.source.given(cmd, args, o.env)
}

// config returns the bytes of the configuration; with a gateway to attach to none is needed.
func (o *startOptions) config(cmd *cobra.Command, args []string) ([]byte, error) {
	if o.tuning.Attach != "" && !o.source.given(cmd, args, o.env) {
		return []byte("{}"), nil
	}
	return o.source.read(cmd, args, o.app)
}

// attachToken returns the bearer for a shared gateway. It never is an argument.
func (o *startOptions) attachToken() (string, error) {
	if o.attachTokenFile == "" {
		return o.env.get(attachTokenVariable), nil
	}
	text, err := os.ReadFile(o.attachTokenFile)
	if err != nil {
		return "", badConfig(fmt.Errorf("read the shared gateway's token: %w", err), "")
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", badConfig(fmt.Errorf("read the shared gateway's token: %q is empty", o.attachTokenFile), "")
	}
	return token, nil
}

// checkControl refuses settings of the control side that do not go together.
func (o *startOptions) checkControl() error {
	t := &o.tuning
	switch {
	case t.Static && t.Dynamic:
		return usage(errors.New("--static and --dynamic exclude each other"))
	case t.Attach != "" && t.Dynamic:
		return usage(errors.New("--attach and --dynamic exclude each other: a shared gateway is read-only"))
	}
	for _, address := range []struct{ flag, value string }{{"--attach", t.Attach}, {"--public-url", t.PublicURL}} {
		if message := catalog.CheckURL(address.value); address.value != "" && message != "" {
			return usage(fmt.Errorf("%s %q: it %s", address.flag, address.value, message))
		}
	}
	if t.StateDir == "" {
		return nil
	}
	dir, err := filepath.Abs(t.StateDir)
	if err != nil {
		return fmt.Errorf("find the folder %q: %w", t.StateDir, err)
	}
	t.StateDir = dir
	return nil
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
	if o.tuning.SessionIdle <= 0 {
		return usage(fmt.Errorf("--session-idle %s: a time above 0 is needed, as in 30m", o.tuning.SessionIdle))
	}
	for _, origin := range o.tuning.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
			return usage(fmt.Errorf("--allow-origin %q: an origin is needed, as in https://example.com", origin))
		}
	}
	return o.checkControl()
}

// order is what the launcher hands to the daemon over a pipe: everything that must not stand in
// arguments or environment, and what was already decided.
type order struct {
	Config         []byte        `json:"config"`
	Token          string        `json:"token"`
	AttachToken    string        `json:"attach_token,omitempty"`
	Root           string        `json:"root"`
	Listen         string        `json:"listen"`
	StartupTimeout time.Duration `json:"startup_timeout"`
	JSON           bool          `json:"json"`
	Tuning         tuning        `json:"tuning"`
}

// prepare reads and checks everything that can be checked before anything starts.
func (o *startOptions) prepare(cmd *cobra.Command, args []string) (order, *ground, error) {
	if err := o.check(); err != nil {
		return order{}, nil, err
	}
	data, err := o.config(cmd, args)
	if err != nil {
		return order{}, nil, err
	}
	checked, cat, err := checkConfig(data, o.paths())
	if err != nil {
		return order{}, nil, err
	}
	if n := len(checked.Servers); n > 0 && o.tuning.Attach != "" {
		return order{}, nil, usage(fmt.Errorf("--attach takes no servers, and %d are configured: a shared gateway has its own", n))
	}
	attachToken, err := o.attachToken()
	if err != nil {
		return order{}, nil, err
	}
	token := o.env.get(tokenVariable)
	if token == "" {
		token = daemon.NewToken().Reveal()
	}
	given := order{Config: data, Token: token, AttachToken: attachToken, Root: o.global.root, Listen: o.global.listen,
		StartupTimeout: o.global.startupTimeout, JSON: o.global.json, Tuning: o.tuning}
	return given, given.on(checked, cat), nil
}

// runStart starts the gateway in the background and returns when it is ready.
func runStart(cmd *cobra.Command, o *startOptions, args []string) error {
	given, on, err := o.prepare(cmd, args)
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
	done := o.waiting("waiting for the servers to be ready, at most %s; what they say: mcp-gateway logs -f", given.StartupTimeout)
	report, err := daemon.Launch(cmd.Context(), daemon.LaunchOptions{
		Argv:     daemonArgv(program, o.global.root),
		Env:      o.env.without(tokenVariable, clientTokenVariable, attachTokenVariable),
		Input:    input,
		Limit:    given.StartupTimeout + reportMargin,
		Log:      o.paths().Log(),
		Scrubber: on.scrub,
	})
	done()
	switch {
	case err != nil:
		return &startFailure{err: err, warnings: on.checked.Warnings, scrub: on.scrub}
	case !report.OK:
		return &reportedFailure{report: report}
	}
	if o.global.json {
		fmt.Fprintf(o.Out, "%s\n", report.Status)
	}
	io.WriteString(o.Err, warningText(on.checked.Warnings, on.scrub)+report.Text)
	return nil
}

// daemonArgv is what a process list shows of the daemon: nothing secret, and which root is its own.
func daemonArgv(program, root string) []string {
	if root == "" {
		return []string{program, "daemon"}
	}
	return []string{program, "daemon", "--root", root}
}

// ground is what a gateway is started on: the configuration, and what it was checked with.
type ground struct {
	checked *config.Config
	catalog *catalog.Catalog
	scrub   *secret.Scrubber // the only one of the gateway, since it learns the secrets of servers that are added
}

// on puts an order on its ground.
func (g order) on(checked *config.Config, cat *catalog.Catalog) *ground {
	return &ground{checked: checked, catalog: cat, scrub: secret.NewScrubber(append(checked.Secrets(), g.tokens()...))}
}

// tokens are the order's own secrets.
func (g order) tokens() []secret.Value {
	return []secret.Value{secret.Value(g.Token), secret.Value(g.AttachToken)}
}

// gatewayOptions turns an order into what the gateway takes.
func (g order) gatewayOptions(on *ground, log *telemetry.Log, env environment) gateway.Options {
	return gateway.Options{
		Paths:          daemon.Paths{Root: g.Root},
		Listen:         g.Listen,
		Token:          secret.Value(g.Token),
		StartupTimeout: g.StartupTimeout,
		Servers:        on.checked.Servers,
		Catalog:        on.catalog,
		Secrets:        on.scrub,
		Log:            log,
		Env:            env.without(tokenVariable, clientTokenVariable, attachTokenVariable, notifyVariable),
		Expose:         string(g.Tuning.Expose),
		AllowedOrigins: g.Tuning.AllowedOrigins,
		GitHubURL:      g.Tuning.GitHubURL,
		Version:        readVersion().Version,
		Early:          !g.Tuning.Wait,
		Static:         g.Tuning.Static,
		Dynamic:        g.Tuning.Dynamic,
		Attach:         g.Tuning.Attach,
		AttachToken:    secret.Value(g.AttachToken),
		SandboxID:      g.Tuning.SandboxID,
		PublicURL:      g.Tuning.PublicURL,
		StateDir:       g.Tuning.StateDir,
		MaxBody:        int(g.Tuning.MaxBody),
		MaxMessage:     int(g.Tuning.MaxMessage),
		MaxSessions:    g.Tuning.MaxSessions,
		MaxCalls:       g.Tuning.MaxCalls,
		SessionIdle:    g.Tuning.SessionIdle,
	}
}

// openLog opens the log of one start and writes the configuration's warnings into it.
func (g order) openLog(on *ground, second io.Writer) (*telemetry.Log, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(g.Tuning.LogLevel)); err != nil {
		return nil, fmt.Errorf("read the log level: %w", err)
	}
	path := daemon.Paths{Root: g.Root}.Log()
	log, err := telemetry.OpenLog(path, telemetry.LogOptions{Level: level, Second: second})
	if err != nil {
		return nil, err
	}
	log.SetScrubber(on.scrub)
	if err := log.CatchCrashes(); err != nil {
		log.Logger().Warn("a crash would leave no trace in the log", telemetry.KeyError, err)
	}
	for _, warning := range on.checked.Warnings {
		log.Logger().Warn("configuration", telemetry.KeyLine, warning)
	}
	return log, nil
}
