// Package local runs state machine definitions on a laptop: the same files that
// AWS Step Functions runs hosted (SY-024), with every execution's place in them
// kept in the store. One row is written for each state that works or waits; after
// a kill every open execution continues from its last row, so a step may be
// called again and must be idempotent (SY-038, SY-040). Nothing polls: what is
// waiting sits in a heap of timers or is woken by the answer to its task token.
package local

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Options are what an engine is made of. The fields up to NewToken are required.
type Options struct {
	Store    store.Store
	Tenant   string
	Machines []*asl.Machine
	Step     engine.Step
	Now      func() time.Time
	// NewToken returns an unguessable text, the secret part of a task token.
	NewToken func() string

	Log *slog.Logger // nil discards
	// Workers is how many steps run at once; 0 means 256.
	Workers int
	// Adopt is how long, at least, a heartbeat may be missing after a restart: a
	// run that outlived the process needs time to find its way back (SY-040). 0
	// means 120 s.
	Adopt time.Duration
	// Closed, when set, hears of every execution that ended, after its end is
	// durable. It may call the engine; it is called at most once per ending, and
	// not at all when the process dies in between.
	Closed func(engine.Execution)
	// After is the timer of the engine; nil means the clock of the process. It must
	// keep the time that Now tells.
	After func(time.Duration) <-chan time.Time
	// CrashPoint, when set, is called around every durable transition.
	CrashPoint func(point string)
}

// Engine is the interpreter.
type Engine struct {
	o    Options
	part store.Partition

	wake chan struct{} // poked when the queue or the first timer changed
	quit chan struct{} // closed by Close
	shut sync.Once

	mu       sync.Mutex
	stopped  chan struct{} // made by Run, closed when it has returned
	live     map[string]*execution
	queue    []*execution
	timers   timers
	workers  int
	machines map[string]*asl.Machine // current, by name
	defs     map[string]*asl.Machine // by digest
	stored   map[string]bool         // digests known to be in the store
}

var _ engine.Engine = (*Engine)(nil)

// execution is an execution in memory.
type execution struct {
	key string

	mu      sync.Mutex
	loaded  bool // rec and version are what the store holds
	gone    bool // closed or never there; look it up again
	rec     record
	version int64
	m       *asl.Machine
	busy    bool // a step call is running
	cancel  context.CancelCauseFunc
	beatBy  time.Time
	fails   int  // saves and loads that failed in a row
	tell    bool // Closed must hear of its end

	// guarded by Engine.mu
	queued bool
	at     time.Time
	index  int // in timers, -1 when not there
}

// New returns an engine that does nothing until Run.
func New(o Options) (*Engine, error) {
	switch {
	case o.Store == nil || o.Step == nil || o.Now == nil || o.NewToken == nil:
		return nil, errors.New("local engine: Store, Step, Now and NewToken are required")
	case o.Tenant == "":
		return nil, errors.New("local engine: a tenant is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = 256
	}
	if o.Adopt <= 0 {
		o.Adopt = 120 * time.Second
	}
	e := &Engine{
		o:        o,
		part:     store.For(o.Tenant).Flow(),
		wake:     make(chan struct{}, 1),
		quit:     make(chan struct{}),
		live:     map[string]*execution{},
		machines: map[string]*asl.Machine{},
		defs:     map[string]*asl.Machine{},
		stored:   map[string]bool{},
	}
	for _, m := range o.Machines {
		if e.machines[m.Name] != nil {
			return nil, fmt.Errorf("local engine: two definitions are called %s", m.Name)
		}
		e.machines[m.Name], e.defs[m.Digest] = m, m
	}
	return e, nil
}

// Run continues every open execution and then drives all of them until ctx ends
// or Close is called. Steps that are running then are told through their context;
// what they would have led to is decided again at the next start.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	if e.stopped != nil {
		e.mu.Unlock()
		return errors.New("local engine: Run may be called once")
	}
	e.stopped = make(chan struct{})
	e.mu.Unlock()
	defer close(e.stopped)

	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	if err := e.resume(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, ok := e.dispatch(ctx, &workers)
		if !ok {
			next = time.Hour
		}
		due := timer.C
		if e.o.After != nil {
			due = e.o.After(next)
		} else {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.quit:
			return nil
		case <-e.wake:
		case <-due:
		}
	}
}

