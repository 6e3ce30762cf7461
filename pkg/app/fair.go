package app

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Sweep visits rows that are due and gives each its next time, also when it could
// not be served, so that no row stands in the way of those behind it. It relies on
// no event: losing all of them changes only when things happen (SY-001, SY-003).
// Tenants take turns, so a backlog of one delays another by one row and not by all
// of them; limit bounds what one of them gets of a shard, and a sweep that lasts
// ends early, so that the next one sees what has become due since (SY-023). It
// returns how many rows it visited.
func (a *App) Sweep(ctx context.Context, limit int) (int, error) {
	queue, all := a.due(ctx, limit)
	end := a.Now().Add(names.SweepHosted / 2)
	n := 0
	for _, it := range queue {
		if ctx.Err() != nil {
			return n, errors.Join(all, ctx.Err())
		}
		if a.Now().After(end) {
			break
		}
		n++
		if err := a.visit(ctx, it); err != nil {
			a.Log.WarnContext(ctx, "a due row could not be served", "row", it.Key.String(), "error", err)
		}
	}
	return n, all
}

// due reads what is due now and orders it: the oldest row of every tenant, then the
// second of every tenant, and so on. It keeps at most limit rows of a tenant and
// shard, however many there are.
func (a *App) due(ctx context.Context, limit int) ([]store.Item, error) {
	byTenant := map[string][]store.Item{}
	var all error
	now := a.Now()
	for shard := range store.Shards {
		kept := map[string]int{}
		for cursor := ""; ; {
			page, err := store.DueRows(ctx, a.Store, shard, now, max(limit, duePage), cursor)
			if err != nil {
				all = errors.Join(all, err)
				break
			}
			for _, it := range page.Items {
				t := store.TenantOf(it.Key)
				if kept[t]++; kept[t] <= limit {
					byTenant[t] = append(byTenant[t], it)
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
	}
	var out []store.Item
	for _, its := range byTenant {
		slices.SortStableFunc(its, func(x, y store.Item) int {
			return strings.Compare(x.Index[store.Due].SK, y.Index[store.Due].SK)
		})
	}
	for i, more := 0, true; more; i++ {
		more = false
		for _, t := range sortedKeys(byTenant) {
			if its := byTenant[t]; i < len(its) {
				out, more = append(out, its[i]), true
			}
		}
	}
	return out, all
}

// duePage is how many rows of the index one read takes.
const duePage = 200
