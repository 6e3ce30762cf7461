package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// TaskVault is what a run of a task is told of its vault.
func (a *App) TaskVault(ctx context.Context, tenant string, tid id.Task) (*turn.Vault, error) {
	t, _, err := a.loadTask(ctx, tenant, tid)
	if err != nil {
		return nil, err
	}
	return a.taskVault(ctx, t)
}

// EmptyVault removes a task's vault as its clean-up does.
func (a *App) EmptyVault(ctx context.Context, tenant string, tid id.Task) error {
	t, _, err := a.loadTask(ctx, tenant, tid)
	if err != nil {
		return err
	}
	return a.emptyVault(ctx, t)
}
