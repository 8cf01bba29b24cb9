package relay

import (
	"testing"

	"mcp-gateway/internal/upstream"
)

// inFlight is a request in flight that counts how often it is cancelled.
type inFlight struct{ cancelled int }

var _ upstream.Call = (*inFlight)(nil)

func (f *inFlight) Cancel([]byte) { f.cancelled++ }

// A connection's reading goroutine may bring the answer, and the client may leave, before the goroutine
// that sent the request notes that it has.
func TestSentMeetsItsEnd(t *testing.T) {
	link := &link{m: &member{}}
	t.Run("the client has left", func(t *testing.T) {
		k := &call{link: link}
		k.cancel(nil)
		f := &inFlight{}
		if k.sent(f, 0); f.cancelled != 1 {
			t.Error("the server is not told")
		}
	})
	t.Run("the next round has begun", func(t *testing.T) {
		k := &call{link: link, rounds: 1}
		first, second := &inFlight{}, &inFlight{}
		k.sent(second, 1)
		k.sent(first, 0)
		if k.cancel(nil); first.cancelled != 0 || second.cancelled != 1 {
			t.Error("the wrong round is cancelled")
		}
	})
}
