package app_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// ledger passes everything on and remembers which rows were ever written. Reads
// are counted, and the next transactions can be made to fail.
type ledger struct {
	store.Store
	mu    sync.Mutex
	keys  map[store.Key]bool // guarded by mu, as is all below
	reads int
	rows  int // that queries returned
	puts  int
	fail  error
	hooks map[store.Key]func()
}

// before runs f once, just before the next transaction that writes k: the moment
// between a use case's look and its write.
func (l *ledger) before(k store.Key, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hooks == nil {
		l.hooks = map[store.Key]func(){}
	}
	l.hooks[k] = f
}

func (l *ledger) all() []store.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.keys))
}

// failWith makes every transaction fail with err until it is called with nil.
func (l *ledger) failWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// count returns how many reads there have been.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// writes returns how many rows transactions were to write.
func (l *ledger) writes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.puts
}

func (l *ledger) Get(ctx context.Context, k store.Key) (store.Item, error) {
	l.mu.Lock()
	l.reads++
	l.mu.Unlock()
	return l.Store.Get(ctx, k)
}

func (l *ledger) Query(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := l.Store.Query(ctx, q)
	l.mu.Lock()
	l.reads++
	l.rows += len(page.Items)
	l.mu.Unlock()
	return page, err
}

// queried returns how many rows queries have returned.
func (l *ledger) queried() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows
}

func (l *ledger) Transact(ctx context.Context, ws ...store.Write) error {
	l.mu.Lock()
	var hook func()
	l.puts += len(ws)
	for _, w := range ws {
		l.keys[w.Item.Key] = true
		if f, ok := l.hooks[w.Item.Key]; ok {
			hook = f
			delete(l.hooks, w.Item.Key)
		}
	}
	err := l.fail
	l.mu.Unlock()
	if hook != nil {
		hook()
	}
	if err != nil {
		return err
	}
	return l.Store.Transact(ctx, ws...)
}

// clock stands still until it is advanced.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
	made   chan struct{} // one token per timer set
}

type timer struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), made: make(chan struct{}, 10_000)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.timers = append(c.timers, timer{c.now.Add(d), ch})
	c.made <- struct{}{}
	return ch
}

// advance moves the clock and fires what is due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool {
		if t.at.After(c.now) {
			return false
		}
		t.c <- c.now
		return true
	})
}

// waiting blocks until somebody has set a timer.
func (c *clock) waiting(t *testing.T) {
	t.Helper()
	select {
	case <-c.made:
	case <-t.Context().Done():
		t.Fatal("nobody waits")
	}
}

// dice is the source of ids: the same in every run of a test. Each draw can be
// made to come out several times over.
type dice struct {
	mu     sync.Mutex
	r      *rand.ChaCha8
	repeat int // how often a draw of 16 bytes is given out; 0 and 1 mean once
	last   [16]byte
	used   int
}

func newDice() *dice { return &dice{r: rand.NewChaCha8([32]byte{7})} }

func (d *dice) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(p) == 16 && d.repeat > 1 {
		if d.used%d.repeat == 0 {
			_, _ = d.r.Read(d.last[:])
		}
		d.used++
		return copy(p, d.last[:]), nil
	}
	return d.r.Read(p)
}

// asReplayed reports whether err is the first answer of a repeated request.
func asReplayed(err error, to **app.Replayed) bool { return errors.As(err, to) }

// logBook collects what is logged.
type logBook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
