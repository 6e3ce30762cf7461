// Package disk gives use cases a repository on this machine's disk: a person's own
// in local mode, and the stand-in for a forge where the hosted functions run on one
// machine.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// repository is git as use cases see it, on the person's own repository.
type repository struct {
	git   *git.Repo
	paths config.Paths
}

var (
	_ app.Repository = (*repository)(nil)
	_ app.Absorber   = (*repository)(nil)
	_ app.Inspector  = (*repository)(nil)
)

// NewRepository returns the repository whose tasks' state lies in paths.
func NewRepository(r *git.Repo, paths config.Paths) app.Repository {
	return &repository{git: r, paths: paths}
}

// Current returns the branch checked out in the person's repository.
func (r *repository) Current(ctx context.Context) (string, string, error) {
	branch, head, err := r.git.Head(ctx)
	if err == nil && branch == "" {
		err = fault.New(fault.Invalid, "the repository at %s has a detached HEAD, so there is no branch to aim at", r.paths.Root).
			WithNext("Check a branch out: git switch <branch>")
	}
	return branch, head, err
}

// Tip returns the head of a branch.
func (r *repository) Tip(ctx context.Context, branch string) (string, error) {
	sha, err := r.git.BranchTip(ctx, branch)
	if errors.Is(err, git.ErrUnknownRev) {
		return "", fault.Wrap(fault.NotFound, err, "there is no branch %s", branch)
	}
	return sha, err
}

// keptRef holds the work of an abandoned task, which nobody merged: what an agent
// committed is never lost.
func keptRef(t task.Task) string { return "refs/lazy/kept/" + t.ID.Short() }

// Prepare makes the task's branch and workspace, or finds them.
func (r *repository) Prepare(ctx context.Context, t task.Task, branch, base string) (task.Workspace, error) {
	spec := git.WorkspaceSpec{
		StateDir: r.paths.Task(t.ID.Short()), TaskShort: t.ID.Short(), Branch: branch, Base: base,
	}
	if t.Tip != "" && t.Base != "" {
		spec.Base, spec.Tip = t.Base, t.Tip
	}
	ws, err := r.git.CreateWorkspace(ctx, spec)
	if err != nil {
		return task.Workspace{}, err
	}
	return task.Workspace{
		State: ws.State, Tree: ws.Tree, GitDir: ws.GitDir, Objects: ws.Objects, Shared: ws.Shared, Borrowed: ws.Borrowed,
		Unfilled: ws.Unfilled,
	}, nil
}

func workspace(t task.Task) git.Workspace {
	w := t.Workspace
	return git.Workspace{
		State: w.State, Tree: w.Tree, GitDir: w.GitDir, Objects: w.Objects, Shared: w.Shared, Borrowed: w.Borrowed,
		Branch: t.Branch, Base: t.Base,
	}
}

func (r *repository) untrusted(t task.Task) (*git.Untrusted, error) {
	return r.git.Untrusted(workspace(t), t.Tip)
}

// Probe looks at the workspace without trusting it.
func (r *repository) Probe(ctx context.Context, t task.Task) (app.Probe, error) {
	if t.Workspace == nil {
		return app.Probe{}, nil
	}
	u, err := r.untrusted(t)
	if err != nil {
		return app.Probe{}, err
	}
	st, err := u.Status(ctx)
	return app.Probe{Dirty: st.Dirty, Unmerged: st.Unmerged, MidMerge: st.MidMerge, Drifted: st.Drifted}, err
}

// Diff is the change between base and tip, bounded.
func (r *repository) Diff(ctx context.Context, q app.DiffQuery) (app.Diff, error) {
	most := q.MaxBytes + q.Offset
	d, err := r.git.Diff(ctx, q.Base, q.Tip, git.DiffOptions{Paths: q.Paths, MaxBytes: most})
	if err != nil {
		return app.Diff{}, err
	}
	out := app.Diff{Text: d.Text, Truncated: d.Truncated}
	if q.Offset < len(out.Text) {
		out.Text = out.Text[q.Offset:]
	} else {
		out.Text = ""
	}
	if d.Truncated {
		out.Next = q.Offset + len(out.Text)
	}
	for _, f := range d.Files {
		out.Files = append(out.Files, app.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted, Binary: f.Binary})
	}
	return out, nil
}

