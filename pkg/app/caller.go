package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// callersTask reads the task that the caller's credential is bound to.
func (a *App) callersTask(ctx context.Context, who identity.Caller) (task.Task, error) {
	t, ok, err := a.loadTask(ctx, who.Tenant, who.Task())
	if err == nil && !ok {
		err = fault.New(fault.Internal, "the task of this token is gone")
	}
	return t, err
}

// TaskCode returns the code of the caller's own task, so that a surface can tell
// whether a caller addresses itself without looking another task up (CM-002).
func (a *App) TaskCode(ctx context.Context, who identity.Caller) (string, error) {
	t, err := a.callersTask(ctx, who)
	return t.Code, err
}

// ReadOnlyTurn reports whether the running turn of the caller's own task is
// served reads only. It narrows what the caller is shown; Writable enforces it
// (CM-028).
func (a *App) ReadOnlyTurn(ctx context.Context, who identity.Caller) (bool, error) {
	t, err := a.callersTask(ctx, who)
	return err == nil && t.Claimed && turn.Kind(t.TurnKind).ReadOnly(), err
}
