package app

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// CommitRow makes a broker commit durable before the ref moves: after a crash it
// decides whether the commit is finished or never happened (UW-013).
type CommitRow struct {
	Kind    string         `json:"kind,omitempty"` // "" the agent's own, else "merge" or "accept"
	Parent  string         `json:"parent"`
	Commit  string         `json:"commit"`
	Tree    string         `json:"tree"`
	Message string         `json:"message,omitempty"` // its first line
	Turn    id.Turn        `json:"turn_id"`
	Actor   identity.Actor `json:"by,omitzero"`
	Drifted string         `json:"drifted,omitempty"` // HEAD found inside, reported and not adopted
	Bundle  string         `json:"bundle,omitempty"`  // where it lies in the task's vault (UW-010)
	At      time.Time      `json:"at"`
	Key     string         `json:"key,omitempty"` // idempotency key of the call that made it, and its digest
	Digest  string         `json:"digest,omitempty"`
}

// The commits of a task's branch that its agent did not ask for.
const (
	commitMerge  = "merge"  // a broker merged an upstream in
	commitAccept = "accept" // a subtask landed
)

// finishCommit makes the task's branch and workspace agree with its recorded tip
// after a run, or the landing of a subtask, that died between the durable row and
// the ref. The row decides (UW-013).
func (a *App) finishCommit(ctx context.Context, t task.Task) error {
	if t.Commits == 0 || t.Workspace == nil || t.Tip == "" {
		return nil
	}
	page, err := a.Store.Query(ctx, store.Query{PK: a.part(t).PK, Prefix: "COM#", Reverse: true, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return err
	}
	row, err := decode[CommitRow](page.Items[0])
	if err != nil || row.Commit != t.Tip {
		return err
	}
	head, err := a.repo(t).Tip(ctx, t.Branch)
	if err != nil {
		return err
	}
	if head == t.Tip && page.Items[0].Key.SK < a.part(t).Commit(t.Answered+1, 0).SK {
		return nil // its run ended in order, so it finished its commits itself
	}
	_, err = a.repo(t).Finish(ctx, t, row.Parent, row.Commit)
	return err
}
