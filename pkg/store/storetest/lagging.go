package storetest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// Behind is the number of transactions by which a Lag's indexes lag.
const Behind = 16

// Lag is a store whose indexes lag and whose expired items stay.
type Lag struct {
	inner store.Store

	mu sync.Mutex
	// undo holds, oldest first, what each of the last transactions replaced; an
	// item without attributes was absent. Guarded by mu, which also puts the
	// transactions in the one order that "the state some writes ago" needs.
	undo []map[store.Key]store.Item
}

var _ store.Store = (*Lag)(nil)

// Lagging wraps a store so that a query through an index sees the state as of
// Behind transactions ago, until Settle is called, and so that expired items are
// never collected. Get and queries on the table stay consistent. A use case that
// is right on a Lag does not lean on what only an emulator promises.
func Lagging(inner store.Store) *Lag {
	if k, ok := inner.(interface{ KeepExpired() }); ok {
		k.KeepExpired()
	}
	return &Lag{inner: inner}
}

// Settle lets the indexes catch up with every transaction made so far. Those
// that follow are behind again.
func (l *Lag) Settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undo = nil
}

// Get implements store.Store.
func (l *Lag) Get(ctx context.Context, k store.Key) (store.Item, error) { return l.inner.Get(ctx, k) }

// Transact implements store.Store.
func (l *Lag) Transact(ctx context.Context, ws ...store.Write) error {
	if err := store.Validate(ws); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := map[store.Key]store.Item{}
	for _, w := range ws {
		if w.Act == store.Check {
			continue
		}
		it, err := l.inner.Get(ctx, w.Item.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		was[w.Item.Key] = it
	}
	err := l.inner.Transact(ctx, ws...)
	if _, refused := errors.AsType[*store.ConflictError](err); refused {
		return err
	}
	// After any other error the transaction may have been made; an index may then
	// show it or not, and not yet is one of the two.
	l.undo = append(l.undo, was)
	if len(l.undo) > Behind {
		l.undo = l.undo[len(l.undo)-Behind:]
	}
	return err
}

// Query implements store.Store.
func (l *Lag) Query(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := q.Plan()
	if err != nil {
		return store.Page{}, err
	}
	if q.Index == "" {
		return l.inner.Query(ctx, q)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := map[store.Key]store.Item{}
	err = store.All(ctx, l.inner, store.Query{Index: q.Index, PK: q.PK, Limit: store.MaxLimit}, func(it store.Item) bool {
		state[it.Key] = it
		return true
	})
	if err != nil {
		return store.Page{}, err
	}
	for _, was := range slices.Backward(l.undo) {
		maps.Copy(state, was)
	}
	var rows []store.Item
	for _, it := range state {
		if s, ok := it.Index[q.Index]; ok && s.PK == q.PK && within(p, it, s.SK) {
			rows = append(rows, it)
		}
	}
	slices.SortFunc(rows, func(a, b store.Item) int {
		n := order(a, q.Index, b.Index[q.Index].SK, b.Key)
		if q.Reverse {
			return -n
		}
		return n
	})
	page := store.Page{Items: rows}
	if len(rows) > p.Limit {
		page.Items = rows[:p.Limit]
		page.Next = q.CursorAfter(page.Items[p.Limit-1])
	}
	return page, nil
}

// order compares the place of an item in an index with another place.
func order(a store.Item, x store.Index, sk string, k store.Key) int {
	return cmp.Or(cmp.Compare(a.Index[x].SK, sk), cmp.Compare(a.Key.PK, k.PK), cmp.Compare(a.Key.SK, k.SK))
}

func within(p store.Plan, it store.Item, sk string) bool {
	if sk < p.From || (p.To != "" && sk >= p.To) {
		return false
	}
	if p.After == nil {
		return true
	}
	n := order(it, p.Index, p.After.Slot.SK, p.After.Key)
	return (p.Reverse && n < 0) || (!p.Reverse && n > 0)
}
