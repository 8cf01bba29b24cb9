package downstream

import (
	"sync"
	"time"
)

// item is one message of a stream, in up to three pieces: a response is written with the client's id
// between the bytes of the server's answer, without copying them.
type item struct {
	a, b, c []byte
	borrows bool // b is a piece of the request
	kind    kind
	status  int // of the HTTP answer, where the response comes first; 0 for the usual one
}

func (i *item) size() int { return len(i.a) + len(i.b) + len(i.c) }

type kind uint8

const (
	interim   kind = iota // a notification that may be dropped where too many wait
	important             // one that may not be: a request, list_changed
	response              // the last message of an exchange
	withdrawn             // taken back before anybody read it
)

// Bounds of what waits in, or is kept for, one stream.
const (
	maxWaiting       = 1000    // messages that may be dropped; of others, twice as many
	maxWaitingSize   = 4 << 20 // bytes of them
	maxUnheard       = 256     // messages that may be dropped, while nobody reads
	maxUnheardSize   = 256 << 10
	maxImportantSize = 64 << 20 // bytes, beyond which even those are refused that may not be dropped
	maxKept          = 256      // messages that are read, for a client that comes back
	maxKeptSize      = 1 << 20
)

// stream is a sequence of messages with any number of producers and one reader at a time: who attaches
// takes over from the one before. What is read stays for a while where the stream keeps it, so that a
// client which lost its connection can come back with Last-Event-ID.
type stream struct {
	number int // within the session; 0 is the session's own stream (GET)

	mu       sync.Mutex
	wake     chan struct{} // the reader's own, holds one token: look again; nil while nobody reads
	items    []item
	first    int // the number of items[0]
	read     int // the number of the next item to read
	waiting  int // bytes that are not read
	held     int // bytes that are read and kept
	old      int // the number of the first message that age has not seen
	keeps    bool
	given    bool      // event ids have been given out: a client may come back with one
	answered bool      // the response is in
	ended    error     // why it ends without a response
	left     time.Time // when the last reader left
	one      [1]item   // room for the usual case
}

// condition is what a reader finds.
type condition uint8

const (
	goesOn   condition = iota // there is, or will be, more
	finished                  // the response has been read
	ended                     // there will be no response
	replaced                  // another reader has taken over
	lost                      // the client has gone
)

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// put appends a message. ok is false where it was refused, heard where nobody reads.
func (s *stream) put(i item) (number int, ok, heard bool) {
	s.mu.Lock()
	if s.answered || s.ended != nil || !s.room(i.kind) {
		s.mu.Unlock()
		return 0, false, false
	}
	number = s.first + len(s.items)
	s.items = append(s.items, i)
	s.waiting += i.size()
	s.answered = i.kind == response
	wake := s.wake
	s.mu.Unlock()
	poke(wake)
	return number, true, wake != nil
}

// room tells whether a message may be added. The caller holds mu.
func (s *stream) room(k kind) bool {
	messages := s.first + len(s.items) - s.read
	switch {
	case k == response:
		return true
	case k == important:
		return messages < 2*maxWaiting && s.waiting < maxImportantSize
	case s.wake == nil:
		return messages < maxUnheard && s.waiting < maxUnheardSize
	}
	return messages < maxWaiting && s.waiting < maxWaitingSize
}

// next takes the next message for the reader with this wake.
func (s *stream) next(wake chan struct{}) (i item, number int, c condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != wake {
		return item{}, 0, replaced
	}
	for s.read < s.first+len(s.items) {
		number = s.read
		i = s.items[number-s.first]
		s.read++
		s.waiting -= i.size()
		s.held += i.size()
		s.trim()
		if i.kind != withdrawn {
			return i, number, goesOn
		}
	}
	switch {
	case s.ended != nil:
		return item{}, 0, ended
	case s.answered:
		return item{}, 0, finished
	}
	return item{}, 0, goesOn
}

