package downstream

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"mcp-gateway/internal/wire"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

// batch is a JSON-RPC batch in flight: each request is an exchange of its own, the responses come
// together. What comes before makes the answer an event stream.
type batch struct {
	x *Exchange // collects: its response is that of the batch

	mu      sync.Mutex
	left    int
	replies [][]byte
}

// batch takes a JSON-RPC batch, which only 2025-03-26 has.
func (s *Server) batch(w http.ResponseWriter, r *http.Request, f form, body []byte) {
	no := func(e *wire.Error) { refuse(w, http.StatusBadRequest, nil, e) }
	if !wire.Valid(body) {
		no(&wire.Error{Code: wire.CodeParse, Message: "parse error: the body is not valid JSON"})
		return
	}
	var elements [][]byte
	for element := range wire.Elements(body) {
		elements = append(elements, element)
	}
	version := header(r, "Mcp-Protocol-Version")
	switch {
	case version != "" && version != V20250326:
		no(noBatch(version))
		return
	case len(elements) == 0:
		no(invalid("invalid request: an empty batch"))
		return
	case len(elements) > maxBatch:
		no(invalid("invalid request: a batch of more than %d messages", maxBatch))
		return
	}
	session := s.session(w, r, nil)
	if session == nil {
		return
	}
	if session.Version != V20250326 {
		no(noBatch(session.Version))
		return
	}
	b := &batch{x: s.exchange(w, wire.Msg{}, nil, session.Version, f)}
	b.run(r.Context(), session, elements)
}

func noBatch(version string) *wire.Error {
	return invalid("invalid request: protocol version %.40s has no batches, send each message by itself", version)
}

// run takes the messages in their order and answers. Requests are served side by side, and all of them
// are in flight before anything else is done, so that ids are compared with those of the whole batch.
func (b *batch) run(ctx context.Context, session *Session, elements [][]byte) {
	server := b.x.server
	b.left = 1 // until all messages are taken
	answers := false
	steps := make([]func(), 0, len(elements))
	var serving sync.WaitGroup
	for _, element := range elements {
		m, err := wire.Parse(element)
		if err == nil && !m.IsRequest() {
			steps = append(steps, func() { server.oneWay(ctx, session, m) })
			continue
		}
		answers = true
		b.left++
		x := server.exchange(nil, m, session, session.Version, anyForm)
		x.batch = b
		if e := b.begin(x, err); e != nil {
			b.add(wire.ErrorReply(m.ID, e.Object()))
			continue
		}
		steps = append(steps, func() {
			serving.Go(func() {
				server.serve(ctx, x)
				b.add(x.reply)
			})
		})
	}
	for _, step := range steps {
		step()
	}
	if !answers {
		b.x.reader.w.WriteHeader(http.StatusAccepted)
		return
	}
	b.add(nil)
	_ = b.x.Wait(ctx) // the requests see for themselves how theirs end
	serving.Wait()
}

// begin registers a request, unless it was no good to begin with.
func (b *batch) begin(x *Exchange, parsing error) *wire.Error {
	switch {
	case parsing != nil:
		return wire.AsError(parsing)
	case x.Msg.Method == "initialize":
		return invalid("invalid request: initialize cannot be part of a batch")
	}
	e, _ := x.Session.begin(x)
	return e
}

// add takes one request's response, nil for none; the last one makes the answer.
func (b *batch) add(reply []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if reply != nil {
		b.replies = append(b.replies, reply)
	}
	if b.left--; b.left > 0 {
		return
	}
	if len(b.replies) == 0 {
		b.x.stop(ErrCancelled, nil)
		return
	}
	body := append(append([]byte{'['}, bytes.Join(b.replies, []byte{','})...), ']')
	b.x.put(item{a: body, kind: response})
}

// waitInBatch waits for the response. What comes before it goes to the batch's answer at once.
func (x *Exchange) waitInBatch(ctx context.Context) error {
	for {
		select {
		case <-x.reader.wake:
		case <-ctx.Done():
			x.stop(ErrGone, nil)
		}
		switch i, _, c := x.next(x.reader.wake); {
		case i.kind == response:
			x.reply = bytes.Join([][]byte{i.a, i.b, i.c}, nil)
			return x.reason()
		case c == ended:
			return x.reason()
		}
	}
}
