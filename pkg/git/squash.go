package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Marker is the trailer that names the task in the commit a landing makes, so
// that a resume can tell a merge that happened from one that did not (AP-018).
const Marker = "Lazy-Task"

// Squash is a planned landing: the one commit that would put a task's work on
// its target. It was computed without touching any ref or work tree.
type Squash struct {
	Target     string   `json:"target"`      // branch
	TargetHead string   `json:"target_head"` // where it stood when planned
	Tip        string   `json:"tip"`         // of the task's branch
	Tree       string   `json:"tree"`        // the target with the work in it
	Files      []string `json:"files"`       // paths that change; none means it is there already
}

// WithMarker appends the marker trailer to a commit message.
func WithMarker(message, task string) string {
	return strings.TrimRight(message, "\n") + "\n\n" + Marker + ": " + task + "\n"
}

// PlanSquash merges tip into the target branch in memory. Lines changed on both
// sides are a *Conflict, and nothing was written but unreferenced objects (AP-022).
func (r *Repo) PlanSquash(ctx context.Context, target, tip string) (Squash, error) {
	head, err := r.BranchTip(ctx, target)
	if err != nil {
		return Squash{}, err
	}
	return r.PlanSquashOn(ctx, target, head, tip)
}

// PlanSquashOn is PlanSquash on a target whose head somebody else keeps.
func (r *Repo) PlanSquashOn(ctx context.Context, target, head, tip string) (Squash, error) {
	sq := Squash{Target: target, TargetHead: head, Tip: tip}
	err := r.with(r.scratch(), func(p *private) error {
		m, err := p.mergeTrees(ctx, head, tip)
		if err != nil {
			return err
		}
		if len(m.stages) > 0 {
			c := &Conflict{Files: m.files()}
			return fault.Wrap(fault.Conflict, c, "%s and the task change the same lines: %s", target, list(c.Files)).
				WithNext("Sync the task, then accept again.").WithDetail("files", c.Files)
		}
		changes, err := p.diffTrees(ctx, head, m.tree)
		if err != nil {
			return err
		}
		sq.Tree = m.tree
		for _, c := range changes {
			sq.Files = append(sq.Files, c.Path)
		}
		return nil
	})
	return sq, err
}

// CommitSquash makes the commit of a planned landing. Equal arguments make the
// same object, so a retry after a crash finds its own work.
func (r *Repo) CommitSquash(ctx context.Context, sq Squash, message string, author Person, when time.Time) (sha string, err error) {
	if err := author.check(); err != nil {
		return "", err
	}
	err = r.with(r.scratch(), func(p *private) error {
		sha, err = p.commitTree(ctx, p.runShared, sq.Tree, []string{sq.TargetHead}, message, author, when)
		return err
	})
	return sha, err
}

// Absorbed reports whether the target holds all the work of tip already, for
// example because a person squashed it there by hand. A branch without commits
// of its own beyond base has no work to be absorbed (B12).
func (r *Repo) Absorbed(ctx context.Context, target, base, tip string) (bool, error) {
	n, err := r.CountCommits(ctx, base, tip)
	if err != nil || n == 0 {
		return false, err
	}
	mb, err := r.MergeBase(ctx, base, tip)
	if err != nil {
		return false, err
	}
	var own []change
	if mb != "" {
		err = r.with(r.scratch(), func(p *private) error {
			own, err = p.diffTrees(ctx, mb, tip)
			return err
		})
		if err != nil || len(own) == 0 {
			return false, err
		}
	}
	sq, err := r.PlanSquash(ctx, target, tip)
	if _, conflict := errors.AsType[*Conflict](err); conflict {
		return false, nil
	}
	return err == nil && len(sq.Files) == 0, err
}

// FindMarked returns the newest commit between base and the branch's tip whose
// trailer names the task, "" when there is none.
func (r *Repo) FindMarked(ctx context.Context, branch, base, task string) (string, error) {
	tip, err := r.BranchTip(ctx, branch)
	if err != nil {
		return "", err
	}
	if err := shas(base); err != nil {
		return "", err
	}
	out, err := r.ref(ctx, "log", "-z", "--no-show-signature",
		"--format=%H%x01%(trailers:key="+Marker+",valueonly,unfold,separator=%x02)", base+".."+tip, "--")
	if err != nil {
		return "", fmt.Errorf("look for the landing of %s: %w", task, err)
	}
	for _, rec := range splitZ(out) {
		sha, values, _ := strings.Cut(rec, "\x01")
		for v := range strings.SplitSeq(values, "\x02") {
			if strings.TrimSpace(v) == task {
				return sha, nil
			}
		}
	}
	return "", nil
}

