package app

import (
	"context"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Declared answers lazy_final.
type Declared struct {
	TaskID id.Task   `json:"task_id" jsonschema:"your task"`
	Code   string    `json:"code" jsonschema:"its code"`
	SHA    string    `json:"sha" jsonschema:"head of the branch that was declared final"`
	At     time.Time `json:"declared_at" jsonschema:"when"`
	What   string    `json:"what_follows" jsonschema:"what this does and does not do"`
}

// Final records that the agent considers its work done at this head. It leaves
// turn, status and branch alone, and refuses for one reason only: a blocking item
// that is still open (TE-003, TE-004, TE-009, FN-003).
func (a *App) Final(ctx context.Context, c Call, note string) (Declared, error) {
	var out Declared
	_, err := a.own(ctx, c, func(t task.Task) (change, error) {
		open, err := a.openBlocking(ctx, t)
		if err != nil {
			return change{}, err
		}
		if len(open) > 0 {
			var which []string
			for _, i := range open {
				which = append(which, i.ID+" "+i.Title)
			}
			e := refusal.Of(refusal.FinalBlocked, strings.Join(which, "; "))
			e.Public += " Raising it already chose the other ending."
			return change{}, e
		}
		d := task.Declaration{SHA: t.Tip, Note: text.Line(text.Prose(note)), Turn: t.Turn, At: a.Now()}
		t.Final = &d
		out = Declared{
			TaskID: t.ID, Code: t.Code, SHA: d.SHA, At: d.At,
			What: "Recorded. The turn goes on until you stop; uncommitted files are not part of what was declared.",
		}
		return change{task: t, result: out}, nil
	})
	return out, err
}

// headMoved marks a declaration whose head is no longer the task's, with the
// cause (TE-012). It never takes the declaration back.
func headMoved(t *task.Task, cause string) {
	if t.Final == nil || t.Final.SHA == t.Tip {
		return
	}
	d := *t.Final
	d.Moved, d.MovedBy = true, cause
	t.Final = &d
}

// Progressed answers lazy_update_progress.
type Progressed struct {
	Stored    string `json:"stored" jsonschema:"the line as it is shown"`
	Truncated bool   `json:"truncated" jsonschema:"whether it was cut to 120 characters"`
}

// UpdateProgress puts one live line on the running turn: the latest wins. The
// line lies with the run, apart from the task, and a post that cannot be stored
// costs the caller nothing (OB-034 to OB-037, FN-011).
func (a *App) UpdateProgress(ctx context.Context, c Call, message string) (Progressed, error) {
	line, cut := text.Cut(text.Line(message), names.ProgressLine)
	out := Progressed{Stored: line, Truncated: cut}
	self, ok, err := a.loadTask(ctx, c.Who.Tenant, c.Who.Task())
	if err == nil && ok && ownTurn(c, self) == nil {
		err = a.driveRun(ctx, self, self.Epoch, func(r *turn.Run) (change, bool, error) {
			r.Progress = line
			ch := change{}
			if c.Key != "" {
				ch.writes = []store.Write{a.idemWrite(self.Tenant, c, self.ID, out, a.Now())}
			}
			return ch, true, nil
		})
	}
	if err != nil {
		a.Log.WarnContext(ctx, "progress line lost", "task", c.Who.Task().Short(), "error", err)
	}
	return out, nil
}
