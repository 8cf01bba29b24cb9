package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"mcp-gateway/internal/wire"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

// batch takes a JSON-RPC batch, which only 2025-03-26 has: each request is an exchange of its own,
// the responses come together.
func (s *Server) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	no := func(message string) {
		refuse(w, http.StatusBadRequest, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: message})
	}
	if !wire.Valid(body) {
		refuse(w, http.StatusBadRequest, nil, &wire.Error{Code: wire.CodeParse, Message: "parse error: the body is not valid JSON"})
		return
	}
	if version := header(r, "Mcp-Protocol-Version"); version != "" && version != V20250326 {
		no(fmt.Sprintf("a batch: protocol version %s has none, send each message by itself", version))
		return
	}
	session := s.session(w, r, nil)
	if session == nil {
		return
	}
	if session.Version != V20250326 {
		no(fmt.Sprintf("a batch: protocol version %s has none, send each message by itself", session.Version))
		return
	}
	var requests []wire.Msg
	var broken [][]byte
	count := 0
	for element := range wire.Elements(body) {
		if count++; count > maxBatch {
			no(fmt.Sprintf("a batch of more than %d messages", maxBatch))
			return
		}
		m, err := wire.Parse(element)
		switch {
		case err != nil:
			broken = append(broken, wire.ErrorReply(m.ID, wire.AsError(err).Object()))
		case m.Method == "initialize":
			broken = append(broken, wire.ErrorReply(m.ID, (&wire.Error{Code: wire.CodeInvalidRequest, Message: "initialize cannot be part of a batch"}).Object()))
		case m.IsRequest():
			requests = append(requests, m)
		default:
			s.oneWay(r.Context(), session, m)
		}
	}
	if count == 0 {
		no("an empty batch")
		return
	}
	if len(requests) == 0 && len(broken) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.serveBatch(w, r, session, requests, broken)
}

// serveBatch runs the requests side by side. Their own messages before the responses make the
// answer an event stream.
func (s *Server) serveBatch(w http.ResponseWriter, r *http.Request, session *Session, requests []wire.Msg, replies [][]byte) {
	all := &Exchange{Session: nil, Version: session.Version, server: s, w: w, r: r}
	all.stream.init(0)
	var mu sync.Mutex
	var wait sync.WaitGroup
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	for _, m := range requests {
		x := &Exchange{Msg: m, Session: session, Version: session.Version, server: s, w: w, r: r, parent: all}
		if !session.begin(x) {
			replies = append(replies, wire.ErrorReply(m.ID, (&wire.Error{Code: wire.CodeInvalidRequest, Message: "a request with this id is in flight already"}).Object()))
			continue
		}
		x.parentDone = func(reply []byte) {
			mu.Lock()
			defer mu.Unlock()
			replies = append(replies, reply)
		}
		wait.Go(func() { s.serve(ctx, x) })
	}
	go func() {
		wait.Wait()
		mu.Lock()
		defer mu.Unlock()
		body := append(append([]byte{'['}, bytes.Join(replies, []byte(","))...), ']')
		all.put(item{a: body, kind: response})
	}()
	if err := all.Wait(r.Context()); err != nil {
		cancel()
	}
	wait.Wait()
}

// waitInBatch passes an exchange's messages on to the batch's answer.
func (x *Exchange) waitInBatch(ctx context.Context) error {
	for {
		select {
		case <-x.wake:
		case <-ctx.Done():
			return ErrGone
		}
		for {
			i, _, ok := x.next(x.reader)
			if !ok {
				break
			}
			if i.kind == response {
				x.parentDone(bytes.Join([][]byte{i.a, i.b, i.c}, nil))
				return nil
			}
			x.parent.put(i)
		}
		if err := x.over(); err != nil {
			return errors.Join(ErrCancelled, err)
		}
	}
}
