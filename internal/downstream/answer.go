package downstream

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// form is what a client takes as an answer.
type form uint8

const (
	anyForm    form = iota // JSON, or events where something comes before the response
	onlyJSON               // what comes before the response goes elsewhere or nowhere
	onlyEvents             // even where the response comes first
)

// answer writes messages to one HTTP answer. It belongs to the goroutine of the HTTP request.
type answer struct {
	w       http.ResponseWriter
	from    *stream
	form    form
	numbers bool // events carry ids
	prime   bool // the client knows an event without data, which gives it an id to come back with
	started bool // headers are out
	events  bool // as those of an event stream
	timed   bool // the connection has a write deadline, which has to be moved on
	wrote   bool // since the last beat
	failed  error
	buf     bytes.Buffer
}

const (
	// writeLimit bounds how long a client may take for a piece of an answer: one that does not read
	// would hold the request's goroutine, and what waits, for ever.
	writeLimit = time.Minute
	pieceSize  = 1 << 20
	shortSize  = 64 << 10 // what fits into the connection's buffers
	gather     = 32 << 10 // small events are written together up to this size
)

// message writes a stream's message.
func (a *answer) message(i *item, number int) {
	if i.kind == response && a.form != onlyEvents && (!a.started || a.form == onlyJSON) {
		a.plain(i)
		return
	}
	a.start(-1)
	a.event(i, number)
	if a.buf.Len() >= gather {
		a.flush()
	}
}

// plain writes the response as JSON.
func (a *answer) plain(i *item) {
	if !a.started {
		h := a.w.Header()
		h["Content-Type"] = contentJSON
		h["Content-Length"] = []string{strconv.Itoa(i.size())}
		if i.status != 0 {
			a.w.WriteHeader(i.status)
		}
		a.started = true
	}
	for _, piece := range [...][]byte{i.a, i.b, i.c} {
		a.write(piece)
	}
	a.wrote = true
}

// start begins an event stream; before is the number of the message before the first.
func (a *answer) start(before int) {
	if a.started {
		return
	}
	a.started, a.events, a.wrote = true, true, true
	h := a.w.Header()
	h["Content-Type"] = contentSSE
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	a.w.WriteHeader(http.StatusOK)
	if !a.numbers {
		return
	}
	a.from.give()
	if a.prime {
		eventID(&a.buf, a.from.number, before)
		a.buf.WriteString("data: \n\n")
	}
}

// numbered tells whether the client has been given event ids.
func (a *answer) numbered() bool { return a.events && a.numbers }

// event writes a message as a server-sent event.
func (a *answer) event(i *item, number int) {
	a.buf.WriteString("event: message\n")
	if a.numbers {
		eventID(&a.buf, a.from.number, number)
	}
	a.buf.WriteString("data: ")
	for _, piece := range [...][]byte{i.a, i.b, i.c} {
		a.line(piece)
	}
	a.buf.WriteString("\n\n")
	a.wrote = true
}

func eventID(out *bytes.Buffer, stream, number int) {
	out.WriteString("id: ")
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(stream), 10))
	out.WriteByte('-')
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(number), 10))
	out.WriteByte('\n')
}

// line writes bytes of JSON on a data line: raw line ends in them are white space, but would end the
// line. Long ones are not gathered.
func (a *answer) line(b []byte) {
	for _, end := range [...]byte{'\n', '\r'} {
		if bytes.IndexByte(b, end) >= 0 {
			b = bytes.ReplaceAll(b, []byte{end}, []byte{' '})
		}
	}
	if a.buf.Len()+len(b) < gather {
		a.buf.Write(b)
		return
	}
	a.push()
	a.write(b)
}

// keepAlive writes something that says nothing, so that no proxy takes the connection for dead: a
// comment, or white space before a response that can only be JSON.
func (a *answer) keepAlive() {
	if a.form != onlyJSON {
		a.start(-1)
		a.buf.WriteString(": keep-alive\n\n")
		a.wrote = false
		return
	}
	if !a.started {
		a.started = true
		a.w.Header()["Content-Type"] = contentJSON
		a.w.WriteHeader(http.StatusOK)
	}
	a.buf.WriteByte(' ')
}

// nothing ends the answer of a request that gets no response.
func (a *answer) nothing() {
	switch {
	case a.started:
	case a.form == onlyJSON:
		a.w.WriteHeader(http.StatusAccepted)
	default:
		a.numbers = false // there is nothing to come back for
		a.start(-1)
	}
}

// push hands on what is gathered.
func (a *answer) push() {
	if a.buf.Len() > 0 {
		a.write(a.buf.Bytes())
		a.buf.Reset()
	}
}

// flush sends what is gathered. After the last message net/http does it.
func (a *answer) flush() error {
	a.push()
	if a.failed == nil && a.started {
		a.limit()
		a.failed = flushWriter(a.w)
	}
	return a.failed
}

// write writes at once, after an error nothing any more.
func (a *answer) write(b []byte) {
	limited := a.timed || len(b) > shortSize
	for len(b) > 0 && a.failed == nil {
		piece := b
		if len(b) > 2*pieceSize {
			piece = b[:pieceSize]
		}
		if limited {
			a.limit()
		}
		_, a.failed = a.w.Write(piece)
		b = b[len(piece):]
	}
}

// limit gives the client time for the next piece. Before another request net/http takes the limit off.
func (a *answer) limit() {
	a.timed = true
	// A writer that knows no deadlines writes without.
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(writeLimit))
}

func flushWriter(w http.ResponseWriter) error {
	if f, ok := w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	return nil
}
