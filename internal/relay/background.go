package relay

import "sync"

// background is the goroutines that the relay has started beside those of its callers.
type background struct {
	wait sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// start runs f in a goroutine; false where the relay is being closed.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.wait.Go(f)
	return true
}

// end lets no more start and waits for those that run.
func (b *background) end() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wait.Wait()
}
