package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Remoter is a Repository that has a remote of its own beside it, where people may
// have moved a task's branch on.
type Remoter interface {
	// Fetch looks for branch on the remote and has its commits from then on. Where
	// there is nothing to bring in, the answer says why.
	Fetch(ctx context.Context, branch string) (turn.Own, error)
	// Fetched reports whether what was last fetched of branch holds commit.
	Fetched(ctx context.Context, branch, commit string) (ref string, ok bool, err error)
}

// fetchOwn looks once per run for the task's own branch on the remote (SN-001). It
// never pushes: what is fetched lies beside the branch until the run's broker merges
// it.
func (a *App) fetchOwn(ctx context.Context, o Op, t task.Task, branch string) error {
	remote, ok := a.repo(t).(Remoter)
	if !ok {
		return nil
	}
	own, err := remote.Fetch(ctx, branch)
	if err != nil {
		return err
	}
	return a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		r.Own = &own
		return change{}, true, nil
	})
}

// follows names the branch that a task tracks and that holds commit: the one it
// merges into, or its own on the remote (OT-020). The name is "" when neither does.
func (a *App) follows(ctx context.Context, t task.Task, commit string) (ref string, target bool, err error) {
	ok, err := a.repo(t).Contains(ctx, t.Target, commit)
	if err != nil || ok {
		return t.Target, ok, err
	}
	if remote, has := a.repo(t).(Remoter); has {
		if ref, ok, err = remote.Fetched(ctx, t.Branch, commit); err != nil || !ok {
			return "", false, err
		}
		return ref, false, nil
	}
	return "", false, nil
}
