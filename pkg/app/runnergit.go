package app

import (
	"context"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Git records what the broker did to the task's refs outside lazy_commit: the
// merges of a sync. It is no tool: only a runner reaches it (OT-019). The target
// is untrusted: it must be the task's own upstream (GT-010, OT-020).
func (a *App) Git(ctx context.Context, who identity.Caller, in turn.GitIn) (turn.GitOut, error) {
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return turn.GitOut{}, err
	}
	if !held {
		return turn.GitOut{}, fenced(t, who.Epoch)
	}
	if err := notOfAccept(t, who); err != nil {
		return turn.GitOut{}, err
	}
	switch in.Op {
	case "merge":
		return a.gitMerge(ctx, t, who, in)
	case "merge_commit":
		return a.gitMerged(ctx, t, who, in)
	case "merge_abort", "reset_head":
		out := turn.GitOut{Allowed: true}
		_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
			if t.Epoch != who.Epoch || !t.Claimed {
				return change{}, fenced(t, who.Epoch)
			}
			out.Tip = t.Tip
			ch := change{task: t}
			ch.task.MidMerge = capped(in.Unmerged)
			if len(in.Unmerged) == 0 {
				ch.task.Merging = ""
			}
			return ch, nil
		})
		return out, err
	}
	return turn.GitOut{}, refusal.Of(refusal.InvalidArguments, "op", "merge, merge_abort, merge_commit or reset_head", fmt.Sprintf("%q", cut(in.Op, 40)))
}

// gitMerge allows a merge, and notes it: the files of a conflict, when there are
// any, are left to the agent, whose commit concludes it (GT-012).
func (a *App) gitMerge(ctx context.Context, t task.Task, who identity.Caller, in turn.GitIn) (turn.GitOut, error) {
	ref, _, err := a.follows(ctx, t, in.Target)
	if err != nil {
		return turn.GitOut{}, err
	}
	if ref == "" {
		return turn.GitOut{}, fault.New(fault.Denied, "%s is not on the branch this task follows, %s", cut(in.Target, 40), t.Target)
	}
	out := turn.GitOut{Allowed: true}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != who.Epoch || !t.Claimed {
			return change{}, fenced(t, who.Epoch)
		}
		out.Tip = t.Tip
		if t.Merging == in.Target && (len(in.Unmerged) == 0 || len(t.MidMerge) == len(in.Unmerged)) {
			return change{silent: true, task: t}, nil
		}
		ch := change{task: t}
		ch.task.Merging, ch.task.MidMerge = in.Target, capped(in.Unmerged)
		return ch, nil
	})
	return out, err
}

// gitMerged makes a merge commit of the broker's durable before its ref moves.
// The task's own change begins at the merged commit of its target from then on; what
// its own branch had elsewhere is part of that change.
func (a *App) gitMerged(ctx context.Context, t task.Task, who identity.Caller, in turn.GitIn) (turn.GitOut, error) {
	up := in.Target
	if up == "" {
		up = t.Merging
	}
	if t.Tip == in.Commit {
		return turn.GitOut{Tip: t.Tip, Allowed: true}, nil // told twice
	}
	if err := a.bundled(who, in.Bundle); err != nil {
		return turn.GitOut{}, err
	}
	ref, target, err := a.follows(ctx, t, up)
	if err != nil {
		return turn.GitOut{}, err
	}
	if ref == "" {
		return turn.GitOut{}, fault.New(fault.Denied, "%q is not on the branch this task follows, %s", cut(up, 40), t.Target)
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		switch {
		case t.Epoch != who.Epoch || !t.Claimed:
			return change{}, fenced(t, who.Epoch)
		case t.Tip == in.Commit:
			return change{silent: true, task: t}, nil
		case in.Parent != t.Tip:
			return change{}, fault.New(fault.Conflict, "the recorded tip of %s is %s, not %s", t.Name(), t.Tip, cut(in.Parent, 40)).
				WithDetail("tip", t.Tip)
		}
		r, _, err := a.loadRun(ctx, t, t.Epoch)
		if err != nil {
			return change{}, err
		}
		was := r.Version
		merged := mergedText(ref, up)
		r.Merged = alsoMerged(r.Merged, merged)
		ch := change{task: t}
		n := &ch.task
		n.Tip, n.MidMerge, n.Merging = in.Commit, nil, ""
		if target {
			n.Base = up
		}
		n.Commits++
		headMoved(n, "sync merge")
		ch.writes = []store.Write{
			put(a.part(t).Commit(t.Epoch, n.Commits), "commit", CommitRow{
				Kind: commitMerge, Parent: in.Parent, Commit: in.Commit, Tree: in.Tree, Turn: who.Turn, At: a.Now(),
				Actor: who.Actor(), Message: merged, Bundle: in.Bundle,
			}, store.Absent()),
			runWrite(a.part(t).Run(t.Epoch), r, was),
		}
		return ch, nil
	})
	return turn.GitOut{Tip: in.Commit, Allowed: true}, err
}

// mergedText is how a merge is recorded and shown (SN-005).
func mergedText(ref, commit string) string { return fmt.Sprintf("Merged %s @ %.7s", ref, commit) }

// alsoMerged adds a merge to those of a run.
func alsoMerged(have, more string) string {
	if have == "" {
		return more
	}
	return have + "; " + more
}
