package downstream

import "context"

// reader writes a stream to one HTTP answer. It is the loop of every request that waits: a POST for
// its response, a GET for a session's own stream or for the rest of a POST's.
type reader struct {
	answer
	server *Server
	x      *Exchange // nil for a session's own stream
	wake   chan struct{}
}

// run writes until the stream has ended, the client has gone, or another reader has taken over.
func (r *reader) run(ctx context.Context) condition {
	done := ctx.Done()
	for {
		beat := *r.server.beat.Load()
		if r.server.closed.Load() && r.x != nil {
			r.x.end(errShutdown)
		}
		select {
		case <-r.wake:
			if c := r.drain(); c != goesOn {
				return c
			}
		case <-done:
			return lost
		case <-beat:
			if r.wrote {
				r.wrote = false // silent from now on
				continue
			}
			if r.keepAlive(); r.flush() != nil {
				return lost
			}
		}
	}
}

// drain writes what waits.
func (r *reader) drain() condition {
	oldest := -1
	for {
		i, number, c := r.from.next(r.wake)
		if i.size() > 0 {
			if oldest < 0 {
				oldest = number
			}
			r.message(&i, number)
			if i.kind != response && r.failed == nil {
				continue
			}
			c = finished
		}
		if r.push(); c != finished {
			r.flush()
		}
		if r.failed == nil {
			return c
		}
		if oldest >= 0 {
			r.from.back(r.wake, oldest)
		}
		return lost
	}
}