// Close ends Run and waits until it has returned.
func (e *Engine) Close() error {
	e.shut.Do(func() { close(e.quit) })
	e.mu.Lock()
	stopped := e.stopped
	e.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
	return nil
}

func (e *Engine) resume(ctx context.Context) error {
	q := store.Query{PK: e.part.PK, Prefix: openPrefix, Limit: 1000}
	err := store.All(ctx, e.o.Store, q, func(it store.Item) bool {
		e.ready(e.lookup(it.Key.SK[len(openPrefix):]))
		return true
	})
	if err != nil {
		return fmt.Errorf("find open executions: %w", err)
	}
	return nil
}

// dispatch queues what is due, starts workers for the queue, and returns how long
// it is until the next timer.
func (e *Engine) dispatch(ctx context.Context, workers *sync.WaitGroup) (time.Duration, bool) {
	now := e.o.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.timers) > 0 && !e.timers[0].at.After(now) {
		x, _ := heap.Pop(&e.timers).(*execution)
		e.push(x)
	}
	for n := len(e.queue); n > 0 && e.workers < e.o.Workers; n-- {
		e.workers++
		workers.Go(func() { e.work(ctx) })
	}
	if len(e.timers) == 0 {
		return 0, false
	}
	return e.timers[0].at.Sub(now), true
}

// work takes executions from the queue until it is empty.
func (e *Engine) work(ctx context.Context) {
	for {
		e.mu.Lock()
		if len(e.queue) == 0 || ctx.Err() != nil {
			e.workers--
			e.mu.Unlock()
			return
		}
		x := e.queue[0]
		e.queue[0] = nil
		e.queue = e.queue[1:]
		x.queued = false
		e.mu.Unlock()
		e.advance(ctx, x)
	}
}

// push queues x; e.mu is held.
func (e *Engine) push(x *execution) {
	if !x.queued {
		x.queued = true
		e.queue = append(e.queue, x)
	}
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// ready lets a worker look at x as soon as one is free.
func (e *Engine) ready(x *execution) {
	e.mu.Lock()
	e.push(x)
	e.mu.Unlock()
	e.poke()
}

// arm lets a worker look at x at a time, or not before something else happens
// when at is zero.
func (e *Engine) arm(x *execution, at time.Time) {
	e.mu.Lock()
	first := len(e.timers) > 0 && e.timers[0] == x
	switch {
	case at.IsZero():
		if x.index >= 0 {
			heap.Remove(&e.timers, x.index)
		}
	case x.index >= 0:
		x.at = at
		heap.Fix(&e.timers, x.index)
	default:
		x.at = at
		heap.Push(&e.timers, x)
	}
	first = first || (len(e.timers) > 0 && e.timers[0] == x)
	e.mu.Unlock()
	if first {
		e.poke()
	}
}

// lookup returns the execution in memory, making an unread one if there is none.
func (e *Engine) lookup(key string) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.live[key]
	if x == nil {
		x = &execution{key: key, index: -1}
		e.live[key] = x
	}
	return x
}

// forget removes x, and tells a step that still runs for it; x.mu is held.
func (e *Engine) forget(x *execution) {
	if x.cancel != nil {
		x.cancel(errOver)
	}
	x.gone = true
	e.arm(x, time.Time{})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[x.key] == x {
		delete(e.live, x.key)
	}
}

// timers is a heap of executions by the time somebody must look at them.
type timers []*execution

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push is for container/heap.
func (t *timers) Push(v any) {
	if x, ok := v.(*execution); ok {
		x.index = len(*t)
		*t = append(*t, x)
	}
}

// Pop is for container/heap.
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	x.index = -1
	return x
}
