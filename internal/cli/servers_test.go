package cli

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/control/controltest"
	"mcp-gateway/internal/daemon"
)

// controlled serves a gateway's control side where the commands look for it, and returns their root.
func controlled(t *testing.T, b control.Backend) string {
	t.Helper()
	root := t.TempDir()
	l, err := control.Listen(daemon.Paths{Root: root}.Socket())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: control.Handler(b)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return root
}

const (
	timeRow = `{"name":"time","type":"stdio","state":"ready","outcome":"applied","pid":8,"restarts":0,"tools":2,"last_error":"","since":"2026-01-02T03:04:05.123456789Z"`
	mailRow = `{"name":"mail","type":"remote","state":"sign_in_required","outcome":"applied","pid":0,"restarts":0,"tools":0,"last_error":"","since":null`
	signIn1 = `{"server":"mail","uid":"a1","status":"pending","authorization_url":"https://as.example/authorize?state=s1&x=<y>",` +
		`"created_at":"2026-01-02T03:04:05.123456789Z","updated_at":"2026-01-02T03:04:05.123456789Z","expires_at":"2026-01-02T03:14:05.123456789Z","failure":null}`
)

// step is one command with what it prints.
type step struct {
	args           string
	exit           int
	stdout, stderr string
}

func (s step) check(t *testing.T, root string) {
	t.Helper()
	code, stdout, stderr := run(t, nil, append([]string{"--root", root}, strings.Fields(s.args)...)...)
	if code != s.exit || stdout != s.stdout || stderr != s.stderr {
		t.Errorf("%s:\ngot  exit %d, stdout %q, stderr %q\nwant exit %d, stdout %q, stderr %q", s.args, code, stdout, stderr, s.exit, s.stdout, s.stderr)
	}
}

func TestServers(t *testing.T) {
	root := controlled(t, controltest.New())
	for _, s := range []step{
		{"servers ls", 0, "time\tstdio\tready\t8\t0\t2\t\n", ""},
		{"servers ls --json", 0, "[" + timeRow + "}]\n", ""},
		{"servers inspect time", 0, "name:     time\ntype:     stdio\nstate:    ready\nsince:    2026-01-02T03:04:05Z\noutcome:  applied\npid:      8\nrestarts: 0\ntools:    2\n" +
			"kind:     command\nruns:     server time\nenvs:     KEY\n", ""},
		{"servers inspect time --json", 0, timeRow + `,"definition":{"kind":"command","runs":"server time","envs":["KEY"],"headers":[]}}` + "\n", ""},
		{"servers inspect tmie", 1, "", "read server \"tmie\": there is no server \"tmie\"\nhint: \"mcp-gateway servers ls\" lists them\n"},
		{"servers inspect tmie --json", 1, "", `{"error":{"code":"not_found","message":"read server \"tmie\": there is no server \"tmie\"","hint":"\"mcp-gateway servers ls\" lists them","details":{}}}` + "\n"},
		{"servers add time", 0, "", ""},
		{"servers add mail", 0, "", "server \"mail\" waits for a sign-in: mcp-gateway servers signin mail\n"},
		{"servers add mail --json", 0, mailRow + `,"definition":{"kind":"command","runs":"server mail","envs":["KEY"],"headers":[]}}` + "\n", ""},
		{`servers add own --config {"own":{"command":"x"}}`, 0, "", ""},
		{`servers add own2 --config {"other":{}}`, 2, "", "add server \"own2\": the definition must name \"own2\" and nothing else\nhint: the form is '{\"own2\": {…}}'\n"},
		{`servers add own2 --config []`, 2, "", "add server \"own2\": registration has to be an object\n"},
		{`servers add own2 --config {`, 2, "", "read the definition: not valid JSON at line 1, column 2: it ends too early\n"},
		{`servers add own2 --config {} --config-file x`, 2, "", "several configurations given: use one of --config, --config-file and -\nhint: see \"mcp-gateway servers add --help\"\n"},
		{"servers add nobody", 1, "", "add server \"nobody\": there is no server \"nobody\"\nhint: \"mcp-gateway catalog search WORD\" finds servers, and --config JSON defines another\n"},
		{"servers add broken", 1, "", "add server \"broken\": server \"broken\": exit status 1\n"},
		{"servers ls", 0, "broken\tstdio\tfailed\t-\t0\t0\texit status 1\nmail\tremote\tsign_in_required\t-\t0\t0\t\nown\tstdio\tready\t8\t0\t2\t\ntime\tstdio\tready\t8\t0\t2\t\n", ""},
		{"status", 0, "time\tready\t8\t0\t2\t\nmail\tsign_in_required\t-\t0\t0\t\nown\tready\t8\t0\t2\t\n", ""},
		{"servers restart time", 0, "", ""},
		{"servers restart broken", 1, "", "restart server \"broken\": server \"broken\": exit status 1\n"},
		{"servers rm own", 0, "", ""},
		{"servers rm own", 1, "", "remove server \"own\": there is no server \"own\"\nhint: \"mcp-gateway servers ls\" lists them\n"},
		{"servers rm mail --json", 0, `{"name":"mail","removed":true}` + "\n", ""},
		{"servers add github/o/r", 0, "", "server \"github/o/r\" waits for a sign-in: mcp-gateway servers signin github/o/r\n"},
		{"servers rm github/o/r", 0, "", ""},
		{"servers", 2, "", ""},
		{"servers rm", 2, "", "NAME is missing\nhint: see \"mcp-gateway servers rm --help\"\n"},
	} {
		if s.args == "servers" { // shows its help
			if code, _, stderr := run(t, nil, "--root", root, "servers"); code != 2 || !strings.HasPrefix(stderr, "List, add, remove") {
				t.Errorf("exit %d, %s", code, stderr)
			}
			continue
		}
		s.check(t, root)
	}
	_, _, stderr := run(t, nil, "--root", root, "servers", "add", "own2", "--config", "[]", "--json")
	if want := `{"error":{"code":"invalid_argument","message":"add server \"own2\": registration has to be an object","details":{"details":[{"@type":"type.googleapis.com/google.rpc.BadRequest"`; !strings.HasPrefix(stderr, want) {
		t.Errorf("got %s", stderr)
	}
}

