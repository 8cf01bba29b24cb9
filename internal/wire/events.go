package wire

import (
	"bytes"
	"io"
	"strconv"
	"time"
)

// Event is one event of an event stream (HTML standard, section 9.2.6).
type Event struct {
	Name  string // "" means "message"
	ID    []byte // nil where the event names none; an empty one takes back the last
	Retry time.Duration
	// Data belongs to the receiver; nil where the event has none. Of an event that is cut it is the
	// beginning.
	Data []byte
	// Cut tells that the data was over the limit.
	Cut bool
	// Size is the whole data's length in bytes.
	Size int
	// End holds the last bytes of data that is cut, where an id may stand.
	End []byte
}

// maxEventField bounds an event's name and id.
const maxEventField = 4 << 10

// EventReader cuts a stream into events. Lines may end in LF, CR LF or CR. A last event without the
// empty line that should end it is given out where its data is whole JSON.
type EventReader struct {
	r     io.Reader
	limit int
	buf   []byte // what was read and not yet looked at: buf[from:to]
	from,
	to int
	err     error // of the reader, once everything before it is given out
	skipLF  bool  // the last line ended in CR: an LF that comes next belongs to it
	started bool
	longest int // the last large event's size: the next one gets a buffer of it at once
}

// NewEventReader reads events whose data is up to limit bytes.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: r, limit: limit, buf: make([]byte, 4<<10)}
}

// Next returns the next event that has an id, a reconnection time or data. The error is the reader's.
func (e *EventReader) Next() (Event, error) {
	var b eventBuilder
	b.reader = e
	for {
		blank, err := e.line(&b)
		if err != nil {
			if b.some && !b.ev.Cut && Valid(b.ev.Data) {
				return b.ev, nil
			}
			return Event{}, err
		}
		if !blank {
			continue
		}
		if b.some {
			if b.ev.Size > len(e.buf) {
				e.longest = b.ev.Size
			}
			return b.ev, nil
		}
		b = eventBuilder{reader: e} // only a name, or nothing
	}
}

// line reads one line into the event; blank tells that it was empty.
func (e *EventReader) line(b *eventBuilder) (blank bool, err error) {
	piece, more, err := e.piece(true)
	if err != nil {
		return false, err
	}
	if !e.started {
		piece = bytes.TrimPrefix(piece, []byte("\xef\xbb\xbf"))
		e.started = true
	}
	if len(piece) == 0 && !more {
		return true, nil
	}
	b.begin(piece)
	for more {
		if piece, more, err = e.piece(false); err != nil {
			return false, err
		}
		b.add(piece)
	}
	b.finish()
	return false, nil
}

// longestFieldName is "retry", with its colon and space, and a byte order mark before it.
const longestFieldName = len("\xef\xbb\xbfretry: ")

// piece returns the next part of a line, without its end; more tells that the line goes on. The first
// piece of a line holds the whole name of its field.
func (e *EventReader) piece(first bool) (piece []byte, more bool, err error) {
	for {
		if e.skipLF && e.from < e.to {
			e.skipLF = false
			if e.buf[e.from] == '\n' {
				e.from++
			}
		}
		rest := e.buf[e.from:e.to]
		if i := lineEnd(rest); i >= 0 {
			e.skipLF = rest[i] == '\r'
			e.from += i + 1
			return rest[:i], false, nil
		}
		if len(rest) >= longestFieldName || len(rest) > 0 && !first {
			e.from = e.to
			return rest, true, nil
		}
		if e.err != nil {
			e.from = e.to
			if len(rest) > 0 {
				return rest, false, nil
			}
			return nil, false, e.err
		}
		e.fill()
	}
}

func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return bytes.IndexByte(b, '\r')
	}
	if j := bytes.IndexByte(b[:i], '\r'); j >= 0 {
		return j
	}
	return i
}

// fill reads on. Where the buffer was filled to its end, there is much to come: it grows, up to a chunk.
func (e *EventReader) fill() {
	left := copy(e.buf, e.buf[e.from:e.to])
	if e.to == len(e.buf) && len(e.buf) < chunk {
		grown := make([]byte, 4*len(e.buf))
		copy(grown, e.buf[:left])
		e.buf = grown
	}
	e.from, e.to = 0, left
	for range 100 {
		n, err := e.r.Read(e.buf[e.to:])
		e.to, e.err = e.to+n, err
		if n > 0 || err != nil {
			return
		}
	}
	e.err = io.ErrNoProgress
}

// eventBuilder collects the fields of one event.
type eventBuilder struct {
	reader *EventReader
	ev     Event
	some   bool   // there is something to give out
	field  string // of the line that is being read
	value  []byte // of it, where it is not the data
}

// begin takes the first piece of a line.
func (b *eventBuilder) begin(piece []byte) {
	name, value := piece, []byte(nil)
	if i := bytes.IndexByte(piece, ':'); i >= 0 {
		name, value = piece[:i], bytes.TrimPrefix(piece[i+1:], []byte(" "))
	}
	b.value = b.value[:0]
	switch string(name) {
	case "data":
		b.field = "data"
		if b.ev.Data == nil {
			b.ev.Data = []byte{}
		} else {
			b.add([]byte("\n")) // lines of data are joined by it
		}
		b.some = true
	case "event", "id", "retry":
		b.field = string(name)
	default:
		b.field = "" // a comment, or a field that nobody knows
	}
	b.add(value)
}

// add takes a further piece of the line.
func (b *eventBuilder) add(piece []byte) {
	switch b.field {
	case "":
	case "data":
		b.data(piece)
	default:
		b.value = append(b.value, piece[:min(len(piece), maxEventField-len(b.value))]...)
	}
}

func (b *eventBuilder) data(piece []byte) {
	ev := &b.ev
	ev.Size += len(piece)
	switch {
	case ev.Cut:
		ev.End = append(ev.End, piece[max(0, len(piece)-keepTail):]...)
		ev.End = append(ev.End[:0], ev.End[max(0, len(ev.End)-keepTail):]...)
	case ev.Size > b.reader.limit:
		ev.Cut = true
		all := append(ev.Data, piece...)
		ev.End = bytes.Clone(all[max(0, len(all)-keepTail):])
		ev.Data = bytes.Clone(all[:min(len(all), keepCut, b.reader.limit)])
	default:
		if cap(ev.Data) == 0 && len(piece) > 0 {
			size := len(piece)
			if b.reader.to == len(b.reader.buf) && b.reader.from == b.reader.to { // more of it is to come
				size = max(4*size, min(b.reader.longest+b.reader.longest/8, b.reader.limit))
			}
			ev.Data = make([]byte, 0, size)
		}
		if need := len(ev.Data) + len(piece); need > cap(ev.Data) { // append grows large slices by less
			grown := make([]byte, len(ev.Data), max(need, 2*cap(ev.Data)))
			copy(grown, ev.Data)
			ev.Data = grown
		}
		ev.Data = append(ev.Data, piece...)
	}
}

// finish takes the end of the line.
func (b *eventBuilder) finish() {
	switch b.field {
	case "event":
		b.ev.Name = string(b.value)
	case "id":
		if bytes.IndexByte(b.value, 0) < 0 {
			b.ev.ID = append([]byte{}, b.value...)
			b.some = true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(b.value), 10, 32); err == nil {
			b.ev.Retry = time.Duration(ms) * time.Millisecond
			b.some = true
		}
	}
}
