package depot

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Current is the branch that was pushed first.
func (r *repository) Current(ctx context.Context) (string, string, error) {
	m, ok, err := r.meta(ctx)
	if err != nil {
		return "", "", err
	}
	if !ok || m.Main == "" {
		return "", "", empty()
	}
	at, err := r.Tip(ctx, m.Main)
	return m.Main, at, err
}

// ref reads a branch's row, and where it stands: the branch of a task where the
// task says.
func (r *repository) ref(ctx context.Context, branch string) (b ref, t task.Task, ok bool, err error) {
	b, ok, err = load[ref](ctx, r.c.Store, r.part().Branch(branch))
	if err != nil || !ok || b.Task == "" {
		return b, t, ok, err
	}
	t, there, err := r.c.Tasks().LoadTask(ctx, r.tenant, b.Task)
	if err != nil {
		return b, t, false, err
	}
	if there && t.Tip != "" {
		b.Head = t.Tip
	}
	return b, t, there, nil
}

// Tip returns the head of a branch.
func (r *repository) Tip(ctx context.Context, branch string) (string, error) {
	b, _, ok, err := r.ref(ctx, branch)
	if err != nil {
		return "", err
	}
	if !ok {
		m, there, err := r.meta(ctx)
		if err == nil && (!there || m.Main == "") {
			err = errors.Join(errNone, empty())
		}
		if err != nil {
			return "", asNone(err, branch)
		}
		return "", none(branch)
	}
	return b.Head, nil
}

// errNone marks the lack of every branch, which is the lack of one as well.
var errNone = errors.New("the repository is empty")

func asNone(err error, branch string) error {
	if errors.Is(err, errNone) {
		f := fault.Of(none(branch))
		f.Next = fault.Of(empty()).Next
		return f
	}
	return err
}

func none(branch string) error {
	return fault.New(fault.NotFound, "there is no branch %s", branch)
}

// Branches lists the branches with their heads.
func (r *repository) Branches(ctx context.Context) (all []app.Branch, main string, err error) {
	m, ok, err := r.meta(ctx)
	if err != nil || !ok {
		return nil, "", err
	}
	refs, err := r.refs(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, b := range refs {
		if b.Task != "" {
			var there bool
			if b, _, there, err = r.ref(ctx, b.Branch); err != nil {
				return nil, "", err
			} else if !there {
				continue
			}
		}
		all = append(all, app.Branch{Name: b.Branch, Head: b.Head, Task: b.Task, At: b.At})
	}
	return all, m.Main, nil
}

func (r *repository) refs(ctx context.Context) (all []ref, err error) {
	var bad error
	err = store.All(ctx, r.c.Store, store.Query{PK: r.part().PK, Prefix: "REF#", Limit: 1000}, func(it store.Item) bool {
		var b ref
		if bad = json.Unmarshal(it.Doc, &b); bad == nil {
			all = append(all, b)
		}
		return bad == nil
	})
	return all, errors.Join(err, bad)
}

// heads are the commits that packs are known to hold: where people's branches
// stand.
func (r *repository) heads(ctx context.Context) (all []string, err error) {
	refs, err := r.refs(ctx)
	for _, b := range refs {
		if b.Task == "" {
			all = append(all, b.Head)
		}
	}
	return all, err
}

// Packs is what a run makes its container's repository from.
func (r *repository) Packs(ctx context.Context) (*turn.Repository, error) {
	m, ok, err := r.meta(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, empty()
	}
	out := &turn.Repository{Format: m.Format}
	if out.Key, err = r.key(ctx, m); err != nil {
		return nil, err
	}
	all, err := r.packs(ctx, 0)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		out.Packs = append(out.Packs, turn.Bundle{Name: p.Name, Commit: p.Commit})
	}
	return out, nil
}

// keep makes a commit durable for the repository: everything that have lacks goes
// into a pack of its own. Keeping it again finds it there.
func (r *repository) keep(ctx context.Context, repo *git.Repo, m meta, why, name, commit string, have []string) error {
	all, err := r.packs(ctx, 0)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Name == name {
			return nil
		}
	}
	for _, h := range have {
		if in, err := repo.Contains(ctx, h, commit); err != nil {
			return err
		} else if in {
			return nil
		}
	}
	key, err := r.cipher(ctx, m)
	if err != nil {
		return err
	}
	var size int64
	err = r.scratchFiles(func(open, shut string) error {
		if err := bundle(ctx, repo, open, commit, have); err != nil {
			return err
		}
		if err := reseal(key, name, open, shut); err != nil {
			return err
		}
		size, err = r.send(ctx, app.PackKey(r.tenant, r.project, name), shut)
		return err
	})
	if err != nil {
		return err
	}
	r.c.Crash("depot.sent")
	return r.record(ctx, pack{Name: name, Commit: commit, Why: why, Size: size, At: r.c.Now()}, "", nil)
}

// record adds a pack to the repository, together with the move of a branch where
// there is one. main is the branch that new tasks aim at, if none is yet. The
// conflict of the branch is the caller's to read.
func (r *repository) record(ctx context.Context, p pack, main string, move *store.Write) error {
	for {
		m, ok, err := r.meta(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return empty()
		}
		was := m.Version
		m.Packs++
		m.Version++
		if m.Main == "" {
			m.Main = main
		}
		w, err := row(r.part().Git(), "repository", m.Version, m, store.VersionIs(was))
		if err != nil {
			return err
		}
		k := r.part().Pack(m.Packs)
		add, err := row(k, "pack", 1, p, store.Absent())
		if err != nil {
			return err
		}
		ws := []store.Write{w, add}
		if move != nil {
			ws = append(ws, *move)
		}
		err = r.c.Store.Transact(ctx, ws...)
		lost, is := errors.AsType[*store.ConflictError](err)
		ours := is && move != nil && lost.Key == move.Item.Key
		if (is && !ours || errors.Is(err, store.ErrContention)) && ctx.Err() == nil {
			if is && move != nil {
				// The row of the branch may have been refused as well: look before trying again.
				now, _, err := load[ref](ctx, r.c.Store, move.Item.Key)
				if err != nil {
					return err
				}
				if now.Version != version(*move)-1 {
					lost.Key = move.Item.Key
					return lost
				}
			}
			continue
		}
		if err == nil {
			r.c.Crash("depot.recorded")
		}
		return err
	}
}

func version(w store.Write) int64 { return w.Item.Int(store.AttrVersion) }
