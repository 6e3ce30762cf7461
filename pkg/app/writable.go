package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Writable refuses a write by a task agent whose running turn is read-only, or
// whose run has been succeeded. The mode is read off the turn's row where
// handlers run; the stamp of a relayed call can narrow it, never widen it
// (AG-011, OT-016, OT-017).
func (a *App) Writable(ctx context.Context, who identity.Caller, tool string) error {
	if who.Kind != identity.Task {
		return nil
	}
	t, ok, err := a.loadTask(ctx, who.Tenant, who.Task())
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Internal, "the task of this token is gone")
	}
	if who.Epoch != 0 && (who.Epoch != t.Epoch || !t.Claimed) {
		return fenced(t, who.Epoch)
	}
	if t.Claimed && turn.Kind(t.TurnKind).ReadOnly() {
		return refusal.Of(refusal.ReadOnlyTurn, tool)
	}
	return nil
}
