package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// RunnerExited is RunnerGone for a run known by its task's short id, which is
// unique within the project.
func (a *App) RunnerExited(ctx context.Context, tenant, project, short string, epoch int64, rep runner.Report) error {
	ptr, ok, err := get[pointer](ctx, a.Store, store.For(tenant).Project(project).Short(short))
	if err != nil || !ok {
		return err
	}
	return a.RunnerGone(ctx, tenant, ptr.Task, epoch, rep)
}
