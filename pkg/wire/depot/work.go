package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Prepare writes down that a branch is the task's, and where its container will
// have the workspace. A task that is cut from another one's branch gets what that
// one has committed so far.
func (r *repository) Prepare(ctx context.Context, t task.Task, branch, base string) (task.Workspace, error) {
	if err := git.CheckBranch(branch); err != nil {
		return task.Workspace{}, err
	}
	if t.Parent != "" && t.Tip == "" {
		if err := r.cut(ctx, base); err != nil {
			return task.Workspace{}, err
		}
	}
	b := ref{Branch: branch, Head: base, Task: t.ID, At: r.c.Now(), Version: 1}
	w, err := row(r.part().Branch(branch), "branch", 1, b, store.Absent())
	if err != nil {
		return task.Workspace{}, err
	}
	err = r.c.Store.Transact(ctx, w)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		have, _, err := load[ref](ctx, r.c.Store, r.part().Branch(branch))
		if err != nil {
			return task.Workspace{}, err
		}
		if have.Task != t.ID {
			return task.Workspace{}, fault.New(fault.Conflict, "branch %s exists at %.12s and is not this task's", branch, have.Head).
				WithNext("Give the task another code.")
		}
	} else if err != nil {
		return task.Workspace{}, err
	}
	short := t.ID.Short()
	state, shared := r.c.Place(short)
	return task.Workspace{
		State: state, Tree: filepath.Join(state, "tree"), Objects: filepath.Join(state, "objects"),
		GitDir: filepath.Join(state, "worktrees", "lazy-"+short), Shared: shared,
	}, nil
}

// cut makes a commit that so far only a task's own vault holds one of the
// repository's.
func (r *repository) cut(ctx context.Context, base string) error {
	heads, err := r.heads(ctx)
	if err != nil || slices.Contains(heads, base) {
		return err
	}
	m, _, err := r.meta(ctx)
	if err != nil {
		return err
	}
	repo, done, err := r.open(ctx, append([]string{base}, heads...)...)
	if err != nil {
		return err
	}
	defer done()
	return r.keep(ctx, repo, m, "cut", "cut/"+base, base, heads)
}

// Probe is what the last run said of the workspace: it went with its container, or
// lies in a checkpoint.
func (r *repository) Probe(ctx context.Context, t task.Task) (app.Probe, error) {
	p := app.Probe{Unmerged: t.MidMerge, MidMerge: len(t.MidMerge) > 0}
	if t.Answered == 0 {
		return p, nil
	}
	last, ok, err := r.c.Tasks().LastResponse(ctx, t)
	if err != nil || !ok {
		return p, err
	}
	p.Dirty, p.Drifted = last.Uncommitted.Paths, last.Drifted
	if len(last.MergeState) > 0 {
		p.Unmerged, p.MidMerge = last.MergeState, true
	}
	return p, nil
}

