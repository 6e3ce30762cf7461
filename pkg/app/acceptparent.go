package app

import (
	"context"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// parentOf loads the parent whose branch t merges into. It is false for a task
// that merges into a branch no task owns.
func (a *App) parentOf(ctx context.Context, t task.Task) (task.Task, bool, error) {
	if t.Parent == "" {
		return task.Task{}, false, nil
	}
	p, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
	return p, ok && p.Branch == t.Target, err
}

// cutParent makes the branch a subtask is cut from when its parent was never
// started: the parent gets its branch and workspace as its own start would have
// made them, and stays in backlog until work lands on it (SY-009).
func (a *App) cutParent(ctx context.Context, t task.Task) error {
	p, below, err := a.parentOf(ctx, t)
	if err != nil || !below || t.Tip != "" || p.Tip != "" || p.Status.Terminal() {
		return err
	}
	if err := a.cutParent(ctx, p); err != nil {
		return err
	}
	branch, base, err := a.start(ctx, p)
	if err != nil {
		return err
	}
	ws, err := a.repo(p).Prepare(ctx, p, branch, base)
	if err != nil {
		return err
	}
	_, err = a.mutate(ctx, Call{}, p.Tenant, p.ID, func(p task.Task) (change, error) {
		if p.Tip != "" {
			return change{}, errSettled
		}
		ch := change{task: p}
		ch.task.Workspace, ch.task.Branch, ch.task.Base, ch.task.Tip = &ws, branch, base, base
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// parentSettled makes the parent's branch agree with its recorded tip before a
// landing on it is computed: a commit of the parent's own may be durable whose ref
// has not moved yet.
func (a *App) parentSettled(ctx context.Context, t task.Task) error {
	p, below, err := a.parentOf(ctx, t)
	if err != nil || !below {
		return err
	}
	return a.finishCommit(ctx, p)
}

// reserve records the landing as the parent's tip before its ref moves, as every
// commit on a task's branch is recorded (UW-013). From there on a commit of the
// parent's running agent is refused with the tip to start from, so the two can
// never undo each other.
func (a *App) reserve(ctx context.Context, t, parent task.Task) error {
	_, err := a.mutate(ctx, Call{}, parent.Tenant, parent.ID, func(p task.Task) (change, error) {
		switch p.Tip {
		case t.Accept.Commit:
			return change{}, errSettled
		case t.Accept.TargetHead:
		default:
			return change{}, hasMoved(t)
		}
		// Whoever was succeeded in this accept, or comes after it was given up, moves
		// nothing.
		if now, ok, err := a.loadTask(ctx, t.Tenant, t.ID); err != nil || !ok || now.Epoch != t.Epoch || now.Status != task.Merging {
			return change{}, errors.Join(err, fault.New(fault.Unavailable, "this accept of %s is carried on elsewhere", t.Name()))
		}
		ch := change{task: p}
		n := &ch.task
		n.Tip = t.Accept.Commit
		n.Commits++
		headMoved(n, "accepted subtask")
		ch.writes = []store.Write{put(a.part(p).Commit(p.Epoch, n.Commits), "commit", CommitRow{
			Kind: commitAccept, Parent: t.Accept.TargetHead, Commit: t.Accept.Commit, Tree: t.Accept.Tree, Turn: p.Turn,
			Actor: t.Accept.Actor, At: a.Now(), Message: "accept " + t.Name(),
		}, store.Absent()), {
			Act: store.Check, Item: store.Item{Key: a.part(t).Meta()}, If: []store.Cond{store.EpochIs(t.Epoch), store.StatusIn(string(task.Merging))},
		}}
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// unreserve takes a reservation back whose landing did not happen.
func (a *App) unreserve(ctx context.Context, t, parent task.Task) error {
	_, err := a.mutate(ctx, Call{}, parent.Tenant, parent.ID, func(p task.Task) (change, error) {
		if p.Tip != t.Accept.Commit {
			return change{}, errSettled
		}
		ch := change{task: p}
		ch.task.Tip = t.Accept.TargetHead
		ch.writes = []store.Write{{
			Act: store.Delete, Item: store.Item{Key: a.part(p).Commit(p.Epoch, p.Commits)}, If: []store.Cond{store.Present()},
		}}
		ch.task.Commits--
		return ch, nil
	})
	var lost *store.ConflictError
	if errors.Is(err, errSettled) || errors.As(err, &lost) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the branch of %s could not be put right", parent.Name())
	}
	return nil
}
