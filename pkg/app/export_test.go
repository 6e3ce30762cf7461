package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// What the flow and the supervisor do between two requests, for tests that are
// about the requests. Statuses change by edges of the table alone.

// SetHead records a branch's base and tip.
func (a *App) SetHead(ctx context.Context, tenant string, tid id.Task, base, tip string) error {
	_, err := a.mutate(ctx, Call{}, tenant, tid, func(t task.Task) (change, error) {
		t.Base, t.Tip = base, tip
		return change{task: t}, nil
	})
	return err
}

// EditTaskRow changes a task's row in ways that have no request of their own.
func (a *App) EditTaskRow(ctx context.Context, tenant string, tid id.Task, edit func(*task.Task)) error {
	_, err := a.mutate(ctx, Call{}, tenant, tid, func(t task.Task) (change, error) {
		edit(&t)
		return change{task: t}, nil
	})
	return err
}

// EditRun changes the run item of an epoch.
func (a *App) EditRun(ctx context.Context, tenant string, tid id.Task, epoch int64, edit func(*turn.Run)) error {
	t, _, err := a.loadTask(ctx, tenant, tid)
	if err != nil {
		return err
	}
	return a.driveRun(ctx, t, epoch, func(r *turn.Run) (change, bool, error) {
		edit(r)
		return change{}, true, nil
	})
}

// Shown stamps a comment as carried by a prompt, as the dispatch of a turn does.
func (a *App) Shown(ctx context.Context, tenant string, tid id.Task, seq int64) error {
	p := store.For(tenant).Task(tid)
	m, _, err := get[raise.Comment](ctx, a.Store, p.Comment(seq))
	if err != nil {
		return err
	}
	was := m.Version
	m.Shown, m.Version = a.Now(), was+1
	return a.Store.Transact(ctx, commentWrite(p, m, was))
}

// Put stores a turn as it is.
func (a *App) Put(ctx context.Context, tenant string, tid id.Task, tr turn.Turn) error {
	k := store.For(tenant).Task(tid).Turn(tr.Seq)
	return a.Store.Transact(ctx, put(k, "turn", tr))
}

// Body reads a stored text.
func (a *App) Body(ctx context.Context, t task.Task, name string) (string, error) {
	return a.getBody(ctx, t, name)
}

// Park completes the running turn.
func (a *App) Park(ctx context.Context, tenant string, tid id.Task) error {
	return a.step(ctx, tenant, tid, task.TurnCompleted, task.None, func(t *task.Task) { t.Claimed = false })
}

// Finish ends a resting task.
func (a *App) Finish(ctx context.Context, tenant string, tid id.Task, to task.Status) error {
	if to == task.Abandoned {
		return a.step(ctx, tenant, tid, task.Close, to, func(*task.Task) {})
	}
	if err := a.step(ctx, tenant, tid, task.Accept, task.Merging, func(*task.Task) {}); err != nil {
		return err
	}
	return a.step(ctx, tenant, tid, task.Landed, task.Complete, func(t *task.Task) { t.Merge = "m" + t.Tip })
}

func (a *App) step(ctx context.Context, tenant string, tid id.Task, on task.Trigger, to task.Status, edit func(*task.Task)) error {
	_, err := a.mutate(ctx, Call{}, tenant, tid, func(t task.Task) (change, error) {
		ch := change{task: t}
		at := to
		if at == task.None {
			at = task.Rest(t.Pending())
		}
		by := identity.SystemActor()
		if on == task.Close || on == task.Accept {
			by = identity.Actor{Role: identity.Human}
		}
		if err := a.move(&ch, task.Change{To: at, On: on, Actor: by}); err != nil {
			return change{}, err
		}
		edit(&ch.task)
		return ch, nil
	})
	return err
}

// Decide commits a set of decisions together with a status move, as accept and
// unblock do; fail makes the gate after them refuse.
func (a *App) Decide(ctx context.Context, c Call, tenant string, tid id.Task, rs []Resolution, fail error) error {
	_, err := a.mutate(ctx, c, tenant, tid, func(t task.Task) (change, error) {
		ws, next, err := a.resolveRaised(ctx, c, t, rs)
		if err != nil {
			return change{}, err
		}
		if fail != nil {
			return change{}, fail
		}
		return change{task: next, writes: ws}, nil
	})
	return err
}

// Confirmed runs an action behind the two-step protocol, as every confirmed tool
// does, and says how often it ran.
func (a *App) Confirmed(ctx context.Context, c Call, tenant string, tid id.Task, ran func()) (*Confirmation, error) {
	t, _, err := a.loadTask(ctx, tenant, tid)
	if err != nil {
		return nil, err
	}
	if need, err := a.confirm(ctx, c, t, Guidance{Will: "it happens", Cannot: "all of it", LookAt: "the task"}); need != nil || err != nil {
		return need, err
	}
	_, err = a.mutate(ctx, c, tenant, tid, func(t task.Task) (change, error) {
		if _, err := a.confirm(ctx, c, t, Guidance{}); err != nil {
			return change{}, err
		}
		t.Why = "acted"
		return change{task: t, writes: a.confirmWrites(c), result: "acted"}, nil
	})
	if err == nil {
		ran()
	}
	return nil, err
}

// SignInAlone begins a sign-in of a machine that is good for one project, as each was
// before one was for the whole machine.
func (a *App) SignInAlone(ctx context.Context, tenant, project, email, machine string) (Issued, error) {
	out, ws, err := a.startFamily(ctx, tenant, Family{
		ID: newFamilyID(email, machine+"\x00"+project), Kind: identity.User, Project: project, Email: email, Client: ClientCLI,
	})
	if err != nil {
		return out, err
	}
	return out, a.Store.Transact(ctx, ws...)
}

// ProtectionKey is the row of a project's protection rules.
func ProtectionKey(tenant, project string) store.Key { return protectionKey(tenant, project) }