// Diff is the change between base and tip, bounded.
func (r *repository) Diff(ctx context.Context, q app.DiffQuery) (app.Diff, error) {
	repo, done, err := r.open(ctx, q.Base, q.Tip)
	if err != nil {
		return app.Diff{}, err
	}
	defer done()
	d, err := repo.Diff(ctx, q.Base, q.Tip, git.DiffOptions{Paths: q.Paths, MaxBytes: q.MaxBytes + q.Offset})
	if err != nil {
		return app.Diff{}, err
	}
	out := app.Diff{Truncated: d.Truncated}
	if q.Offset < len(d.Text) {
		out.Text = d.Text[q.Offset:]
	}
	if d.Truncated {
		out.Next = q.Offset + len(out.Text)
	}
	for _, f := range d.Files {
		out.Files = append(out.Files, app.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
	}
	return out, nil
}

// Plan computes the landing of a task on its target.
func (r *repository) Plan(ctx context.Context, t task.Task) (app.Landing, error) {
	head, err := r.Tip(ctx, t.Target)
	if err != nil {
		return app.Landing{}, err
	}
	repo, done, err := r.open(ctx, head, t.Tip)
	if err != nil {
		return app.Landing{}, err
	}
	defer done()
	sq, err := repo.PlanSquashOn(ctx, t.Target, head, t.Tip)
	if c, ok := errors.AsType[*git.Conflict](err); ok {
		return app.Landing{}, &app.MergeConflict{Files: c.Files}
	}
	if err != nil {
		return app.Landing{}, err
	}
	return app.Landing{
		Target: sq.Target, TargetHead: sq.TargetHead, Tip: sq.Tip, Tree: sq.Tree, Files: sq.Files, Task: string(t.ID),
	}, nil
}

// Overlap finds nothing: no branch of a hosted project is checked out anywhere.
func (r *repository) Overlap(context.Context, app.Landing) ([]string, string, error) {
	return nil, "", nil
}

// Commit makes the merge commit, and makes it durable before it is named as the
// one that is meant to land: whoever lands it needs nothing but its name.
func (r *repository) Commit(ctx context.Context, l app.Landing, message string, when time.Time) (string, error) {
	heads, err := r.heads(ctx)
	if err != nil {
		return "", err
	}
	m, _, err := r.meta(ctx)
	if err != nil {
		return "", err
	}
	repo, done, err := r.open(ctx, append([]string{l.TargetHead, l.Tip}, heads...)...)
	if err != nil {
		return "", err
	}
	defer done()
	// The tree of a plan that another process made is made again.
	sq, err := repo.PlanSquashOn(ctx, l.Target, l.TargetHead, l.Tip)
	if err != nil {
		return "", err
	}
	if sq.Tree != l.Tree {
		return "", fault.New(fault.Internal, "the landing of %s is another than was planned", l.Task)
	}
	commit, err := repo.CommitSquash(ctx, sq, message, r.author(), when)
	if err != nil {
		return "", err
	}
	return commit, r.keep(ctx, repo, m, "land "+l.Task, turn.PackLand+"/"+commit, commit, heads)
}

// author is whose the merge commit of the task is: the person's who accepted it.
func (r *repository) author() git.Person {
	a := r.task.Accept
	if a == nil || a.Actor.Email == "" {
		return git.Person{Name: "lazyplane", Email: "lazy@lazyplane.invalid"}
	}
	return git.Person{Name: cmp.Or(a.Actor.Name, a.Actor.Email), Email: a.Actor.Email}
}

// Land moves the target to the merge commit, if it is where the landing was
// computed for. Of all who try, one moves it; whoever comes later finds it moved.
func (r *repository) Land(ctx context.Context, l app.Landing, commit string) error {
	b, _, ok, err := r.ref(ctx, l.Target)
	switch {
	case err != nil:
		return err
	case !ok:
		return none(l.Target)
	case b.Head == commit:
		return nil
	case b.Head != l.TargetHead || b.Task != "":
		in, err := r.Contains(ctx, l.Target, commit)
		if err == nil && !in {
			err = fault.New(fault.Conflict, "%s has moved", l.Target)
		}
		return err
	}
	was := b.Version
	b.Head, b.At, b.Version = commit, r.c.Now(), was+1
	if r.task.Accept != nil {
		b.By = r.task.Accept.Actor
	}
	w, err := row(r.part().Branch(l.Target), "branch", b.Version, b, store.VersionIs(was))
	if err != nil {
		return err
	}
	// Whoever was succeeded in this accept, or comes after it was given up, moves
	// nothing.
	holds := store.Write{
		Act: store.Check, Item: store.Item{Key: store.For(r.tenant).Task(r.task.ID).Meta()},
		If: []store.Cond{store.EpochIs(r.task.Epoch), store.StatusIn(string(task.Merging))},
	}
	r.c.Crash("depot.land.before")
	err = r.c.Store.Transact(ctx, w, holds)
	lost, is := errors.AsType[*store.ConflictError](err)
	if is && lost.Key == holds.Item.Key {
		return fault.Wrap(fault.Unavailable, err, "the accept of this landing is carried on elsewhere")
	}
	if is {
		now, _, err := load[ref](ctx, r.c.Store, r.part().Branch(l.Target))
		if err == nil && now.Head != commit {
			err = fault.New(fault.Conflict, "%s has moved", l.Target)
		}
		return err
	}
	r.c.Crash("depot.land.after")
	return err
}

// Contains reports whether branch's head contains commit.
func (r *repository) Contains(ctx context.Context, branch, commit string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	b, t, ok, err := r.ref(ctx, branch)
	if err != nil || !ok {
		return false, err
	}
	if b.Head == commit {
		return true, nil
	}
	at := *r
	if b.Task != "" {
		at.task = t
	}
	repo, done, err := at.open(ctx, b.Head)
	if err != nil {
		return false, err
	}
	defer done()
	return repo.Contains(ctx, b.Head, commit) // what nobody has is in no history
}

// Finish has nothing to do: the branch of a task stands where its row says, and
// that is written before anything is answered.
func (r *repository) Finish(ctx context.Context, t task.Task, _, _ string) (string, error) {
	return t.Tip, ctx.Err()
}

// Remove makes what a task committed one of the repository's before its vault is
// emptied, and takes its branch away. Work that was never merged stays on a branch
// of its own.
func (r *repository) Remove(ctx context.Context, t task.Task, tip string) error {
	if tip != "" && tip != t.Base {
		if err := r.retain(ctx, t, tip); err != nil {
			return err
		}
	}
	if w := t.Workspace; w != nil { // where runs are processes of this machine
		if err := errors.Join(os.RemoveAll(w.State), os.RemoveAll(w.Shared)); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
	}
	b, ok, err := load[ref](ctx, r.c.Store, r.part().Branch(t.Branch))
	if err != nil || !ok || b.Task != t.ID {
		return err
	}
	err = r.c.Store.Transact(ctx, store.Write{
		Act: store.Delete, Item: store.Item{Key: r.part().Branch(t.Branch)}, If: []store.Cond{store.VersionIs(b.Version)},
	})
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil
	}
	return err
}

