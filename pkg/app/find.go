package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// pointer is the row behind a code or a short id. That of the short id is written
// when its task is made and never again, so what else is told once and stays lies in
// it where it is short: the first prompt, and the answer to the call that made it.
type pointer struct {
	Task   id.Task         `json:"task"`
	Prompt string          `json:"prompt,omitempty"`
	Digest string          `json:"digest,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	At     time.Time       `json:"at,omitzero"`
}

// find resolves a full id, a longer or exact short id, or a code inside the
// caller's project. A word that fits two tasks is refused with both (OT-046); a
// foreign id and one that never existed get the same answer from the same reads.
func (a *App) find(ctx context.Context, who identity.Caller, word string) (task.Task, error) {
	word = strings.ToLower(strings.TrimSpace(word))
	p := store.For(who.Tenant).Project(who.Project)
	missing := refusal.Of(refusal.NotFound, "task", word)
	if id.IsTask(word) {
		t, ok, err := a.loadTask(ctx, who.Tenant, id.Task(word))
		if err != nil {
			return task.Task{}, err
		}
		if !ok || t.Project != who.Project {
			return task.Task{}, missing
		}
		return t, nil
	}
	var hits []id.Task
	if id.IsCode(word) {
		ptr, ok, err := get[pointer](ctx, a.Store, p.Code(word))
		if err != nil {
			return task.Task{}, err
		}
		if ok {
			hits = append(hits, ptr.Task)
		}
	}
	if id.IsShort(word) {
		ptr, ok, err := get[pointer](ctx, a.Store, p.Short(word[:id.ShortLen]))
		if err != nil {
			return task.Task{}, err
		}
		if ok && strings.HasPrefix(string(ptr.Task), word) && (len(hits) == 0 || hits[0] != ptr.Task) {
			hits = append(hits, ptr.Task)
		}
	}
	switch len(hits) {
	case 0:
		return task.Task{}, missing
	case 1:
		t, ok, err := a.loadTask(ctx, who.Tenant, hits[0])
		if err != nil {
			return task.Task{}, err
		}
		if !ok {
			return task.Task{}, fault.New(fault.Internal, "the name %s points at a task that does not exist", word)
		}
		return t, nil
	}
	var fits []string
	for _, h := range hits {
		t, _, err := a.loadTask(ctx, who.Tenant, h)
		if err != nil {
			return task.Task{}, err
		}
		fits = append(fits, fmt.Sprintf("%s %s %s", t.ID, t.Code, t.Goal))
	}
	return task.Task{}, refusal.Of(refusal.AmbiguousID, word, len(hits), strings.Join(fits, "; "))
}
