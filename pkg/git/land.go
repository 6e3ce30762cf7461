package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// landing is the record of a landing under way in a checkout. While it exists,
// the checkout's index lock is ours, whoever died holding it.
type landing struct {
	Branch string `json:"branch"`
	Old    string `json:"old"`
	Commit string `json:"commit"`
}

// Land puts the commit of a planned landing on its target. A branch that is not
// checked out moves by compare-and-swap. One that is moves together with its
// files by a two-tree read-tree under that index's lock: edits that do not
// overlap stay, staged and unstaged; an overlap is an *Overlap, and nothing was
// written. Landing again after a crash finishes it.
//
// A target checked out in a task's workspace is not a person's checkout: move
// its ref and Advance it instead.
func (r *Repo) Land(ctx context.Context, sq Squash, commit string) error {
	if err := shas(commit, sq.TargetHead); err != nil {
		return err
	}
	at, out, err := r.CheckedOut(ctx, sq.Target)
	if err != nil {
		return err
	}
	ref := "refs/heads/" + sq.Target
	if !out {
		if done, err := r.Landed(ctx, sq.Target, commit); err != nil || done {
			return err
		}
		return r.moveRefIn(ctx, r.CommonDir, ref, commit, sq.TargetHead, "lazy: land")
	}
	if at.Workspace() {
		return fault.Wrap(fault.Invalid, ErrUnsupported, "%s is checked out in a task's workspace", sq.Target)
	}
	l := &lander{repo: r, at: at, rec: landing{Branch: sq.Target, Old: sq.TargetHead, Commit: commit}}
	return l.land(ctx)
}

// lander lands one commit in a person's checkout.
type lander struct {
	repo *Repo
	at   Checkout
	rec  landing
}

func (l *lander) dir() string    { return filepath.Join(l.at.GitDir, "lazy") }
func (l *lander) record() string { return filepath.Join(l.dir(), "landing.json") }
func (l *lander) index() string  { return filepath.Join(l.dir(), "index") }
func (l *lander) lock() string   { return filepath.Join(l.at.GitDir, "index.lock") }

func (l *lander) land(ctx context.Context) (err error) {
	live, err := l.live(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, live.Close()) }()
	done, err := l.repo.Landed(ctx, l.rec.Branch, l.rec.Commit)
	if err != nil {
		return err
	}
	resumed, err := l.resumes()
	if err != nil {
		return err
	}
	if done && !resumed {
		return l.unlock() // a crash may have come right before the lock went
	}
	if err := l.take(ctx); err != nil {
		if !resumed {
			err = errors.Join(err, ignoreMissing(os.Remove(l.record())))
		}
		return err
	}
	l.repo.crash("git.landing.lock")
	err = l.underLock(ctx, resumed)
	switch _, overlap := errors.AsType[*Overlap](err); {
	case err == nil, errors.Is(err, errHalf):
		return err
	case overlap && resumed:
		// The person edited what a crash left half-way. They need their index
		// back to set the edits aside; the record brings the landing on later.
		return errors.Join(err, l.unlock())
	default:
		return errors.Join(err, ignoreMissing(os.Remove(l.record())), l.unlock())
	}
}

// errHalf marks a landing that stopped between two commits: its record and the
// index lock stay until it is landed again.
var errHalf = errors.New("landing is unfinished")

