package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// accepted is why a task is cleaned up whose accept put it where it is.
const accepted = "accept"

// uncleaned reports whether a task that an accept completed still has what it
// worked with. Its row is due until it has not.
func uncleaned(t task.Task) bool {
	return t.Status == task.Complete && t.Workspace != nil && t.Accept != nil && t.Accept.Commit == t.Merge
}

// stepCleanUp does at once what the sweep would do soon. A failure is noted for
// whoever follows the accept; it is tried again, and the task never leaves complete
// for it (SM-031, AP-006).
func (a *App) stepCleanUp(ctx context.Context, p Payload) (any, error) {
	_, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	var keys []store.Key
	err = store.All(ctx, a.Store, store.Query{PK: a.part(t).PK, Prefix: "OUT#"}, func(it store.Item) bool {
		if j, err := decode[Job](it); err == nil && j.Kind == Clean {
			keys = append(keys, it.Key)
		}
		return true
	})
	for _, k := range keys {
		err = errors.Join(err, a.Consume(ctx, k))
	}
	if uncleaned(t) {
		err = errors.Join(err, a.cleanUp(ctx, t, accepted))
	}
	if err == nil {
		return struct{}{}, nil
	}
	why := "clean up: " + fault.Of(err).Public
	_, merr := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Accept == nil || t.Accept.Operation != p.Turn || t.Accept.Failure == why || t.Workspace == nil {
			return change{}, errSettled
		}
		ch := change{task: t}
		acc := *t.Accept
		acc.Failure = cut(why, 500)
		ch.task.Accept = &acc
		return ch, nil
	})
	if errors.Is(merr, errSettled) {
		merr = nil
	}
	return nil, fault.Wrap(fault.Unavailable, errors.Join(err, merr), "%s", why)
}

