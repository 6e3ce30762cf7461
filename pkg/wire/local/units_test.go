package local_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// meter counts what a story would cost in DynamoDB write units, by its published
// rules: a write costs one for each begun KB of the item, as it was or as it
// becomes, twice that inside a transaction of several; an index, which holds keys
// alone, costs one when an item enters or leaves it, and two when it moves. The engine's own rows are not counted:
// hosted, Step Functions keeps them.
type meter struct {
	store.Store

	mu    sync.Mutex
	units int
	by    map[string]int
	lines []string
	tx    int
}

func begunKB(n int) int { return max(1, (n+1023)/1024) }

func (m *meter) Transact(ctx context.Context, ws ...store.Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := make([]store.Item, len(ws))
	for i, w := range ws {
		it, err := m.Store.Get(ctx, w.Item.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		before[i] = it
	}
	if err := m.Store.Transact(ctx, ws...); err != nil {
		return err
	}
	factor := 1
	if len(ws) > 1 || ws[0].Act == store.Check {
		factor = 2
	}
	m.tx++
	var line []string
	total := 0
	for i, w := range ws {
		if strings.HasSuffix(w.Item.Key.PK, "#FLW") {
			continue
		}
		after, stays, err := w.Apply(before[i], before[i].Key.PK != "")
		if err != nil {
			return err
		}
		size := max(before[i].Weight(), after.Weight())
		n := factor * begunKB(size)
		kind := rowKind(w.Item.Key)
		m.by[kind] += n
		index := 0
		for _, x := range store.Indexes() {
			from, was := before[i].Index[x]
			to, is := after.Index[x]
			is = is && stays
			switch {
			case was && is && from != to:
				index += 2
			case was != is:
				index++
			}
		}
		m.by["index"] += index
		total += n + index
		line = append(line, fmt.Sprintf("%s %s %d B: %d+%d", w.Act, kind, size, n, index))
	}
	m.units += total
	if total > 0 {
		m.lines = append(m.lines, fmt.Sprintf("%3d  %s", total, strings.Join(line, ", ")))
	}
	return nil
}

func rowKind(k store.Key) string {
	if _, key, idem := strings.Cut(k.PK, "#IDEM#"); idem && key != "" {
		return "IDEM"
	}
	kind, _, _ := strings.Cut(k.SK, "#")
	return kind
}

func (m *meter) spent() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units, m.tx, m.lines = 0, 0, nil
	clear(m.by)
}

func TestTheWriteUnitsOfOneTaskAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		m := &meter{by: map[string]int{}}
		r.wrap = func(s store.Store) store.Store { m.Store = s; return m }
		r.up()
		m.reset()
		tid := r.create("one")
		steps := []string{fmt.Sprintf("create %d", m.spent())}
		was := m.spent()
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		r.drained(tid)
		steps = append(steps, fmt.Sprintf("turn %d", m.spent()-was))
		was = m.spent()
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		r.drained(tid)
		steps = append(steps, fmt.Sprintf("accept %d", m.spent()-was))
		r.down()
		var kinds []string
		for _, k := range slices.Sorted(maps.Keys(m.by)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", k, m.by[k]))
		}
		t.Logf("one task costs %d write units in %d transactions: %s; by row: %s", m.units, m.tx, strings.Join(steps, ", "), strings.Join(kinds, ", "))
		t.Logf("by transaction:\n%s", strings.Join(m.lines, "\n"))
		if m.units > 64 {
			t.Errorf("%d write units: the count may not grow", m.units)
		}
	})
}
