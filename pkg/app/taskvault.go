package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// sealVault is the purpose that a task's vault key is sealed for.
const sealVault = "vault"

// signer is the blob store of a deployment whose workspaces do not outlive their
// containers; nil where they are directories on disk.
func (a *App) signer() blob.Signer {
	s, ok := a.Blob.(blob.Signer)
	if !ok || a.Seal == nil {
		return nil
	}
	return s
}

// vaultKey is the row of a task's key. The key itself is readable to nobody who
// reads the table.
type vaultKey struct {
	Sealed []byte `json:"sealed"`
}

// taskVault is what a run is told of the workspace its task had (UW-008), and of
// the repository where the control plane keeps that.
func (a *App) taskVault(ctx context.Context, t task.Task) (*turn.Vault, error) {
	v, err := a.vaultOf(ctx, t)
	if d, ok := a.repo(t).(Depot); ok && v != nil && err == nil {
		v.Repository, err = d.Packs(ctx)
	}
	return v, err
}

func (a *App) vaultOf(ctx context.Context, t task.Task) (*turn.Vault, error) {
	if a.signer() == nil {
		return nil, nil
	}
	key, err := a.vaultKey(ctx, t)
	if err != nil {
		return nil, err
	}
	v := &turn.Vault{Key: key}
	p := a.part(t)
	err = store.All(ctx, a.Store, store.Query{PK: p.PK, Prefix: "RUN#", Reverse: true, Limit: 10}, func(it store.Item) bool {
		r, derr := decode[turn.Run](it)
		if derr != nil {
			err = derr
			return false
		}
		v.Checkpoint = r.Checkpoint
		return v.Checkpoint == nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the checkpoint of %s: %w", t.ID, err)
	}
	var rows error
	err = store.All(ctx, a.Store, store.Query{PK: p.PK, Prefix: "COM#", Limit: 1000}, func(it store.Item) bool {
		var row CommitRow
		if row, rows = decode[CommitRow](it); rows != nil {
			return false
		}
		if row.Bundle != "" {
			v.Bundles = append(v.Bundles, turn.Bundle{Name: row.Bundle, Parent: row.Parent, Commit: row.Commit})
		}
		return true
	})
	return v, errors.Join(err, rows)
}

// CommitsOf is a task's vault, for whoever works on its commits in place of a run.
func (a *App) CommitsOf(ctx context.Context, t task.Task) (*turn.Vault, error) {
	return a.vaultOf(ctx, t)
}

// LoadTask reads a task, for whoever keeps the branch of one.
func (a *App) LoadTask(ctx context.Context, tenant string, tid id.Task) (task.Task, bool, error) {
	return a.loadTask(ctx, tenant, tid)
}

// LastResponse is what the last run that reported said of the task's workspace.
func (a *App) LastResponse(ctx context.Context, t task.Task) (turn.Response, bool, error) {
	return get[turn.Response](ctx, a.Store, a.part(t).Response(t.Answered))
}

func (a *App) vaultKey(ctx context.Context, t task.Task) ([]byte, error) {
	k := a.part(t).Vault()
	row, ok, err := get[vaultKey](ctx, a.Store, k)
	if err != nil {
		return nil, err
	}
	if !ok {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails: the runtime ends the program instead
		if row.Sealed, err = a.Seal.Seal(ctx, t.Tenant, sealVault+" "+string(t.ID), key); err != nil {
			return nil, err
		}
		err = a.Store.Transact(ctx, put(k, "vault", row, store.Absent()))
		if lost, is := errors.AsType[*store.ConflictError](err); is {
			if row, err = decode[vaultKey](lost.Current); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
	}
	key, err := a.Seal.Open(ctx, t.Tenant, sealVault+" "+string(t.ID), row.Sealed)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of this task's checkpoints cannot be opened")
	}
	return key, nil
}

func vaultPrefix(t task.Task) string { return t.Tenant + "/tasks/" + string(t.ID) + "/vault" }

// Upload gives a run links into its own task's vault and moves its checkpoint
// pointer. A run writes under its own epoch only, and a superseded one not at all
// (UW-011); it never names a key.
func (a *App) Upload(ctx context.Context, who identity.Caller, in turn.UploadIn) (turn.UploadOut, error) {
	var out turn.UploadOut
	s := a.signer()
	if s == nil {
		return out, fault.New(fault.Invalid, "workspaces of this control plane are directories on disk; nothing is uploaded")
	}
	if len(in.Put)+len(in.Get)+len(in.Packs)+len(in.PutPacks) > turn.VaultLinks {
		return out, fault.New(fault.TooLarge, "one call asks for %d links at most", turn.VaultLinks)
	}
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return out, err
	}
	if !held {
		return out, fenced(t, who.Epoch)
	}
	if len(in.Put) > 0 || in.Point != nil {
		if err := notOfAccept(t, who); err != nil {
			return out, err
		}
	}
	from, err := a.vaultFor(ctx, t, who, in.Of)
	if err != nil {
		return out, err
	}
	for _, p := range in.Put {
		epoch, _, what, err := turn.ParseObject(p.Name)
		most := int64(turn.CheckpointObjectMost)
		if what == turn.BundleObject {
			most = turn.BundleMost
		}
		switch {
		case err != nil || epoch != who.Epoch:
			return out, refusal.Of(refusal.InvalidArguments, "put.name", "a name of an object of this run's epoch", fmt.Sprintf("%q", cut(p.Name, 60)))
		case len(p.SHA256) != 32:
			return out, refusal.Of(refusal.InvalidArguments, "put.sha256", "32 bytes", fmt.Sprint(len(p.SHA256)))
		case p.Size <= 0 || p.Size > most:
			return out, fault.New(fault.TooLarge, "an object of %d bytes is not stored; the limit is %d", p.Size, most)
		}
		l, err := s.Upload(ctx, vaultPrefix(t)+"/"+p.Name, p.Size, [32]byte(p.SHA256))
		if err != nil {
			return out, err
		}
		out.Put = append(out.Put, turn.Link(l))
	}
	for _, name := range in.Get {
		if _, _, _, err := turn.ParseObject(name); err != nil {
			return out, refusal.Of(refusal.InvalidArguments, "get", "names of objects", fmt.Sprintf("%q", cut(name, 60)))
		}
		l, err := s.Download(ctx, vaultPrefix(from)+"/"+name)
		if err != nil {
			return out, err
		}
		out.Get = append(out.Get, turn.Link(l))
	}
	err = a.packUploads(t, who, in.PutPacks, func(key string, size int64, sum [32]byte) error {
		l, err := s.Upload(ctx, key, size, sum)
		out.PutPacks = append(out.PutPacks, turn.Link(l))
		return err
	})
	if err != nil {
		return out, err
	}
	if len(in.Packs) > 0 || in.Repository {
		if err := a.packLinks(ctx, s, t, in, &out); err != nil {
			return out, err
		}
	}
	if in.Point != nil {
		return out, a.point(ctx, t, who, *in.Point)
	}
	return out, nil
}

