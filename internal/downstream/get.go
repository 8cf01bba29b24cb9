package downstream

import "net/http"

// get opens a session's own stream, or goes on with an event stream that was cut off.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if onlyPosts(w, r) {
		return
	}
	if !acceptsEvents(r) {
		refuse(w, http.StatusNotAcceptable, nil, invalid("a GET opens an event stream: send Accept: text/event-stream"))
		return
	}
	session := s.session(w, r, nil)
	if session == nil {
		return
	}
	session.touch()
	stream, after := 0, onward
	if id := header(r, "Last-Event-Id"); id != "" {
		var ok bool
		if stream, after, ok = parseEventID(id); !ok {
			refuse(w, http.StatusBadRequest, nil, invalid("the Last-Event-ID header %.80q is no id of this gateway's", id))
			return
		}
	}
	if stream == 0 {
		s.listen(w, r, session, after)
		return
	}
	live, rest, ok := session.find(stream)
	switch {
	case !ok:
		// Not 404, which would tell the client that its session has ended.
		refuse(w, http.StatusGone, nil, invalid("the event stream %d is not kept any more; send the request again", stream))
	case live != nil:
		s.resume(w, r, live, after)
	default:
		s.replay(w, session, rest, after)
	}
}

// listen writes the session's own stream until the client leaves, the session ends, or a newer GET
// takes over.
func (s *Server) listen(w http.ResponseWriter, r *http.Request, session *Session, after int) {
	wake, at, ok := session.own.attach(after)
	if !ok {
		refuse(w, http.StatusNotFound, nil, noSession)
		return
	}
	in := reader{server: s, wake: wake, answer: answer{w: w, from: &session.own, numbers: true, prime: session.primed()}}
	in.start(at)
	if in.flush() == nil {
		in.run(r.Context())
	}
	session.own.detach(wake)
	session.touch()
}

// resume goes on with the event stream of an exchange.
func (s *Server) resume(w http.ResponseWriter, r *http.Request, x *Exchange, after int) {
	wake, at, ok := x.attach(after)
	if !ok {
		nothingLeft(w)
		return
	}
	in := reader{server: s, x: x, wake: wake, answer: answer{w: w, from: &x.stream, form: onlyEvents, numbers: true, prime: x.Session.primed()}}
	in.start(at)
	c := lost
	if in.flush() == nil {
		c = in.run(r.Context())
	}
	if c == lost {
		c = x.detach(wake)
	}
	if c == finished || c == ended {
		x.Session.done(x)
	}
}

// replay writes what is left of an event stream that has ended.
func (s *Server) replay(w http.ResponseWriter, session *Session, rest past, after int) {
	from := max(after+1, rest.first) - rest.first
	if from >= len(rest.items) {
		nothingLeft(w)
		return
	}
	a := answer{w: w, from: &stream{number: rest.number}, form: onlyEvents, numbers: true, prime: session.primed()}
	a.start(rest.first + from - 1)
	for n, i := range rest.items[from:] {
		a.message(&i, rest.first+from+n)
	}
	a.push()
}

// nothingLeft tells a client to stop reconnecting (HTML Living Standard, section 9.2.3).
func nothingLeft(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