func TestServers_NoGateway(t *testing.T) {
	root := t.TempDir()
	for _, args := range []string{"servers ls", "servers inspect x", "servers add x", "servers rm x", "servers restart x", "servers signin x"} {
		step{args, 4, "", "gateway is not running\nhint: none answers at " + root + "/run/mcp-gateway.sock; start one with \"mcp-gateway --config JSON\", or give the --root of one that runs\n"}.check(t, root)
	}
}

func TestSignIn(t *testing.T) {
	m := controltest.New()
	root := controlled(t, m)
	const url = "https://as.example/authorize?state=s1&x=<y>\n"
	for _, s := range []step{
		{"servers signin mail", 0, url, ""},
		{"servers signin mail --force", 0, url, ""},
		{"servers signin mail --json", 0, signIn1 + "\n", ""},
		{"servers signin mail --wait --timeout 0s", 4, url, "sign in to server \"mail\": nobody has done so after 0s\n"},
		{"servers signin time", 1, "", "sign in to server \"time\": server \"time\" needs no sign-in\n"},
	} {
		s.check(t, root)
	}
	submit := func(body control.CodeRequest) {
		if _, err := m.SubmitCode(t.Context(), "mail", body); err != nil {
			t.Error(err)
		}
	}
	submit(control.CodeRequest{State: "s1", Code: "c"})
	step{"servers signin mail --wait", 0, "", ""}.check(t, root) // somebody has signed in already
}

// With --wait the command ends with the attempt that it has begun, whatever becomes of that.
func TestF4_SignInWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer control.CodeRequest
		step
	}{
		{"granted", control.CodeRequest{State: "s1", Code: "c"}, step{"", 0, "", ""}},
		{"refused", control.CodeRequest{State: "s1", Error: "access_denied"}, step{"", 1, "", "sign in to server \"mail\": the sign-in was refused\n"}},
		{"granted --json", control.CodeRequest{State: "s1", Code: "c"}, step{"--json", 0,
			`{"server":"mail","uid":"a1","status":"authorized","authorization_url":"","created_at":"2026-01-02T03:04:05.123456789Z","updated_at":"2026-01-02T03:04:05.123456789Z","expires_at":null,"failure":null}` + "\n", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := controltest.New()
			args := append([]string{"--root", controlled(t, m), "servers", "signin", "mail", "--wait"}, strings.Fields(c.args)...)
			r, w := io.Pipe()
			var errs strings.Builder
			ended := make(chan int, 1)
			go func() {
				ended <- Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: w, Err: &errs}, nil)
				w.Close()
			}()
			out := bufio.NewReader(r)
			line, err := out.ReadString('\n') // the address comes before the end
			if err != nil || !strings.Contains(line, "https://as.example/authorize?state=s1&x=<y>") {
				t.Fatalf("printed %q, %v", line, err)
			}
			if _, err := m.SubmitCode(t.Context(), "mail", c.answer); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(out)
			if code := <-ended; code != c.exit || string(rest) != c.stdout || errs.String() != c.stderr || err != nil {
				t.Errorf("exit %d, stdout %q, stderr %q, %v", code, rest, errs.String(), err)
			}
		})
	}
}
