package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readEvents reads a stream to its end and writes each event on a line.
func readEvents(r io.Reader, limit int) (lines []string, err error) {
	events := NewEventReader(r, limit)
	for {
		ev, err := events.Next()
		if err != nil {
			return lines, err
		}
		line := fmt.Sprintf("%s|%s|%d|%s", ev.Name, ev.ID, ev.Retry/time.Millisecond, ev.Data)
		if ev.ID != nil && len(ev.ID) == 0 {
			line += "|id taken back"
		}
		if ev.Cut {
			line = fmt.Sprintf("cut at %d of %d, end %q", len(ev.Data), ev.Size, ev.End)
		}
		lines = append(lines, line)
	}
}

func TestEventReader(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	for _, test := range []struct {
		name, in string
		want     []string
	}{
		{"one", "data: {\"a\":1}\n\n", []string{`||0|{"a":1}`}},
		{"every field", "event: message\nid: 7\nretry: 1500\ndata: {}\n\n", []string{"message|7|1500|{}"}},
		{"no space, two spaces", "data:{}\n\ndata:  {}\n\n", []string{"||0|{}", "||0| {}"}},
		{"lines are joined", "data: {\ndata\ndata:  \"a\":1}\n\n", []string{"||0|{\n\n \"a\":1}"}},
		{"CR LF", "id: 1\r\ndata: {}\r\n\r\ndata: []\r\n\r\n", []string{"|1|0|{}", "||0|[]"}},
		{"CR", "id: 1\rdata: {}\r\rdata: []\r\r", []string{"|1|0|{}", "||0|[]"}},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n", []string{"||0|a\nb\nc", "||0|d"}},
		{"comments and unknown fields", ": keep-alive\n\n:\n\nfoo: bar\ndata: {}\n: in between\n\n", []string{"||0|{}"}},
		{"byte order mark", "\xef\xbb\xbfdata: {}\n\n", []string{"||0|{}"}},
		{"an id to come back with", "id: a:b\ndata: \n\n", []string{"|a:b|0|"}},
		{"an id alone", "id: 1\n\n", []string{"|1|0|"}},
		{"an id taken back", "id\ndata: {}\n\n", []string{"||0|{}|id taken back"}},
		{"an id with NUL counts as none", "id: a\x00b\ndata: {}\n\n", []string{"||0|{}"}},
		{"a reconnection time that is none", "retry: soon\ndata: {}\n\nretry: -1\ndata: {}\n\n", []string{"||0|{}", "||0|{}"}},
		{"a reconnection time alone", "retry: 10\n\n", []string{"||10|"}},
		{"a name is not kept", "event: x\n\ndata: {}\n\n", []string{"||0|{}"}},
		{"empty lines", "\n\n\r\n\rdata: {}\n\n\n\n", []string{"||0|{}"}},
		{"B66 no empty line at the end", "data: {\"a\":1}\n", []string{`||0|{"a":1}`}},
		{"B66 no line end at the end", "data: {\"a\":1}", []string{`||0|{"a":1}`}},
		{"cut off in mid-event", "data: {}\n\nid: 2\ndata: {\"a\":", []string{"||0|{}"}},
		{"cut off before data", "data: {}\n\nid: 2\n", []string{"||0|{}"}},
		{"long", "id: 1\ndata: " + long + "\n\ndata: " + long + "\r\n\r\ndata: {}\n\n", []string{"|1|0|" + long, "||0|" + long, "||0|{}"}},
		{"long comment", ":" + long + "\ndata: {}\n\n", []string{"||0|{}"}},
		{"empty", "", nil},
	} {
		for how, reader := range map[string]io.Reader{
			"at once":       strings.NewReader(test.in),
			"halves":        iotest.HalfReader(strings.NewReader(test.in)),
			"byte for byte": iotest.OneByteReader(strings.NewReader(test.in)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(test.in)),
		} {
			t.Run(test.name+" "+how, func(t *testing.T) {
				got, err := readEvents(reader, 1<<20)
				if err != io.EOF {
					t.Errorf("at the end: %v", err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%.2000s", diff)
				}
			})
		}
	}
}

func TestEventReader_OverTheLimit(t *testing.T) {
	body := `{"jsonrpc":"2.0","result":"` + strings.Repeat("x", 2<<20) + `","id":7}`
	in := "data: " + body + "\n\ndata: {}\n\n"
	for how, reader := range map[string]io.Reader{"at once": strings.NewReader(in), "halves": iotest.HalfReader(strings.NewReader(in))} {
		events := NewEventReader(reader, 1<<20)
		ev, err := events.Next()
		if err != nil || !ev.Cut || ev.Size != len(body) || len(ev.Data) != keepCut || !strings.HasPrefix(body, string(ev.Data)) ||
			len(ev.End) > keepTail || !bytes.HasSuffix(ev.End, []byte(`x","id":7}`)) {
			t.Errorf("%s: cut %t at %d of %d, end %q, %v", how, ev.Cut, len(ev.Data), ev.Size, ev.End, err)
		}
		if ev, err = events.Next(); err != nil || string(ev.Data) != "{}" {
			t.Errorf("%s: the next event is %q, %v", how, ev.Data, err)
		}
	}
}

func TestEventReader_ErrorOfTheReader(t *testing.T) {
	broken := errors.New("connection reset")
	lines, err := readEvents(io.MultiReader(strings.NewReader("data: {}\n\ndata: [1,"), iotest.ErrReader(broken)), 1<<20)
	if err != broken || len(lines) != 1 {
		t.Errorf("%v, %v", lines, err)
	}
	if _, err := readEvents(stuck{}, 1<<20); err != io.ErrNoProgress {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("data: {}\n\n"))
	f.Add([]byte("event: message\r\nid: 7\r\nretry: 10\r\ndata: {\"a\":\rdata: 1}\r\r"))
	f.Add([]byte(": keep-alive\n\ndata\ndata:\n\nid\n\n"))
	f.Add([]byte("data: 0123456789012345678901234567890123456789\n\ndata: {}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 32
		whole, err := readEvents(bytes.NewReader(in), limit)
		if err != io.EOF {
			t.Fatalf("ended with %v", err)
		}
		pieces, _ := readEvents(iotest.OneByteReader(bytes.NewReader(in)), limit)
		if diff := cmp.Diff(whole, pieces); diff != "" {
			t.Fatalf("in pieces it reads differently: %s", diff)
		}
		// What is written as an event comes back, after whatever came before it.
		again, _ := readEvents(io.MultiReader(bytes.NewReader(in), strings.NewReader("\r\n\n\nid: last\ndata: {}\n\n")), limit)
		if len(again) == 0 || again[len(again)-1] != "|last|0|{}" {
			t.Fatalf("an event after it is lost: %q", again)
		}
	})
}
