package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Idem is the row of an idempotency key (OT-050): the digest of the request it
// was used for and what was answered.
type Idem struct {
	Digest string          `json:"digest"`
	Result json.RawMessage `json:"result"`
	Task   id.Task         `json:"task,omitempty"`
	At     time.Time       `json:"at"`
}

// attrAnswers marks a row that answers a repeated request besides what else it is:
// that of the operation begun or the task made under the key, whose id is the key's
// own. It holds that id, or its part, in full.
const attrAnswers = "answers"

// answer is a row in which the first answer to a request may lie.
type answer struct {
	key store.Key
	is  string // what the row is marked with
}

// answersOf lists where the first answer to a request may lie.
func answersOf(c Call) []answer {
	if c.Key == "" {
		return nil
	}
	tn := store.For(c.Who.Tenant)
	op, tid := id.Keyed(nowhen, c.Who.Hash, c.Key), id.KeyedTask(c.Who.Hash, c.Key)
	return []answer{
		{key: tn.Idem(c.Who.Hash, c.Key)},
		{tn.Operation(op), id.Tail(op)},
		{tn.Project(c.Who.Project).Short(tid.Short()), string(tid)},
	}
}

// nowhen is a UUID of no time, which is no part of an operation's key.
const nowhen = "00000000-0000-0000-0000-000000000000"

// isIdem reports whether a write was refused by the row of the call's own key.
func isIdem(c Call, lost *store.ConflictError) bool {
	if lost == nil {
		return false
	}
	for _, r := range answersOf(c) {
		if r.key == lost.Key {
			return lost.Current.Str(attrAnswers) == r.is
		}
	}
	return false
}

// opRow is an operation with what the call that began it is answered when it is
// repeated.
type opRow struct {
	Op
	Digest string          `json:"digest,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// opWrite makes the row of an operation. Where the operation's id is that of the
// call's key, the row answers for the key too, and keyed is true.
func (a *App) opWrite(tenant string, c Call, o Op, result any) (w store.Write, keyed bool) {
	row := opRow{Op: o}
	k := store.For(tenant).Operation(o.ID)
	for _, r := range answersOf(c) {
		keyed = keyed || r.key == k
	}
	if keyed {
		row.Digest, row.Result = c.Digest, encode(result)
	}
	w = put(k, "operation", row, store.Absent())
	if keyed {
		w.Item.Attr[attrAnswers] = id.Tail(o.ID)
	}
	return w, keyed
}

// opMoved changes an operation and leaves what its row answers besides.
func (a *App) opMoved(ctx context.Context, tenant string, o Op) (store.Write, error) {
	k := store.For(tenant).Operation(o.ID)
	it, err := a.Store.Get(ctx, k)
	if err != nil {
		return store.Write{}, fmt.Errorf("read %s: %w", k, err)
	}
	row, err := decode[opRow](it)
	row.Op = o
	w := put(k, "operation", row, store.Present())
	if s := it.Str(attrAnswers); s != "" {
		w.Item.Attr[attrAnswers] = s
	}
	return w, err
}

// ownResult looks, before a refusal is answered, whether it only comes from this
// very request having run already: two copies under one key may pass Before side
// by side, and the second must get the first one's answer (OT-050).
func (a *App) ownResult(ctx context.Context, c Call, refused error) error {
	if c.Key == "" {
		return refused
	}
	if err := a.Before(ctx, c); err != nil {
		return err
	}
	return refused
}

func (a *App) idemWrite(tenant string, c Call, t id.Task, result any, now time.Time) store.Write {
	w := put(store.For(tenant).Idem(c.Who.Hash, c.Key), "idem",
		Idem{Digest: c.Digest, Result: encode(result), Task: t, At: now}, store.Absent())
	w.Item.Attr["at"] = now.UnixNano()
	w.Item.Expires = now.Add(names.IdempotencyKept)
	return w
}

// Replayed carries the first answer of a repeated request; it is not a failure.
type Replayed struct{ Result json.RawMessage }

func (r *Replayed) Error() string { return "app: this request was answered before" }

func (a *App) replay(c Call, row Idem) error {
	if !a.Now().Before(row.At.Add(names.IdempotencyKept)) {
		return nil
	}
	if row.Digest != c.Digest {
		return refusal.Of(refusal.KeyReused, row.At.UTC().Format(time.RFC3339))
	}
	return &Replayed{Result: row.Result}
}

// Before answers a repeated request from its idempotency row, so that a retry
// runs nothing: a *Replayed with the first answer, key_reused, or nil.
func (a *App) Before(ctx context.Context, c Call) error {
	for _, r := range answersOf(c) {
		it, err := a.Store.Get(ctx, r.key)
		if errors.Is(err, store.ErrNotFound) || err == nil && it.Str(attrAnswers) != r.is {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", r.key, err)
		}
		row, err := decode[Idem](it)
		if err == nil {
			err = a.replay(c, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
