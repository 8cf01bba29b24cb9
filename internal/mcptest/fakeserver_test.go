package mcptest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-gateway/internal/mcptest"
	"mcp-gateway/internal/mcptest/payload"
)

// dialogue is a running fake server whose lines the test reads and writes itself.
type dialogue struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *strings.Builder
}

func talk(t *testing.T, flags ...string) *dialogue {
	t.Helper()
	d := &dialogue{t: t, cmd: exec.Command(mcptest.Build(t), flags...), err: &strings.Builder{}}
	d.cmd.Stderr = d.err
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	return d
}

func (d *dialogue) send(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, text+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// line is the next line as it came, its end included.
func (d *dialogue) line() string {
	d.t.Helper()
	s, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatalf("read a line after %q: %v", s, err)
	}
	return s
}

// want fails unless the next line, without its end, is this one.
func (d *dialogue) want(text string) {
	d.t.Helper()
	if got := strings.TrimRight(d.line(), "\n"); got != text {
		d.t.Fatalf("line\n %s\nwant\n %s", got, text)
	}
}

func (d *dialogue) call(id int, tool, args string) {
	d.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args))
}

func answer(id, result string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

func text(s string) string {
	q, _ := json.Marshal(s)
	return `{"content":[{"type":"text","text":` + string(q) + `}]}`
}

const ping, pong = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`

func TestFramingFaults(t *testing.T) {
	for _, c := range []struct {
		flag, want string
	}{
		{"-crlf", pong + "\r\n"},
		{"-bom", "\ufeff" + pong + "\n"},
		{"-blank-lines", "\n" + pong + "\n"},
		{"-string-ids", `{"jsonrpc":"2.0","id":"1","result":{}}` + "\n"},
		{"-double", pong + "\n" + pong + "\n"},
		{"-batch", "[" + pong + "]\n"},
		{"-no-jsonrpc", `{"id":1,"result":{}}` + "\n"},
		{"-banner", "hello, starting\n\x1b[32m[INFO]\x1b[0m listening on stdio\n" + pong + "\n"},
		{"-print=npm notice", "npm notice\n" + pong + "\n"},
		{"-answer=ping={$ID}", "{1}\n"},
		{"-stderr-every=1h", pong + "\n"},
	} {
		t.Run(c.flag, func(t *testing.T) {
			d := talk(t, c.flag)
			d.send(ping)
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(d.out, got); err != nil || string(got) != c.want {
				t.Fatalf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestEveryPayloadIsJSON(t *testing.T) {
	texts := map[string]string{"rich": payload.RichResult, "content": payload.ContentResult, "richTool": payload.RichTool, "error": payload.ErrorAnswer}
	for name, def := range payload.OddTools {
		texts[name] = def
	}
	for name, text := range texts {
		if !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON: %s", name, text)
		}
	}
}

func TestCallsAreByteExact(t *testing.T) {
	d := talk(t)
	const args = `{"z": 12345678901234567890,"a":1.0,"é":"\u00e9"}`
	d.call(1, "echo", args)
	d.want(answer("1", strings.TrimSuffix(text(args), "}")+`,"structuredContent":`+args+"}"))
	const params = `{ "x":1,"name":"raw","arguments":{"b":1,"a":2} }`
	d.send(`{"jsonrpc":"2.0","method":"tools/call","params":` + params + `,"id":"two"}`)
	d.want(answer(`"two"`, text(params)))
	d.call(3, "rich", "{}")
	d.want(answer("3", payload.RichResult))
	d.call(4, "error", "{}")
	d.want(`{"jsonrpc":"2.0","id":4,"error":` + payload.ErrorAnswer + `}`)
}

func TestSlowCallDelaysNoOther(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	for _, flag := range []string{"-prompts=2", "-serial"} {
		t.Run(flag, func(t *testing.T) {
			d := talk(t, flag)
			d.call(1, "wait_for", fmt.Sprintf(`{"path":%q}`, gate))
			d.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			if flag == "-serial" {
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				d.want(answer("1", text("it is there")))
			}
			d.want(answer("2", "{}"))
		})
	}
}

func TestCancellation(t *testing.T) {
	d := talk(t)
	d.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"cancellable","_meta":{"progressToken":"p-1"}}}`)
	d.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p-1","progress":1,"total":1,"message":"step 1"}}`)
	d.call(8, "cancelled", `{"wait":1}`)
	d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"test"}}`)
	d.want(answer("8", text(`[{"requestId":7,"reason":"test"}]`)))
}

func TestAsking(t *testing.T) {
	d := talk(t)
	d.call(1, "ask_roots", `{}`)
	d.want(`{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
	d.send(answer("1", `{"roots":[]}`))
	d.want(answer("1", text(`{"result":{"roots":[]}}`)))
}

