package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"
)

// followInterval is how often a followed log is looked at.
const followInterval = 200 * time.Millisecond

// Tail writes the last lines of the log at path to w (all of them when lines is negative), and with
// follow everything that comes after, until ctx ends, which is no error. A non-empty server selects
// the records of that server alone. With follow the log need not be there yet.
func Tail(ctx context.Context, path, server string, follow bool, lines int, w io.Writer) error {
	t := &tail{path: path, server: server, out: bufio.NewWriter(w)}
	defer t.close()
	err := t.last(ctx, lines)
	if err == nil && follow {
		err = t.follow(ctx)
	} else if err == nil && t.file == nil {
		_, err = os.Stat(path) // says that there is none
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// tail is one reader of a log.
type tail struct {
	path    string
	server  string
	out     *bufio.Writer
	file    *os.File // nil until there is one
	in      *bufio.Reader
	read    int64  // bytes read of file
	partial []byte // the beginning of a line whose end is not written yet
}

func (t *tail) close() {
	if t.file != nil {
		t.file.Close()
	}
}

// open changes over to the file that is at the path now.
func (t *tail) open(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	t.close()
	t.file, t.in, t.read, t.partial = file, bufio.NewReaderSize(file, 64<<10), 0, nil
	return nil
}

// last writes the last lines of the file that was put aside and of the present one.
func (t *tail) last(ctx context.Context, lines int) error {
	emit, flush := t.write, func() error { return nil }
	if lines >= 0 {
		kept := &ring{size: lines}
		emit = kept.add
		flush = func() error { return kept.each(t.write) }
	}
	if err := t.open(t.path + asideSuffix); err == nil {
		if err := t.drain(ctx, emit); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.open(t.path); err == nil {
		if err := t.drain(ctx, emit); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(flush(), t.out.Flush())
}

// follow writes what is added to the log, over any number of files.
func (t *tail) follow(ctx context.Context) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		if err := t.catchUp(ctx); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// catchUp writes what has been added since the last look.
func (t *tail) catchUp(ctx context.Context) error {
	there, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // between two files, or none yet
	case err != nil:
		return err
	}
	if t.file == nil {
		if err := t.open(t.path); err != nil {
			return ignoreMissing(err)
		}
	}
	here, err := t.file.Stat()
	if err != nil {
		return err
	}
	if here.Size() < t.read { // cut: begin again
		if _, err := t.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		t.in.Reset(t.file)
		t.read, t.partial = 0, nil
	}
	if err := t.drain(ctx, t.write); err != nil {
		return err
	}
	if !os.SameFile(here, there) { // read to its end: go on with its successor
		if err := t.open(t.path); err != nil {
			return ignoreMissing(err)
		}
		if err := t.drain(ctx, t.write); err != nil {
			return err
		}
	}
	return t.out.Flush()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// drain hands on the complete lines up to the file's end.
func (t *tail) drain(ctx context.Context, emit func(line []byte) error) error {
	for ctx.Err() == nil {
		piece, err := t.in.ReadSlice('\n')
		t.read += int64(len(piece))
		if err != nil {
			t.partial = append(t.partial, piece...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		line := piece
		if len(t.partial) > 0 {
			line = append(t.partial, piece...)
			t.partial = t.partial[:0]
		}
		if t.server == "" || isOf(line, t.server) {
			if err := emit(line); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func (t *tail) write(line []byte) error {
	_, err := t.out.Write(line)
	return err
}

// isOf tells whether a record is about this server: whether its attribute "server" is exactly that.
// It reads the form that slog's text handler writes.
func isOf(line []byte, server string) bool {
	if !bytes.HasPrefix(line, []byte(slog.TimeKey+"=")) {
		return false // no record: the text of a crash
	}
	for line = bytes.TrimSpace(line); len(line) > 0; line = bytes.TrimLeft(line, " ") {
		key, rest, ok := bytes.Cut(line, []byte{'='})
		if !ok {
			return false
		}
		if len(rest) == 0 || rest[0] != '"' {
			value, after, _ := bytes.Cut(rest, []byte{' '})
			if string(key) == KeyServer {
				return string(value) == server
			}
			line = after
			continue
		}
		quoted, err := strconv.QuotedPrefix(string(rest))
		if err != nil {
			return false
		}
		if string(key) == KeyServer {
			value, err := strconv.Unquote(quoted)
			return err == nil && value == server
		}
		line = rest[len(quoted):]
	}
	return false
}

// ring keeps the last lines that it was given.
type ring struct {
	size  int
	lines [][]byte
	next  int // where the oldest is, when it is full
}

func (r *ring) add(line []byte) error {
	switch {
	case r.size == 0:
	case len(r.lines) < r.size:
		r.lines = append(r.lines, bytes.Clone(line))
	default:
		r.lines[r.next] = append(r.lines[r.next][:0], line...)
		r.next = (r.next + 1) % r.size
	}
	return nil
}

func (r *ring) each(do func(line []byte) error) error {
	for i := range r.lines {
		if err := do(r.lines[(r.next+i)%len(r.lines)]); err != nil {
			return err
		}
	}
	return nil
}
