package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Line is one line of a server's stdout without its line end.
type Line struct {
	// Text is the line; it belongs to the receiver. Of a line that is cut it is the beginning.
	Text []byte
	// Cut tells that the line was over the limit, or was long noise that is not worth keeping.
	Cut bool
	// Size is the whole line's length in bytes.
	Size int
	// End holds the last bytes of a line that is cut, where an id may stand.
	End []byte
}

// JSON tells whether the line can be a message: it begins like an object or an array.
func (l *Line) JSON() bool {
	kind := Kind(l.Text)
	return kind == '{' || kind == '['
}

const (
	chunk    = 64 << 10 // bytes asked of the pipe at a time
	keepCut  = 4 << 10  // bytes kept of the beginning of a line that is cut
	keepTail = 256      // bytes kept of its end
)

// ErrNoLineEnd tells that a server wrote more than the limit without ending the line, four times the
// limit where it began like JSON: it does not speak the protocol.
var ErrNoLineEnd = errors.New("no line end")

// LineReader cuts a stream into lines. CR LF and a byte order mark are taken away; lines over the
// limit, and long ones that are no JSON, are cut instead of kept in memory.
type LineReader struct {
	r     io.Reader
	limit int
	buf   []byte // what was read and not yet given out: buf[from:to]
	from,
	to int
	longest int // the last long line's size: the next one is read straight into a buffer of it
}

// NewLineReader reads lines of up to limit bytes.
func NewLineReader(r io.Reader, limit int) *LineReader {
	return &LineReader{r: r, limit: limit, buf: make([]byte, chunk)}
}

// Next returns the next line that is not blank. The error is io.EOF at the end (a last line without
// a line end is given out first), ErrNoLineEnd, or the reader's.
func (l *LineReader) Next() (Line, error) {
	for {
		line, err := l.next()
		if err != nil {
			return line, err
		}
		line.Text = trim(line.Text)
		if len(line.Text) > 0 {
			return line, nil
		}
	}
}

func trim(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	return bytes.TrimSuffix(b, []byte("\r"))
}

func (l *LineReader) next() (Line, error) {
	if i := bytes.IndexByte(l.buf[l.from:l.to], '\n'); i >= 0 {
		text := bytes.Clone(l.buf[l.from : l.from+i])
		l.from += i + 1
		return Line{Text: text, Size: len(text)}, nil
	}
	// The beginning of a line moves to the front, so that the rest of a short one fits behind it.
	l.to = copy(l.buf, l.buf[l.from:l.to])
	l.from = 0
	for l.to < len(l.buf) {
		n, err := l.r.Read(l.buf[l.to:])
		if i := bytes.IndexByte(l.buf[l.to:l.to+n], '\n'); i >= 0 {
			text := bytes.Clone(l.buf[:l.to+i])
			l.from, l.to = l.to+i+1, l.to+n
			return Line{Text: text, Size: len(text)}, nil
		}
		if l.to += n; err != nil {
			text := bytes.Clone(l.buf[:l.to])
			l.to = 0
			if len(text) > 0 && err == io.EOF {
				return Line{Text: text, Size: len(text)}, nil
			}
			return Line{}, err
		}
	}
	return l.long()
}

// long reads on a line that fills the whole buffer.
func (l *LineReader) long() (Line, error) {
	first := Line{Text: trim(l.buf[:64])}
	limit := l.limit
	if !first.JSON() {
		return l.cut(l.buf[:l.to])
	}
	text := make([]byte, l.to, max(4*chunk, l.longest+chunk, l.to))
	copy(text, l.buf[:l.to])
	l.to = 0
	for {
		if len(text) == cap(text) {
			grown := make([]byte, len(text), 2*cap(text))
			copy(grown, text)
			text = grown
		}
		// Past its end a read may bring the next lines: they go back into the buffer.
		n, err := l.r.Read(text[len(text):min(cap(text), len(text)+4*chunk)])
		fresh := text[len(text) : len(text)+n]
		if i := bytes.IndexByte(fresh, '\n'); i >= 0 {
			l.give(fresh[i+1:])
			text = text[:len(text)+i]
			l.longest = len(text)
			return Line{Text: text, Size: len(text)}, nil
		}
		text = text[:len(text)+n]
		if err != nil {
			if err == io.EOF {
				return Line{Text: text, Size: len(text)}, nil
			}
			return Line{}, err
		}
		if len(text) > limit {
			return l.cut(text)
		}
	}
}

// give puts bytes that belong to the next lines into the buffer.
func (l *LineReader) give(rest []byte) {
	if len(rest) > len(l.buf) {
		l.buf = make([]byte, len(rest)+chunk)
	}
	l.from, l.to = 0, copy(l.buf, rest)
}

// cut drops the rest of a line that begins with text.
func (l *LineReader) cut(text []byte) (Line, error) {
	line := Line{Text: bytes.Clone(text[:keepCut]), Size: len(text), Cut: true, End: bytes.Clone(text[len(text)-keepTail:])}
	for {
		n, err := l.r.Read(l.buf)
		if i := bytes.IndexByte(l.buf[:n], '\n'); i >= 0 {
			line.Size += i
			line.End = append(line.End, l.buf[:i]...)
			l.from, l.to = i+1, n
			break
		}
		line.Size += n
		line.End = append(line.End, l.buf[:n]...)
		line.End = bytes.Clone(line.End[max(0, len(line.End)-keepTail):])
		l.from, l.to = 0, 0
		if err != nil {
			return line, err
		}
		if line.Size > 4*l.limit || !line.JSON() && line.Size > l.limit {
			return line, fmt.Errorf("%w in %d bytes of output", ErrNoLineEnd, line.Size)
		}
	}
	line.End = line.End[max(0, len(line.End)-keepTail):]
	return line, nil
}
