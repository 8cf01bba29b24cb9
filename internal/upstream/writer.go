package upstream

import (
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

// request writes a request. params may be anything that is JSON; line ends in it become spaces.
func (w *writer) request(id int64, method string, params []byte) error {
	if len(params) > 64<<10 {
		out := wire.Request(id, method, params)
		return w.write(append(wire.Flatten(out), '\n'), false)
	}
	pooled := lineBuffers.Get().(*[]byte)
	defer lineBuffers.Put(pooled)
	out := append((*pooled)[:0], `{"jsonrpc":"2.0","id":`...)
	out = append(strconv.AppendInt(out, id, 10), `,"method":`...)
	out = wire.AppendQuote(out, method)
	if params != nil {
		out = append(append(out, `,"params":`...), params...)
	}
	out = append(wire.Flatten(append(out, '}')), '\n')
	*pooled = out
	return w.write(out, true)
}

// send writes a message of which it may keep the bytes.
func (w *writer) send(message []byte) error {
	return w.write(append(wire.Flatten(message), '\n'), false)
}

// write takes a line with its end. What it cannot write at once it queues, as a copy where the bytes
// are borrowed.
func (w *writer) write(line []byte, borrowed bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if !w.busy {
		n, err := w.try(line)
		if err != nil {
			w.fail(err)
			return w.err
		}
		if line = line[n:]; len(line) == 0 {
			return nil
		}
	}
	if w.busy && w.queued+len(line) > w.limit { // else a part of the line is written already
		return fmt.Errorf("it does not read its input: %d bytes wait for it already", w.queued)
	}
	if borrowed {
		line = append([]byte(nil), line...)
	}
	w.queue = append(w.queue, line)
	w.queued += len(line)
	if !w.busy {
		w.busy = true
		w.wait.Go(w.flush)
	}
	return nil
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
