// Package local is the bus port inside one process. Listeners live as long as the
// process does, and so does what they have not heard yet: one that begins reads
// in the table what was before.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// How a listener that fails is told again: Tries times, after pauses that grow.
const (
	Tries = 5
	pause = 100 * time.Millisecond
)

// deadMost is how many events that a listener could not take are kept for it.
const deadMost = 100

// Bus hands events to listeners. Each has a queue, tries and dead events of its
// own, so that none waits for another or misses what another could not take (B08).
type Bus struct {
	log   *slog.Logger
	after func(time.Duration) <-chan time.Time

	mu        sync.Mutex
	listeners []*Listener // guarded by mu
	closed    bool        // guarded by mu
	tasks     sync.WaitGroup
	stop      context.CancelFunc
	run       context.Context //nolint:containedctx // the life of the bus, which its listeners end with
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus without listeners. after is the timer between two tries.
func New(log *slog.Logger, after func(time.Duration) <-chan time.Time) *Bus {
	b := &Bus{log: log, after: after}
	b.run, b.stop = context.WithCancel(context.Background())
	return b
}

// Listener is one that is told of events.
type Listener struct {
	name  string
	types []string
	do    func(context.Context, event.Event) error

	mu    sync.Mutex
	queue []event.Event // guarded by mu
	dead  []event.Event // guarded by mu; oldest first
	ready chan struct{} // holds one token while the queue may hold something
}

// Listen has do called with each event of the types that is published from then
// on, one after the other; no types means all.
func (b *Bus) Listen(name string, do func(context.Context, event.Event) error, types ...string) *Listener {
	l := &Listener{name: name, types: types, do: do, ready: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return l
	}
	b.listeners = append(b.listeners, l)
	b.tasks.Go(func() { b.serve(l) })
	return l
}

// Publish implements bus.Bus. It never waits for a listener.
func (b *Bus) Publish(ctx context.Context, all ...event.Event) error {
	refused := map[int]error{}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range all {
		err := bus.Check(e)
		if err == nil && (b.closed || ctx.Err() != nil) {
			err = fault.Wrap(fault.Unavailable, ctx.Err(), "the control plane is ending")
		}
		if err != nil {
			refused[i] = err
			continue
		}
		e.Detail = slices.Clone(e.Detail)
		for _, l := range b.listeners {
			if len(l.types) == 0 || slices.Contains(l.types, e.Type) {
				l.push(e)
			}
		}
	}
	if len(refused) > 0 {
		return &bus.NotTakenError{Why: refused}
	}
	return nil
}

func (l *Listener) push(all ...event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, all...)
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

func (l *Listener) pop() (event.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return event.Event{}, false
	}
	e := l.queue[0]
	l.queue = l.queue[1:]
	return e, true
}

// Dead returns the events that the listener could not take, oldest first.
func (l *Listener) Dead() []event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.dead)
}

// Redrive tells the listener of its dead events again.
func (l *Listener) Redrive() {
	l.mu.Lock()
	all := l.dead
	l.dead = nil
	l.mu.Unlock()
	l.push(all...)
}

func (b *Bus) serve(l *Listener) {
	for {
		select {
		case <-b.run.Done():
			return
		case <-l.ready:
		}
		for e, ok := l.pop(); ok && b.run.Err() == nil; e, ok = l.pop() {
			b.tell(l, e)
		}
	}
}

// tell tries until the listener has taken the event, or cannot.
func (b *Bus) tell(l *Listener, e event.Event) {
	for n := range Tries {
		err := safely(func() error { return l.do(b.run, e) })
		if err == nil || b.run.Err() != nil {
			return
		}
		if n+1 == Tries || fault.KindOf(err) == fault.Invalid {
			b.log.Error("a listener could not take an event", "listener", l.name, "event", e.ID, "kind", e.Type, "error", err)
			break
		}
		select {
		case <-b.run.Done():
			return
		case <-b.after(pause << n):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = append(l.dead, e)
	l.dead = l.dead[max(0, len(l.dead)-deadMost):]
}

func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.Join(err, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	return f()
}

// Close ends the listeners and returns when none is called any more. What they
// have not heard yet is dropped.
func (b *Bus) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.tasks.Wait()
}
