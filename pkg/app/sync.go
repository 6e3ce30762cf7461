package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Synced answers a sync: a turn that was begun for it or, to the agent of a working
// task about its own, what its run's broker is to merge, and what came of that.
type Synced struct {
	Task      id.Task `json:"task_id"`
	Code      string  `json:"code"`
	Status    string  `json:"status"`
	Turn      string  `json:"turn_id,omitempty"`
	Operation string  `json:"operation_id,omitempty"`
	Kind      string  `json:"turn_kind,omitempty"`
	Comments  []int64 `json:"delivers_comments,omitempty"`

	Ref         string `json:"ref,omitempty" jsonschema:"the branch that is merged into your own, inside a running turn"`
	Upstream    string `json:"upstream,omitempty" jsonschema:"the commit of it"`
	Head        string `json:"head,omitempty" jsonschema:"where your branch is now"`
	OwnRef      string `json:"own_ref,omitempty" jsonschema:"your own branch where others have moved it on, merged first"`
	OwnUpstream string `json:"own_upstream,omitempty" jsonschema:"the commit of it"`

	Merged    string   `json:"merged,omitempty" jsonschema:"what was merged; empty when nothing was"`
	Conflicts []string `json:"conflicts,omitempty" jsonschema:"files with conflict markers, which you resolve"`
	Next      string   `json:"next,omitempty" jsonschema:"what to do now"`
}

// Sync brings a resting task's branch up to date: with the same branch on its
// remote, then with its target. The run's broker merges, an agent resolves only what
// conflicts, and the status found is put back (HA-026, SN-001 to SN-008). Nothing is written to the target. A working task is refused
// to everybody but its own agent, whose run is told what to merge (CM-037): that
// it is its own is read off the token and the stamps of its run, never off the
// arguments alone (CM-039).
func (a *App) Sync(ctx context.Context, c Call, word string) (Synced, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Synced{}, err
	}
	if t.Status == task.Working {
		if c.Who.Kind == identity.Task && c.Who.Task() == t.ID && c.Who.Epoch == t.Epoch && t.Claimed {
			return a.syncInside(ctx, t)
		}
		return Synced{}, refusal.Of(refusal.WorkingSync, t.Name()).
			WithDetail("by", t.Last.Actor).WithDetail("did", t.Last.Did).WithDetail("at", t.Last.At)
	}
	b, err := a.begin(ctx, c, word, Begin{Verb: "sync", On: task.Sync, Kind: turn.Sync})
	return Synced{
		Task: b.Task, Code: b.Code, Status: b.Status, Turn: b.Turn, Operation: b.Operation, Kind: b.Kind, Comments: b.Comments,
	}, err
}

// syncInside says what the broker of a running turn is to merge. It writes
// nothing: the merge is recorded when it was made, through the runner's own
// operation.
func (a *App) syncInside(ctx context.Context, t task.Task) (Synced, error) {
	up, err := a.repo(t).Tip(ctx, t.Target)
	if err != nil {
		return Synced{}, err
	}
	out := Synced{
		Task: t.ID, Code: t.Code, Status: string(t.Status), Turn: string(t.Turn), Ref: t.Target, Upstream: up, Head: t.Tip,
	}
	if remote, ok := a.repo(t).(Remoter); ok {
		own, err := remote.Fetch(ctx, t.Branch)
		if err != nil {
			return Synced{}, err
		}
		if own.Commit != "" {
			out.OwnRef, out.OwnUpstream = own.Ref, own.Commit
		}
	}
	return out, nil
}

// syncPrompt is what the agent of a sync reads. It runs only when the merge left
// conflicts (GT-012).
func syncPrompt(t task.Task) string {
	return "# Task " + t.Name() + ": " + t.Goal + "\n\n" +
		"This task's branch is brought up to date, with the same branch on its remote and then with " + t.Target + ", which it merges " +
		"into. A merge conflicts: the end of this text names it. The conflict markers are in your worktree. Resolve each one so that both changes hold, git add it, and " +
		"conclude the merge with lazy_commit, without naming files. Do nothing else: this turn only brings the branch up to date.\n\n" +
		Discipline + "\n"
}
