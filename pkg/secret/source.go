package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Value is a secret's bytes. However it is printed, logged or encoded, it reads
// "***"; only Reveal gives it.
type Value struct{ b []byte }

const hidden = "***"

// NewValue wraps a secret.
func NewValue(b []byte) Value { return Value{slices.Clone(b)} }

// Reveal returns the secret.
func (v Value) Reveal() []byte { return slices.Clone(v.b) }

// String implements fmt.Stringer.
func (Value) String() string { return hidden }

// Format implements fmt.Formatter, so that no verb shows more than String.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Value) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Version names one of the values that a secret has.
type Version string

// The versions. While a secret is being replaced, what was made with the value
// before is still checked with that.
const (
	Current  Version = "current"
	Previous Version = "previous"
)

// ErrNoVersion means that there is no such value: it was never put in, or never
// replaced, or there is no such secret.
var ErrNoVersion = errors.New("secret: it has no such value")

// ErrAway means that whoever keeps the secret does not answer at the moment.
var ErrAway = errors.New("secret: its keeper does not answer")

// Source gives secrets that people put in by hand.
type Source interface {
	// Read returns a value of the secret called name. Whatever is in the way is
	// fault.Unavailable with what to do about it, and no part of a value.
	Read(ctx context.Context, name string, v Version) (Value, error)
}

// How long a Cache answers by itself: a value that was replaced is in force within
// Fresh, and while its keeper is away the last one serves for Stale.
const (
	Fresh = 5 * time.Minute
	Stale = time.Hour
)

// cached is the most values that a Cache keeps.
const cached = 32

// Cache spares a Source from being asked for each request.
type Cache struct {
	src Source
	now func() time.Time

	mu   sync.Mutex
	kept map[place]entry // guarded by mu
}

type place struct {
	name string
	v    Version
}

type entry struct {
	value Value
	read  time.Time
}

var _ Source = (*Cache)(nil)

// NewCache returns a cache over src.
func NewCache(src Source, now func() time.Time) *Cache {
	return &Cache{src: src, now: now, kept: map[place]entry{}}
}

// Read implements Source. One reader at a time asks the keeper.
func (c *Cache) Read(ctx context.Context, name string, v Version) (Value, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := place{name, v}
	e, ok := c.kept[p]
	age := c.now().Sub(e.read)
	if ok && age < Fresh {
		return e.value, nil
	}
	got, err := c.src.Read(ctx, name, v)
	if err == nil {
		c.keep(p, entry{got, c.now()})
		return got, nil
	}
	if ok && age < Stale && errors.Is(err, ErrAway) {
		return e.value, nil
	}
	if !errors.Is(err, ErrAway) {
		delete(c.kept, p) // it is gone, or not to be read any more
	}
	return Value{}, err
}

// keep makes room by dropping what was read longest ago.
func (c *Cache) keep(p place, e entry) {
	if _, there := c.kept[p]; !there && len(c.kept) >= cached {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.kept)), func(a, b place) int {
			return c.kept[a].read.Compare(c.kept[b].read)
		})
		delete(c.kept, oldest)
	}
	c.kept[p] = e
}

// Forget has the secret read anew next time: what it was used for was refused, so
// it may have been replaced.
func (c *Cache) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.kept, func(p place, _ entry) bool { return p.name == name })
}
