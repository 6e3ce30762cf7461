package depot

import (
	"context"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Landing says where a task's target stands, and where all lies that a broker needs
// to merge onto it. It is read in this order: what the packs are to hold before the
// list of the packs.
func (r *repository) Landing(ctx context.Context, t task.Task) (*turn.Landing, error) {
	head, err := r.Tip(ctx, t.Target)
	if err != nil {
		return nil, err
	}
	who := r.author()
	l := &turn.Landing{Head: head, Author: who.Name, Email: who.Email}
	if l.Have, err = r.heads(ctx); err != nil {
		return nil, err
	}
	slices.Sort(l.Have)
	l.Have = slices.Compact(l.Have)
	if l.Repository, err = r.Packs(ctx); err != nil {
		return nil, err
	}
	l.Chain, err = r.chainOf(ctx, t)
	return l, err
}

// chainOf is what the runs of a task, and before it those of the tasks that it was
// cut from, have committed so far.
func (r *repository) chainOf(ctx context.Context, t task.Task) (all []turn.Chain, err error) {
	if t.Parent != "" {
		p, ok, err := r.c.Tasks().LoadTask(ctx, t.Tenant, t.Parent)
		if err != nil {
			return nil, err
		}
		if ok && p.Branch == t.Target {
			if all, err = r.chainOf(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	v, err := r.c.Tasks().CommitsOf(ctx, t)
	if err != nil || v == nil || len(v.Bundles) == 0 {
		return all, err
	}
	return append(all, turn.Chain{Task: t.ID, Key: v.Key, Bundles: v.Bundles}), nil
}

// Adopt makes packs that t's broker has stored the repository's, unless they are.
func (r *repository) Adopt(ctx context.Context, t task.Task, packs []turn.Pack) error {
	all, err := r.packs(ctx, 0)
	if err != nil {
		return err
	}
	for _, p := range packs {
		if slices.ContainsFunc(all, func(have pack) bool { return have.Name == p.Name }) {
			continue
		}
		add := pack{Name: p.Name, Commit: p.Commit, Why: "accept " + string(t.ID), Size: p.Size, At: r.c.Now()}
		if err := r.record(ctx, add, "", nil); err != nil {
			return err
		}
	}
	return nil
}
