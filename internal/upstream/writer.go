package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"mcp-gateway/internal/wire"
)

// maxQueued bounds what waits for a server that does not read. A call beyond it fails.
const maxQueued = 256 << 20

// writer writes lines to a server's stdin. It writes at once what the pipe takes and leaves the rest
// to a goroutine that lives only as long as there is some, so a stuck server costs no caller its
// goroutine, and lines never mix.
type writer struct {
	file   *os.File
	raw    syscall.RawConn
	limit  int           // bytes that may wait
	broken chan struct{} // closed when nothing can be written any more
	wait   sync.WaitGroup

	mu     sync.Mutex
	queue  [][]byte
	queued int   // bytes in the queue, and in the flushing goroutine's hands
	busy   bool  // a flushing goroutine runs
	err    error // once set, nothing is written any more
}

// errClosed means that the server's input is closed, by itself or by its end.
var errClosed = errors.New("its input is closed")

func newWriter(file *os.File, limit int) *writer {
	w := &writer{file: file, limit: limit, broken: make(chan struct{})}
	raw, err := file.SyscallConn()
	if w.raw = raw; err != nil {
		w.fail(err)
	}
	return w
}

// fail ends the writing. The caller holds mu, or nobody else knows w yet.
func (w *writer) fail(err error) {
	if w.err != nil {
		return
	}
	w.err = fmt.Errorf("%w: %w", errClosed, err)
	close(w.broken)
}

// lineBuffers are for messages of ordinary size.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// largeParams is the size from which params are written from where they lie.
const largeParams = 64 << 10

// request writes a request. params may be anything that is JSON; line ends in it become spaces, and
// large ones may not be changed any more.
func (w *writer) request(id int64, method string, params []byte) error {
	pooled := lineBuffers.Get().(*[]byte)
	defer lineBuffers.Put(pooled)
	out := append((*pooled)[:0], `{"jsonrpc":"2.0","id":`...)
	out = append(strconv.AppendInt(out, id, 10), `,"method":`...)
	out = wire.AppendQuote(out, method)
	if params != nil {
		out = append(out, `,"params":`...)
	}
	if len(params) > largeParams {
		return w.write(bytes.Clone(out), wire.Flatten(params), []byte("}\n"))
	}
	out = append(wire.Flatten(append(append(out, params...), '}')), '\n')
	*pooled = out
	return w.borrow(out)
}

// send writes a message of which it may keep the bytes.
func (w *writer) send(message []byte) error {
	return w.write(append(wire.Flatten(message), '\n'))
}

// borrow writes a line whose bytes are the caller's again afterwards.
func (w *writer) borrow(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.room(len(line)); err != nil {
		return err
	}
	rest, err := w.now(line)
	if len(rest) > 0 {
		w.later(bytes.Clone(rest))
	}
	return err
}

// write takes a line with its end, in pieces. What it cannot write at once it queues.
func (w *writer) write(pieces ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	if err := w.room(size); err != nil {
		return err
	}
	for _, piece := range pieces {
		rest, err := w.now(piece)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			w.later(rest)
		}
	}
	return nil
}

// room tells whether a line can be taken. The caller holds mu, as in now and later.
func (w *writer) room(size int) error {
	if w.err != nil {
		return w.err
	}
	if w.busy && w.queued+size > w.limit {
		return fmt.Errorf("it does not read its input: %d bytes wait for it already", w.queued)
	}
	return nil
}

// now writes what the pipe takes, if nothing waits before it, and returns the rest.
func (w *writer) now(line []byte) (rest []byte, err error) {
	if w.busy {
		return line, nil
	}
	n, err := w.try(line)
	if err != nil {
		w.fail(err)
		return nil, w.err
	}
	return line[n:], nil
}

// later queues what could not be written at once.
func (w *writer) later(rest []byte) {
	w.queue = append(w.queue, rest)
	w.queued += len(rest)
	if !w.busy {
		w.busy = true
		w.wait.Go(w.flush)
	}
}

// try writes what the pipe takes without waiting.
func (w *writer) try(line []byte) (n int, err error) {
	controlErr := w.raw.Write(func(fd uintptr) bool {
		for n < len(line) {
			m, e := syscall.Write(int(fd), line[n:])
			if e == syscall.EINTR {
				continue
			}
			if e == syscall.EAGAIN {
				break
			}
			if e != nil {
				err = e
				break
			}
			n += m
		}
		return true
	})
	if controlErr != nil {
		return n, controlErr
	}
	return n, err
}

// flush writes the queue to its end, waiting for the pipe.
func (w *writer) flush() {
	for {
		w.mu.Lock()
		lines := w.queue
		w.queue = nil
		if len(lines) == 0 || w.err != nil {
			w.busy, w.queued = false, 0
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for _, line := range lines {
			_, err := w.file.Write(line)
			w.mu.Lock()
			if w.queued -= len(line); err != nil {
				w.fail(err)
			}
			w.mu.Unlock()
			if err != nil {
				break
			}
		}
	}
}

// close ends the writing and waits for the flushing goroutine.
func (w *writer) close() {
	w.mu.Lock()
	w.fail(os.ErrClosed)
	w.mu.Unlock()
	w.file.Close()
	w.wait.Wait()
}
