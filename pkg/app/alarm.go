package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// alarm writes a line that counts a metric which somebody watches. It never
// decides anything, and a line written twice by a repeated transaction tells of
// one thing.
func (a *App) alarm(ctx context.Context, metric, says string, t task.Task, why string) {
	if a.Log == nil {
		return
	}
	a.Log.WarnContext(ctx, says, names.AttrMetric, metric, "tenant", t.Tenant, "project", t.Project, "task", t.ID.Short(), "turn", string(t.Turn), "why", why)
}

// repaired says that the sweep did what an event should have done already.
func (a *App) repaired(ctx context.Context, t task.Task, what string) {
	a.alarm(ctx, names.MetricSweepRepair, "the sweep did what an event should have done", t, what)
}

// tripped says so when a task has been interrupted as often as the breaker allows.
func (a *App) tripped(ctx context.Context, t task.Task, why string) {
	if t.Interruptions == names.Breaker {
		a.alarm(ctx, names.MetricBreaker, "a task was interrupted too often in a row and waits for a person", t, why)
	}
}
