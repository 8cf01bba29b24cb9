package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	maxPending     = 4 << 20 // bytes that wait for the disk
	maxServerLines = 3 << 20 // of these, what servers' lines may fill: the gateway's own records come through
	closeLimit     = 3 * time.Second
)

// sink writes records to out in a goroutine of its own, in big pieces. Whoever puts a record never
// waits for out.
type sink struct {
	out  io.Writer
	wake chan struct{} // holds a token when there is something to do
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	pending []byte
	dropped int  // records since the last notice
	closing bool // no more records are taken
}

func newSink(out io.Writer) *sink {
	s := &sink{out: out, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// put takes a copy of the record, or counts it as dropped when more than room bytes would wait.
func (s *sink) put(record []byte, room int) {
	s.mu.Lock()
	if s.closing || len(s.pending)+len(record) > room {
		s.dropped++
	} else {
		s.pending = append(s.pending, record...)
	}
	s.mu.Unlock()
	s.nudge()
}

func (s *sink) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// run is the writer. Two buffers go round: one is filled while the other is written.
func (s *sink) run() {
	defer close(s.done)
	var batch []byte
	missing := 0 // records that the reader of the log has not been told of
	for closing := false; !closing; {
		<-s.wake
		var dropped int
		batch, dropped, closing = s.take(batch)
		records := bytes.Count(batch, []byte{'\n'})
		if missing += dropped; missing > 0 {
			batch = appendDropped(batch, missing)
		}
		if len(batch) == 0 {
			continue
		}
		if _, err := s.out.Write(batch); err != nil {
			missing += records
		} else {
			missing = 0
		}
		if cap(batch) > maxPending/4 {
			batch = nil // gives back the memory of a burst
		}
	}
}

// take gives the writer what waits, in exchange for a buffer to fill.
func (s *sink) take(empty []byte) (batch []byte, dropped int, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, s.pending = s.pending, empty[:0]
	dropped, s.dropped = s.dropped, 0
	return batch, dropped, s.closing
}

// appendDropped adds the record that tells of the missing ones.
func appendDropped(batch []byte, missing int) []byte {
	b := bytes.NewBuffer(batch)
	slog.New(slog.NewTextHandler(b, nil)).Warn("log records dropped", KeyCount, missing)
	return b.Bytes()
}

// close writes what is pending and joins the writer. It is false when the writer is stuck.
func (s *sink) close() bool {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.nudge()
	return s.join()
}

func (s *sink) join() bool {
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-s.done:
		return true
	case <-limit.C:
		return false
	}
}
