package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "crash" { // this test binary as a gateway that crashes
		log, err := telemetry.OpenLog(os.Args[2], telemetry.LogOptions{})
		if err == nil {
			err = log.CatchCrashes()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		panic("out of luck")
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string, o telemetry.LogOptions) *telemetry.Log {
	t.Helper()
	log, err := telemetry.OpenLog(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func closeLog(t *testing.T, log *telemetry.Log) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// logged returns what fill logs, line by line.
func logged(t *testing.T, o telemetry.LogOptions, fill func(*telemetry.Log)) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, o)
	fill(log)
	closeLog(t, log)
	return lines(t, path)
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		return nil
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("%s does not end with a line: %q", path, text)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestB7_File(t *testing.T) {
	path := filepath.Join(t.TempDir(), "var", "log", "mcp-gateway.log")
	for range 2 {
		log := open(t, path, telemetry.LogOptions{})
		log.Logger().Info("gateway is ready", telemetry.KeyServers, 2)
		log.ServerLine("time", "listening on stdio")
		closeLog(t, log)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v; want -rw-------", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o644); err != nil { // the second time it is there, for all to read
			t.Fatal(err)
		}
	}
	stamp := `time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S+ level=INFO `
	got := lines(t, path)
	if len(got) != 4 {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	for i, want := range []string{
		stamp + `msg="gateway is ready" servers=2`,
		stamp + `msg=stderr server=time line="listening on stdio"`,
	} {
		if re := regexp.MustCompile("^" + want + "$"); !re.MatchString(got[i]) || !re.MatchString(got[i+2]) {
			t.Errorf("got %q and %q, want %s", got[i], got[i+2], want)
		}
	}
}

func TestLog_Level(t *testing.T) {
	got := logged(t, telemetry.LogOptions{Level: slog.LevelError}, func(log *telemetry.Log) {
		log.Logger().Warn("too low")
		log.ServerLine("x", "a server's words are always logged")
		log.Logger().Error("high enough")
	})
	if len(got) != 2 || !strings.Contains(got[0], "server=x") || !strings.Contains(got[1], "high enough") {
		t.Errorf("got %q", got)
	}
}

func TestServerLine_Cleaned(t *testing.T) {
	long := strings.Repeat("≤", 2000) // 6000 bytes
	for name, c := range map[string]struct{ line, want string }{
		"colours":        {"\x1b[1;31m[ERROR]\x1b[0m no", `line="[ERROR] no"`},
		"title":          {"\x1b]0;my title\a1\x1b]8;;http://x\x1b\\2", `line=12`},
		"carriage":       {"10%\r100%\r", `line=10%100%`},
		"tab":            {"a\tb", `line="a b"`},
		"bad bytes":      {"a\xffb", "line=\"a\uFFFDb\""},
		"C1 control":     {"a\u009bb", "line=ab"},
		"cut sequence":   {"a\x1b[12", "line=a"},
		"lone escape":    {"a\x1b", "line=a"},
		"quotes":         {`say "hi" server=other`, `line="say \"hi\" server=other"`},
		"cut at a whole": {"x" + long, `line="x` + long[:1365*3] + `… (6001 bytes)"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := logged(t, telemetry.LogOptions{}, func(log *telemetry.Log) { log.ServerLine("s", c.line) })
			if len(got) != 1 || !strings.HasSuffix(got[0], " msg=stderr server=s "+c.want) {
				t.Errorf("got %q, want …%s", got, c.want)
			}
		})
	}
	t.Run("empty", func(t *testing.T) {
		got := logged(t, telemetry.LogOptions{}, func(log *telemetry.Log) {
			log.ServerLine("s", "")
			log.ServerLine("s", "\x1b[0m\r")
		})
		if len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}

func TestB75_SecretsStayOut(t *testing.T) {
	secrets := []secret.Value{"s3cr3t-123", `pass"word with = and` + "\ttab", "≤unicode≤"}
	leak := func(log *telemetry.Log) {
		for _, value := range secrets {
			s := value.Reveal()
			l := log.Logger()
			l.Info("message with "+s, "value", value)
			l.Info("m", telemetry.KeyError, fmt.Errorf("run: %w", errors.New("bad "+s)))
			l.With(telemetry.KeyCommand, s).WithGroup("g").Info("m", slog.Group("inner", "k", s))
			l.Info("m", "list", []string{s}, "struct", struct{ A string }{s}, "stringer", stringer(s))
			l.Info("m", "raw", json.RawMessage(s), "bytes", []byte(s))
			log.ServerLine("x", "my env is TOKEN="+s+" OTHER="+s)
			log.ServerLine("x", "TOKEN="+s[:3]+"\x1b[31m"+s[3:]+"\x1b[0m")
			log.ServerLine("x", strings.Repeat("x", 4<<10-5)+s) // the cut goes through it
		}
	}
	check := func(t *testing.T, got []string) int {
		t.Helper()
		hits := 0
		for _, line := range got {
			for _, part := range []string{"s3cr", "pass", "word with", "unicode"} {
				if strings.Contains(line, part) {
					hits++
				}
			}
		}
		return hits
	}
	var second bytes.Buffer
	got := logged(t, telemetry.LogOptions{Second: &second}, func(log *telemetry.Log) {
		log.SetScrubber(secret.NewScrubber(secrets))
		leak(log)
	})
	if n := check(t, got); n > 0 || len(got) != 8*len(secrets) {
		t.Errorf("%d secrets in %d lines:\n%s", n, len(got), strings.Join(got, "\n"))
	}
	if second.String() != strings.Join(got, "\n")+"\n" {
		t.Error("the second sink has other records")
	}
	t.Run("the check finds them", func(t *testing.T) {
		if n := check(t, logged(t, telemetry.LogOptions{}, leak)); n < 8*len(secrets) {
			t.Errorf("only %d found", n)
		}
	})
}

type stringer string

func (s stringer) String() string { return string(s) }

func TestB09_StuckDiskBlocksNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // both, so that opening waits for nobody
	if err != nil {
		t.Fatal(err)
	}
	log := open(t, path, telemetry.LogOptions{})
	const servers, each = 4, 20_000
	line := strings.Repeat("x", 100)
	var wg sync.WaitGroup
	for i := range servers { // returns only when nobody waits: nothing is read meanwhile
		wg.Go(func() {
			for range each {
				log.ServerLine(fmt.Sprint("server", i), line)
			}
		})
	}
	wg.Wait()
	const own = 20 // together more than the gap that a server's line did not fit into
	for range own {
		log.Logger().Error("the gateway's own record", telemetry.KeyError, strings.Repeat("y", 200))
	}

	closed := make(chan error, 1)
	readOnly, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader.Close() // so that the pipe ends with the log
	go func() { closed <- log.Close() }()
	text, err := io.ReadAll(readOnly)
	if err := errors.Join(err, <-closed, readOnly.Close()); err != nil {
		t.Fatal(err)
	}
	var dropped int
	m := regexp.MustCompile(`level=WARN msg="log records dropped" count=(\d+)\n`).FindSubmatch(text)
	if m == nil {
		t.Fatal("nothing tells of dropped records")
	}
	fmt.Sscan(string(m[1]), &dropped)
	written := bytes.Count(text, []byte(" msg=stderr "))
	if written+dropped != servers*each || written == 0 {
		t.Errorf("%d written and %d dropped, of %d", written, dropped, servers*each)
	}
	if n := bytes.Count(text, []byte("the gateway's own record")); n != own {
		t.Errorf("servers' lines left room for %d of the gateway's own records, want %d", n, own)
	}
}

// writer is a writer made of a function.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestB09_StuckSecondSink(t *testing.T) {
	free := make(chan struct{})
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, telemetry.LogOptions{Second: writer(func(b []byte) (int, error) {
		<-free
		return len(b), nil
	})})
	log.ServerLine("x", "hello")
	var out bytes.Buffer
	for !strings.Contains(out.String(), "line=hello") { // the file gets it all the same
		out.Reset()
		if err := telemetry.Tail(t.Context(), path, "x", false, -1, &out); err != nil {
			t.Fatal(err)
		}
	}
	close(free)
	closeLog(t, log)
}

func TestLog_DiskIsFullForAWhile(t *testing.T) {
	var got bytes.Buffer
	full, failed := true, make(chan struct{}, 1)
	log := open(t, filepath.Join(t.TempDir(), "log"), telemetry.LogOptions{Second: writer(func(b []byte) (int, error) {
		if full {
			full = false
			failed <- struct{}{}
			return 0, syscall.ENOSPC
		}
		return got.Write(b)
	})})
	log.Logger().Info("lost")
	<-failed
	log.Logger().Info("kept")
	closeLog(t, log)
	if text := got.String(); strings.Contains(text, "lost") || !strings.Contains(text, "msg=kept") ||
		!strings.Contains(text, `msg="log records dropped" count=1`) {
		t.Errorf("got %q", text)
	}
}

func TestLog_PutAsideWhenFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, telemetry.LogOptions{MaxSize: 2000})
	var out bytes.Buffer
	for i := range 60 {
		log.ServerLine("x", fmt.Sprintf("line %03d", i))
		for !strings.Contains(out.String(), fmt.Sprintf("line %03d", i)) { // one write for each
			out.Reset()
			if err := telemetry.Tail(t.Context(), path, "", false, 1, &out); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeLog(t, log)
	var all []string
	for _, p := range []string{path + ".1", path} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 2000 || info.Mode() != 0o600 {
			t.Errorf("%s: %d bytes, mode %v", p, info.Size(), info.Mode())
		}
		all = append(all, lines(t, p)...)
	}
	for i, line := range all {
		if want := fmt.Sprintf("line %03d", 60-len(all)+i); !strings.Contains(line, want) {
			t.Fatalf("line %d is %q, want %q", i, line, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 2 {
		t.Errorf("files: %v, %v", entries, err)
	}
}

func TestLog_MovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, telemetry.LogOptions{})
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	log.Logger().Info("after the move")
	closeLog(t, log)
	if got := lines(t, path); len(got) != 1 || !strings.Contains(got[0], "after the move") {
		t.Errorf("got %q", got)
	}
	t.Run("another file in its place", func(t *testing.T) {
		log := open(t, path, telemetry.LogOptions{})
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("new\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		log.Logger().Info("after the change")
		closeLog(t, log)
		if got := lines(t, path); len(got) != 2 || !strings.Contains(got[1], "after the change") {
			t.Errorf("got %q", got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	})
}

func TestB25_CrashIsInTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	out, err := exec.Command(os.Args[0], "crash", path).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	text := strings.Join(lines(t, path), "\n")
	if !strings.Contains(text, "panic: out of luck") || !strings.Contains(text, "goroutine 1 ") {
		t.Errorf("log: %s", text)
	}
}

func TestOpenLog_Refused(t *testing.T) {
	dir := t.TempDir()
	_, err := telemetry.OpenLog(dir, telemetry.LogOptions{})
	if want := "open log: open " + dir + ": is a directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