func squash(l app.Landing) git.Squash {
	return git.Squash{Target: l.Target, TargetHead: l.TargetHead, Tip: l.Tip, Tree: l.Tree, Files: l.Files}
}

// Plan computes the landing of a task on its target.
func (r *repository) Plan(ctx context.Context, t task.Task) (app.Landing, error) {
	sq, err := r.git.PlanSquash(ctx, t.Target, t.Tip)
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

// Overlap lists uncommitted edits where the target is checked out that the landing
// touches: a checkout of the person's, or the workspace of a parent task.
func (r *repository) Overlap(ctx context.Context, l app.Landing) ([]string, string, error) {
	at, ok, err := r.git.CheckedOut(ctx, l.Target)
	if err != nil || !ok {
		return nil, "", err
	}
	if at.Workspace() {
		if l.Parent == nil {
			return nil, "", nil
		}
		u, err := r.parent(l)
		if err != nil {
			return nil, "", err
		}
		paths, err := u.Blocking(ctx, l.Tree)
		return paths, l.Parent.Tree, err
	}
	paths, err := r.git.Overlap(ctx, at, l.TargetHead, l.Tree)
	return paths, at.Path, err
}

// parent is git over the workspace of the parent task a landing goes into.
func (r *repository) parent(l app.Landing) (*git.Untrusted, error) {
	return r.git.Untrusted(git.Workspace{
		State: l.Parent.State, Tree: l.Parent.Tree, GitDir: l.Parent.GitDir, Objects: l.Parent.Objects,
		Shared: l.Parent.Shared, Borrowed: l.Parent.Borrowed, Branch: l.Target, Base: l.TargetHead,
	}, l.TargetHead)
}

// Commit makes the merge commit.
func (r *repository) Commit(ctx context.Context, l app.Landing, message string, when time.Time) (string, error) {
	who, err := r.git.Identity(ctx)
	if err != nil || who.Email == "" {
		who = git.Person{Name: "lazyplane", Email: "lazy@lazyplane.invalid"}
	}
	return r.git.CommitSquash(ctx, squash(l), message, who, when)
}

// Land moves the target to the merge commit, with its files where it is checked
// out. A parent task's branch moves by its ref, and its workspace follows as the
// agent-writable place it is.
func (r *repository) Land(ctx context.Context, l app.Landing, commit string) error {
	at, ok, err := r.git.CheckedOut(ctx, l.Target)
	if err != nil {
		return err
	}
	if ok && at.Workspace() {
		return r.landInParent(ctx, l, commit)
	}
	err = r.git.Land(ctx, squash(l), commit)
	if ov, ok := errors.AsType[*git.Overlap](err); ok {
		return fault.Wrap(fault.Denied, ov, "%s is checked out at %s with edits to files this change touches: %v", l.Target, at.Path, ov.Files)
	}
	if errors.Is(err, git.ErrLostRace) {
		return fault.Wrap(fault.Conflict, err, "%s has moved", l.Target)
	}
	return err
}

// landInParent writes the files first: an edit in the way is found while nothing
// has landed, and a crash in between is finished by landing again.
func (r *repository) landInParent(ctx context.Context, l app.Landing, commit string) error {
	if l.Parent != nil {
		u, err := r.parent(l)
		if err != nil {
			return err
		}
		err = u.Advance(ctx, commit)
		if ov, ok := errors.AsType[*git.Overlap](err); ok {
			return fault.Wrap(fault.Denied, ov, "the workspace of %s has edits to files this change touches: %v", l.Target, ov.Files)
		}
		if err != nil {
			return err
		}
	}
	done, err := r.git.Landed(ctx, l.Target, commit)
	if err != nil || done {
		return err
	}
	err = r.git.MoveRef(ctx, "refs/heads/"+l.Target, commit, l.TargetHead)
	if errors.Is(err, git.ErrLostRace) {
		return fault.Wrap(fault.Conflict, err, "%s has moved", l.Target)
	}
	return err
}

// Contains reports whether branch's head contains commit.
func (r *repository) Contains(ctx context.Context, branch, commit string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	return r.git.Landed(ctx, branch, commit)
}

// Finish completes or drops a broker commit whose row is durable.
func (r *repository) Finish(ctx context.Context, t task.Task, parent, commit string) (string, error) {
	if err := r.git.FinishCommit(ctx, "refs/heads/"+t.Branch, parent, commit); err != nil {
		return "", err
	}
	if t.Workspace != nil {
		// The files of an agent's commit are there already; those of a landing may not
		// be. Either way the index must know the commit, or it reads as edits.
		u, err := r.git.Untrusted(workspace(t), parent)
		if err != nil {
			return "", err
		}
		err = u.Advance(ctx, commit)
		if _, ok := errors.AsType[*git.Overlap](err); ok {
			err = u.Refresh(ctx, commit)
		}
		if err != nil {
			return "", err
		}
	}
	return r.git.BranchTip(ctx, t.Branch)
}

// Absorbed returns the target's head when it holds all of the task's own work
// although no accept put it there.
func (r *repository) Absorbed(ctx context.Context, t task.Task) (string, error) {
	head, err := r.Tip(ctx, t.Target)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	ok, err := r.git.Absorbed(ctx, t.Target, t.Base, t.Tip)
	if err != nil || !ok {
		return "", err
	}
	return head, nil
}

// SaveRecovery keeps a task's uncommitted edits as a patch.
func (r *repository) SaveRecovery(ctx context.Context, t task.Task, kind string, when time.Time) (string, error) {
	if t.Workspace == nil {
		return "", nil
	}
	if _, err := os.Lstat(t.Workspace.Tree); errors.Is(err, fs.ErrNotExist) {
		return "", nil // a removal that a crash cut off saved them before it began
	}
	u, err := r.untrusted(t)
	if err != nil {
		return "", err
	}
	return u.SaveRecovery(ctx, git.Recovery{Dir: filepath.Join(r.paths.Dir, "recovery", t.ID.Short()), When: when}, kind)
}

// Remove deletes the workspace, and the branch if it still is at tip. Work that
// was never merged stays reachable under a ref of its own.
func (r *repository) Remove(ctx context.Context, t task.Task, tip string) error {
	if t.Status == task.Abandoned && tip != "" && tip != t.Base {
		if err := r.git.MoveRef(ctx, keptRef(t), tip, ""); err != nil && !errors.Is(err, git.ErrLostRace) {
			return err
		}
	}
	if err := r.git.RemoveWorkspace(ctx, workspace(t)); err != nil {
		return err
	}
	if tip == "" {
		return nil
	}
	return r.git.DeleteBranch(ctx, t.Branch, tip)
}

// Subjects lists the subject lines of the commits between base and tip, merges
// left out.
func (r *repository) Subjects(ctx context.Context, base, tip string) ([]string, error) {
	return r.git.Subjects(ctx, base, tip)
}

// Branches lists the tasks' branches with their heads.
func (r *repository) Branches(ctx context.Context) (map[string]string, error) {
	all, err := r.git.Branches(ctx, "lazy/")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, b := range all {
		out[b.Name] = b.Tip
	}
	return out, nil
}

// Workspaces lists the tasks that have a folder of their own.
func (r *repository) Workspaces(context.Context) ([]string, error) {
	all, err := os.ReadDir(r.paths.Task(""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var out []string
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out, nil
}

// Landings counts the commits of a branch that carry the task's marker.
func (r *repository) Landings(ctx context.Context, branch string, t id.Task) (int, error) {
	n, err := r.git.CountMarked(ctx, branch, string(t))
	if errors.Is(err, git.ErrUnknownRev) {
		return 0, nil
	}
	return n, err
}
