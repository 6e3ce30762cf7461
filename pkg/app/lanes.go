package app

import "sync"

// lanes makes writers of this process that append to one task queue up instead of
// losing races against each other. It is a courtesy only: processes race as
// ever, and the conditional write alone decides.
type lanes struct {
	mu sync.Mutex
	in map[string]*lane // guarded by mu
}

type lane struct {
	turn  chan struct{} // holds one token; whoever took it is in the lane
	users int           // guarded by lanes.mu
}

func newLanes() *lanes { return &lanes{in: map[string]*lane{}} }

// enter takes the lane of key and returns the function that leaves it.
func (l *lanes) enter(key string) func() {
	l.mu.Lock()
	ln, ok := l.in[key]
	if !ok {
		ln = &lane{turn: make(chan struct{}, 1)}
		ln.turn <- struct{}{}
		l.in[key] = ln
	}
	ln.users++
	l.mu.Unlock()
	<-ln.turn
	return func() {
		ln.turn <- struct{}{}
		l.mu.Lock()
		defer l.mu.Unlock()
		if ln.users--; ln.users == 0 {
			delete(l.in, key)
		}
	}
}
