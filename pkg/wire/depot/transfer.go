package depot

import (
	"bytes"
	"context"
	"errors"
	"os"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// bundle writes what tip has and have lacks into a file.
func bundle(ctx context.Context, repo *git.Repo, file, tip string, have []string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(repo.BundleSince(ctx, f, tip, have), f.Close())
}

// Take imports what was uploaded for a push and moves its branch. Objects are
// hashed, checked and found to hang together before anything is written down, and
// the branch moves in the transaction that makes them the repository's.
func (r *repository) Take(ctx context.Context, t app.Transfer) error {
	if err := git.CheckBranch(t.Branch); err != nil {
		return refusal.Of(refusal.InvalidArguments, "branch", "a branch name of letters, digits and . _ / -", t.Branch)
	}
	was, _, err := load[ref](ctx, r.c.Store, r.part().Branch(t.Branch))
	if err != nil || was.Head == t.Head {
		return err
	}
	if was.Head != t.Expect || was.Task != "" {
		return app.MovedOn(t.Branch, was.Head, t.Expect)
	}
	damaged := refusal.Of(refusal.BundleDamaged, t.Branch, short(t.Head))
	m, err := r.found(ctx, "", git.FormatOf(t.Head))
	if err != nil {
		return err
	}
	if m.Format != git.FormatOf(t.Head) {
		return damaged
	}
	key, err := r.cipher(ctx, m)
	if err != nil {
		return err
	}
	name := "push/" + t.ID
	p := pack{Name: name, Commit: t.Head, Why: "push " + t.Branch, At: r.c.Now()}
	take := func(repo *git.Repo, open, shut string) error {
		if err := r.arrived(ctx, t, open); err != nil {
			return err
		}
		tip, err := repo.UnbundleFile(ctx, open)
		if lacks, ok := errors.AsType[*git.MissingError](err); ok {
			return refusal.Of(refusal.BundleIncomplete, short(lacks.Commit))
		}
		if errors.Is(err, git.ErrBadObject) {
			return damaged
		}
		if err != nil {
			return err
		}
		if tip != t.Head {
			return damaged
		}
		if was.Head != "" && !t.Force {
			if in, err := repo.Contains(ctx, tip, was.Head); err != nil {
				return err
			} else if !in {
				return refusal.Of(refusal.NotFastForward, t.Branch, short(was.Head))
			}
		}
		if err := reseal(key, name, open, shut); err != nil {
			return err
		}
		p.Size, err = r.send(ctx, app.PackKey(r.tenant, r.project, name), shut)
		return err
	}
	err = r.quarantine(ctx, m, func(repo *git.Repo) error {
		return r.scratchFiles(func(open, shut string) error { return take(repo, open, shut) })
	})
	if err != nil {
		return err
	}
	r.c.Crash("depot.sent")
	now := ref{Branch: t.Branch, Head: t.Head, By: t.Actor, At: r.c.Now(), Version: was.Version + 1}
	cond := store.Absent()
	if was.Version > 0 {
		cond = store.VersionIs(was.Version)
	}
	move, err := row(r.part().Branch(t.Branch), "branch", now.Version, now, cond)
	if err != nil {
		return err
	}
	err = r.record(ctx, p, t.Branch, &move)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		at, _, err := load[ref](ctx, r.c.Store, r.part().Branch(t.Branch))
		if err == nil && at.Head != t.Head {
			err = app.MovedOn(t.Branch, at.Head, t.Expect)
		}
		return err
	}
	return err
}

// arrived fetches an upload and compares it with what was announced. The link was
// for these bytes alone; whoever can write the bucket needs no link.
func (r *repository) arrived(ctx context.Context, t app.Transfer, to string) error {
	missing := refusal.Of(refusal.UploadMissing, t.ID)
	err := r.fetch(ctx, app.TransferKey(r.tenant, r.project, t.ID), to, t.Size)
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.TooLarge {
		return missing
	}
	if err != nil {
		return err
	}
	size, sum, err := measure(to)
	if err == nil && (size != t.Size || !bytes.Equal(sum[:], t.SHA256)) {
		return missing
	}
	return err
}

// Give puts the commits that a pull lacks where it may download them. It gives what
// the branch was at when the pull was asked for: what lies under the transfer's name
// is always the same.
func (r *repository) Give(ctx context.Context, t app.Transfer) (int64, error) {
	_, owner, _, err := r.ref(ctx, t.Branch)
	if err != nil {
		return 0, err
	}
	at := *r
	at.task = owner
	repo, done, err := at.open(ctx, t.Head)
	if err != nil {
		return 0, err
	}
	defer done()
	var have []string
	for _, h := range t.Have {
		if !repo.Has(ctx, h) {
			continue
		}
		if in, err := repo.Contains(ctx, h, t.Head); err != nil {
			return 0, err
		} else if in {
			return 0, nil
		}
		have = append(have, h)
	}
	var size int64
	err = r.scratchFiles(func(open, _ string) error {
		if err := bundle(ctx, repo, open, t.Head, have); err != nil {
			return err
		}
		size, err = r.send(ctx, app.TransferKey(r.tenant, r.project, t.ID), open)
		return err
	})
	return size, err
}

func short(sha string) string { return sha[:min(len(sha), 12)] }
