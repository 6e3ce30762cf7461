package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// Bill is a store that counts the request units a hosted table on demand would
// charge, because an emulator says one for everything.
type Bill struct {
	inner store.Store

	mu          sync.Mutex
	read, write float64 // guarded by mu
}

var _ store.Store = (*Bill)(nil)

// Priced wraps a store so that its requests are counted by DynamoDB's published
// rules: a write costs one unit for each begun KB of the item, as it was or as it
// becomes, whichever is larger, and twice that in a transaction of several; a
// consistent read costs one for each begun 4 KB, a read through an index half. An
// index holds keys alone: it costs one when the item enters or leaves it, two when
// it moves. A refusal costs as much as its checks. An item weighs what it weighs
// packed.
func Priced(inner store.Store) *Bill { return &Bill{inner: inner} }

// Units returns what was charged since the last call, and begins at nothing.
func (b *Bill) Units() (read, write float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	read, write = b.read, b.write
	b.read, b.write = 0, 0
	return read, write
}

// begun is the number of begun parts of a size, at least one.
func begun(size, part int) float64 { return float64(max(1, (size+part-1)/part)) }

// Get implements store.Store.
func (b *Bill) Get(ctx context.Context, k store.Key) (store.Item, error) {
	it, err := b.inner.Get(ctx, k)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += begun(it.Size(), 4096)
	return it, err
}

// Query implements store.Store.
func (b *Bill) Query(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := b.inner.Query(ctx, q)
	size := 0
	for _, it := range page.Items {
		size += it.Size()
	}
	units := begun(size, 4096)
	if q.Index != "" {
		units /= 2
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += units
	return page, err
}

// Transact implements store.Store. The transactions go one after another, so
// that what an item was before is known.
func (b *Bill) Transact(ctx context.Context, ws ...store.Write) error {
	if err := store.Validate(ws); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := make([]store.Item, len(ws))
	there := make([]bool, len(ws))
	for i, w := range ws {
		it, err := b.inner.Get(ctx, w.Item.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		before[i], there[i] = it, err == nil
	}
	err := b.inner.Transact(ctx, ws...)
	each := 1.0
	if len(ws) > 1 || ws[0].Act == store.Check {
		each = 2
	}
	for i, w := range ws {
		if err != nil {
			b.write += each * begun(before[i].Weight(), 1024)
			continue
		}
		after, stays, e := w.Apply(before[i], there[i])
		if e != nil {
			return e
		}
		b.write += each * begun(max(before[i].Weight(), after.Weight()), 1024)
		for _, x := range store.Indexes() {
			b.write += indexUnits(x, before[i], after, stays)
		}
	}
	return err
}

func indexUnits(x store.Index, before, after store.Item, stays bool) float64 {
	from, was := before.Index[x]
	to, is := after.Index[x]
	is = is && stays
	switch {
	case was && is && from != to:
		return 2
	case was != is:
		return 1
	}
	return 0
}
