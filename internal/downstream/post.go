package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mcp-gateway/internal/wire"
)

// post takes one message, or a batch of 2025-03-26.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	f, e, status := acceptable(r)
	if e != nil {
		refuse(w, status, nil, e)
		return
	}
	body, e, status := s.body(w, r)
	if e != nil {
		refuse(w, status, nil, e)
		return
	}
	if wire.Kind(body) == '[' {
		s.batch(w, r, f, body)
		return
	}
	m, err := wire.Parse(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, wire.AsError(err))
		return
	}
	switch {
	case m.IsRequest() && s.drains.Load():
		s.refuseStopping(w, m.ID)
	case isModern(r, &m): // where initialize is a method that is not there
		s.modern(w, r, f, m)
	case m.Method == "initialize" && m.ID != nil:
		s.initialize(w, f, m)
	default:
		s.legacy(w, r, f, m)
	}
}

// body reads the request's body up to the limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, *wire.Error, int) {
	if n := r.ContentLength; n >= 0 && n <= int64(s.o.MaxBody) {
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, &wire.Error{Code: wire.CodeParse, Message: "the body ended early: " + err.Error()}, http.StatusBadRequest
		}
		return body, nil, 0
	}
	var body []byte
	var err error = &http.MaxBytesError{}
	if r.ContentLength < 0 {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.o.MaxBody)))
	}
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil, 0
	case errors.As(err, &over):
		w.Header()["Connection"] = []string{"close"} // rather than reading the rest
		return nil, invalid("the body is over the limit of %d bytes", s.o.MaxBody), http.StatusRequestEntityTooLarge
	}
	return nil, &wire.Error{Code: wire.CodeParse, Message: "read the body: " + err.Error()}, http.StatusBadRequest
}

// initialize opens a session.
func (s *Server) initialize(w http.ResponseWriter, f form, m wire.Msg) {
	version, ok := wire.GetString(m.Params, "protocolVersion")
	if !ok {
		refuse(w, http.StatusBadRequest, m.ID, &wire.Error{Code: wire.CodeInvalidParams, Message: `initialize needs params with a string "protocolVersion"`})
		return
	}
	if !slices.Contains(Versions[1:], version) {
		version = V20251125 // the newest that opens with initialize
	}
	session := newSession(s, version, &m)
	result := s.handler.Initialize(session)
	if e := s.open(session); e != nil {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, m.ID, e)
		return
	}
	w.Header()["Mcp-Session-Id"] = []string{session.ID}
	a := answer{w: w, form: f}
	a.message(&item{a: wire.Reply(m.ID, result), kind: response}, 0)
	a.push()
}

// legacy takes a message that belongs to a session.
func (s *Server) legacy(w http.ResponseWriter, r *http.Request, f form, m wire.Msg) {
	if version := header(r, "Mcp-Protocol-Version"); version != "" && !slices.Contains(Versions, version) {
		refuse(w, http.StatusBadRequest, m.ID, invalid("the MCP-Protocol-Version header is %.40q; spoken are %s", version, strings.Join(Versions, ", ")))
		return
	}
	session := s.session(w, r, m.ID)
	if session == nil {
		return
	}
	if !m.IsRequest() {
		s.oneWay(r.Context(), session, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	x := s.exchange(w, m, session, session.Version, f)
	if e, status := session.begin(x); e != nil {
		refuse(w, status, m.ID, e)
		return
	}
	s.serve(r.Context(), x)
}

// oneWay takes a notification or a response of a session's client.
func (s *Server) oneWay(ctx context.Context, session *Session, m wire.Msg) {
	session.touch()
	if m.IsNotification() {
		s.handler.Notified(ctx, session, m)
		return
	}
	session.answered(m)
}

// serve hands an exchange to the handler. Where somebody else sees to its end, it stays registered.
func (s *Server) serve(ctx context.Context, x *Exchange) {
	defer x.leave()
	if full := s.admit(x); full != nil {
		x.Fail(full)
		_ = x.Wait(ctx) // the answer is there already
		return
	}
	s.handler.Serve(ctx, x)
}

// admit counts an exchange; it returns an error where there are too many.
func (s *Server) admit(x *Exchange) *wire.Error {
	if s.drains.Load() {
		return stopping
	}
	count, limit, what := &s.inFlight, s.o.MaxInFlight, "calls"
	if x.listens() { // as long as its client: it is no call
		count, limit, what = &s.listening, s.o.MaxSessions, "streams of subscriptions/listen"
	}
	x.counted.Store(count)
	if count.Add(1) > int64(limit) {
		x.release()
		return &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("too many %s: %d are open already", what, limit)}
	}
	return nil
}

func (x *Exchange) listens() bool { return x.Msg.Method == "subscriptions/listen" }

// release takes an exchange out of the count.
func (x *Exchange) release() {
	if count := x.counted.Swap(nil); count != nil {
		count.Add(-1)
	}
}

// leave is the end of an exchange's HTTP request.
func (x *Exchange) leave() {
	switch {
	case x.away:
		return
	case x.Session != nil:
		x.Session.done(x)
	default:
		x.release()
	}
}

// modernVersion tells a revision of 2026-07-28 or later, spoken or not.
func modernVersion(version string) bool {
	if len(version) != len(V20260728) || version < V20260728 {
		return false
	}
	for n, c := range []byte(version) {
		if digit := c >= '0' && c <= '9'; digit == (n == 4 || n == 7) {
			return false
		}
	}
	return version[4] == '-' && version[7] == '-'
}

// parseEventID reads "<stream>-<number>"; the number of the message before the first is -1.
func parseEventID(id string) (stream, number int, ok bool) {
	before, after, _ := strings.Cut(id, "-")
	stream, errStream := strconv.Atoi(before)
	number, errNumber := strconv.Atoi(after)
	if errStream != nil || errNumber != nil || stream < 0 || number < -1 || id != fmt.Sprintf("%d-%d", stream, number) {
		return 0, 0, false
	}
	return stream, number, true
}
