package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// readingEvery is how often the newest reading of a credential is stored while
// runs spend it. One that changes a verdict, and the last of a run, is at once.
const readingEvery = 5 * time.Minute

// noteReadings keeps what beats and reports tell about credentials' limits. Nothing
// waits for it and nothing fails by it: the next one tells more.
func (a *App) noteReadings(ctx context.Context, tenant, project string, all []model.Reading, last bool) {
	for _, r := range all[:min(len(all), 8)] {
		if err := a.noteReading(ctx, tenant, project, r, last); err != nil {
			a.Log.WarnContext(ctx, "a usage reading was not stored", "credential", r.Credential, "error", err)
		}
	}
}

func (a *App) noteReading(ctx context.Context, tenant, project string, r model.Reading, last bool) error {
	r = tidy(r)
	if r.Credential == "" || len(r.Headers) == 0 || r.At.IsZero() || r.At.After(a.Now().Add(time.Minute)) {
		return nil
	}
	have, ok, err := a.reading(ctx, tenant, r.Credential)
	if err != nil {
		return err // a damaged record is repaired by a person, not written over (US-016)
	}
	w := put(store.For(tenant).Reading(r.Credential), "reading", r, store.Absent())
	w.Item.Attr["at"] = r.At.UnixNano()
	if ok {
		if !r.At.After(have.At) {
			return nil
		}
		set, err := a.Settings(ctx, tenant, project)
		if err != nil {
			return err
		}
		_, was := have.Full(set.UsagePause, a.Now())
		_, is := r.Full(set.UsagePause, a.Now())
		if !last && was == is && r.At.Sub(have.At) < readingEvery {
			return nil
		}
		w.If = []store.Cond{store.FieldLess("at", r.At.UnixNano())}
	}
	err = a.Store.Transact(ctx, w)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil // another run told something newer
	}
	return err
}

// tidy keeps of a reading what a record has room for, and of its headers only
// those about limits (US-003).
func tidy(r model.Reading) model.Reading {
	out := model.Reading{Credential: cut(r.Credential, 200), At: r.At, Headers: map[string]string{}}
	for _, name := range sortedKeys(r.Headers) {
		if low := strings.ToLower(name); strings.Contains(low, "ratelimit") && len(low) <= 100 && len(out.Headers) < 60 {
			out.Headers[low] = cut(r.Headers[name], 100)
		}
	}
	return out
}

// reading reads the newest reading of a credential; a damaged one is refused by
// the name of its record (US-002).
func (a *App) reading(ctx context.Context, tenant, credential string) (model.Reading, bool, error) {
	k := store.For(tenant).Reading(credential)
	it, err := a.Store.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return model.Reading{}, false, nil
	}
	if err != nil {
		return model.Reading{}, false, err
	}
	r, err := decode[model.Reading](it)
	if err != nil {
		return r, false, refusal.Of(refusal.UsageUnreadable, k.String())
	}
	return r, true, nil
}

// paused says until when a credential starts nothing more, zero when it may.
func (a *App) paused(ctx context.Context, tenant string, set Settings, cr secret.Credential) (time.Time, error) {
	if set.UsagePause <= 0 {
		return time.Time{}, nil
	}
	r, ok, err := a.reading(ctx, tenant, label(cr))
	if err != nil || !ok {
		return time.Time{}, err
	}
	w, full := r.Full(set.UsagePause, a.Now())
	if !full {
		return time.Time{}, nil
	}
	return w.Resets, nil
}

// pausedRefusal is the refusal of a launch on a paused credential. An agent is
// told the time and nothing else (US-012).
func pausedRefusal(cr secret.Credential, until time.Time, by identity.Role) error {
	at := stamp(until)
	e := refusal.Of(refusal.UsagePaused, label(cr), at)
	e.Err = &pausedError{until}
	if by == identity.Agent {
		e.Public, e.Next = "The usage window resets at "+at+".", nil
		return e
	}
	return e.WithDetail("resets_at", until)
}

// pausedError carries the time of a pause inside the process.
type pausedError struct{ until time.Time }

func (p *pausedError) Error() string { return "app: the credential is paused" }

// Pass lets the next turn of one task past the usage pause (US-009).
type Pass struct {
	ID string         `json:"id"`
	By identity.Actor `json:"by"`
	At time.Time      `json:"at"`
}

func (a *App) passKey(t task.Task) store.Key { return a.part(t).Key("PASS") }

// passes takes a task's pass, in the transaction of the launch that uses it up.
func (a *App) passes(ctx context.Context, t task.Task) ([]store.Write, bool, error) {
	p, ok, err := get[Pass](ctx, a.Store, a.passKey(t))
	if err != nil || !ok {
		return nil, false, err
	}
	return []store.Write{{
		Act: store.Delete, Item: store.Item{Key: a.passKey(t)}, If: []store.Cond{store.FieldIs("id", p.ID)},
	}}, true, nil
}

// LetPast answers letTaskPastPause.
type LetPast struct {
	TaskID id.Task `json:"task_id" jsonschema:"full id"`
	Code   string  `json:"code" jsonschema:"its code"`
	Passes bool    `json:"passes" jsonschema:"the next turn of the task that the usage pause would stop is let through, once"`
}

// LetTaskPastPause grants a task one pass, or takes back one that is not used up
// (US-010, US-015). A task agent's is refused here too, whatever led it here
// (US-012).
func (a *App) LetTaskPastPause(ctx context.Context, c Call, word string, revoke bool) (LetPast, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return LetPast{}, err
	}
	if c.Who.Kind == identity.Task || c.Who.Kind == identity.Operator {
		return LetPast{}, refusal.Of(refusal.UsagePassDenied)
	}
	out := LetPast{TaskID: t.ID, Code: t.Code, Passes: !revoke}
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Status.Terminal() {
			return change{}, refusal.Of(refusal.StatusNotAllowed, "letting past the usage pause", t.Status.Words(), "every live one")
		}
		have, ok, err := get[Pass](ctx, a.Store, a.passKey(t))
		if err != nil {
			return change{}, err
		}
		ch := change{task: t, result: out, silent: true}
		switch {
		case revoke && ok:
			ch.writes = []store.Write{{
				Act: store.Delete, Item: store.Item{Key: a.passKey(t)}, If: []store.Cond{store.FieldIs("id", have.ID)},
			}}
		case !revoke && !ok:
			p := Pass{ID: a.IDs.New(), By: c.Actor(), At: a.Now()}
			w := put(a.passKey(t), "pass", p, store.Absent())
			w.Item.Attr["id"] = p.ID
			ch.writes = []store.Write{w}
			if t.Held != nil {
				held := *t.Held
				held.Until = a.Now() // what waits is looked at again at once
				ch.silent, ch.task.Held = false, &held
			}
		}
		return ch, nil
	})
	return out, err
}

// resetsAt reads the time out of a pause's refusal.
func resetsAt(err error) time.Time {
	if p, ok := errors.AsType[*pausedError](err); ok {
		return p.until
	}
	return time.Time{}
}
