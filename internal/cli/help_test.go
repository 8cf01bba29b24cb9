package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The help is part of the interface: a change of it is seen.
func TestHelp(t *testing.T) {
	for _, command := range []string{"", "serve", "status", "stop", "logs", "servers", "servers ls", "servers inspect", "servers add", "servers rm", "servers restart", "servers signin",
		"tools", "tools ls", "tools call", "tools inspect",
		"catalog", "catalog ls", "catalog search", "catalog show", "catalog validate", "pull", "config check", "doctor", "version", "exit-codes", "demo-server"} {
		args := append([]string{"help"}, strings.Fields(command)...)
		code, stdout, stderr := run(t, nil, args...)
		if code != exitDone || stderr != "" {
			t.Errorf("help %s: exit %d, stderr %s", command, code, stderr)
		}
		name := strings.ReplaceAll(strings.TrimSpace("mcp-gateway "+command), " ", "-")
		golden(t, "help/"+name+".txt", stdout)
		for line := range strings.Lines(stdout) {
			if len([]rune(line)) > 141 {
				t.Errorf("help %s: line is too long: %s", command, line)
			}
		}
	}
}

// Wrong usage is one line and a hint, never the whole usage.
func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ args, stderr string }{
		{"stauts", "unknown command \"stauts\": did you mean \"status\"?\nhint: see \"mcp-gateway --help\"\n"},
		{"tools cal", "unknown command \"cal\" for \"mcp-gateway tools\": did you mean \"call\"?\nhint: see \"mcp-gateway tools --help\"\n"},
		{"status --bad", "unknown flag: --bad\nhint: see \"mcp-gateway status --help\"\n"},
		{"help exit-code", "there is no help on \"exit-code\"\nhint: see \"mcp-gateway help --help\"\n"},
		{"help servers sl", "there is no help on \"servers sl\"\nhint: "},
		{"status now", "unexpected argument \"now\"\nhint: see \"mcp-gateway status --help\"\n"},
		{"catalog show", "NAME is missing\nhint: see \"mcp-gateway catalog show --help\"\n"},
		{"status --timeout soon", "invalid argument \"soon\" for \"--timeout\" flag: time: invalid duration \"soon\"\nhint: see \"mcp-gateway status --help\"\n"},
		{"serve", "no configuration given: use --config JSON, --config-file FILE or -\nhint: see \"mcp-gateway serve --help\"\n"},
		{"serve --config {} -", "several configurations given: use one of --config, --config-file and -\nhint: see \"mcp-gateway serve --help\"\n"},
		{"--config {} --startup-timeout -1s", "--startup-timeout -1s: a time above 0 is needed, as in 55s\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --listen 50005", "--listen \"50005\": HOST:PORT is needed, as in 0.0.0.0:50005\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --expose some", "invalid argument \"some\" for \"--expose\" flag: allowed are all, tools\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --max-body 0", "invalid argument \"0\" for \"--max-body\" flag: a number of bytes above 0 is needed, as in 64MiB\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --max-calls 0", "--max-calls 0: a number above 0 is needed\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --session-idle 0s", "--session-idle 0s: a time above 0 is needed, as in 30m\nhint: see \"mcp-gateway --help\"\n"},
		{"--config {} --allow-origin example.com", "--allow-origin \"example.com\": an origin is needed, as in https://example.com\nhint: see \"mcp-gateway --help\"\n"},
		{"{}", "unknown command \"{}\": give the configuration as --config JSON\nhint: see \"mcp-gateway --help\"\n"},
		{"daemon", "daemon is started by mcp-gateway itself: "},
	} {
		code, stdout, stderr := run(t, nil, append([]string{"--root", t.TempDir()}, strings.Fields(test.args)...)...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, test.stderr) {
			t.Errorf("%s: exit %d, stdout %q, stderr\n%s", test.args, code, stdout, stderr)
		}
		_, _, stderr = run(t, nil, append([]string{"--root", t.TempDir()}, strings.Fields(test.args+" --json")...)...)
		checkErrorJSON(t, stderr, "usage")
	}
}

// Each setting has a variable, which a flag beats.
func TestEnvironment(t *testing.T) {
	env := []string{"MCP_GATEWAY_LISTEN=nonsense", "MCP_GATEWAY_CONFIG_FILE=/does/not/exist"}
	if code, _, stderr := run(t, env, "--config", "{}"); code != exitUsage || !strings.HasPrefix(stderr, `--listen "nonsense"`) {
		t.Errorf("exit %d, stderr %s", code, stderr)
	}
	if code, _, stderr := run(t, env, "--listen", "127.0.0.1:0"); code != exitUsage || !strings.HasPrefix(stderr, "read configuration: open /does/not/exist") {
		t.Errorf("exit %d, stderr %s", code, stderr)
	}
	env = []string{"MCP_GATEWAY_STARTUP_TIMEOUT=soon"}
	want := `environment variable MCP_GATEWAY_STARTUP_TIMEOUT="soon": `
	if code, _, stderr := run(t, env, "status"); code != exitUsage || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit %d, stderr %s", code, stderr)
	}
	if code, stdout, _ := run(t, []string{"MCP_GATEWAY_JSON=true"}, "version"); code != exitDone || !strings.HasPrefix(stdout, `{"version":`) {
		t.Errorf("exit %d, stdout %s", code, stdout)
	}
}

// Without anything to do the help is shown, as a mistake.
func TestBareCommand(t *testing.T) {
	code, stdout, stderr := run(t, nil)
	if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "Start MCP servers") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	_, _, stderr = run(t, nil, "--json")
	checkErrorJSON(t, stderr, "usage")
}

// A sandbox says its id in its environment, each maker under a name of his own.
func TestEnvironment_SandboxID(t *testing.T) {
	for _, test := range []struct {
		env  []string
		args []string
		want string
	}{
		{[]string{"E2B_SANDBOX_ID=e2b", "CUBE_SANDBOX_ID=cube"}, nil, "e2b"},
		{[]string{"CUBE_SANDBOX_ID=cube"}, nil, "cube"},
		{[]string{"E2B_SANDBOX_ID=", "CUBE_SANDBOX_ID=cube"}, nil, "cube"},
		{[]string{"E2B_SANDBOX_ID=e2b"}, []string{"--sandbox-id", "mine"}, "mine"},
		{nil, nil, ""},
	} {
		o := &startOptions{app: &app{Streams: &Streams{}, env: newEnvironment(test.env)}}
		cmd := &cobra.Command{}
		o.bind(cmd)
		if err := errors.Join(cmd.ParseFlags(test.args), applyEnvironment(cmd, o.env)); err != nil {
			t.Fatal(err)
		}
		if o.tuning.SandboxID != test.want {
			t.Errorf("%v %v: %q", test.env, test.args, o.tuning.SandboxID)
		}
	}
}
