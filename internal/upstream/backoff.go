package upstream

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	stable    = 5 * time.Minute // a run this long forgets the failures before it
	freeTries = 3               // this many restarts in a row wait for nothing
	maxDelay  = time.Minute
)

// fail notes a failure and when the next start may be. The caller holds mu.
func (s *Server) fail(err error) {
	s.last = err
	s.failures++
	if s.failures <= freeTries {
		return
	}
	delay := min(time.Second<<min(s.failures-freeTries-1, 10), maxDelay)
	s.retryAt = time.Now().Add(delay/2 + rand.N(delay/2+1))
}

// BackoffError says that a server is not started now since it failed too often.
type BackoffError struct {
	Server   string
	Failures int
	Wait     time.Duration
	Err      error // the last failure
}

// Error says how often it failed, when the next try may be, and why it failed last.
func (e *BackoffError) Error() string {
	return fmt.Sprintf("server %q failed %d times in a row; a call in %.0f s starts it again; last failure: %v", e.Server, e.Failures, e.Wait.Seconds()+1, e.Err)
}

// Unwrap returns the last failure.
func (e *BackoffError) Unwrap() error { return e.Err }
