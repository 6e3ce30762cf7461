package app

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// ownRun refuses a write of a task agent whose run has been succeeded or has
// ended. Callers repeat it inside the transaction's own read.
func ownRun(c Call, self task.Task) error {
	if c.Who.Kind != identity.Task || c.Who.Epoch == 0 {
		return nil
	}
	if c.Who.Epoch != self.Epoch || !self.Claimed {
		return fenced(self, c.Who.Epoch)
	}
	return nil
}

// ownTurn is ownRun for the operations about the current turn: there must be one.
func ownTurn(c Call, self task.Task) error {
	if self.ID != c.Who.Task() {
		return fault.New(fault.Internal, "%s acts on the caller's own task", c.Tool)
	}
	if err := ownRun(c, self); err != nil {
		return err
	}
	if !self.Claimed {
		return refusal.Of(refusal.StatusNotAllowed, c.Tool, self.Status.Words(), task.Working.Words())
	}
	return nil
}

// fence refuses a write to any task by a run that has been succeeded. The writes
// it returns hold the fence through the transaction when t is another task than
// the caller's own, whose row the transaction would not look at otherwise.
func (a *App) fence(ctx context.Context, c Call, t task.Task) ([]store.Write, error) {
	if c.Who.Kind != identity.Task {
		return nil, nil
	}
	if t.ID == c.Who.Task() {
		return nil, ownRun(c, t)
	}
	self, ok, err := a.loadTask(ctx, c.Who.Tenant, c.Who.Task())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.Internal, "the task of this token is gone")
	}
	if err := ownRun(c, self); err != nil {
		return nil, err
	}
	return []store.Write{{
		Act: store.Check, Item: store.Item{Key: a.part(self).Meta()}, If: []store.Cond{store.EpochIs(self.Epoch)},
	}}, nil
}

// own commits a change of the caller's own task, decided on a fresh read.
func (a *App) own(ctx context.Context, c Call, decide func(task.Task) (change, error)) (change, error) {
	return a.mutate(ctx, c, c.Who.Tenant, c.Who.Task(), func(t task.Task) (change, error) {
		if err := ownTurn(c, t); err != nil {
			return change{}, err
		}
		return decide(t)
	})
}

// inlineText is the longest text kept inside its record; longer ones get a body
// row, and from there the blob store (RP-025).
const inlineText = 1 << 10

// keepText stores a text for a record: inline when short, else as a body named
// name. The writes belong in the record's own transaction.
func (a *App) keepText(ctx context.Context, t task.Task, name, s string) (inline, body string, ws []store.Write, err error) {
	if len(s) <= inlineText {
		return s, "", nil, nil
	}
	w, err := a.putBody(ctx, t, name, s)
	return "", name, []store.Write{w}, err
}

// readText reads what keepText stored.
func (a *App) readText(ctx context.Context, t task.Task, inline, body string) (string, error) {
	if body == "" {
		return inline, nil
	}
	return a.getBody(ctx, t, body)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
