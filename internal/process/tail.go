package process

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	tailLines = 20
	tailBytes = 2 << 10
	// lineBytes is where a line is cut; what follows up to the line's end is dropped.
	lineBytes = 8 << 10
)

// Tail keeps the last lines of an output: 20 lines and 2 KiB at most. The zero value is empty and
// ready for use.
type Tail struct {
	mu      sync.Mutex
	lines   []string
	bytes   int
	partial string // a last line without its end, such as the text of a prompt
}

// Add appends a line and drops the oldest ones that are too much.
func (t *Tail) Add(line string) {
	line = cut(line, tailBytes)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = ""
	t.lines = append(t.lines, line)
	t.bytes += len(line)
	for len(t.lines) > tailLines || t.bytes > tailBytes {
		t.bytes -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

func (t *Tail) setPartial(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = line
}

// Lines gives the lines, the oldest first.
func (t *Tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append([]string(nil), t.lines...)
	if t.partial == "" {
		return lines
	}
	size := t.bytes + len(t.partial)
	for len(lines) > 0 && (len(lines) >= tailLines || size > tailBytes) {
		size -= len(lines[0])
		lines = lines[1:]
	}
	return append(lines, t.partial)
}

// drain reads r to its end, so that a child never waits for a reader of what it says. Each line,
// cleaned and cut, goes to the tail and to emit.
func drain(r io.Reader, tail *Tail, emit func(line string)) {
	deliver := func(line []byte) {
		text := cut(clean(line), lineBytes)
		tail.Add(text)
		if emit != nil {
			emit(text)
		}
	}
	buf := make([]byte, 8<<10)
	line := make([]byte, 0, 256)
	for {
		n, err := r.Read(buf)
		rest := buf[:n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			deliver(appendUpTo(line, rest[:i], lineBytes+1))
			line, rest = line[:0], rest[i+1:]
		}
		line = appendUpTo(line, rest, lineBytes+1)
		if err != nil {
			if len(line) > 0 {
				deliver(line)
			}
			return
		}
		if len(line) > 0 {
			tail.setPartial(cut(clean(line[:min(len(line), tailBytes)]), tailBytes))
		}
	}
}

func appendUpTo(line, more []byte, limit int) []byte {
	return append(line, more[:min(len(more), limit-len(line))]...)
}

// cut shortens text to a number of bytes, at the border of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// clean makes a line of an unknown program fit for a terminal and a log: valid UTF-8 without escape
// sequences and control characters. Of a line that was overwritten with carriage returns, as progress
// bars are, the last state stays.
func clean(line []byte) string {
	line = bytes.TrimRight(line, "\r")
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	var b strings.Builder
	b.Grow(len(line))
	for len(line) > 0 {
		if line[0] == 0x1b {
			line = line[escapeLen(line):]
			continue
		}
		r, size := utf8.DecodeRune(line)
		line = line[size:]
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		case r == '\u2028', r == '\u2029':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// escapeLen measures the terminal escape sequence at the start of b: colours and cursor movements
// (ESC [ … letter), titles and links (ESC ] … BEL or ESC \), and the short ones.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < 0x20 || b[i] > 0x7e {
				return i // not a sequence after all: its text is kept
			}
		}
		return len(b)
	case ']':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b {
				return i
			}
		}
		return len(b)
	}
	if b[1] < 0x20 || b[1] > 0x7e {
		return 1
	}
	return 2
}
