package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// CheckBranch refuses names that git, a shell or a path would misread. It is
// stricter than git: letters, digits and "._-/" only, and no part that begins
// with a dash or a dot.
func CheckBranch(name string) error {
	bad := func(why string) error {
		return fault.Wrap(fault.Invalid, ErrBadName, "%q cannot be a branch name: %s", name, why)
	}
	if name == "" || len(name) > 200 {
		return bad("it has 1 to 200 characters")
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '-', c == '/':
		default:
			return bad("only letters, digits and ._-/ are allowed")
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("a part is empty")
		case part[0] == '-' || part[0] == '.':
			return bad("a part begins with a dash or a dot")
		case strings.HasSuffix(part, ".lock") || strings.HasSuffix(part, ".") || strings.Contains(part, ".."):
			return bad("a part ends in .lock or a dot, or has two dots")
		}
	}
	if name == "HEAD" || hexSHA.MatchString(name) {
		return bad("it reads like a commit")
	}
	return nil
}

// existing refuses a branch name that no ref command may see. Branches a person
// made may hold more characters than ours, so only the dangerous ones are out.
func existing(branch string) error {
	if branch == "" || strings.HasPrefix(branch, "-") || strings.ContainsAny(branch, "\x00\n\r\\ ~^:?*[\x7f") ||
		strings.Contains(branch, "..") || strings.Contains(branch, "@{") {
		return fault.Wrap(fault.Invalid, ErrBadName, "%q is not a branch name", branch)
	}
	return nil
}

// BranchTip returns the commit a branch stands at.
func (r *Repo) BranchTip(ctx context.Context, branch string) (string, error) {
	if err := existing(branch); err != nil {
		return "", err
	}
	if tip, ok := r.loose("refs/heads/" + branch); ok {
		return tip, nil
	}
	return r.Resolve(ctx, "refs/heads/"+branch)
}

// loose reads a branch that lies in a file of its own. A branch names a commit, as
// git sees to; anything but an object's name in the file is git's to understand.
func (r *Repo) loose(ref string) (string, bool) {
	b, err := os.ReadFile(filepath.Join(r.CommonDir, filepath.FromSlash(ref)))
	tip := strings.TrimSuffix(string(b), "\n")
	return tip, err == nil && len(tip) == len(r.none()) && hexSHA.MatchString(tip)
}

func (r *Repo) none() string {
	if r.Format == "sha256" {
		return strings.Repeat("0", 64)
	}
	return strings.Repeat("0", 40)
}

// MoveRef moves a ref from old to next, or makes it when old is "". When the
// ref is elsewhere nothing changes and the error is ErrLostRace.
func (r *Repo) MoveRef(ctx context.Context, ref, next, old string) error {
	return r.moveRefIn(ctx, r.CommonDir, ref, next, old, "lazy: move")
}

// moveRefIn moves a ref as the checkout with git directory gitDir, whose HEAD
// gets the reflog line if it follows the ref.
func (r *Repo) moveRefIn(ctx context.Context, gitDir, ref, next, old, reason string) error {
	if !strings.HasPrefix(ref, "refs/") {
		return fault.Wrap(fault.Invalid, ErrBadName, "%q is not a full ref name", ref)
	}
	if old == "" {
		old = r.none()
	}
	if err := shas(next, old); err != nil {
		return err
	}
	r.crash("git.ref.before")
	if err := r.updateRef(ctx, gitDir, "-m", reason, "--", ref, next, old); err != nil {
		at, rerr := r.Resolve(ctx, ref)
		if rerr != nil {
			at = ""
		}
		if at == next {
			r.crash("git.ref.after")
			return nil // an earlier try had moved it
		}
		if want := strings.TrimLeft(old, "0"); at != old && (at != "" || want != "") {
			return fault.Wrap(fault.Conflict, errors.Join(ErrLostRace, err), "%s is at %s, not at %s", ref, short(at), short(old)).
				WithDetail("at", at)
		}
		return fmt.Errorf("move %s: %w", ref, err)
	}
	r.crash("git.ref.after")
	return nil
}

