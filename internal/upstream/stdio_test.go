package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mcp-gateway/internal/fault"
	"mcp-gateway/internal/wire"
)

// Each of these servers must be usable as if it did nothing odd.
func TestOddServers(t *testing.T) {
	cold := "npm notice new version available"
	for _, c := range []struct {
		name  string
		flags []string
		noise []string // lines that must be in the log
	}{
		{"B01 banner before the handshake", []string{"-banner"}, []string{"hello, starting", "[INFO]"}},
		{"B02 npm notice", []string{"-print=" + cold}, []string{cold}},
		{"B04 CR LF", []string{"-crlf"}, nil},
		{"B04 blank lines", []string{"-blank-lines"}, nil},
		{"B04 CR LF and blank lines", []string{"-crlf", "-blank-lines"}, nil},
		{"trap 22 byte order mark", []string{"-bom"}, nil},
		{"trap 22 arrays", []string{"-batch"}, nil},
		{"trap 22 string ids", []string{"-string-ids"}, nil},
		{"trap 22 double answers", []string{"-double"}, nil},
		{"trap 22 answers to nothing", []string{"-stray"}, nil},
		{"trap 22 no jsonrpc", []string{"-no-jsonrpc"}, nil},
		{"B07 split characters", []string{"-bytewise", "-byte-delay=1ms"}, nil},
		{"B08 stderr", []string{"-stderr-flood=262144"}, nil},
		{"trap 22 junk that begins like JSON", []string{"-print={not json", "-print=[1,2", `-print={"a":1}`, "-print=[1,2]", "-print={} {}"},
			[]string{"{not json", "[1,2", "line={}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := dial(t, c.flags...)
			if got := p.call("unicode", "{}"); got != "“≤” ≠ 日本語 🎉" {
				t.Errorf("text %q", got)
			}
			if got := p.call("echo", `{"b":12345678901234567890,"a":1.0}`); got != `{"b":12345678901234567890,"a":1.0}` {
				t.Errorf("echo %q", got)
			}
			contains(t, p.logged(), c.noise...)
			if n := p.conn.(*stdio).noise.Load(); int(n) < len(c.noise) {
				t.Errorf("%d lines skipped, want at least %d", n, len(c.noise))
			}
		})
	}
}

func TestB03_NoiseWhileAToolRuns(t *testing.T) {
	p := dial(t)
	if got := p.call("noise", "{}"); got != "answered" {
		t.Errorf("got %q", got)
	}
	contains(t, p.logged(), "parsing…", `\"files\": 3`)
}

func TestB05_LongMessages(t *testing.T) {
	p := newPeer(t)
	p.dialer.Limit = 8 << 20
	p.connect()
	if got := p.call("big", `{"bytes":5242880}`); got != strings.Repeat("x", 5<<20) {
		t.Errorf("5 MiB came as %d bytes", len(got))
	}
	bystander := p.begin("sleep", `{"ms":50}`, "")
	r := p.begin("big", `{"bytes":9000000}`, "").wait()
	var e *wire.Error
	if !errors.As(r.err, &e) || e.Code != wire.CodeInternal {
		t.Fatalf("over the limit: %v", r.err)
	}
	contains(t, e.Message, `server "fake"`, "limit of 8388608 bytes", "900")
	if bystander.text() != `"slept"` || p.call("whoami", "{}") != "fake" {
		t.Error("the server did not live on")
	}
}

// A message over the limit fails its own call, not one whose id happens to stand in its text.
func TestB05_OverlongMessageFailsItsOwnCall(t *testing.T) {
	begin := func(s string) []byte { return []byte(s + strings.Repeat("x", 100)) }
	for _, c := range []struct {
		name string
		line wire.Line
		want string
	}{
		{"id first", wire.Line{Text: begin(`{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":"`)}, "7"},
		{"id after another id", wire.Line{Text: begin(`{"result":{"id":8,"text":"`), End: []byte(`xx"},"id":7}`)}, "7"},
		{"id before jsonrpc at the end", wire.Line{Text: begin(`{"result":{"id":8,"text":"`), End: []byte(`xx"},"id": "7" , "jsonrpc":"2.0"} `)}, `"7"`},
		{"an id inside the result at the end", wire.Line{Text: begin(`{"result":{"text":"`), End: []byte(`xx","id":7}}`)}, ""},
		{"an id inside a string", wire.Line{Text: begin(`{"result":{"text":"`), End: []byte(`xx \"id\":7}"}}`)}, ""},
		{"a notification", wire.Line{Text: begin(`{"method":"x","params":{"id":7,"text":"`), End: []byte(`xx"}}`)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(cutID(c.line)); got != c.want {
				t.Errorf("id %q, want %q", got, c.want)
			}
		})
	}
}

