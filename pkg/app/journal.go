package app

import (
	"context"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Journaled answers a journal entry.
type Journaled struct {
	TaskID id.Task `json:"task_id" jsonschema:"the task whose journal it is in"`
	Code   string  `json:"code" jsonschema:"its code"`
	Index  int64   `json:"index" jsonschema:"number of the entry, which never changes"`
}

// AddJournal appends a passive note to any task, running or finished. It starts,
// resumes and signals nothing, and no prompt ever carries its text (JR-001 to
// JR-003).
func (a *App) AddJournal(ctx context.Context, c Call, word, content string) (Journaled, error) {
	if word == "" {
		if c.Who.Kind != identity.Task {
			return Journaled{}, refusal.Of(refusal.InvalidArguments, "task_id", "the task to write on", "nothing")
		}
		word = c.Who.Subject
	}
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Journaled{}, err
	}
	defer a.lanes.enter(string(t.ID))()
	var e raise.Entry
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		fence, err := a.fence(ctx, c, t)
		if err != nil {
			return change{}, err
		}
		var ws []store.Write
		e, ws, err = a.appendEntry(ctx, &t, c, text.Prose(content))
		return change{task: t, writes: append(ws, fence...), result: Journaled{TaskID: t.ID, Code: t.Code, Index: e.Index}}, err
	})
	return Journaled{TaskID: t.ID, Code: t.Code, Index: e.Index}, err
}

// appendEntry adds an entry to t's journal and returns the writes that store it.
// The index is the counter on the task's own row, so that concurrent writers
// cannot reuse or reorder one (JR-006).
func (a *App) appendEntry(ctx context.Context, t *task.Task, c Call, words string) (raise.Entry, []store.Write, error) {
	t.Journal++
	e := raise.Entry{Index: t.Journal, Actor: c.Actor(), Turn: c.Who.Turn, At: a.Now()}
	inline, body, ws, err := a.keepText(ctx, *t, fmt.Sprintf("journal.%d", e.Index), words)
	if err != nil {
		return e, nil, err
	}
	e.Text, e.Body = inline, body
	return e, append(ws, put(a.part(*t).Journal(e.Index), "journal", e, store.Absent())), nil
}
