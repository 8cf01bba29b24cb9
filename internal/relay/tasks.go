package relay

import "sync"

// tasks are the goroutines that the relay has started beside those of its callers.
type tasks struct {
	wait sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// start runs f in a goroutine; false where the relay is being closed.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wait.Go(f)
	return true
}

// end lets no more start and waits for those that run.
func (t *tasks) end() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wait.Wait()
}
