package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 5<<20) + `"}`
	in := "\xef\xbb\xbf{\"a\":1}\r\n\r\n\nhello\n" + long + "\n" + `{"b":2}` + "\n" + long + "\r\n{\"last\":\"≤\"}"
	want := []string{`{"a":1}`, "hello", long, `{"b":2}`, long, `{"last":"≤"}`}
	for name, r := range map[string]io.Reader{
		"B05 at once":           strings.NewReader(in),
		"B07 halves":            iotest.HalfReader(strings.NewReader(in)),
		"B04 B07 byte for byte": iotest.OneByteReader(strings.NewReader(in)),
		"data with EOF":         iotest.DataErrReader(strings.NewReader(in)),
	} {
		t.Run(name, func(t *testing.T) {
			lines := NewLineReader(r, 64<<20)
			for i, w := range want {
				line, err := lines.Next()
				if err != nil || string(line.Text) != w || line.Cut {
					t.Fatalf("line %d: %.40q (%d bytes), %v", i, line.Text, len(line.Text), err)
				}
			}
			if _, err := lines.Next(); err != io.EOF {
				t.Fatalf("at the end: %v", err)
			}
		})
	}
}

func TestLineReader_B05_OverTheLimit(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", 3<<20) + `"}` + "\n" + strings.Repeat("noise", 1<<16) + "\n{}\n"
	lines := NewLineReader(strings.NewReader(in), 1<<20)
	line, err := lines.Next()
	if err != nil || !line.Cut || !line.JSON() || line.Size < 3<<20 || len(line.Text) > keepCut || !bytes.HasSuffix(line.End, []byte(`x"}`)) {
		t.Fatalf("got %d of %d bytes, end %q, %v", len(line.Text), line.Size, line.End, err)
	}
	if line, err = lines.Next(); err != nil || !line.Cut || line.JSON() {
		t.Fatalf("noise: %d of %d bytes, %v", len(line.Text), line.Size, err)
	}
	if line, err = lines.Next(); err != nil || string(line.Text) != "{}" {
		t.Fatalf("got %q, %v", line.Text, err)
	}
}

// endless never writes a line end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

func TestLineReader_B06_NeverALineEnd(t *testing.T) {
	e := new(endless)
	_, err := NewLineReader(e, 1<<20).Next()
	if !errors.Is(err, ErrNoLineEnd) || e.read > 2<<20 {
		t.Fatalf("after %d bytes: %v", e.read, err)
	}
}
