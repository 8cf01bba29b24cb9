package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcp-gateway/internal/wire"
)

// post takes one message, or a batch of 2025-03-26.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if e, status := acceptable(r); e != nil {
		refuse(w, status, nil, e)
		return
	}
	body, e, status := s.body(w, r)
	if e != nil {
		refuse(w, status, nil, e)
		return
	}
	if wire.Kind(body) == '[' {
		s.batch(w, r, body)
		return
	}
	m, err := wire.Parse(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, wire.AsError(err))
		return
	}
	switch {
	case isModern(r, &m): // where initialize is a method that is not there
		s.modern(w, r, m)
	case m.Method == "initialize" && m.ID != nil:
		s.initialize(w, r, m)
	default:
		s.legacy(w, r, m)
	}
}

// acceptable looks at the headers that say what is sent and what can be taken.
func acceptable(r *http.Request) (*wire.Error, int) {
	if kind := header(r, "Content-Type"); kind != "application/json" {
		if base, _, err := mime.ParseMediaType(kind); err != nil || base != "application/json" {
			return &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the Content-Type header is %q; MCP messages are application/json", kind)}, http.StatusUnsupportedMediaType
		}
	}
	if !accepts(r, "application/json") && !accepts(r, "text/event-stream") {
		return &wire.Error{Code: wire.CodeInvalidRequest, Message: "the Accept header allows neither of the two forms of an answer: send Accept: " + noKeepAccept}, http.StatusNotAcceptable
	}
	return nil, 0
}

// accepts tells whether the Accept header allows a media type; without the header all are allowed.
func accepts(r *http.Request, want string) bool {
	values := r.Header["Accept"]
	if len(values) == 0 {
		return true
	}
	if values[0] == noKeepAccept {
		return true
	}
	major, _, _ := strings.Cut(want, "/")
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			kind, _, _ = strings.Cut(strings.TrimSpace(part), ";")
		}
		if kind != want && kind != "*/*" && kind != major+"/*" {
			continue
		}
		if q, err := strconv.ParseFloat(params["q"], 64); err != nil || q > 0 {
			return true
		}
	}
	return false
}

// body reads the request's body up to the limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, *wire.Error, int) {
	tooLarge := func() *wire.Error {
		return &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the body is over the limit of %d bytes", s.o.MaxBody)}
	}
	if n := r.ContentLength; n >= 0 {
		if n > int64(s.o.MaxBody) {
			w.Header().Set("Connection", "close")
			return nil, tooLarge(), http.StatusRequestEntityTooLarge
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, &wire.Error{Code: wire.CodeParse, Message: "the body ended early: " + err.Error()}, http.StatusBadRequest
		}
		return body, nil, 0
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.o.MaxBody)))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, tooLarge(), http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, &wire.Error{Code: wire.CodeParse, Message: "read the body: " + err.Error()}, http.StatusBadRequest
	}
	return body, nil, 0
}

// initialize opens a session.
func (s *Server) initialize(w http.ResponseWriter, r *http.Request, m wire.Msg) {
	asked, ok := wire.GetString(m.Params, "protocolVersion")
	if !ok {
		refuse(w, http.StatusBadRequest, m.ID, &wire.Error{Code: wire.CodeInvalidParams, Message: `initialize needs params with a string "protocolVersion"`})
		return
	}
	version := asked
	if !slices.Contains(Versions[1:], version) {
		version = V20251125 // the newest that opens with initialize
	}
	session := newSession(version)
	session.Capabilities = bytes.Clone(wire.Get(m.Params, "capabilities"))
	session.ClientInfo = bytes.Clone(wire.Get(m.Params, "clientInfo"))
	result := s.handler.Initialize(session)
	if !s.open(session) {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, m.ID, &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("no room for another session: %d are open and all are busy", s.o.MaxSessions)})
		return
	}
	h := w.Header()
	h["Mcp-Session-Id"] = []string{session.ID}
	h["Content-Type"] = contentJSON
	reply := wire.Reply(m.ID, result)
	h["Content-Length"] = []string{strconv.Itoa(len(reply))}
	w.Write(reply)
}

// legacy takes a message that belongs to a session.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, m wire.Msg) {
	session := s.session(w, r, m.ID)
	if session == nil {
		return
	}
	if version := header(r, "Mcp-Protocol-Version"); version != "" && version != session.Version && !slices.Contains(Versions, version) {
		refuse(w, http.StatusBadRequest, m.ID, &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the MCP-Protocol-Version header is %q; spoken are %s", version, strings.Join(Versions, ", "))})
		return
	}
	if !m.IsRequest() {
		s.oneWay(r.Context(), session, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	x := &Exchange{Msg: m, Session: session, Version: session.Version, server: s, w: w, r: r}
	if !session.begin(x) {
		refuse(w, http.StatusBadRequest, m.ID, &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("a request with the id %s is in flight already in this session", clip(m.ID))})
		return
	}
	s.serve(r.Context(), x)
}

// serve hands an exchange to the handler; a parked one stays registered.
func (s *Server) serve(ctx context.Context, x *Exchange) {
	switch {
	case x.Msg.Method == "subscriptions/listen": // it lives as long as its client, and is no call
		s.handler.Serve(ctx, x)
	case s.inFlight.Add(1) > int64(s.o.MaxInFlight):
		s.inFlight.Add(-1)
		x.Fail(&wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("too many calls: %d are in flight already", s.o.MaxInFlight)})
		_ = x.Wait(ctx) // the answer is there already
	default:
		s.handler.Serve(ctx, x)
		s.inFlight.Add(-1)
	}
	if x.Session != nil && !x.isParked() {
		x.Session.done(x)
	}
}

