package process

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     "plain",
		"tab\there":                 "tab here",
		"\x1b[1;31mred\x1b[0m text": "red text",
		"\x1b]0;title\x07after":     "after",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"bell\x07 nul\x00 del\x7f":                 "bell nul del",
		"crlf\r":                                   "crlf",
		"10%\r20%\r30%":                            "30%",
		"“≤” ok":                                   "“≤” ok",
		"bad \xff byte":                            "bad \uFFFD byte",
		"right\u202eleft":                          "rightleft",
		"two\u2028lines":                           "two lines",
		"c1 \u009b31m":                             "c1 31m",
		"\x1b":                                     "",
		"\x1b[":                                    "",
		"\x1b[é":                                   "é",
	} {
		if got := clean([]byte(in)); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b[0m\r\n\xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got := clean(line)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("clean(%q) = %q", line, got)
		}
		if short := cut(got, 64); len(short) > 64 || !utf8.ValidString(short) {
			t.Errorf("cut to %q", short)
		}
	})
}

func TestTail(t *testing.T) {
	var tail Tail
	for i := range 30 {
		tail.Add(strings.Repeat("x", i))
	}
	if lines := tail.Lines(); len(lines) != tailLines || len(lines[0]) != 10 || len(lines[19]) != 29 {
		t.Errorf("lines %q", lines)
	}
	tail.Add(strings.Repeat("é", tailBytes))
	if lines := tail.Lines(); len(lines) != 1 || len(lines[0]) > tailBytes || !strings.HasSuffix(lines[0], "é…") {
		t.Errorf("%d lines", len(lines))
	}
}

// The text of a prompt has no end of line, and is what a reader needs to see.
func TestTail_HasTheLastLineWithoutItsEnd(t *testing.T) {
	h := newHost(t, HostOptions{})
	p := start(t, h, shell(`printf 'first\nPassword: ' >&2; echo asked; cat`))
	readLine(t, p.Stdout())
	eventually(t, "the prompt is not in the tail", func() bool { return slices.Equal(p.Tail(), []string{"first", "Password:"}) })
}

func TestDrain_CutsLongLines(t *testing.T) {
	var tail Tail
	var lines []string
	drain(strings.NewReader("short\n"+strings.Repeat("y", 3*lineBytes)+"\n\nlast"), &tail, func(l string) { lines = append(lines, l) })
	if len(lines) != 4 || lines[0] != "short" || len(lines[1]) != lineBytes || !strings.HasSuffix(lines[1], "y…") || lines[2] != "" || lines[3] != "last" {
		t.Errorf("%d lines: %.40q", len(lines), lines)
	}
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (a) b (c) S 7 40 39 0 -1"))
	if want := (procStat{pid: 42, ppid: 7, group: 40, session: 39, state: 'S'}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "42", "42 (a", "(a) S 1 2 3", "42 (a) S 1 2", "42 (a) S x 2 3", "x (a) S 1 2 3", ") (", "42 (a)"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %+v", bad, got)
		}
	}
}

func TestDescendants(t *testing.T) {
	const gateway, root = 10, 20
	procs := []procStat{
		{pid: 1, ppid: 0, group: 1, session: 1, state: 'S'},
		{pid: gateway, ppid: 1, group: 10, session: 10, state: 'S'},
		{pid: 33, ppid: 32, group: 31, session: 31, state: 'S'}, // listed before its parent
		{pid: root, ppid: gateway, group: 20, session: 20, state: 'S'},
		{pid: 21, ppid: root, group: 20, session: 20, state: 'S'},
		{pid: 31, ppid: 21, group: 31, session: 31, state: 'Z'}, // has called setsid and ended
		{pid: 32, ppid: gateway, group: 31, session: 31, state: 'S'},
		{pid: 40, ppid: gateway, group: 40, session: 40, state: 'S'}, // cut off, marked
		{pid: 41, ppid: 40, group: 41, session: 41, state: 'S'},
		{pid: 50, ppid: gateway, group: 50, session: 50, state: 'S'}, // another tree
		{pid: 51, ppid: 50, group: 50, session: 50, state: 'S'},
		{pid: 60, ppid: gateway, group: 60, session: 10, state: 'S'}, // forked by other code of the gateway
	}
	marked := func(pid int) bool { return pid == 40 || pid == 60 }
	var got []int
	for _, p := range descendants(procs, root, gateway, marked) {
		got = append(got, p.pid)
	}
	slices.Sort(got)
	if want := []int{20, 21, 32, 33, 40, 41}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFindGroup(t *testing.T) {
	const unified = "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	for _, tt := range []struct{ name, mounts, self, want string }{
		{"version 2 only", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"beside version 1", "29 23 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" + unified, "8:pids:/x\n0::/\n", "/sys/fs/cgroup/unified"},
		{"container without a namespace", "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1/sub\n", "/sys/fs/cgroup/sub"},
		{"mounted elsewhere", "30 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/2\n", ""},
		{"version 1 only", "29 23 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", "8:pids:/x\n", ""},
		{"not mounted", "", "0::/\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findGroup(tt.mounts, tt.self)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestSpec_CommandLine(t *testing.T) {
	spec := Spec{Argv: []string{"/bin/sh", "-c", "echo 'a b' | cat", "", "--x=1"}}
	if got, want := spec.CommandLine(), `/bin/sh -c 'echo '\''a b'\'' | cat' '' --x=1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
