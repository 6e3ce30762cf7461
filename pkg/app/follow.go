package app

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// operationID is the id that an operation begun by this call has: the announced
// one, unless a request under the same key began one that is still known, a day and
// more ago.
func (a *App) operationID(ctx context.Context, c Call) (string, error) {
	op := c.Operation
	if op == "" {
		op = a.IDs.New()
		if c.Key != "" {
			op = id.Keyed(op, c.Who.Hash, c.Key)
		}
	}
	o, taken, err := get[Op](ctx, a.Store, store.For(c.Who.Tenant).Operation(op))
	if taken && !a.Now().Before(o.At.Add(names.IdempotencyKept)) {
		op = a.IDs.New()
	}
	return op, err
}

// followed names the operation by which c may await the accept of t that is under
// way, or over. An operation answers only to the credential that began it
// (OT-048), so anybody else gets one of his own that stands for it.
func (a *App) followed(ctx context.Context, c Call, t task.Task, out *Accepted) error {
	out.Operation = t.Accept.Operation
	first, ok, err := get[Op](ctx, a.Store, store.For(t.Tenant).Operation(t.Accept.Operation))
	if err != nil || !ok || first.Caller == c.Who.Hash {
		return err
	}
	if out.Operation, err = a.operationID(ctx, c); err != nil {
		return err
	}
	o := first
	o.ID, o.Of, o.Caller, o.At = out.Operation, first.ID, c.Who.Hash, a.Now()
	_, err = a.commit(ctx, c, t, change{task: t, silent: true, op: &o, result: *out})
	return err
}

// stopProgress tells of a stop: it is done when the run it was asked of is over.
func stopProgress(t task.Task, o Op) Progress {
	over := t.Epoch != o.Epoch || !t.Claimed
	at := doneAt(over, time.Time{}, t.Updated)
	p := Progress{Operation: o.ID, Cursor: "0", Done: over, Phases: lay([]mark{
		{name: "ask the run to end", at: o.At}, {name: "wait for its end", at: at},
	}, "")}
	if over {
		p.Result = encode(map[string]any{
			"task_id": t.ID, "code": t.Code, "status": t.Status, "turn_id": o.Of, "operation_id": o.ID,
		})
	}
	return p
}
