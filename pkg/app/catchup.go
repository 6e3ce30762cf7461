package app

import (
	"context"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// CatchUp does what follows from the hellos and reports of a project's runs that
// the process before this one stored and then did not come to. It is for a control
// plane whose hints end with it, when it starts; without it the tasks' own due
// times would find the same, later.
func (a *App) CatchUp(ctx context.Context, tenant, project string) error {
	live, err := a.liveRows(ctx, identity.Caller{Tenant: tenant, Project: project})
	if err != nil {
		return err
	}
	var all error
	for _, l := range live {
		if l.Status == task.Working || l.Status == task.Interrupted {
			all = errors.Join(all, a.catchUp(ctx, tenant, l))
		}
	}
	return all
}

func (a *App) catchUp(ctx context.Context, tenant string, l Live) error {
	t, ok, err := a.loadTask(ctx, tenant, l.ID)
	switch {
	case err != nil || !ok:
		return err
	case t.Status == task.Working && t.Claimed:
		return a.answerToken(ctx, t, t.Epoch)
	}
	return a.findLate(ctx, t)
}

// findLate settles an answer that came after its task was interrupted.
func (a *App) findLate(ctx context.Context, t task.Task) error {
	if !late(t, t.Epoch) {
		return nil
	}
	o, _, err := a.operation(ctx, t.Tenant, string(t.Turn))
	if err != nil || o.Epoch != t.Epoch {
		return err
	}
	return a.lateAnswer(ctx, t, o)
}
