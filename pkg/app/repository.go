package app

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/task"
)

// Repository is git that needs no live runner (GT-023): branch state, workspaces,
// diffs and landings. Local mode works on the person's own repository; hosted it
// is the forge or a one-shot broker.
type Repository interface {
	// Current is the branch new top-level tasks aim at when nothing else says so,
	// with its head.
	Current(ctx context.Context) (branch, head string, err error)
	// Tip is the head of a branch; fault.NotFound when there is none.
	Tip(ctx context.Context, branch string) (string, error)
	// Prepare makes the task's branch and workspace, or finds them (idempotent).
	Prepare(ctx context.Context, t task.Task, branch, base string) (task.Workspace, error)
	// Probe looks at the agent-writable workspace without trusting it.
	Probe(ctx context.Context, t task.Task) (Probe, error)
	// Diff is the change between base and tip.
	Diff(ctx context.Context, q DiffQuery) (Diff, error)
	// Plan computes the landing of t's tip on its target. It writes nothing but
	// unreachable objects. A conflict is a *MergeConflict.
	Plan(ctx context.Context, t task.Task) (Landing, error)
	// Overlap lists uncommitted edits in the checkout of l's target that the
	// landing touches, with the checkout's path.
	Overlap(ctx context.Context, l Landing) (paths []string, at string, err error)
	// Commit makes the merge commit of a landing. Same inputs, same commit.
	Commit(ctx context.Context, l Landing, message string, when time.Time) (string, error)
	// Land moves the target from l.TargetHead to commit, files and ref together
	// where it is checked out. Landing again is a success. A target that moved is
	// fault.Conflict.
	Land(ctx context.Context, l Landing, commit string) error
	// Contains reports whether branch's current head contains commit.
	Contains(ctx context.Context, branch, commit string) (bool, error)
	// Finish completes or drops a broker commit whose row is durable (UW-013) and
	// returns the branch's tip.
	Finish(ctx context.Context, t task.Task, parent, commit string) (string, error)
	// SaveRecovery keeps a task's uncommitted edits as a patch and names it; ""
	// when there was nothing to save (HA-034, GT-020).
	SaveRecovery(ctx context.Context, t task.Task, kind string, when time.Time) (string, error)
	// Remove deletes the workspace, and the branch if it still is at tip.
	Remove(ctx context.Context, t task.Task, tip string) error
	// Subjects lists the subject lines of the commits between base and tip,
	// oldest first.
	Subjects(ctx context.Context, base, tip string) ([]string, error)
}

// Probe is what a look at a workspace found.
type Probe struct {
	Dirty    []string // uncommitted paths
	Unmerged []string
	MidMerge bool
	Drifted  string
}

// DiffQuery names the change to show.
type DiffQuery struct {
	Base, Tip string
	Paths     []string
	MaxBytes  int
	Offset    int
}

// Diff is a unified diff, bounded.
type Diff struct {
	Text      string
	Files     []FileChange
	Truncated bool
	Next      int // offset to go on from, 0 at the end
}

// FileChange counts the lines of one changed file.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
}

// Landing is a computed squash of a task onto its target.
type Landing struct {
	Target     string
	TargetHead string
	Tip        string
	Tree       string
	Files      []string
	Task       string // id, for the marker in the commit
	// Parent is the workspace in which the target is checked out when the target
	// is a parent task's branch; its files are agent-writable.
	Parent *task.Workspace
}

// MergeConflict says a landing or a sync cannot be computed cleanly.
type MergeConflict struct{ Files []string }

func (e *MergeConflict) Error() string { return "the change conflicts with its target" }