// live waits for any other landing in this checkout. Holding it, a record or a
// lock found there belongs to a process that died.
func (l *lander) live(ctx context.Context) (*os.File, error) {
	if err := os.MkdirAll(l.dir(), 0o755); err != nil {
		return nil, fmt.Errorf("lock checkout: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(l.dir(), "live"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock checkout: %w", err)
	}
	err = l.poll(ctx, func() (bool, error) { return tryLive(f) })
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// poll tries until it succeeds, for about a second.
func (l *lander) poll(ctx context.Context, try func() (bool, error)) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for range lockTries {
		if ok, err := try(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return fault.Wrap(fault.Unavailable, ErrLocked, "another git is working in %s", l.at.Path).
		WithNext("Let it finish; if none runs, delete " + l.lock() + ".")
}

// resumes reports whether a record of this very landing was left by a crash.
func (l *lander) resumes() (bool, error) {
	b, err := os.ReadFile(l.record())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read landing record: %w", err)
	}
	var was landing
	if err := json.Unmarshal(b, &was); err != nil {
		return false, fmt.Errorf("read landing record: %w", err)
	}
	if was != l.rec {
		return false, fault.Wrap(fault.Conflict, ErrLocked, "another landing on %s was interrupted in %s", was.Branch, l.at.Path).
			WithNext("Accept that one again first: it resumes.").WithDetail("commit", was.Commit)
	}
	return true, nil
}

// take writes the record and then takes the index lock; a lock of a dead
// predecessor is ours already.
func (l *lander) take(ctx context.Context) error {
	b, err := json.Marshal(l.rec)
	if err != nil {
		return err
	}
	if err := writeWhole(l.record(), b); err != nil {
		return fmt.Errorf("record landing: %w", err)
	}
	l.repo.crash("git.landing.record")
	mark := filepath.Join(l.dir(), "lock")
	if err := os.WriteFile(mark, []byte(l.mark()), 0o644); err != nil {
		return fmt.Errorf("lock checkout: %w", err)
	}
	err = l.poll(ctx, func() (bool, error) {
		// A link makes the lock appear whole: it always says whose it is.
		err := os.Link(mark, l.lock())
		if errors.Is(err, fs.ErrExist) {
			return l.ours(), nil
		}
		return err == nil, err
	})
	return errors.Join(err, ignoreMissing(os.Remove(mark)))
}

func (l *lander) mark() string { return "lazy landing " + l.rec.Commit + "\n" }

func (l *lander) ours() bool {
	b, err := os.ReadFile(l.lock())
	return err == nil && string(b) == l.mark()
}

func (l *lander) unlock() error {
	if !l.ours() {
		return nil
	}
	return ignoreMissing(os.Remove(l.lock()))
}

func writeWhole(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// underLock does the landing. The order is files, ref, index: until the index is
// renamed into place, doing it all again gives the same result.
func (l *lander) underLock(ctx context.Context, resumed bool) error {
	r := l.repo
	ref := "refs/heads/" + l.rec.Branch
	head, err := r.BranchTip(ctx, l.rec.Branch)
	if err != nil {
		return err
	}
	moved, err := r.Contains(ctx, ref, l.rec.Commit)
	if err != nil {
		return err
	}
	if !moved && head != l.rec.Old {
		return fault.Wrap(fault.Conflict, ErrLostRace, "%s is at %s, not at %s", l.rec.Branch, short(head), short(l.rec.Old))
	}
	if moved && head != l.rec.Commit {
		return l.clean() // the person has committed on top; the index is theirs
	}
	wrote := resumed // a crash may have been anywhere
	err = r.with(r.scratch(), func(p *private) error {
		states, err := r.states(ctx, p, l.at, l.rec.Old, l.rec.Commit)
		if err != nil {
			return err
		}
		torn := map[string]bool{}
		if resumed {
			if torn, err = l.torn(ctx, states); err != nil {
				return err
			}
		}
		if files := overlapping(l.at.Path, states); len(files) > 0 {
			return overlapFault(l.rec.Branch, l.at, files)
		}
		if err := copyIndex(l.at, l.index()); err != nil {
			return err
		}
		if err := ignoreMissing(os.Remove(l.index() + ".lock")); err != nil {
			return err
		}
		if err := l.rehearse(ctx, p, states); err != nil {
			return err
		}
		return l.files(ctx, states, torn, func() { wrote = true })
	})
	if _, overlap := errors.AsType[*Overlap](err); err != nil && wrote && !overlap {
		return half(err)
	} else if err != nil {
		return err
	}
	r.crash("git.landing.files")
	if !moved {
		if err := r.moveRefIn(ctx, l.at.GitDir, ref, l.rec.Commit, l.rec.Old, "lazy: land"); err != nil {
			if errors.Is(err, ErrLostRace) {
				return l.undo(ctx, err)
			}
			return errors.Join(err, errHalf)
		}
	}
	r.crash("git.landing.ref")
	return l.finish()
}

// torn finds paths whose file is missing or the beginning of the new content:
// a write that a crash cut off. Nothing a person wrote is lost by finishing it.
func (l *lander) torn(ctx context.Context, states []pathState) (map[string]bool, error) {
	torn := map[string]bool{}
	for i, s := range states {
		if s.Dir || s.New.Mode == 0 || s.New.Mode == modeRepo || s.Work == s.New || s.Work == s.Old && s.Old.Mode != 0 {
			continue
		}
		if s.Work.Mode != 0 {
			if s.New.Mode == modeLink {
				continue
			}
			want, err := l.repo.person(ctx, l.at, "", nil, "cat-file", "--filters", "--path="+s.Path, s.New.ID)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", s.Path, err)
			}
			got, err := os.ReadFile(filepath.Join(l.at.Path, filepath.FromSlash(s.Path)))
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", s.Path, err)
			}
			if !bytes.HasPrefix(want, got) {
				continue
			}
		}
		torn[s.Path] = true
		states[i].Work = s.New
	}
	return torn, nil
}

