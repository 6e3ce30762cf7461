package app

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// Guidance tells the caller of a confirmed tool what it is about to do (CF-002).
type Guidance struct {
	TaskID  id.Task  `json:"task_id,omitempty" jsonschema:"the task it is about"`
	Code    string   `json:"code,omitempty" jsonschema:"its code"`
	Goal    string   `json:"goal,omitempty" jsonschema:"its goal"`
	Status  string   `json:"status,omitempty" jsonschema:"its status at this moment"`
	Will    string   `json:"will_happen" jsonschema:"what the second call does"`
	Cannot  string   `json:"cannot_be_undone" jsonschema:"what of it cannot be taken back"`
	LookAt  string   `json:"look_first" jsonschema:"what to look at before deciding"`
	Active  []string `json:"active_tasks,omitempty" jsonschema:"tasks that are active and might be the intended parent"`
	Expires string   `json:"code_expires" jsonschema:"when the code stops working"`
}

// Confirmation answers the first of two calls: nothing was done (CF-001).
type Confirmation struct {
	Required bool      `json:"confirmation_required,omitempty" jsonschema:"true when nothing was done yet and the call must be repeated with the code"`
	Secret   string    `json:"confirmation_code,omitempty" jsonschema:"pass it as confirmation_code in the same call to carry it out"`
	Guidance *Guidance `json:"guidance,omitempty" jsonschema:"what will happen and what to look at first"`
}

// confirmation is the stored side of a code; the code itself is not kept (CF-013).
type confirmation struct {
	Caller  string    `json:"caller"`
	Tool    string    `json:"tool"`
	Task    id.Task   `json:"task,omitempty"`
	Digest  string    `json:"digest"`
	Status  string    `json:"status,omitempty"`
	Head    string    `json:"head,omitempty"`
	Expires time.Time `json:"expires"`
}

// confirm is the two-step protocol of a tool. On a call without a code it stores
// one and returns what to answer; with a valid code it returns nil, and the
// caller adds confirmWrites to the transaction that acts. Call it after every
// other check, and once more where a lost race decides again. People are asked by
// their own surface and always pass. A zero task binds the code to no task.
func (a *App) confirm(ctx context.Context, c Call, t task.Task, g Guidance) (*Confirmation, error) {
	if c.Who.Kind != identity.Builder && c.Who.Kind != identity.Task {
		return nil, nil
	}
	now := a.Now()
	if c.Code == "" {
		code, err := a.drawCode()
		if err != nil {
			return nil, err
		}
		row := confirmation{
			Caller: c.Who.Hash, Tool: c.Tool, Task: t.ID, Digest: c.Digest,
			Status: string(t.Status), Head: t.Tip, Expires: now.Add(names.ConfirmationKept),
		}
		w := put(a.codeKey(c, code), "confirmation", row, store.Absent())
		w.Item.Expires = row.Expires
		if err := a.Store.Transact(ctx, w); err != nil {
			return nil, fmt.Errorf("store confirmation code: %w", err)
		}
		g.TaskID, g.Code, g.Goal, g.Status = t.ID, t.Code, t.Goal, string(t.Status)
		g.Expires = stamp(row.Expires)
		return &Confirmation{Required: true, Secret: code, Guidance: &g}, nil
	}
	row, ok, err := get[confirmation](ctx, a.Store, a.codeKey(c, c.Code))
	if err != nil {
		return nil, err
	}
	invalid := refusal.Of(refusal.ConfirmationInvalid)
	switch {
	case !ok:
		// The code may be gone because this very request has used it (CF-010).
		return nil, a.ownResult(ctx, c, invalid)
	case row.Caller != c.Who.Hash, row.Tool != c.Tool, row.Task != t.ID, row.Digest != c.Digest, !now.Before(row.Expires):
		return nil, invalid
	}
	var moved []string
	if row.Status != string(t.Status) {
		moved = append(moved, fmt.Sprintf("its status went from %s to %s", row.Status, t.Status))
	}
	if row.Head != t.Tip {
		moved = append(moved, fmt.Sprintf("its head went from %s to %s", short(row.Head), short(t.Tip)))
	}
	if len(moved) > 0 {
		invalid.Public += " Since it was issued, " + strings.Join(moved, " and ") + "."
		return nil, invalid.WithDetail("moved", moved)
	}
	return nil, nil
}

// confirmWrites uses up the call's code: at most one transaction can hold this
// delete (CF-004). It is empty for a call that carries none.
func (a *App) confirmWrites(c Call) []store.Write {
	if c.Code == "" {
		return nil
	}
	return []store.Write{{Act: store.Delete, Item: store.Item{Key: a.codeKey(c, c.Code)}, If: []store.Cond{store.Present()}}}
}

func (a *App) codeKey(c Call, code string) store.Key {
	h := sha256.Sum256([]byte("confirmation\x00" + strings.ToUpper(strings.TrimSpace(code))))
	return store.For(c.Who.Tenant).Confirm(hex.EncodeToString(h[:]))
}

func (a *App) drawCode() (string, error) {
	var b [10]byte
	if _, err := io.ReadFull(a.IDs.Rand, b[:]); err != nil {
		return "", fmt.Errorf("draw confirmation code: %w", err)
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]), nil
}

// short is a commit as people read it.
func short(sha string) string {
	if len(sha) > 8 {
		return sha[:8]
	}
	if sha == "" {
		return "none"
	}
	return sha
}

// confirmCreate asks a builder who would start a new top level beside work in
// progress whether one of the active tasks is the intended parent (CF-006).
func (a *App) confirmCreate(ctx context.Context, c Call, t task.Task, parent *task.Task) (*Confirmation, error) {
	if c.Who.Kind != identity.Builder || parent != nil {
		return nil, nil
	}
	if c.Code == "" {
		set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
		if err != nil {
			return nil, err
		}
		main, err := a.mainBranch(ctx, c, set)
		if err != nil || t.Target != main {
			return nil, err
		}
	}
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	var active []string
	for _, l := range live {
		if l.Status.Active() {
			active = append(active, fmt.Sprintf("%s %s (%s): %s", l.ID.Short(), l.Code, l.Status, l.Goal))
		}
	}
	if len(active) == 0 && c.Code == "" {
		return nil, nil
	}
	return a.confirm(ctx, c, task.Task{}, Guidance{
		Will:   fmt.Sprintf("A task %q is created at top level; it will be cut from %s and merge into it. It is not started.", t.Goal, t.Target),
		Cannot: "Nothing: a task in backlog can be closed.",
		LookAt: "The active tasks. If one of them is the intended parent, name it as parent instead; that needs no code.",
		Active: active,
	})
}
