package downstream

import (
	"bytes"
	"strconv"
	"sync"
	"time"
)

// item is one message of a stream, in up to three pieces: a response is written with the client's id
// between the bytes of the server's answer, without copying them.
type item struct {
	a, b, c []byte
	kind    kind
	failed  []byte // the error object of a response, nil where it has a result
}

type kind uint8

const (
	interim   kind = iota // a notification that may be dropped where too many wait
	important             // one that may not be: a request, list_changed
	response              // the last message of an exchange
)

func (i *item) size() int { return len(i.a) + len(i.b) + len(i.c) }

// Bounds of what waits in, or is kept for, one stream.
const (
	maxWaiting  = 1000    // messages
	maxInterim  = 4 << 20 // bytes, beyond which messages that may be dropped are
	maxKept     = 256     // messages kept for a client that comes back
	maxKeptSize = 4 << 20 // bytes
	keepFor     = time.Minute
)

// stream is a sequence of messages with any number of producers and one reader at a time. What is
// read stays for a while where the stream is kept, so that a client which lost its connection can
// come back with Last-Event-ID.
type stream struct {
	number int           // within the session; 0 is the session's own stream (GET)
	wake   chan struct{} // holds one token: something is new

	mu     sync.Mutex
	items  []item
	first  int // the number of items[0]
	read   int // the number of the next item to read
	reader int // which reader is the current one; an older one has to leave
	size   int // bytes in items
	kept   bool
	ended  error // why it ends without a response
	closed time.Time
	parked time.Time // when its reader was lost
	one    [1]item   // room for the usual case
}

func (s *stream) init(number int) {
	s.number = number
	s.wake = make(chan struct{}, 1)
	s.items = s.one[:0]
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// put appends a message; false where it was dropped.
func (s *stream) put(i item) bool {
	s.mu.Lock()
	ok := s.append(i)
	s.mu.Unlock()
	if ok {
		s.signal()
	}
	return ok
}

func (s *stream) append(i item) bool {
	if !s.closed.IsZero() {
		return false
	}
	waiting := s.first + len(s.items) - s.read
	if i.kind == interim && (waiting >= maxWaiting || s.size > maxInterim) {
		return false
	}
	if i.kind == important && waiting >= 2*maxWaiting {
		return false
	}
	s.items = append(s.items, i)
	s.size += i.size()
	if i.kind == response {
		s.closed = time.Now()
	}
	return true
}

// next takes the next message to write, for the current reader; number is its place in the stream.
func (s *stream) next(reader int) (i item, number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reader != s.reader || s.read >= s.first+len(s.items) {
		return item{}, 0, false
	}
	number = s.read
	i = s.items[number-s.first]
	s.read++
	s.trim()
	return i, number, true
}

// trim forgets what has been read and need not be kept.
func (s *stream) trim() {
	for len(s.items) > 0 && s.first < s.read {
		if s.kept && len(s.items) <= maxKept && s.size <= maxKeptSize {
			return
		}
		s.size -= s.items[0].size()
		s.items[0] = item{}
		s.items = s.items[1:]
		s.first++
	}
}

// has tells whether the message after number is still there, or yet to come.
func (s *stream) has(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number+1 >= s.first && number+1 <= s.first+len(s.items)
}

// rewind makes the message after number the next one to be read, where it is still there.
func (s *stream) rewind(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number+1 >= s.first && number+1 <= s.first+len(s.items) {
		s.read = number + 1
	}
}

// stop ends the stream without a response.
func (s *stream) stop(reason error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = reason
	}
	if s.closed.IsZero() {
		s.closed = time.Now()
	}
	s.mu.Unlock()
	s.signal()
}

// over says why the stream ended without a response; nil while it has not.
func (s *stream) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// park notes that the reader is lost.
func (s *stream) park() {
	s.mu.Lock()
	s.parked = time.Now()
	s.mu.Unlock()
}

// attach makes the caller the stream's reader; the one before it has to leave.
func (s *stream) attach() (reader int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = time.Time{}
	s.reader++
	s.signal()
	return s.reader
}

// superseded tells a reader that another one has come.
func (s *stream) superseded(reader int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reader != s.reader
}

// keep makes what is read stay.
func (s *stream) keep() {
	s.mu.Lock()
	s.kept = true
	s.mu.Unlock()
}

// answered tells whether the response has been put.
func (s *stream) answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed.IsZero() && s.ended == nil
}

// event writes a message as a server-sent event. An id is written where number is not negative.
func (i *item) event(out *bytes.Buffer, streamNumber, number int) {
	out.WriteString("event: message\n")
	if number >= 0 {
		eventID(out, streamNumber, number)
	}
	out.WriteString("data: ")
	for _, piece := range [...][]byte{i.a, i.b, i.c} {
		writeLine(out, piece)
	}
	out.WriteString("\n\n")
}

func eventID(out *bytes.Buffer, streamNumber, number int) {
	out.WriteString("id: ")
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(streamNumber), 10))
	out.WriteByte('-')
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(number), 10))
	out.WriteByte('\n')
}

// writeLine writes bytes of JSON on a data line: raw line ends in them are white space, but would
// end the line.
func writeLine(out *bytes.Buffer, b []byte) {
	for {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			out.Write(b)
			return
		}
		out.Write(b[:i])
		out.WriteByte(' ')
		b = b[i+1:]
	}
}
