package telemetry_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-gateway/internal/telemetry"
)

func TestTail_Lines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path+".1", "1\n2\n")
	write(path, "3\n4\n5\n")
	for n, want := range map[int]string{-1: "1\n2\n3\n4\n5\n", 0: "", 1: "5\n", 2: "4\n5\n", 4: "2\n3\n4\n5\n", 9: "1\n2\n3\n4\n5\n"} {
		var got bytes.Buffer
		if err := telemetry.Tail(t.Context(), path, "", false, n, &got); err != nil || got.String() != want {
			t.Errorf("last %d: %q, %v; want %q", n, got.String(), err, want)
		}
	}
	t.Run("longer than any buffer", func(t *testing.T) {
		long := strings.Repeat("x", 300<<10) + "\n"
		write(path, long+"short\n"+long)
		var got bytes.Buffer
		if err := telemetry.Tail(t.Context(), path, "", false, 2, &got); err != nil || got.String() != "short\n"+long {
			t.Errorf("%d bytes, %v; want %d", got.Len(), err, len(long)+6)
		}
	})
	t.Run("no log", func(t *testing.T) {
		err := telemetry.Tail(t.Context(), filepath.Join(t.TempDir(), "none"), "", false, 1, io.Discard)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTail_Server(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, telemetry.LogOptions{})
	names := []string{"time", "time2", "ti", `odd "name" with = and ≤`, "github/o/r"}
	for _, name := range names {
		log.ServerLine(name, "I am not server=time, server="+name)
		log.Logger().With(telemetry.KeyServer, name).Info("server=time is ready", telemetry.KeyTools, 2)
	}
	log.Logger().Info("no server", telemetry.KeyLine, " server=time ")
	closeLog(t, log)
	all := lines(t, path)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(file, "panic: server=\"time\n\tserver=time\nserver= x\n") // no records, but lines all the same
	file.Close()
	for i, name := range names {
		var got bytes.Buffer
		err := telemetry.Tail(t.Context(), path, name, false, -1, &got)
		if want := all[2*i] + "\n" + all[2*i+1] + "\n"; err != nil || got.String() != want {
			t.Errorf("server %q: got %v\n%s\nwant\n%s", name, err, got.String(), want)
		}
	}
}

// followed runs Tail with follow and gives its lines.
func followed(t *testing.T, path, server string) (next func() string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := telemetry.Tail(ctx, path, server, true, -1, w)
		w.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		r.Close()
		if err := <-ended; err != nil {
			t.Errorf("tail: %v", err)
		}
	})
	in := bufio.NewReader(r)
	return func() string {
		t.Helper()
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(line, "\n")
	}
}

func TestTail_Follow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	next := followed(t, path, "") // before there is a log
	log := open(t, path, telemetry.LogOptions{MaxSize: 150})
	defer closeLog(t, log)
	expect := func(word string) {
		t.Helper()
		if got := next(); !strings.HasSuffix(got, "line="+word) {
			t.Errorf("got %q, want …%s", got, word)
		}
	}
	for _, word := range []string{"one", "two", "three", "four", "five"} { // put aside after every second
		log.ServerLine("x", word)
		expect(word)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Fatalf("nothing was put aside: %v", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	log.ServerLine("x", "6")
	expect("6")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	log.ServerLine("x", "seven")
	expect("seven")
}

func TestTail_FollowOneServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	log := open(t, path, telemetry.LogOptions{})
	defer closeLog(t, log)
	log.ServerLine("a", "1")
	next := followed(t, path, "b")
	for range 3 {
		log.ServerLine("a", "not this")
		log.ServerLine("b", "this")
		if got := next(); !strings.HasSuffix(got, "server=b line=this") {
			t.Errorf("got %q", got)
		}
	}
}

func TestTail_HalfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	io.WriteString(file, "whole\nhal")
	next := followed(t, path, "")
	if got := next(); got != "whole" {
		t.Errorf("got %q", got)
	}
	io.WriteString(file, "f\n")
	if got := next(); got != "half" {
		t.Errorf("got %q", got)
	}
}

func TestTail_WriterFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken pipe")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := telemetry.Tail(ctx, path, "", true, -1, writer(func([]byte) (int, error) { return 0, broken }))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
