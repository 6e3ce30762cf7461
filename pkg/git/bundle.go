package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// bundleRef is the name a commit has in a bundle of ours. git makes no bundle of
// a commit without one, so it exists in the private git directory only.
const bundleRef = "refs/heads/lazy"

// MissingError says that a bundle builds on a commit which is not here.
type MissingError struct{ Commit string }

func (e *MissingError) Error() string {
	return "the bundle builds on " + short(e.Commit) + ", which is not here"
}

// Bundle writes the commits that tip has and base has not, with all they need
// beyond base (UW-010).
func (r *Repo) Bundle(ctx context.Context, w io.Writer, base, tip string) error {
	return r.BundleSince(ctx, w, tip, []string{base})
}

// BundleSince writes the commits that tip has and none of have has, with all they
// need; without have, that is its whole history.
func (r *Repo) BundleSince(ctx context.Context, w io.Writer, tip string, have []string) error {
	if err := shas(append([]string{tip}, have...)...); err != nil {
		return err
	}
	return r.with(r.scratch(), func(p *private) error {
		if _, err := p.run(ctx, nil, "update-ref", bundleRef, tip); err != nil {
			return fmt.Errorf("bundle %s: %w", short(tip), err)
		}
		args := []string{"bundle", "create", "-q", "-", bundleRef}
		for _, h := range have {
			args = append(args, "^"+h)
		}
		if err := r.git.stream(ctx, p.invocation(nil, args), w); err != nil {
			return fmt.Errorf("bundle %s: %w", short(tip), err)
		}
		return nil
	})
}

// Unbundle imports a bundle whose base is here and returns its tip. The objects
// are hashed and checked on their way in (GT-026); no ref moves.
func (r *Repo) Unbundle(ctx context.Context, in io.Reader) (tip string, err error) {
	err = r.with(r.scratch(), func(p *private) error {
		name := filepath.Join(p.dir, "bundle")
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("read bundle: %w", err)
		}
		tip, err = p.unbundle(ctx, name)
		return err
	})
	return tip, err
}

// UnbundleFile is Unbundle of a file, which nobody may change meanwhile.
func (r *Repo) UnbundleFile(ctx context.Context, name string) (tip string, err error) {
	err = r.with(r.scratch(), func(p *private) error {
		tip, err = p.unbundle(ctx, name)
		return err
	})
	return tip, err
}

// unbundle takes a bundle of one commit in. What the commit is called in it means
// nothing here.
func (p *private) unbundle(ctx context.Context, name string) (string, error) {
	damaged := func(err error) error {
		return fault.Wrap(fault.Invalid, errors.Join(ErrBadObject, err), "the bundle is damaged")
	}
	known, err := prerequisites(name)
	if err != nil {
		return "", damaged(err)
	}
	for _, k := range known {
		if _, err := p.run(ctx, nil, "cat-file", "-e", k+"^{commit}"); err != nil {
			if exitCode(err) < 0 {
				return "", err
			}
			return "", fault.Wrap(fault.Invalid, errors.Join(&MissingError{k}, ErrBadObject, err), "the bundle builds on %s, which is not in this repository", short(k))
		}
	}
	out, err := p.run(ctx, nil, "bundle", "unbundle", name)
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", damaged(err)
	}
	line, more, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	tip, _, ok := strings.Cut(line, " ")
	if !ok || more != "" || !IsSHA(tip) || len(tip) != len(p.r.none()) {
		return "", fault.Wrap(fault.Invalid, ErrBadObject, "the bundle holds %q, not one commit", out[:min(len(out), 200)])
	}
	// A tag or a tree under that name is no commit.
	if _, err := p.run(ctx, nil, "cat-file", "commit", tip); err != nil {
		return "", damaged(err)
	}
	if err := p.importTo(ctx, tip, known); err != nil {
		if exitCode(err) < 0 || ctx.Err() != nil || errors.Is(err, ErrBadObject) {
			return "", err
		}
		return "", damaged(err) // its history has a hole
	}
	return tip, nil
}

// headMost is the most of a bundle's head that is read.
const headMost = 1 << 20

// prerequisites reads the commits a bundle builds on from its header.
func prerequisites(name string) (all []string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for in := bufio.NewReader(io.LimitReader(f, headMost)); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		if line == "\n" {
			return all, nil
		}
		if rest, ok := strings.CutPrefix(line, "-"); ok {
			sha, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if err := shas(sha); err != nil {
				return nil, err
			}
			all = append(all, sha)
		}
	}
}

// Sweep removes private git directories that processes left behind when they
// died. Call it when no other operation on this repository can be running.
func (r *Repo) Sweep() error { return removeAll(r.scratch()) }