func TestListsInPages(t *testing.T) {
	d := talk(t, "-page=2", "-tool=a", "-tool=b", "-tool=c", "-prefix=x.")
	def := func(n string) string {
		return `{"name":"x.` + n + `","description":"Says which server and tool it is.","inputSchema":{"type":"object","properties":{}}}`
	}
	d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	d.want(answer("1", `{"tools":[`+def("a")+","+def("b")+`],"nextCursor":"page-at-2"}`))
	d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"page-at-2"}}`)
	d.want(answer("2", `{"tools":[`+def("c")+`]}`))
	d.call(3, "x.b", `{"k":1}`)
	d.want(answer("3", text(`fake/x.b {"k":1}`)))
}

func TestChildThatEatsStdin(t *testing.T) {
	d := talk(t)
	d.call(1, "steal_stdin", `{"lines":1}`)
	d.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	d.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	d.want(answer("1", text("the child has read its lines")))
	d.want(answer("3", "{}"))
}

func TestSpawnedProcessSurvivesItsServer(t *testing.T) {
	d := talk(t)
	d.call(1, "spawn_setsid", `{}`)
	var pid int
	if _, err := fmt.Sscanf(d.line(), `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%d"}]}}`, &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	d.in.Close()
	if err := d.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the grandchild %d is gone: %v", pid, err)
	}
}

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		input string
		code  int
		err   string
	}{
		{"end of input", nil, "", 0, ""},
		{"boom", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"boom","arguments":{"code":9}}}`, 9, "boom: about to end\n"},
		{"exit after", []string{"-exit-after=1", "-exit-code=4"}, ping, 4, ""},
		{"before ready", []string{"-exit-before-ready=5", "-stderr=no key"}, "", 5, "no key\n"},
		{"unknown notification", []string{"-exit-on-unknown-notification"}, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, 3, "unknown notification \"notifications/cancelled\"\n"},
		{"unknown request", []string{"-exit-on-unknown-request"}, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 3, "unknown request \"server/discover\"\n"},
		{"unknown flag", []string{"-nonsense"}, "", 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := talk(t, c.flags...)
			if c.input != "" {
				d.send(c.input)
			} else {
				d.in.Close()
			}
			_, _ = io.ReadAll(d.out)
			_ = d.cmd.Wait()
			if got := d.cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			if c.err != "" && d.err.String() != c.err {
				t.Errorf("stderr %q, want %q", d.err, c.err)
			}
		})
	}
}

func TestModernServerAsksInItsResult(t *testing.T) {
	d := talk(t, "-modern")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask_roots",` + meta + `}}`)
	d.want(answer("1", `{"resultType":"input_required","inputRequests":{"ask":{"method":"roots/list","params":{}}},"requestState":"asked"}`))
	d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask_roots","inputResponses":{"ask":{"roots":[]}},"requestState":"asked",` + meta + `}}`)
	d.want(answer("2", `{"resultType":"complete",`+text(`{"result":{"roots":[]}}`)[1:]))
}
