package app

import (
	"context"
	"errors"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// lease takes the lease on a shared thing for the length of one step and renews it
// meanwhile. It expires by comparison, so a dead holder delays the next by a
// minute at most, and nobody takes it from a living one (SY-014). The lease of an
// accept that is over is free: whoever carried its step out does not write that
// down, and says false where the step failed and the accept may not be over soon.
func (a *App) lease(ctx context.Context, t task.Task, what, owner string) (func(carriedOut bool), error) {
	k := store.For(t.Tenant).Lease(t.Project, what)
	row := func(count int64, conds ...store.Cond) store.Write {
		return store.Write{
			Act: store.Put, If: conds,
			Item: store.Item{Key: k, Doc: []byte("{}"), Attr: store.Attr{
				store.AttrType: "lease", "schema": int64(schema), "owner": owner, "count": count,
				"until": a.Now().Add(names.LeaseTTL).UnixNano(),
			}},
		}
	}
	var count int64
	end := a.Now().Add(names.LeaseWait)
	for pause := names.LeaseLook; ; pause *= 2 {
		have, err := a.Store.Get(ctx, k)
		cond := store.FieldIs("count", have.Int("count"))
		free := true
		switch {
		case errors.Is(err, store.ErrNotFound):
			cond = store.Absent()
		case err == nil:
			free, err = a.leaseFree(ctx, t.Tenant, have, owner)
		}
		if free && (err == nil || errors.Is(err, store.ErrNotFound)) {
			count = have.Int("count") + 1
			err = a.Store.Transact(ctx, row(count, cond))
		}
		if _, lost := errors.AsType[*store.ConflictError](err); lost {
			free, err = false, nil
		}
		if err != nil {
			return nil, err
		}
		if free {
			break
		}
		if !a.Now().Before(end) {
			return nil, fault.New(fault.Unavailable, "another merge into %s is under way", strings.TrimPrefix(what, "branch/"))
		}
		select {
		case <-a.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	keep, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-keep.Done():
				return
			case <-a.After(names.LeaseRenew):
				if a.Store.Transact(keep, row(count, store.FieldIs("count", count))) != nil {
					return // it is somebody else's, or it runs out by itself
				}
			}
		}
	}()
	return func(carriedOut bool) {
		stop()
		<-done
		if carriedOut {
			return
		}
		// A lease that is not given back runs out by itself.
		_ = a.Store.Transact(context.WithoutCancel(ctx), store.Write{
			Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.FieldIs("count", count), store.FieldIs("owner", owner)},
		})
	}, nil
}

// leaseFree reports whether a lease may be taken: by its own holder, when it has run
// out, and when the accept that held it has left the merge phase.
func (a *App) leaseFree(ctx context.Context, tenant string, have store.Item, owner string) (bool, error) {
	if have.Str("owner") == owner || have.Int("until") <= a.Now().UnixNano() {
		return true, nil
	}
	o, ok, err := get[Op](ctx, a.Store, store.For(tenant).Operation(have.Str("owner")))
	if err != nil || !ok {
		return false, err
	}
	t, ok, err := a.loadTask(ctx, tenant, o.Task)
	return ok && (t.Status != task.Merging || t.Accept == nil || t.Accept.Operation != o.ID), err
}