// cleanUp removes what a finished task leaves: its runner, its workspace, its
// branch. After an accept nothing is deleted before the landing is proven against
// the target's current head (AP-023, P4). Subtasks cut from the branch are turned
// to its own target first, so that none of them loses its base (B10).
func (a *App) cleanUp(ctx context.Context, t task.Task, why string) error {
	if !t.Status.Terminal() {
		return nil // reopened meanwhile
	}
	if t.Status == task.Complete {
		ok, err := a.proven(ctx, t)
		if err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.Unavailable, "%s no longer contains %s, so nothing of %s was deleted", t.Target, short(t.Merge), t.Name())
		}
	}
	if err := a.orphans(ctx, t); err != nil {
		return err
	}
	if t.Epoch > 0 {
		if r, ok, err := a.loadRun(ctx, t, t.Epoch); err != nil {
			return err
		} else if ok && r.Ref != "" {
			if err := a.Runner.Stop(ctx, r.Ref, "the task ended"); err != nil {
				return err
			}
		}
	}
	if e, ok := a.Runner.(runner.Ender); ok {
		if err := e.EndTask(ctx, t.ID); err != nil {
			return err
		}
	}
	if t.Workspace == nil || t.Workspace.Kept != "" && why != "reopen" {
		return nil
	}
	patch := ""
	if why != accepted {
		var err error
		patch, err = a.repo(t).SaveRecovery(ctx, t, string(t.Status), t.Updated)
		if fault.KindOf(err) == fault.TooLarge {
			return a.keep(ctx, t, why, err)
		}
		if err != nil {
			return err
		}
	}
	if err := a.repo(t).Remove(ctx, t, t.Tip); err != nil {
		return err
	}
	if err := a.emptyVault(ctx, t); err != nil {
		return err
	}
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(now task.Task) (change, error) {
		if !now.Status.Terminal() || now.Workspace == nil {
			return change{}, errSettled
		}
		ch := change{task: now}
		ch.task.Workspace = nil
		if acc := now.Accept; acc != nil && acc.Failure != "" {
			done := *acc
			done.Failure = ""
			ch.task.Accept = &done
		}
		if patch != "" {
			how := "git apply "
			if _, ok := a.repo(now).(Depot); ok {
				how = "lazy pull "
			}
			a.systemComment(&ch, "Edits that were on no branch were saved: "+how+patch)
		}
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// keep leaves the workspace of a finished task where it is: it holds more than can
// be saved as a patch, trying again would find the same, and deleting it would
// lose what no branch has (HA-034). The task's journal says where it is and what to
// do; only taking the task up again looks at it once more.
func (a *App) keep(ctx context.Context, t task.Task, why string, cause error) error {
	said := fmt.Sprintf("The workspace holds edits that are on no branch and that cannot be saved as a patch: %s. It was kept, with everything in it, at %s. "+
		"Move what you want elsewhere and delete that directory; reopening the task then cleans up what is left.",
		fault.Of(cause).Public, t.Workspace.Tree)
	if why == "reopen" {
		return fault.Wrap(fault.Conflict, cause, "%s cannot be reopened. %s", t.Name(), said)
	}
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(now task.Task) (change, error) {
		if !now.Status.Terminal() || now.Workspace == nil || now.Workspace.Kept != "" {
			return change{}, errSettled
		}
		ch := change{task: now}
		place := *now.Workspace
		place.Kept = cut(fault.Of(cause).Public, 200)
		ch.task.Workspace = &place
		_, ws, err := a.appendEntry(ctx, &ch.task, Call{}, said)
		ch.writes = append(ch.writes, ws...)
		return ch, err
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// proven reports whether a completed task's merge is where it was put. A subtask
// went into the branch of its parent, which may have been merged and removed before
// the subtask's own clean-up came through: then the parent's commits name the
// merge, and the parent's own landing is the proof, or the ref that keeps the work
// of a parent that was rejected.
func (a *App) proven(ctx context.Context, t task.Task) (bool, error) {
	ok, err := a.repo(t).Contains(ctx, t.Target, t.Merge)
	if err != nil || ok || t.Parent == "" {
		return ok, err
	}
	if _, err := a.repo(t).Tip(ctx, t.Target); fault.KindOf(err) != fault.NotFound {
		return false, err
	}
	p, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
	if err != nil || !ok || p.Branch != t.Target || !p.Status.Terminal() || p.Workspace != nil {
		return false, err
	}
	named := false
	var bad error
	err = store.All(ctx, a.Store, store.Query{PK: a.part(p).PK, Prefix: "COM#"}, func(it store.Item) bool {
		row, err := decode[CommitRow](it)
		bad = err
		named = err == nil && row.Commit == t.Merge
		return err == nil && !named
	})
	if err := errors.Join(err, bad); err != nil || !named {
		return false, err
	}
	if p.Status == task.Complete {
		return a.proven(ctx, p)
	}
	return true, nil
}

// orphans turns the live subtasks of a task that ended to the task's own parent
// and target.
func (a *App) orphans(ctx context.Context, t task.Task) error {
	var kids []task.Task
	var bad error
	err := store.All(ctx, a.Store, store.Query{PK: store.For(t.Tenant).Project(t.Project).PK, Prefix: "LIVE#"}, func(it store.Item) bool {
		l, err := decode[Live](it)
		if err != nil {
			bad = err
			return false
		}
		if l.Parent == t.ID {
			kids = append(kids, task.Task{Tenant: t.Tenant, ID: l.ID})
		}
		return true
	})
	if err := errors.Join(err, bad); err != nil {
		return err
	}
	for _, kid := range kids {
		_, err := a.mutate(ctx, Call{}, kid.Tenant, kid.ID, func(k task.Task) (change, error) {
			switch {
			case k.Parent != t.ID || k.Status.Terminal():
				return change{}, errSettled
			case k.Status == task.Merging:
				return change{}, fault.New(fault.Unavailable, "subtask %s is being merged into %s", k.Name(), t.Branch)
			}
			ch := change{task: k}
			ch.task.Parent = t.Parent
			if k.Target == t.Branch {
				ch.task.Target = t.Target
			}
			a.systemComment(&ch, fmt.Sprintf("%s ended (%s); this task merges into %s from now on.", t.Name(), t.Status.Words(), ch.task.Target))
			return ch, nil
		})
		if err != nil && !errors.Is(err, errSettled) {
			return err
		}
	}
	return nil
}