func TestB06_EndlessLine(t *testing.T) {
	t.Run("from the start", func(t *testing.T) {
		p := newPeer(t)
		p.dialer.Spec.Argv = []string{"/bin/sh", "-c", "exec tr '\\0' x </dev/zero"}
		p.dialer.Limit = 1 << 20
		_, err := p.dialer.Dial(t.Context(), nil)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Cause != fault.HandshakeInvalid {
			t.Fatalf("error %v", err)
		}
		contains(t, f.Error(), "does not speak MCP", "no line end")
	})
	t.Run("later", func(t *testing.T) {
		p := newPeer(t)
		p.dialer.Limit = 1 << 20
		p.connect()
		r := p.begin("endless", "{}", "").wait()
		var lost *LostError
		if !errors.As(r.err, &lost) {
			t.Fatalf("error %v", r.err)
		}
		contains(t, lost.Error(), `server "fake"`, "no line end")
	})
}

func TestB11_ParallelCalls(t *testing.T) {
	p := dial(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			want := fmt.Sprintf(`"tag-%d"`, i)
			r, err := p.try("sleep", fmt.Sprintf(`{"ms":%d,"tag":%s}`, (i*7)%20, want), "")
			if err != nil {
				t.Error(err)
				return
			}
			if got := r.text(); got != want {
				t.Errorf("call %d was answered %s", i, got)
			}
		})
	}
	all.Wait()
	if n := len(p.conn.InFlight()); n > 0 {
		t.Errorf("%d calls are still in flight", n)
	}
}

