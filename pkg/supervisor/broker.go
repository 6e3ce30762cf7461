package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// broker is the only writer of the task's branch. It works from the recorded tip
// and never believes what the workspace says of itself (GT-005, GT-025).
type broker struct {
	repo   *git.Repo
	dir    string // the task's box directory: what it was told to merge is kept there
	author git.Person
	now    func() time.Time
	crash  func(string)
	branch string
	place  git.Workspace

	// bundle stores a commit outside the container before it is recorded, and says
	// where; kept is told, under the lock, that the branch has moved; fetch gets a
	// commit that was made elsewhere. All are nil where the repository outlives the
	// run.
	bundle func(ctx context.Context, parent, commit string) (name string, err error)
	kept   func(ctx context.Context)
	fetch  func(ctx context.Context, commit string) error
	// owned gives files that were written for the agent to its user; nil where it
	// is ours.
	owned func() error

	mu      sync.Mutex // one operation at a time
	tree    *git.Untrusted
	tip     string
	commits int64  // made in this run
	pending *asked // a commit whose recording was never answered
}

// asked is a commit that was handed to the control plane.
type asked struct {
	ev     identity.Commit
	key    string
	record recorder
}

const mergeFile = "merge.json"

var author = pattern.New(`^\s*(.*?)\s*<([^<>\s]+)>\s*$`)

// newBroker opens the repository and the workspace at the recorded tip.
func newBroker(ctx context.Context, r *run) (*broker, error) {
	repo, err := git.OpenShared(ctx, r.cmd.Shared, git.WithCrashPoint(r.Crash))
	if err != nil {
		return nil, err
	}
	tree, err := repo.Untrusted(r.workspace(), r.cmd.Tip)
	if err != nil {
		return nil, err
	}
	b := &broker{
		repo: repo, place: r.workspace(), tree: tree, tip: r.cmd.Tip, dir: r.boxDir(), now: r.Now, crash: r.Crash, branch: r.cmd.Branch,
		author: git.Person{Name: "lazy agent", Email: "agent@lazyplane.invalid"},
	}
	if m := author.FindStringSubmatch(r.cmd.Author); m != nil {
		b.author = git.Person{Name: m[1], Email: m[2]}
	}
	return b, nil
}

func (b *broker) ref() string { return "refs/heads/" + b.branch }

// move makes the branch and the workspace agree with a commit that is durable.
func (b *broker) move(ctx context.Context, parent, commit string, files bool) error {
	if err := b.repo.FinishCommit(ctx, b.ref(), parent, commit); err != nil {
		return fmt.Errorf("move branch: %w", err)
	}
	b.crash("commit.moved")
	settle := b.tree.Refresh
	if files {
		settle = b.tree.Advance
	}
	if err := settle(ctx, commit); err != nil {
		return fmt.Errorf("refresh workspace: %w", err)
	}
	if b.owned != nil {
		if err := b.owned(); err != nil {
			return err
		}
	}
	b.tip = commit
	return nil
}

// recorder makes a commit's row durable; the answer says whether it is.
type recorder func(ctx context.Context, ev identity.Commit, key string) error

// commit makes a commit in the order that lets its row decide after a crash
// (UW-013): object and import, row, ref, index, answer.
func (b *broker) commit(ctx context.Context, message string, files []string, key string, record recorder) (git.Commit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.resolve(ctx); err != nil {
		return git.Commit{}, err
	}
	for try := 0; ; try++ {
		c, err := b.commitOnce(ctx, message, files, key, record)
		if err == nil || try == moves {
			return c, err
		}
		tip, ok := fault.Of(err).Details["tip"].(string)
		if !ok {
			return c, err
		}
		// The task's head was moved by an accept into this branch: begin there.
		if err := b.begin(ctx, tip); err != nil {
			return git.Commit{}, err
		}
		key = fmt.Sprintf("%s.%d", key, try+1) // another commit is another request
	}
}

// moves is how often a commit begins anew on a head that went on.
const moves = 3

// begin works from the recorded head tip from now on. On a laptop whoever moved the
// branch has brought the workspace along; in a container nobody else can.
func (b *broker) begin(ctx context.Context, tip string) error {
	if b.fetch != nil {
		if err := b.fetch(ctx, tip); err != nil {
			return err
		}
		err := b.move(ctx, b.tip, tip, true)
		if over, ok := errors.AsType[*git.Overlap](err); ok {
			return fault.Wrap(fault.Conflict, err, "a subtask was accepted into your branch, and uncommitted edits are in the way: %s. Nothing was committed.", strings.Join(over.Files, ", ")).
				WithNext("Copy those files elsewhere, put them back to what is committed, and call it again.").WithDetail("files", over.Files)
		}
		return err
	}
	tree, err := b.repo.Untrusted(b.place, tip)
	if err != nil {
		return err
	}
	b.tree, b.tip = tree, tip
	return nil
}