// trim forgets what has been read and need not be kept. A response always is: there is one, and it
// matters most. The caller holds mu.
func (s *stream) trim() {
	for s.first < s.read {
		if s.keeps && (s.read-s.first <= maxKept && s.held <= maxKeptSize || s.items[0].kind == response) {
			return
		}
		s.dropFirst()
	}
}

func (s *stream) dropFirst() {
	s.held -= s.items[0].size()
	s.items[0] = item{}
	s.items = s.items[1:]
	s.first++
}

// age forgets what has been read and was there when it was called last.
func (s *stream) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first < min(s.old, s.read) {
		s.dropFirst()
	}
	s.old = s.first + len(s.items)
}

// onward attaches where the last reader stopped.
const onward = -2

// attach makes the caller the stream's reader, from the message after a number on; the reader before
// it finds itself replaced. Messages that are kept no more are passed over. at is the number of the
// message before the next one. ok is false where the stream has ended and nothing is left.
func (s *stream) attach(after int) (wake chan struct{}, at int, ok bool) {
	wake = make(chan struct{}, 1)
	wake <- struct{}{}
	s.mu.Lock()
	if s.ended != nil && s.read == s.first+len(s.items) {
		s.mu.Unlock()
		return nil, 0, false
	}
	before := s.wake
	s.wake = wake
	if after > onward && after < s.first+len(s.items) {
		s.seek(max(after+1, s.first))
	}
	at = s.read - 1
	s.mu.Unlock()
	poke(before)
	return wake, at, true
}

// seek makes a message that is there the next one to read. The caller holds mu.
func (s *stream) seek(number int) {
	s.read = number
	s.waiting, s.held = 0, 0
	for n := range s.items {
		if s.first+n < number {
			s.held += s.items[n].size()
		} else {
			s.waiting += s.items[n].size()
		}
	}
}

// back gives messages back that a reader took and could not write.
func (s *stream) back(wake chan struct{}, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == wake && number >= s.first && number < s.read {
		s.seek(number)
	}
}

// detach ends reading. The condition tells what the stream then is: goesOn, finished where the
// response is in, ended, or replaced.
func (s *stream) detach(wake chan struct{}) condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != wake {
		return replaced
	}
	s.wake = nil
	s.left = time.Now()
	switch {
	case s.ended != nil:
		return ended
	case s.answered:
		return finished
	}
	return goesOn
}

// stop ends the stream for a reason, with a last message or none; first is false where it had ended,
// or has its response. heard is false where nobody reads.
func (s *stream) stop(reason error, last *item) (first, heard bool) {
	s.mu.Lock()
	wake := s.wake
	if s.answered || s.ended != nil {
		s.mu.Unlock()
		return false, wake != nil
	}
	s.ended = reason
	if last != nil {
		s.items = append(s.items, *last)
		s.waiting += last.size()
	}
	s.mu.Unlock()
	poke(wake)
	return true, wake != nil
}

// reason says why the stream ended without a response; nil where it has not.
func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// heard tells whether somebody reads.
func (s *stream) heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wake != nil
}

// give notes that event ids are given out.
func (s *stream) give() {
	s.mu.Lock()
	s.given = true
	s.mu.Unlock()
}

// expire ends the stream if its last reader left before a time and none has come since.
func (s *stream) expire(before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil || s.answered || s.ended != nil || !s.left.Before(before) {
		return false
	}
	s.ended = ErrGone
	return true
}

// withdraw takes a message back; false where it has been read.
func (s *stream) withdraw(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < s.read || number >= s.first+len(s.items) {
		return false
	}
	s.waiting -= s.items[number-s.first].size()
	s.items[number-s.first] = item{kind: withdrawn}
	return true
}

// has tells whether the same message waits already.
func (s *stream) has(message []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.items) - 1; n >= s.read-s.first; n-- {
		if string(s.items[n].a) == string(message) {
			return true
		}
	}
	return false
}