// dead tells whether a process is no more.
func dead(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestB12_StubbornServerIsEnded(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	p := dial(t, "-ignore-eof", "-ignore-term", "-spawn", "-pid-file="+pids)
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	p.conn.Close(hurry)
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		if pid, _ := strconv.Atoi(line); !dead(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := p.conn.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended by: %v", err)
	}
	if _, err := p.try("whoami", "{}", ""); !errors.Is(err, ErrGone) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestB13_ServerWhoseChildEatsItsInput(t *testing.T) {
	p := dial(t)
	thief := p.begin("steal_stdin", `{"lines":1}`, "")
	eaten := p.begin("whoami", "{}", "")
	thief.text()
	if got := p.call("whoami", "{}"); got != "fake" { // the next call is not lost
		t.Errorf("got %q", got)
	}
	eaten.call.Cancel(nil) // its caller gives up
	select {
	case <-eaten.done:
		t.Errorf("a request that was eaten ended with %s %v", eaten.m.Raw, eaten.err)
	default:
	}
}

func TestLostCalls(t *testing.T) {
	t.Run("B10 B19 the error names the server and how it ended", func(t *testing.T) {
		p := newPeer(t)
		p.connect()
		r := p.begin("boom", `{"code":7}`, "").wait()
		var lost *LostError
		if !errors.As(r.err, &lost) {
			t.Fatalf("error %v", r.err)
		}
		contains(t, lost.Error(), `server "fake"`, "exit status 7 after 1 messages", "boom: about to end")
		<-p.conn.Done()
		contains(t, p.conn.Err().Error(), "exit status 7")
	})
	t.Run("kill -9", func(t *testing.T) {
		p := dial(t)
		r := p.begin("cancellable", "{}", `"t"`)
		<-r.first
		if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		contains(t, fmt.Sprint(r.wait().err), `server "fake"`, "signal: killed")
	})
	t.Run("stdout closed", func(t *testing.T) {
		p := dial(t)
		contains(t, fmt.Sprint(p.begin("close_stdout", "{}", "").wait().err), "closed its standard output")
	})
	t.Run("answers written before the end count", func(t *testing.T) {
		p := dial(t, "-exit-after=2")
		if got := p.call("whoami", "{}"); got != "fake" {
			t.Errorf("got %q", got)
		}
		<-p.conn.Done()
		contains(t, p.conn.Err().Error(), "exit status 0 after 2 messages")
	})
	t.Run("a call that meets the end is never sent twice", func(t *testing.T) {
		for range 20 {
			p := dial(t)
			_ = syscall.Kill(p.pid(), syscall.SIGKILL)
			for {
				r, err := p.try("whoami", "{}", "")
				if errors.Is(err, ErrGone) {
					break
				}
				if err != nil {
					t.Fatalf("a write to an ended server: %v", err)
				}
				if r.wait().err == nil { // it was quicker than the signal
					continue
				}
				var lost *LostError
				if !errors.As(r.err, &lost) {
					t.Fatalf("error %v", r.err)
				}
			}
		}
	})
}

func TestStartFaults(t *testing.T) {
	dialFault := func(t *testing.T, p *peer, ready ReadyFunc) *fault.Fault {
		t.Helper()
		_, err := p.dialer.Dial(t.Context(), ready)
		var f *fault.Fault
		if !errors.As(err, &f) {
			t.Fatalf("error %v", err)
		}
		if f.Server != "fake" {
			t.Errorf("server %q", f.Server)
		}
		return f
	}
	t.Run("A5 not found", func(t *testing.T) {
		p := newPeer(t)
		p.dialer.Spec.Argv = []string{"no-such-command", "--key", "s3cr3t"}
		f := dialFault(t, p, nil)
		if f.Cause != fault.NotFound || f.Ran != "no-such-command --key '***'" || f.Hint == "" {
			t.Errorf("fault %+v", f)
		}
	})
	t.Run("A5 exited", func(t *testing.T) {
		f := dialFault(t, newPeer(t, "-exit-before-ready=3", "-stderr=the key s3cr3t is wrong"), nil)
		if f.Cause != fault.ExitedBeforeReady || f.Ended != "exit status 3" || strings.Join(f.Stderr, "|") != "the key *** is wrong" {
			t.Errorf("fault %+v", f)
		}
	})
	t.Run("A5 exited after initialize", func(t *testing.T) {
		p := newPeer(t, "-exit-after=1", "-exit-code=4")
		f := dialFault(t, p, func(ctx context.Context, c Conn) error {
			_, err := ListAll(ctx, c, "tools/list", "tools", nil)
			return err
		})
		if f.Cause != fault.ExitedBeforeReady || f.Ended != "exit status 4" {
			t.Errorf("fault %+v", f)
		}
	})
	t.Run("A5 no answer", func(t *testing.T) {
		for _, flags := range [][]string{{"-silent"}, {"-silent", "-banner"}} {
			p := newPeer(t, append(flags, "-stderr=loading", "-ignore-eof", "-ignore-term")...)
			ctx, cancel := context.WithCancelCause(t.Context())
			p.dialer.Stderr = func(string) { cancel(errors.New("the limit of 1h has passed")) }
			_, err := p.dialer.Dial(ctx, nil)
			var f *fault.Fault
			if !errors.As(err, &f) {
				t.Fatal(err)
			}
			if f.Cause != fault.HandshakeTimeout || f.Ended != "still running" || strings.Join(f.Stderr, "") != "loading" {
				t.Errorf("fault %+v", f)
			}
			contains(t, f.Error(), "no answer to initialize: the limit of 1h has passed")
			if len(flags) > 1 {
				contains(t, f.Error(), "(lines on its standard output that are no messages: ")
			}
		}
	})
	t.Run("A5 no MCP", func(t *testing.T) {
		for line, want := range map[string]string{
			`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"what?"}}`:                               "what?",
			`{"jsonrpc":"2.0","id":$ID,"result":[]}`:                                                             "no object",
			`{"jsonrpc":"2.0","id":$ID,"result":{}}`:                                                             "protocol version",
			`{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"1999-01-01","capabilities":{}}}`:             "1999-01-01",
			`{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":20251125,"capabilities":{},"serverInfo":{}}}`: "20251125",
		} {
			f := dialFault(t, newPeer(t, "-answer=initialize="+line), nil)
			if f.Cause != fault.HandshakeInvalid || f.Hint == "" {
				t.Errorf("%s: %+v", line, f)
			}
			contains(t, f.Error(), want)
		}
	})
	t.Run("no executable", func(t *testing.T) {
		p := newPeer(t)
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, []byte("no script"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.dialer.Spec.Argv = []string{file}
		f := dialFault(t, p, nil)
		if f.Cause != fault.BadConfig && f.Cause != fault.NotFound || f.Err == nil {
			t.Errorf("fault %+v (%v)", f, errors.Is(f.Err, fs.ErrPermission))
		}
	})
}

func TestHandshakes(t *testing.T) {
	for _, version := range versions {
		p := dial(t, "-protocol-version="+version, "-instructions=use metres")
		h := p.conn.Hello()
		if h.Version != version || h.Instructions != "use metres" || !h.Can("tools") || h.Can("tasks") {
			t.Errorf("%s: %+v", version, h)
		}
	}
	t.Run("2026-07-28", func(t *testing.T) {
		p := newPeer(t, "-modern-only", "-exit-on-unknown-request")
		p.dialer.Modern = true
		p.connect()
		if h := p.conn.Hello(); h.Version != Modern || !h.Can("prompts") {
			t.Errorf("%+v", h)
		}
	})
	t.Run("2026-07-28 is not spoken", func(t *testing.T) {
		p := newPeer(t)
		p.dialer.Modern = true
		_, err := p.dialer.Dial(t.Context(), nil)
		contains(t, fmt.Sprint(err), "server/discover", "method not found")
	})
	t.Run("B51 no discover to servers of the older revisions", func(t *testing.T) {
		dial(t, "-exit-on-unknown-request", "-exit-on-second-initialize", "-exit-on-unknown-notification")
	})
}

func TestB30_ListsOfManyPages(t *testing.T) {
	p := dial(t, "-page=2", "-tool=a", "-tool=b", "-tool=c", "-tool=d", "-tool=e", "-tool=f")
	all, err := ListAll(t.Context(), p.conn, "tools/list", "tools", nil)
	if err != nil || len(all) != 6 {
		t.Errorf("%d tools, %v", len(all), err)
	}
	t.Run("cursors that go round in circles", func(t *testing.T) {
		p := dial(t, "-cursor-loop", "-tool=a")
		if all, err := ListAll(t.Context(), p.conn, "tools/list", "tools", nil); err != nil || len(all) == 0 {
			t.Errorf("%d tools, %v", len(all), err)
		}
	})
	t.Run("pages without end", func(t *testing.T) {
		pages := endless{padding: strings.Repeat("x", 32<<20)}
		_, err := ListAll(t.Context(), &pages, "tools/list", "tools", nil)
		contains(t, fmt.Sprint(err), "tools/list: the list is over 256 MiB")
		if pages.count > 9 {
			t.Errorf("%d pages were read", pages.count)
		}
	})
	t.Run("a server without the list", func(t *testing.T) {
		p := dial(t, "-only=tools")
		_, err := ListAll(t.Context(), p.conn, "prompts/list", "prompts", nil)
		var refused *ResponseError
		if !errors.As(err, &refused) || refused.Code() != "-32601" {
			t.Errorf("error %v", err)
		}
	})
}

// endless is a connection on which each list has one more page.
type endless struct {
	Conn
	padding string
	count   int
}

func (e *endless) Begin(_ Request, sink Sink) (Call, error) {
	e.count++
	sink.Done(wire.Msg{Result: fmt.Appendf(nil, `{"nextCursor":"%d","tools":[],"padding":"%s"}`, e.count, e.padding)}, nil)
	return nil, nil
}