// packLinks gives a run links to packs of its own project's repository, and no
// other object.
func (a *App) packLinks(ctx context.Context, s blob.Signer, t task.Task, in turn.UploadIn, out *turn.UploadOut) error {
	d, ok := a.repo(t).(Depot)
	if !ok {
		return fault.New(fault.Invalid, "the repository of this project is not kept by the control plane")
	}
	for _, name := range in.Packs {
		if !turn.IsPack(name) {
			return refusal.Of(refusal.InvalidArguments, "packs", "names of packs", fmt.Sprintf("%q", cut(name, 60)))
		}
		l, err := s.Download(ctx, PackKey(t.Tenant, t.Project, name))
		if err != nil {
			return err
		}
		out.Packs = append(out.Packs, turn.Link(l))
	}
	if !in.Repository {
		return nil
	}
	var err error
	out.Repository, err = d.Packs(ctx)
	return err
}

// point moves the checkpoint pointer, on condition that the run still holds the
// task and that nothing newer was recorded.
func (a *App) point(ctx context.Context, t task.Task, who identity.Caller, p turn.Checkpoint) error {
	if p.Epoch != who.Epoch || p.Seq <= 0 || len(p.Digest) != 64 || p.Base == "" || len(p.Base) > 64 {
		return refusal.Of(refusal.InvalidArguments, "point", "a checkpoint of this run's epoch", fmt.Sprintf("epoch %d, seq %d", p.Epoch, p.Seq))
	}
	err := a.driveRun(ctx, t, who.Epoch, func(r *turn.Run) (change, bool, error) {
		if r.Checkpoint != nil && *r.Checkpoint == p {
			return change{}, false, nil // told twice
		}
		if r.Checkpoint != nil && !p.Newer(*r.Checkpoint) {
			return change{}, false, fault.New(fault.Conflict, "checkpoint %d of this run is recorded already", r.Checkpoint.Seq)
		}
		r.Checkpoint = &p
		return change{writes: []store.Write{a.holds(t)}}, true, nil
	})
	if lost, ok := errors.AsType[*store.ConflictError](err); ok && lost.Key == a.part(t).Meta() {
		return fenced(t, who.Epoch)
	}
	return err
}

// bundled checks where a commit is said to lie: hosted, no commit is durable
// without its bundle (UW-010).
func (a *App) bundled(who identity.Caller, name string) error {
	if a.signer() == nil {
		return nil
	}
	epoch, _, what, err := turn.ParseObject(name)
	if err != nil || epoch != who.Epoch || what != turn.BundleObject {
		return fault.New(fault.Invalid, "the commit was not stored outside the run, so it is not durable. Nothing was recorded.")
	}
	return nil
}

// emptyVault removes a task's checkpoints and bundles with its workspace
// (UW-012).
func (a *App) emptyVault(ctx context.Context, t task.Task) error {
	if a.signer() == nil {
		return nil
	}
	if p, ok := a.Blob.(blob.Purger); ok {
		if err := p.Purge(ctx, vaultPrefix(t)); err != nil {
			return err
		}
	}
	return a.Store.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: a.part(t).Vault()}})
}

// VaultKey is where an object of a task's vault lies.
func VaultKey(t task.Task, name string) string { return vaultPrefix(t) + "/" + name }