func (s *stream) isParked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.parked.IsZero() && s.closed.IsZero()
}

// oneWay takes a notification or a response of a session's client.
func (s *Server) oneWay(ctx context.Context, session *Session, m wire.Msg) {
	session.touch()
	if m.IsNotification() {
		s.handler.Notified(ctx, session, m)
		return
	}
	if id, err := strconv.ParseInt(strings.Trim(string(m.ID), `"`), 10, 64); err == nil {
		session.answer(id, m, nil)
	}
}

func clip(b []byte) []byte {
	if len(b) > 80 {
		return append(bytes.Clone(b[:80]), "…"...)
	}
	return b
}

// get opens a session's own stream, or goes on with an event stream that was cut off.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: "a GET opens an event stream: send Accept: text/event-stream"})
		return
	}
	if header(r, "Mcp-Session-Id") == "" && header(r, "Mcp-Protocol-Version") >= V20260728 {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: "2026-07-28 has no GET stream; use subscriptions/listen"})
		return
	}
	session := s.session(w, r, nil)
	if session == nil {
		return
	}
	number, last := 0, -2
	if id := r.Header.Get("Last-Event-Id"); id != "" {
		var ok bool
		if number, last, ok = parseEventID(id); !ok {
			refuse(w, http.StatusBadRequest, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the Last-Event-ID header %.80q is no id of this gateway's", id)})
			return
		}
	}
	if number > 0 {
		s.resume(w, r, session, number, last)
		return
	}
	s.listen(w, r, session, last)
}

// parseEventID reads "<stream>-<number>"; the number of the event before the first is -1.
func parseEventID(id string) (stream, number int, ok bool) {
	a, b, found := strings.Cut(id, "-")
	stream, err := strconv.Atoi(a)
	if !found || err != nil || stream < 0 {
		return 0, 0, false
	}
	number, err = strconv.Atoi(b)
	return stream, number, err == nil && number >= -1
}

// listen writes the session's own stream until the client leaves, the session ends, or a newer GET
// takes over.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, session *Session, last int) {
	mine := session.takeOver()
	if mine == nil {
		refuse(w, http.StatusNotFound, nil, &wire.Error{Code: -32001, Message: "session not found: it has ended"})
		return
	}
	defer session.leave(mine)
	if last > -2 {
		// Where the event is gone the stream goes on with what comes.
		session.own.rewind(last)
	}
	s.stream(w, r, &session.own, session.own.attach(), mine)
}

// takeOver makes the caller the only reader of the own stream.
func (s *Session) takeOver() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.Load() {
		return nil
	}
	if s.reader != nil {
		close(s.reader)
	}
	s.reader = make(chan struct{})
	return s.reader
}

// leave passes the stream's wake token on: another reader may have come meanwhile.
func (s *Session) leave(mine chan struct{}) {
	s.touch()
	s.mu.Lock()
	if s.reader == mine {
		s.reader = nil
	}
	s.mu.Unlock()
	s.own.signal()
}

// resume goes on with the event stream of an exchange.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, session *Session, number, last int) {
	session.mu.Lock()
	x := session.kept[number]
	session.mu.Unlock()
	if x == nil || !x.has(last) {
		refuse(w, http.StatusNotFound, nil, &wire.Error{Code: wire.CodeInvalidRequest, Message: fmt.Sprintf("the event stream %d is not kept any more; send the request again", number)})
		return
	}
	reader := x.attach()
	x.rewind(last)
	s.stream(w, r, &x.stream, reader, nil)
	if x.superseded(reader) {
		return
	}
	if x.answered() {
		session.done(x)
		return
	}
	x.park()
}

// stream writes a stream as events until its response, its end, the client's leave, a newer reader,
// or stop.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, from *stream, reader int, stop <-chan struct{}) {
	startStream(w)
	if flushWriter(w) != nil {
		return
	}
	from.signal()
	for {
		beat := *s.beat.Load()
		select {
		case <-from.wake:
			if over, err := drain(w, from, reader); over || err != nil {
				return
			}
		case <-beat:
			if _, err := w.Write(comment); err != nil || flushWriter(w) != nil {
				return
			}
		case <-stop:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// drain writes what waits in a stream.
func drain(w http.ResponseWriter, from *stream, reader int) (over bool, err error) {
	var out bytes.Buffer
	for {
		i, number, ok := from.next(reader)
		if !ok {
			break
		}
		i.event(&out, from.number, number)
		over = over || i.kind == response
	}
	if out.Len() > 0 {
		if _, err = w.Write(out.Bytes()); err == nil {
			err = flushWriter(w)
		}
	}
	return over || from.over() != nil || from.superseded(reader), err
}
