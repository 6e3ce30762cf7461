package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// repository is the container's copy of the project's repository, made or brought
// up to date from its packs.
func (k *keeper) repository(ctx context.Context, v *turn.Vault) (*git.Repo, error) {
	if v.Repository == nil {
		repo, err := git.OpenShared(ctx, k.r.cmd.Shared, git.WithCrashPoint(k.r.Crash))
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the repository of this task is not in the container, and no forge is connected that it could be fetched from")
		}
		return repo, nil
	}
	repo, err := git.InitBare(ctx, k.r.cmd.Shared, v.Repository.Format, git.WithCrashPoint(k.r.Crash))
	if err != nil {
		return nil, err
	}
	return repo, k.packs(ctx, repo, v.Repository)
}

// packs brings in what the copy lacks of the repository.
func (k *keeper) packs(ctx context.Context, repo *git.Repo, r *turn.Repository) error {
	key, err := checkpoint.NewCipher(r.Key)
	if err != nil {
		return err
	}
	for _, p := range r.Packs {
		if repo.Has(ctx, p.Commit) {
			continue
		}
		err := k.bring(ctx, repo, key, p, func(ctx context.Context) (turn.Link, error) {
			out, err := k.depot.link.upload(ctx, turn.UploadIn{Packs: []string{p.Name}})
			return one(out.Packs, err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fetch makes sure that the copy has a commit that was made elsewhere since the run
// began: where the target stands, or where an accept into this branch led.
func (k *keeper) fetch(ctx context.Context, repo *git.Repo, commit string) error {
	if repo.Has(ctx, commit) {
		return nil
	}
	out, err := k.depot.link.upload(ctx, turn.UploadIn{Repository: true})
	if err != nil {
		return err
	}
	if out.Repository == nil {
		return fault.New(fault.Internal, "the control plane names no packs")
	}
	if err := k.packs(ctx, repo, out.Repository); err != nil {
		return err
	}
	if !repo.Has(ctx, commit) {
		return fault.New(fault.Unavailable, "commit %.7s is not in the project's repository yet", commit)
	}
	return nil
}

func one(links []turn.Link, err error) (turn.Link, error) {
	if err == nil && len(links) != 1 {
		err = fault.New(fault.Internal, "the control plane gives no link")
	}
	if err != nil {
		return turn.Link{}, err
	}
	return links[0], nil
}

// sealedMost is the most bytes of a sealed bundle: a little more than of a bare one.
const sealedMost = turn.BundleMost + turn.BundleMost/1000

// bring fetches a sealed bundle and imports it. It goes through files: a bundle may
// be larger than the container's memory.
func (k *keeper) bring(ctx context.Context, repo *git.Repo, key checkpoint.Cipher, b turn.Bundle, find func(context.Context) (turn.Link, error)) error {
	return k.files(func(shut, open string) error {
		err := k.depot.again(ctx, func(int) error {
			l, err := find(ctx)
			if err != nil {
				return err
			}
			return into(shut, func(w io.Writer) error { return k.depot.store.Get(ctx, l, w, sealedMost) })
		})
		if err != nil {
			return fmt.Errorf("fetch commit %.7s: %w", b.Commit, err)
		}
		if err := through(shut, open, func(w io.Writer, r io.Reader) error { return key.OpenStream(b.Name, w, r) }); err != nil {
			return unusable(err)
		}
		tip, err := repo.UnbundleFile(ctx, open)
		if err != nil {
			return fmt.Errorf("restore commit %.7s: %w", b.Commit, err)
		}
		if tip != b.Commit {
			return unusable(fmt.Errorf("%w: the bundle of %.7s holds %.7s", checkpoint.ErrDamaged, b.Commit, tip))
		}
		return nil
	})
}

// carry stores a commit outside the container, under a name of its own.
func (k *keeper) carry(ctx context.Context, repo *git.Repo, name, parent, commit string) error {
	return k.files(func(open, shut string) error {
		if err := into(open, func(w io.Writer) error { return repo.Bundle(ctx, w, parent, commit) }); err != nil {
			return err
		}
		if err := through(open, shut, func(w io.Writer, r io.Reader) error { return k.cipher.SealStream(name, w, r) }); err != nil {
			return err
		}
		return k.depot.putFile(ctx, name, shut)
	})
}

// files calls f with the names of two files that only this side sees, and that are
// gone afterwards.
func (k *keeper) files(f func(a, b string) error) (err error) {
	dir, err := os.MkdirTemp(k.r.Dir, "bundle-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
}

func into(name string, f func(io.Writer) error) error {
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f(w), w.Close())
}

func through(from, to string, f func(io.Writer, io.Reader) error) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	return into(to, func(w io.Writer) error { return f(w, r) })
}

// putFile is Put of a file.
func (d *depot) putFile(ctx context.Context, name, file string) error {
	size, sum, err := measured(file)
	if err != nil {
		return err
	}
	return d.again(ctx, func(try int) error {
		out, err := d.link.upload(ctx, turn.UploadIn{Put: []turn.Parcel{{Name: name, Size: size, SHA256: sum}}})
		l, err := one(out.Put, err)
		if err != nil {
			return err
		}
		err = d.store.Put(ctx, l, file)
		if errors.Is(err, client.ErrStored) {
			if try > 0 {
				return nil // an earlier try arrived: a link puts these bytes or none
			}
			return fault.New(fault.Conflict, "%s is stored already", name)
		}
		return err
	})
}
