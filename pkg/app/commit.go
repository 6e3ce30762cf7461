package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Committed answers lazy_commit.
type Committed struct {
	TaskID  id.Task `json:"task_id" jsonschema:"your task"`
	Code    string  `json:"code" jsonschema:"its code"`
	Commit  string  `json:"commit" jsonschema:"the commit that was made"`
	Durable bool    `json:"durable" jsonschema:"true: it outlives this run"`
	Drifted string  `json:"drifted,omitempty" jsonschema:"a HEAD found inside the workspace that was not the recorded one; it was reported and not adopted"`
}

const subjectMost = 200

// RecordCommit makes a commit that the run's own git broker prepared durable, and
// moves the task's recorded tip to it. Only the broker can bring the evidence; a
// commit on anything but the recorded tip is refused.
func (a *App) RecordCommit(ctx context.Context, c Call, message string) (Committed, error) {
	ev := c.Who.Commit
	if ev == nil || c.Who.Epoch == 0 || ev.Commit == "" || ev.Tree == "" {
		return Committed{}, fault.New(fault.Denied, "lazy_commit is run by the git broker of the task's own run. Nothing was committed.").
			WithNext("Call it as a tool inside the run.")
	}
	if err := a.bundled(c.Who, ev.Bundle); err != nil {
		return Committed{}, err
	}
	subject, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	subject, _ = text.Cut(text.Line(subject), subjectMost)
	var out Committed
	keyless := c
	keyless.Key = "" // the commit's own row remembers the key
	_, err := a.mutate(ctx, keyless, c.Who.Tenant, c.Who.Task(), func(t task.Task) (change, error) {
		out = Committed{TaskID: t.ID, Code: t.Code, Commit: ev.Commit, Durable: true, Drifted: text.Line(ev.Drifted)}
		told, err := a.committed(ctx, c, t, out)
		if err == nil {
			err = ownTurn(c, t)
		}
		if err != nil || told || t.Tip == ev.Commit {
			return change{silent: true, task: t}, err // told twice: it is durable already
		}
		if ev.Parent != t.Tip {
			return change{}, fault.New(fault.Conflict, "the commit was made on %s, but the recorded head of %s is %s. Nothing was recorded.", short(ev.Parent), t.Name(), short(t.Tip)).
				WithNext("Call lazy_commit again: it starts from the recorded head.").
				WithDetail("tip", t.Tip)
		}
		t.Commits++
		row := CommitRow{
			Parent: ev.Parent, Commit: ev.Commit, Tree: ev.Tree, Message: subject, Turn: t.Turn, At: a.Now(),
			Actor: c.Actor(), Drifted: out.Drifted, Bundle: ev.Bundle,
			Key: c.Key, Digest: c.Digest,
		}
		t.Tip = ev.Commit
		t.MidMerge = nil // a commit concludes a resolved merge
		headMoved(&t, "a later commit of the same agent")
		ch := change{task: t, result: out}
		ch.writes = []store.Write{put(a.part(t).Commit(t.Epoch, t.Commits), "commit", row, store.Absent())}
		if ev.Merged == "" || ev.Merged != t.Merging {
			return ch, nil
		}
		w, err := a.concluded(ctx, t)
		ch.writes = append(ch.writes, w)
		return ch, err
	})
	return out, err
}

// concluded notes on the run which merge its agent's commit has concluded (SN-005).
func (a *App) concluded(ctx context.Context, t task.Task) (store.Write, error) {
	ref, _, err := a.follows(ctx, t, t.Merging)
	if err != nil {
		return store.Write{}, err
	}
	r, _, err := a.loadRun(ctx, t, t.Epoch)
	if err != nil {
		return store.Write{}, err
	}
	r.Merged = alsoMerged(r.Merged, mergedText(cmp.Or(ref, t.Target), t.Merging))
	return runWrite(a.part(t).Run(t.Epoch), r, r.Version), nil
}

// committed reports whether the commit is recorded already. The rows of the run's
// commits stand for the idempotency rows of their calls (OT-050): a repeated call
// gets the first answer whatever has happened since, another one under its key is
// refused.
func (a *App) committed(ctx context.Context, c Call, t task.Task, out Committed) (told bool, err error) {
	q := store.Query{PK: a.part(t).PK, Prefix: fmt.Sprintf("COM#%08d#", c.Who.Epoch), Reverse: true}
	var bad error
	err = store.All(ctx, a.Store, q, func(it store.Item) bool {
		row, err := decode[CommitRow](it)
		told = told || err == nil && row.Kind == "" && row.Commit == out.Commit
		if err == nil && c.Key != "" && row.Key == c.Key {
			first := out
			first.Commit, first.Drifted = row.Commit, row.Drifted
			err = a.replay(c, Idem{Digest: row.Digest, Result: encode(first), At: row.At})
		}
		bad = err
		return err == nil
	})
	return told, errors.Join(err, bad)
}
