package app

import (
	"context"
	"errors"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// deliver marks what the turn's prompt carried as delivered: its own words, the
// comments it showed, and what it redelivered (CR-012).
func (a *App) deliver(ctx context.Context, t task.Task, o Op) ([]store.Write, int64, error) {
	var ws []store.Write
	in, ok, err := get[turn.Turn](ctx, a.Store, a.part(t).Turn(o.Seq))
	if err != nil || !ok {
		return nil, 0, err
	}
	if in.Delivered(true) {
		return nil, 0, nil // the answer says so
	}
	in.Receipt, in.Ended = "delivered", a.Now()
	ws = append(ws, turnWrite(a.part(t).Turn(o.Seq), in))
	var n int64
	for _, seq := range in.Shown {
		k := a.part(t).Comment(seq)
		cm, ok, err := get[raise.Comment](ctx, a.Store, k)
		if err != nil {
			return nil, 0, err
		}
		if !ok || !cm.Delivered.IsZero() {
			continue
		}
		was := cm.Version
		cm.Delivered, cm.Version = a.Now(), was+1
		ws = append(ws, commentWrite(a.part(t), cm, was))
		if cm.Actor.Role != identity.System {
			n++ // lazy's own notices are not counted as unread words
		}
	}
	if len(in.Redelive) == 0 {
		return ws, n, nil
	}
	err = a.eachTurn(ctx, t, func(tr turn.Turn) bool {
		if tr.Seq < o.Seq && tr.Side == turn.Input && slices.Contains(in.Redelive, tr.ID) {
			tr.Receipt = "delivered"
			ws = append(ws, turnWrite(a.part(t).Turn(tr.Seq), tr))
		}
		return len(ws) < store.MaxWrites-10
	})
	return ws, n, err
}

// eachTurn visits the task's turns, newest first.
func (a *App) eachTurn(ctx context.Context, t task.Task, yield func(turn.Turn) bool) error {
	var bad error
	err := store.All(ctx, a.Store, store.Query{PK: a.part(t).PK, Prefix: "TRN#", Reverse: true, Limit: 50}, func(it store.Item) bool {
		tr, err := decode[turn.Turn](it)
		if err != nil {
			bad = err
			return false
		}
		return yield(tr)
	})
	return errors.Join(err, bad)
}
