package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// MergeKind is how a merge into a workspace ended.
type MergeKind string

// The endings of a merge.
const (
	UpToDate    MergeKind = "up_to_date"   // the tip has it already
	FastForward MergeKind = "fast_forward" // the tip is behind: the upstream commit is the new tip
	Merged      MergeKind = "merged"       // a merge commit was made
	Conflicted  MergeKind = "conflicted"   // the agent has to resolve Files
)

// MergeResult is the outcome of a merge. Commit is in the shared store and no
// ref names it yet: record it, move the branch, then Advance the workspace.
type MergeResult struct {
	Kind   MergeKind
	Commit string   // the tip to move to; "" when up to date or conflicted
	Files  []string // conflicted paths
}

// MergeInto merges an upstream commit into the recorded tip. A clean merge is
// made without touching the workspace. On a conflict the files with their
// markers, the stages and MERGE_HEAD are left in it for the agent, who resolves,
// stages and commits (GT-012). Uncommitted edits in the way are an *Overlap, an
// earlier unresolved merge is ErrUnmerged; neither changes anything.
func (u *Untrusted) MergeInto(ctx context.Context, upstream, message string, who Person, when time.Time) (res MergeResult, err error) {
	if err := errors.Join(shas(upstream), who.check()); err != nil {
		return MergeResult{}, err
	}
	if _, _, mid, err := u.meta(); err != nil {
		return MergeResult{}, err
	} else if mid {
		return MergeResult{}, unresolved(nil)
	}
	base, err := u.repo.MergeBase(ctx, u.tip, upstream)
	switch {
	case err != nil:
		return MergeResult{}, fmt.Errorf("merge %s: %w", short(upstream), err)
	case base == "":
		return MergeResult{}, fault.New(fault.Conflict, "%s shares no history with the task's branch", short(upstream))
	case base == upstream:
		return MergeResult{Kind: UpToDate}, nil
	}
	err = u.repo.with(u.ws.scratch(), func(p *private) error {
		if base == u.tip {
			res = MergeResult{Kind: FastForward, Commit: upstream}
			_, err := u.clear(ctx, p, upstream)
			return err
		}
		m, err := p.mergeTrees(ctx, u.tip, upstream)
		if err != nil {
			return err
		}
		changes, err := u.clear(ctx, p, m.tree)
		if err != nil {
			return err
		}
		if len(m.stages) == 0 {
			res.Kind = Merged
			res.Commit, err = p.commitTree(ctx, p.runShared, m.tree, []string{u.tip, upstream}, message, who, when)
			return err
		}
		res = MergeResult{Kind: Conflicted, Files: m.files()}
		return u.leaveConflict(ctx, p, m, changes, upstream, message)
	})
	if err != nil {
		return MergeResult{}, err
	}
	return res, nil
}

func unresolved(files []string) error {
	text := "unresolved merge"
	if len(files) > 0 {
		text += " in " + list(files)
	}
	return fault.Wrap(fault.Conflict, ErrUnmerged, "%s", text).WithNext("Resolve it, or sync the task.").WithDetail("files", files)
}

// leaveConflict puts a conflicted merge where git puts one. MERGE_HEAD comes
// last: without it the merge is begun again, and the files are found as they are.
func (u *Untrusted) leaveConflict(ctx context.Context, p *private, m merged, changes []change, upstream, message string) error {
	if err := u.write(ctx, p, m.tree, changes); err != nil {
		return err
	}
	if err := u.settleIndex(ctx, p, m.tree, changes, m.stages); err != nil {
		return err
	}
	u.repo.crash("git.merge.index")
	root, err := os.OpenRoot(u.ws.GitDir)
	if err != nil {
		return fmt.Errorf("open workspace git directory: %w", err)
	}
	for _, f := range [][2]string{{"MERGE_MSG", message + "\n"}, {"MERGE_MODE", ""}, {"MERGE_HEAD", upstream + "\n"}} {
		if err := replaceFile(root, f[0], f[0]+".lock", 0o666, strings.NewReader(f[1])); err != nil {
			return errors.Join(fmt.Errorf("leave merge: %w", err), root.Close())
		}
	}
	return root.Close()
}
