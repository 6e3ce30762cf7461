package app

import (
	"context"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// loadRun reads the run item of an epoch. A claim writes none: until its run has
// something of its own to say, the task's row says all there is, and the item is
// told from that. Whoever changes it first makes it.
func (a *App) loadRun(ctx context.Context, t task.Task, epoch int64) (turn.Run, bool, error) {
	r, ok, err := get[turn.Run](ctx, a.Store, a.part(t).Run(epoch))
	if err != nil || ok || epoch != t.Epoch || !t.Claimed || t.Status != task.Working {
		return r, ok, err
	}
	return turn.Run{
		Task: t.ID, Turn: t.Turn, Epoch: epoch, Kind: turn.Kind(t.TurnKind), N: 1, State: RunClaimed,
		Claimed: t.TurnBegan, Host: t.Host, Salt: salt(),
	}, true, nil
}

// seenRun is loadRun for whoever shows or judges a run: one whose response is there
// has reported, whatever its own row says still.
func (a *App) seenRun(ctx context.Context, t task.Task, epoch int64) (turn.Run, bool, error) {
	r, ok, err := a.loadRun(ctx, t, epoch)
	if err != nil || !ok || r.State == RunReported {
		return r, ok, err
	}
	resp, there, err := get[turn.Response](ctx, a.Store, a.part(t).Response(epoch))
	if err != nil || !there {
		return r, ok, err
	}
	reported(&r, resp)
	return r, ok, nil
}

// reported notes in a copy of a run what its response says about it.
func reported(r *turn.Run, resp turn.Response) {
	r.State, r.Ended = RunReported, resp.At
	if len(resp.Usage) > 0 {
		r.Usage = model.Merge(runUsages, resp.Usage)
	}
}

// driveRun is the one way a run item changes: decide gets a fresh copy, and what it
// adds of writes and outbox jobs rides in the same transaction; false leaves the
// item alone. Beats, progress, waits and the flow share this one row, whose version
// is its own, so that none of them conflicts with an edit of the task (SY-048).
func (a *App) driveRun(ctx context.Context, t task.Task, epoch int64, decide func(*turn.Run) (change, bool, error)) error {
	k := a.part(t).Run(epoch)
	for n := 0; ; n++ {
		r, ok, err := a.loadRun(ctx, t, epoch)
		if err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.NotFound, "task %s has no run %d", t.Name(), epoch)
		}
		was := r.Version
		ch, write, err := decide(&r)
		if err != nil || !write {
			return err
		}
		r.Version = was + 1
		ch.silent = true
		ch.task = t
		ch.writes = append([]store.Write{runWrite(k, r, was)}, ch.writes...)
		_, err = a.commit(ctx, Call{}, t, ch)
		var lost *store.ConflictError
		if (errors.As(err, &lost) && lost.Key == k || errors.Is(err, store.ErrContention)) && n < tries {
			continue
		}
		return err
	}
}

// runWrite puts a run item on condition that nobody has written it since was was
// read; 0 makes it.
func runWrite(k store.Key, r turn.Run, was int64) store.Write {
	r.Version = was + 1
	w := put(k, "run", r, store.VersionIs(was))
	w.Item.Attr[store.AttrVersion] = r.Version
	w.Item.Attr[store.AttrEpoch] = r.Epoch
	if was == 0 {
		w.If = []store.Cond{store.Absent()}
	}
	return w
}
