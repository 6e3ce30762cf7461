package app

import "sync"

// hub wakes waiters of this process when something they watch has changed. It is
// a hint only: every waiter also looks again on its own.
type hub struct {
	mu   sync.Mutex
	wait map[string]chan struct{} // guarded by mu
}

func newHub() *hub { return &hub{wait: map[string]chan struct{}{}} }

// watch returns a channel closed at the next change of key. Take it before
// reading the state it guards.
func (h *hub) watch(key string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.wait[key]
	if !ok {
		c = make(chan struct{})
		h.wait[key] = c
	}
	return c
}

func (h *hub) wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.wait[key]; ok {
		close(c)
		delete(h.wait, key)
	}
}