func (r *Repo) updateRef(ctx context.Context, gitDir string, args ...string) error {
	err := r.tryUpdateRef(ctx, gitDir, args...)
	if m := lockedRef.FindStringSubmatch(stderrOf(err)); err != nil && m != nil {
		if r.dropStale(m[1]) {
			return r.tryUpdateRef(ctx, gitDir, args...)
		}
		return fault.Wrap(fault.Unavailable, err, "another git process holds %s", m[1])
	}
	return err
}

var lockedRef = pattern.New(`Unable to create '([^']*\.lock)': File exists`)

// staleLock is how old the lock of a ref must be before whoever took it is held
// to be dead: writing a ref takes milliseconds.
const staleLock = 30 * time.Second

// dropStale removes the lock that a killed git left on one of lazy's own refs.
// Both times come from the file system, whose clock need not be ours.
func (r *Repo) dropStale(lock string) bool {
	rel, err := filepath.Rel(filepath.Join(r.CommonDir, "refs"), lock)
	if err != nil || !strings.HasPrefix(filepath.ToSlash(rel), "heads/lazy/") && !strings.HasPrefix(filepath.ToSlash(rel), "lazy/") {
		return false
	}
	held, err := os.Stat(lock)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	p, err := r.newPrivate(r.scratch())
	if err != nil {
		return false
	}
	fresh, err := os.Stat(p.dir)
	if cerr := p.close(); err != nil || cerr != nil {
		return false
	}
	return fresh.ModTime().Sub(held.ModTime()) > staleLock && os.Remove(lock) == nil
}

func (r *Repo) tryUpdateRef(ctx context.Context, gitDir string, args ...string) error {
	_, err := r.git.run(ctx, invocation{
		dir: r.CommonDir,
		env: append(append([]string(nil), r.git.owner...), "GIT_DIR="+gitDir, "GIT_COMMITTER_NAME=lazy", "GIT_COMMITTER_EMAIL=lazy@localhost"),
		// The object was fsynced on import; the ref has to be as durable as the answer.
		args: quiet(append([]string{"-c", "core.fsync=reference", "update-ref"}, args...)...),
	})
	return err
}

// DeleteBranch deletes a branch that still stands at expect. A missing branch is
// deleted already; one that moved is ErrLostRace and stays.
func (r *Repo) DeleteBranch(ctx context.Context, branch, expect string) error {
	if err := existing(branch); err != nil {
		return err
	}
	if err := shas(expect); err != nil {
		return err
	}
	at, err := r.BranchTip(ctx, branch)
	if errors.Is(err, ErrUnknownRev) {
		return nil
	}
	if err != nil {
		return err
	}
	lost := fault.Wrap(fault.Conflict, ErrLostRace, "branch %s is at %s, not at %s", branch, short(at), short(expect))
	if at != expect {
		return lost
	}
	r.crash("git.ref.before")
	if err := r.updateRef(ctx, r.CommonDir, "-m", "lazy: delete", "-d", "--", "refs/heads/"+branch, expect); err != nil {
		if now, nerr := r.BranchTip(ctx, branch); errors.Is(nerr, ErrUnknownRev) {
			return nil
		} else if nerr == nil && now != expect {
			return lost
		}
		return fmt.Errorf("delete branch %s: %w", branch, err)
	}
	r.crash("git.ref.after")
	return nil
}

// FinishCommit completes a commit whose durable row was written before a crash
// (UW-013): a ref still at parent moves, a ref that has the commit is done, and
// anything else is ErrLostRace.
func (r *Repo) FinishCommit(ctx context.Context, ref, parent, commit string) error {
	if err := shas(parent, commit); err != nil {
		return err
	}
	if _, err := r.Resolve(ctx, commit); err != nil {
		return fmt.Errorf("finish commit: %w", err)
	}
	done, err := r.Contains(ctx, ref, commit)
	if err != nil {
		return fmt.Errorf("finish commit: %w", err)
	}
	if done {
		return nil
	}
	return r.MoveRef(ctx, ref, commit, parent)
}

func short(sha string) string {
	if sha == "" || strings.Trim(sha, "0") == "" {
		return "nothing"
	}
	if len(sha) > 12 {
		return sha[:12]
	}
	return sha
}
