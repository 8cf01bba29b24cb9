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

func TestLineReader_B05_EndOfACutLine(t *testing.T) {
	// Just over the limit, so that little is left to be dropped: the id is among what was kept.
	in := `{"jsonrpc":"2.0","result":"` + strings.Repeat("x", 1<<20) + `","id":7}`
	for _, more := range []int{0, 1, 100, 200} {
		r := io.MultiReader(strings.NewReader(in), strings.NewReader(strings.Repeat(" ", more)+"\n{}\n"))
		line, err := NewLineReader(r, 1<<20).Next()
		if err != nil || line.Size != len(in)+more || !line.Cut || !bytes.Contains(line.End, []byte(`"id":7}`)) {
			t.Errorf("%d more: %d bytes, cut %v, end %q, %v", more, line.Size, line.Cut, line.End, err)
		}
	}
}

// Whatever the lengths of lines and of reads: the lines are those of a plain split.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte{3, 0, 200, 7}, []byte{1, 255, 30}, uint32(100))
	f.Add([]byte{255, 1, 255, 254, 0, 9}, []byte{200, 3}, uint32(1<<20))
	f.Fuzz(func(t *testing.T, lengths, reads []byte, scale uint32) {
		if len(lengths) > 40 || len(reads) == 0 {
			return
		}
		scale %= 4000
		var in bytes.Buffer
		var want []string
		for n, length := range lengths {
			line := `{"n":"` + strings.Repeat(string(rune('a'+n%26)), int(length)*int(scale)) + `"}`
			want = append(want, line)
			in.WriteString(line + []string{"\n", "\r\n", "\n\n"}[n%3])
		}
		lines := NewLineReader(&jerky{&in, reads, 0}, 64<<20)
		for n, w := range want {
			line, err := lines.Next()
			if err != nil || line.Cut || string(line.Text) != w {
				t.Fatalf("line %d of %d bytes: got %d bytes, cut %v, %v", n, len(w), len(line.Text), line.Cut, err)
			}
		}
		if _, err := lines.Next(); err != io.EOF {
			t.Fatal(err)
		}
	})
}

// jerky reads in pieces of many sizes.
type jerky struct {
	r     io.Reader
	sizes []byte
	n     int
}

func (j *jerky) Read(p []byte) (int, error) {
	j.n++
	size := 1 + int(j.sizes[j.n%len(j.sizes)])*1000
	return j.r.Read(p[:min(len(p), size)])
}
