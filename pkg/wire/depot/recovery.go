package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// partTree is what a checkpoint calls the files of a workspace.
const partTree = "tree"

// SaveRecovery keeps the edits of a task's last checkpoint that are on no branch
// as a commit on one of their own, and names it.
func (r *repository) SaveRecovery(ctx context.Context, t task.Task, kind string, when time.Time) (string, error) {
	v, err := r.c.Tasks().CommitsOf(ctx, t)
	if err != nil || v == nil || v.Checkpoint == nil {
		return "", err
	}
	key, err := checkpoint.NewCipher(v.Key)
	if err != nil {
		return "", err
	}
	from := saved{r.Depot, t}
	m, err := checkpoint.Load(ctx, from, key, *v.Checkpoint)
	name := "kept/" + t.ID.Short() + "-edits"
	if errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, blob.ErrNotFound) {
		// Nobody can have it, and the task has to end; or it was saved, and then removed.
		_, ok, err := load[ref](ctx, r.c.Store, r.part().Branch(name))
		if !ok {
			name = ""
		}
		return name, err
	}
	if err != nil {
		return "", err
	}
	heads, err := r.heads(ctx)
	if err != nil {
		return "", err
	}
	row, _, err := r.meta(ctx)
	if err != nil {
		return "", err
	}
	repo, done, err := r.open(ctx, append([]string{m.Base}, heads...)...)
	if err != nil {
		return "", err
	}
	defer done()
	files, err := repo.Files(ctx, m.Base)
	if err != nil {
		return "", err
	}
	base := make(map[string]checkpoint.Blob, len(files))
	for path, f := range files {
		base[path] = checkpoint.Blob{ID: f.ID, Exec: f.Exec, Link: f.Link, Dir: f.Submodule}
	}
	dir, err := os.MkdirTemp(r.c.Scratch, "recovery-")
	if err != nil {
		return "", fmt.Errorf("make scratch folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	patch, err := repo.PatchOf(ctx, m.Base, func(tree string) error {
		return checkpoint.Restore(ctx, from, key, m, dir, map[string]checkpoint.Target{partTree: {
			Dir: tree, Base: base, Raw: func(ctx context.Context, id string, w io.Writer) error { return repo.Content(ctx, id, w) },
		}})
	}, git.Recovery{Dir: dir, When: when}, kind)
	if err != nil || patch == "" {
		return "", err
	}
	commit, err := repo.CommitPatch(ctx, m.Base, patch, "Edits of "+t.Name()+" that were on no branch ("+kind+")",
		git.Person{Name: "lazyplane", Email: "lazy@lazyplane.invalid"}, when)
	if err != nil {
		return "", err
	}
	if err := r.keep(ctx, repo, row, "edits "+string(t.ID), "edits/"+commit, commit, heads); err != nil {
		return "", err
	}
	return name, r.name(ctx, name, commit)
}

// saved reads the checkpoints of a task.
type saved struct {
	d *Depot
	t task.Task
}

var _ checkpoint.Depot = saved{}

func (s saved) Get(ctx context.Context, name string) ([]byte, error) {
	return s.d.c.Blob.Get(ctx, app.VaultKey(s.t, name))
}

func (saved) Put(context.Context, string, []byte) error { return errors.ErrUnsupported }

func (saved) Point(context.Context, turn.Checkpoint) error { return errors.ErrUnsupported }