// CountMarked counts the commits of a branch whose trailer names the task.
func (r *Repo) CountMarked(ctx context.Context, branch, task string) (int, error) {
	tip, err := r.BranchTip(ctx, branch)
	if err != nil {
		return 0, err
	}
	out, err := r.ref(ctx, "log", "-z", "--no-show-signature",
		"--format=%(trailers:key="+Marker+",valueonly,unfold,separator=%x02)", "--fixed-strings", "--grep="+Marker+": "+task, tip, "--")
	if err != nil {
		return 0, fmt.Errorf("count the landings of %s: %w", task, err)
	}
	n := 0
	for _, rec := range splitZ(out) {
		for v := range strings.SplitSeq(rec, "\x02") {
			if strings.TrimSpace(v) == task {
				n++
				break
			}
		}
	}
	return n, nil
}

// Landed reports whether the target branch contains the landing. Anything may be
// deleted only after it says so (AP-023); a target that was moved away, or a
// commit nobody has, is not a landing.
func (r *Repo) Landed(ctx context.Context, target, commit string) (bool, error) {
	if err := existing(target); err != nil {
		return false, err
	}
	if err := shas(commit); err != nil {
		return false, err
	}
	ok, err := r.Contains(ctx, "refs/heads/"+target, commit)
	if errors.Is(err, ErrUnknownRev) {
		return false, nil
	}
	return ok, err
}

// merged is the outcome of an in-memory merge.
type merged struct {
	tree   string       // conflicted files hold markers
	stages []indexEntry // of the conflicted paths; empty is a clean merge
}

func (m merged) files() []string {
	seen := map[string]bool{}
	for _, e := range m.stages {
		seen[e.Path] = true
	}
	return sortedKeys(seen)
}

// mergeTrees merges two commits of the shared store without a work tree. What it
// makes goes into the shared store: both sides are there already. Merge drivers
// do not exist in a private git directory, so attributes choose built-in ones.
func (p *private) mergeTrees(ctx context.Context, ours, theirs string) (merged, error) {
	if err := shas(ours, theirs); err != nil {
		return merged{}, err
	}
	// The attributes that decide how files merge are those of our side.
	if _, err := p.run(ctx, nil, "read-tree", ours); err != nil {
		return merged{}, fmt.Errorf("merge %s: %w", short(theirs), err)
	}
	out, err := p.runShared(ctx, nil, "merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs)
	if err != nil && exitCode(err) != 1 {
		return merged{}, fmt.Errorf("merge %s: %w", short(theirs), err)
	}
	recs := splitZ(out)
	if len(recs) == 0 || !IsSHA(recs[0]) {
		return merged{}, fmt.Errorf("merge %s: git answered %q", short(theirs), out)
	}
	m := merged{tree: recs[0]}
	for _, rec := range recs[1:] {
		if rec == "" {
			break
		}
		e, perr := parseStage(rec)
		if perr != nil {
			return merged{}, perr
		}
		m.stages = append(m.stages, e)
	}
	if err != nil && len(m.stages) == 0 {
		// A conflict without stages (directory against file, renames apart)
		// still has to be seen by a person.
		return merged{}, fmt.Errorf("merge %s: %w", short(theirs), errors.Join(&Conflict{}, err))
	}
	return m, nil
}

// parseStage reads "mode id stage TAB path".
func parseStage(rec string) (indexEntry, error) {
	meta, path, ok := strings.Cut(rec, "\t")
	var e indexEntry
	if _, err := fmt.Sscanf(meta, "%o %s %d", &e.Blob.Mode, &e.Blob.ID, &e.Stage); err != nil || !ok {
		return e, fmt.Errorf("read staged entry %q", rec)
	}
	e.Path = path
	return e, nil
}