func (r *repository) retain(ctx context.Context, t task.Task, tip string) error {
	if t.Status == task.Complete {
		// What its broker has kept needs no git here.
		all, err := r.packs(ctx, 0)
		if err != nil || slices.ContainsFunc(all, func(p pack) bool { return p.Name == turn.PackKept+"/"+tip }) {
			return err
		}
	}
	heads, err := r.heads(ctx)
	if err != nil {
		return err
	}
	m, _, err := r.meta(ctx)
	if err != nil {
		return err
	}
	repo, done, err := r.open(ctx, append([]string{tip}, heads...)...)
	if err != nil {
		return err
	}
	defer done()
	if err := r.keep(ctx, repo, m, "kept "+string(t.ID), turn.PackKept+"/"+tip, tip, heads); err != nil {
		return err
	}
	if t.Status != task.Abandoned {
		return nil
	}
	return r.name(ctx, "kept/"+t.ID.Short(), tip)
}

// name gives a commit a branch of its own, which nothing works on.
func (r *repository) name(ctx context.Context, name, tip string) error {
	old, _, err := load[ref](ctx, r.c.Store, r.part().Branch(name))
	if err != nil || old.Head == tip {
		return err
	}
	cond := store.Absent()
	if old.Version > 0 {
		cond = store.VersionIs(old.Version)
	}
	w, err := row(r.part().Branch(name), "branch", old.Version+1, ref{Branch: name, Head: tip, At: r.c.Now(), Version: old.Version + 1}, cond)
	if err != nil {
		return err
	}
	err = r.c.Store.Transact(ctx, w)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return fault.Wrap(fault.Unavailable, err, "%s is being kept by somebody else", name)
	}
	return err
}

// Subjects lists the subject lines of the commits between base and tip, merges
// left out.
func (r *repository) Subjects(ctx context.Context, base, tip string) ([]string, error) {
	repo, done, err := r.open(ctx, base, tip)
	if err != nil {
		return nil, err
	}
	defer done()
	return repo.Subjects(ctx, base, tip)
}
