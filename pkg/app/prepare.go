package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// dispatch changes a run together with the rows of others that its prompt carries:
// whatever was changed meanwhile, it looks again.
func (a *App) dispatch(ctx context.Context, t task.Task, epoch int64, decide func(*turn.Run) (change, bool, error)) error {
	for n := 0; ; n++ {
		err := a.driveRun(ctx, t, epoch, decide)
		var lost *store.ConflictError
		if !errors.As(err, &lost) || n == tries || ctx.Err() != nil {
			return err
		}
	}
}

// brief puts into a run what its agent is told, and into the change what that
// alters of other rows. Where it alters none, the run's own row is all there is.
func (a *App) brief(ctx context.Context, o Op, t task.Task, r *turn.Run, ch *change) error {
	t, _, err := a.loadTask(ctx, t.Tenant, t.ID)
	if err != nil {
		return err
	}
	if t.Epoch != o.Epoch || !t.Claimed {
		return fenced(t, o.Epoch)
	}
	now, p := a.Now(), a.part(t)
	tr, err := a.turnOf(ctx, t, o)
	if err != nil {
		return err
	}
	built, err := a.prompt(ctx, t, tr)
	if err != nil {
		return err
	}
	if tr.Body != "" || tr.Setup != "" || len(built.shown)+len(built.redelivers) > 0 || tr.Journal != t.Journal {
		tr.Shown, tr.Journal, tr.Redelive, tr.Receipt = built.shown, t.Journal, built.redelivers, "carried"
		ch.writes = append(ch.writes, turnWrite(p.Turn(o.Seq), tr), a.holds(t))
	}
	for _, cm := range built.stamp {
		v := cm.Version
		cm.Shown, cm.ShownTurn, cm.Version = now, t.Turn, v+1
		ch.writes = append(ch.writes, commentWrite(p, cm, v))
	}
	r.State, r.Prepared, r.Tip, r.Prompt = RunPrepared, now, t.Tip, built.text
	if w := runWrite(p.Run(o.Epoch), *r, r.Version); w.Item.Weight() <= names.RunRow {
		return nil
	}
	// Stored before the row that names it, alone: that is a quarter of the price. The
	// digest keeps it apart from what another copy of this step may have made.
	sum := sha256.Sum256([]byte(built.text))
	r.Prompt, r.PromptBody = "", promptOf(o.Seq)+"-"+hex.EncodeToString(sum[:8])
	w, err := a.putBody(ctx, t, r.PromptBody, built.text)
	if err == nil {
		err = a.Store.Transact(ctx, w)
	}
	return err
}
