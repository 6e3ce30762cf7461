package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// responseInline bounds the JSON of an answer that is kept in its row; a store
// takes rows of 400 KB.
const responseInline = 200_000

// long is what of an answer may be long.
type long struct {
	Text    string         `json:"text"`
	Handoff []turn.Handoff `json:"handoff,omitempty"`
}

// spill moves the long parts of an answer to the blob store when its row would
// not hold them.
func (a *App) spill(ctx context.Context, t task.Task, resp turn.Response) (turn.Response, error) {
	resp.Rest = ""
	whole, err := json.Marshal(resp)
	if err != nil || len(whole) <= responseInline {
		return resp, err
	}
	b, err := json.Marshal(long{resp.Text, resp.Handoff})
	if err != nil {
		return resp, err
	}
	sum := sha256.Sum256(b)
	key := fmt.Sprintf("%s/%s/body/response-%d-%s", t.Tenant, t.ID, resp.Epoch, hex.EncodeToString(sum[:8]))
	if err := a.Blob.Put(ctx, key, b); err != nil {
		return resp, fmt.Errorf("store the long parts of an answer: %w", err)
	}
	resp.Text, resp.Handoff, resp.Rest = "", nil, key
	return resp, nil
}

// response reads the answer of a run as it was reported.
func (a *App) response(ctx context.Context, t task.Task, epoch int64) (turn.Response, bool, error) {
	resp, ok, err := get[turn.Response](ctx, a.Store, a.part(t).Response(epoch))
	if err != nil || !ok || resp.Rest == "" {
		return resp, ok, err
	}
	b, err := a.Blob.Get(ctx, resp.Rest)
	if errors.Is(err, blob.ErrNotFound) {
		return resp, true, fault.Wrap(fault.Unavailable, err, "the answer of run %d of task %s is not in the blob store", epoch, t.ID.Short())
	}
	if err != nil {
		return resp, true, err
	}
	var l long
	if err := json.Unmarshal(b, &l); err != nil {
		return resp, true, fmt.Errorf("read the answer of run %d: %w", epoch, err)
	}
	resp.Text, resp.Handoff = l.Text, l.Handoff
	return resp, true, nil
}
