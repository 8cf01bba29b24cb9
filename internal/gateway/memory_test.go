package gateway

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// held is the heap's memory that the system has not got back, in bytes.
func held() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

var sink []byte

// The ballast lets garbage pile up; what work leaves behind does not stay.
func TestRest_GivesBackWhatWorkLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		light := make(ballast, ballastSize)
		defer runtime.KeepAlive(light)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go rest(ctx)
		synctest.Wait()
		debug.FreeOSMemory()
		before := held()
		for range 6 {
			sink = make([]byte, 1<<20)
			for i := range sink {
				sink[i] = 1
			}
		}
		sink = nil
		busy := held()
		if busy < before+4<<20 {
			t.Fatalf("the garbage was collected at once: %d bytes held before, %d after", before, busy)
		}
		time.Sleep(3 * restEvery) // of the bubble's clock
		synctest.Wait()
		if after := held(); after > before+2<<20 {
			t.Errorf("%d bytes are held at rest, %d before the work, %d in it", after, before, busy)
		}
	})
}