// files brings the work tree and a copy of the index to the new tree. Paths that
// are new already are told to the index first, so that read-tree leaves them be.
// It calls writes before the first file may change.
func (l *lander) files(ctx context.Context, states []pathState, torn map[string]bool, writes func()) error {
	r := l.repo
	run := func(in *bytes.Buffer, args ...string) error {
		_, err := r.person(ctx, l.at, l.index(), in, args...)
		return err
	}
	var known, rewrite bytes.Buffer
	for _, s := range states {
		if s.Work != s.New || s.Index == s.New || s.Dir {
			continue
		}
		if s.New.Mode == 0 {
			fmt.Fprintf(&known, "0 %s\t%s\x00", r.none(), s.Path)
			continue
		}
		fmt.Fprintf(&known, "%o %s\t%s\x00", s.New.Mode, s.New.ID, s.Path)
	}
	for path := range torn {
		rewrite.WriteString(path)
		rewrite.WriteByte(0)
	}
	if known.Len() > 0 {
		if err := run(&known, "update-index", "-z", "--index-info"); err != nil {
			return fmt.Errorf("land: %w", err)
		}
	}
	if rewrite.Len() > 0 {
		writes()
		if err := run(&rewrite, "checkout-index", "-f", "-u", "-q", "-z", "--stdin"); err != nil {
			return fmt.Errorf("land: %w", err)
		}
	}
	// A stale time would read as an edit; the status only says that there are some.
	if err := run(new(bytes.Buffer), "update-index", "-q", "--refresh"); err != nil && exitCode(err) != 1 {
		return fmt.Errorf("land: %w", err)
	}
	writes()
	if err := run(new(bytes.Buffer), "read-tree", "-m", "-u", l.rec.Old, l.rec.Commit); err != nil {
		return fmt.Errorf("land: %w", err)
	}
	return nil
}

// undo takes the files back after the ref turned out to be elsewhere.
func (l *lander) undo(ctx context.Context, cause error) error {
	_, err := l.repo.person(ctx, l.at, l.index(), nil, "read-tree", "-m", "-u", l.rec.Commit, l.rec.Old)
	if err != nil {
		return errors.Join(cause, err, errHalf)
	}
	return cause
}

// finish puts the index in place and cleans up.
func (l *lander) finish() error {
	b, err := os.ReadFile(l.index())
	if err == nil {
		err = os.WriteFile(l.index()+".new", b, 0o644)
	}
	if err == nil {
		err = os.Rename(l.index()+".new", filepath.Join(l.at.GitDir, "index"))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("finish landing: %w", err), errHalf)
	}
	l.repo.crash("git.landing.index")
	return l.clean()
}

// clean removes the record and then the lock: a record without a lock means that
// nothing but the record was written.
func (l *lander) clean() error {
	for _, name := range []string{l.index(), l.record()} {
		if err := ignoreMissing(os.Remove(name)); err != nil {
			return errors.Join(fmt.Errorf("finish landing: %w", err), errHalf)
		}
	}
	l.repo.crash("git.landing.clean")
	return l.unlock()
}