func (b *broker) commitOnce(ctx context.Context, message string, files []string, key string, record recorder) (git.Commit, error) {
	spec := git.CommitSpec{Message: message, Files: files, Author: b.author, When: b.now()}
	if up := b.merging(); up != "" {
		if st, err := b.tree.Status(ctx); err != nil {
			return git.Commit{}, err
		} else if st.MidMerge {
			spec.MergeParents = []string{up}
		}
	}
	c, err := b.tree.Prepare(ctx, spec)
	if err != nil {
		return git.Commit{}, err
	}
	b.crash("commit.prepared")
	ev := identity.Commit{Parent: c.Parent, Commit: c.Commit, Tree: c.Tree, Drifted: c.Drifted}
	if len(c.Merged) > 0 {
		ev.Merged = c.Merged[0]
	}
	if b.bundle != nil {
		if ev.Bundle, err = b.bundle(ctx, c.Parent, c.Commit); err != nil {
			return git.Commit{}, err
		}
	}
	if err := record(ctx, ev, key); err != nil {
		if _, lost := apart(err); lost {
			b.pending = &asked{ev, key, record}
		}
		return git.Commit{}, err
	}
	b.crash("commit.recorded")
	if err := b.finish(ctx, ev); err != nil {
		return git.Commit{}, err
	}
	return c, nil
}

// finish applies a recorded commit.
func (b *broker) finish(ctx context.Context, ev identity.Commit) error {
	if err := b.move(ctx, ev.Parent, ev.Commit, false); err != nil {
		return err
	}
	b.commits++
	b.forgetMerge()
	if b.kept != nil {
		b.kept(ctx)
	}
	return nil
}

// resolve finds out about a commit whose recording was not answered, before
// anything is built on either outcome. Recording the same commit under the same
// key again cannot commit twice: the row exists once.
func (b *broker) resolve(ctx context.Context) error {
	if b.pending == nil {
		return nil
	}
	p := *b.pending
	err := p.record(ctx, p.ev, p.key)
	away, lost := apart(err)
	switch {
	case err == nil:
		b.pending = nil
		return b.finish(ctx, p.ev)
	case away, lost, fault.Retryable(err):
		return err
	}
	b.pending = nil // it never happened
	return nil
}

// merged is how a merge of an upstream came out.
type merged struct {
	kind     git.MergeKind // "" when edits are in the way
	conflict []string      // left in the workspace for the agent
	edits    []string      // uncommitted, in the way: nothing was done
	undone   bool          // an earlier merge is not concluded: nothing was done
}

// sync merges an upstream into the task's branch before the agent runs.
func (b *broker) sync(ctx context.Context, m turn.Merge, l *link) (merged, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.merge(ctx, m, l)
}

// note says in one line how a merge came out.
func (g merged) note(m turn.Merge) string {
	switch {
	case len(g.edits) > 0:
		return m.Ref + " is not merged: uncommitted edits are in the way in " + strings.Join(g.edits, ", ")
	case g.undone:
		return m.Ref + " is not merged: an earlier merge is not resolved"
	case g.kind == git.UpToDate:
		return "up to date with " + m.Ref
	case g.kind == git.Conflicted:
		return "conflicts with " + m.Ref
	}
	return "merged " + m.Ref
}

// merge merges an upstream into the task's branch. The caller holds the lock.
func (b *broker) merge(ctx context.Context, m turn.Merge, l *link) (merged, error) {
	if err := l.git(ctx, turn.GitIn{Op: "merge", Target: m.Upstream}); err != nil {
		return merged{}, err
	}
	if b.fetch != nil {
		if err := b.fetch(ctx, m.Upstream); err != nil {
			return merged{}, err
		}
	}
	message := fmt.Sprintf("Merge %s into %s", m.Ref, b.branch)
	res, err := b.tree.MergeInto(ctx, m.Upstream, message, b.author, b.now())
	if over, ok := errors.AsType[*git.Overlap](err); ok {
		return merged{edits: over.Files}, nil
	}
	if errors.Is(err, git.ErrUnmerged) {
		return merged{undone: true}, nil
	}
	if err != nil {
		return merged{}, err
	}
	out := merged{kind: res.Kind, conflict: res.Files}
	switch res.Kind {
	case git.UpToDate:
		return out, nil
	case git.Conflicted:
		if err := spool.Write(b.dir, mergeFile, m); err != nil {
			return merged{}, err
		}
		return out, l.git(ctx, turn.GitIn{Op: "reset_head", Unmerged: res.Files})
	case git.Merged, git.FastForward:
	}
	b.crash("merge.prepared")
	in := turn.GitIn{Op: "merge_commit", Target: m.Upstream, Parent: b.tip, Commit: res.Commit}
	if b.bundle != nil {
		if in.Bundle, err = b.bundle(ctx, b.tip, res.Commit); err != nil {
			return merged{}, err
		}
	}
	if err := l.git(ctx, in); err != nil {
		return merged{}, err
	}
	b.crash("merge.recorded")
	return out, b.move(ctx, b.tip, res.Commit, true)
}

// forgetMerge is called when no merge is under way any more.
func (b *broker) forgetMerge() { _ = os.Remove(filepath.Join(b.dir, mergeFile)) }

// merging is the upstream whose conflicts were left in the workspace, by this
// turn or an earlier one; the workspace's own MERGE_HEAD is only a claim.
func (b *broker) merging() string {
	var m turn.Merge
	if ok, err := spool.Read(b.dir, mergeFile, &m); err != nil || !ok {
		return ""
	}
	return m.Upstream
}
