package app

import (
	"context"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Stopped answers a stop: the run ends by itself, or is ended from outside.
type Stopped struct {
	Task      id.Task `json:"task_id"`
	Code      string  `json:"code"`
	Status    string  `json:"status"`
	Turn      string  `json:"turn_id"`
	Operation string  `json:"operation_id"`
}

// Stop asks for the running turn's end (HA-028). The supervisor hears of it on
// its next beat, and the runner is ended from outside as well where that is at
// hand; the status moves when the turn settles.
func (a *App) Stop(ctx context.Context, c Call, word string) (Stopped, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Stopped{}, err
	}
	return a.askStop(ctx, c, t, nil)
}

// askStop records the wish to end the running turn, with what is to follow.
func (a *App) askStop(ctx context.Context, c Call, t task.Task, then *task.Then) (Stopped, error) {
	opID, err := a.operationID(ctx, c)
	if err != nil {
		return Stopped{}, err
	}
	out := Stopped{Task: t.ID, Code: t.Code, Status: string(t.Status), Operation: opID}
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		if t.Status != task.Working || !t.Claimed {
			return change{}, verbHint(refusal.Of(refusal.StatusNotAllowed, "stop", t.Status.Words(), "working"), t, task.Stop)
		}
		r, ok, err := a.loadRun(ctx, t, t.Epoch)
		if err != nil {
			return change{}, err
		}
		ch := change{task: t}
		ch.task.Then = then
		if then == nil && turn.Kind(t.TurnKind) == turn.Work {
			ch.task.Hold = true
		}
		if ok {
			was := r.Version
			by := c.Actor()
			r.Stop, r.StopBy, r.Version = turn.StopAsked, &by, was+1
			ch.writes = append(ch.writes, runWrite(a.part(t).Run(t.Epoch), r, was))
		}
		ch.writes = append(ch.writes, a.confirmWrites(c)...)
		ch.jobs = append(ch.jobs, Job{Kind: EndRun, Epoch: t.Epoch, Text: turn.StopAsked, Turn: string(t.Turn)})
		out.Turn = string(t.Turn)
		// The turn is whoever's began it, and only he may follow it (OT-048): a stop
		// is an operation of its own.
		ch.op = &Op{
			ID: out.Operation, Kind: "stop", Verb: "stop", Project: t.Project, Task: t.ID, Epoch: t.Epoch,
			Caller: c.Who.Hash, At: a.Now(), Of: string(t.Turn),
		}
		ch.result = out
		return ch, nil
	})
	return out, err
}

// Ended answers a reject, close or reopen.
type Ended struct {
	*Confirmation
	Task      id.Task `json:"task_id"`
	Code      string  `json:"code"`
	Status    string  `json:"status"`
	Recovery  string  `json:"recovery,omitempty"` // patch of edits that were on no branch
	Turn      string  `json:"turn_id,omitempty"`
	Operation string  `json:"operation_id,omitempty"`
}

// Reject refuses the work of a task (HA-021); Close cancels it (HA-022). They
// differ in intent and words. A working task is stopped first, so that the
// recorded path is working, interrupted, abandoned (SM-026).
func (a *App) Reject(ctx context.Context, c Call, word, reason string) (Ended, error) {
	return a.end(ctx, c, word, task.Reject, text.Prose(reason))
}

// Close cancels a task.
func (a *App) Close(ctx context.Context, c Call, word, reason string) (Ended, error) {
	return a.end(ctx, c, word, task.Close, text.Prose(reason))
}

func (a *App) end(ctx context.Context, c Call, word string, on task.Trigger, reason string) (Ended, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Ended{}, err
	}
	if err := a.mayEnd(ctx, c, t, on); err != nil {
		return Ended{}, err
	}
	if t.Status == task.Working {
		if need, err := a.confirm(ctx, c, t, endGuidance(t, on)); err != nil || need != nil {
			return Ended{Confirmation: need, Task: t.ID, Code: t.Code, Status: string(t.Status)}, err
		}
		s, err := a.askStop(ctx, c, t, &task.Then{On: on, Reason: reason, Actor: c.Actor()})
		return Ended{Task: t.ID, Code: t.Code, Status: s.Status, Turn: s.Turn, Operation: s.Operation}, err
	}
	if on == task.Reject && t.Workspace != nil && t.Status != task.Interrupted {
		if err := a.clean(ctx, t); err != nil {
			return Ended{}, err
		}
	}
	if need, err := a.confirm(ctx, c, t, endGuidance(t, on)); err != nil || need != nil {
		return Ended{Confirmation: need, Task: t.ID, Code: t.Code, Status: string(t.Status)}, err
	}
	out := Ended{Task: t.ID, Code: t.Code, Status: string(task.Abandoned)}
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		if err := a.mayEnd(ctx, c, t, on); err != nil {
			return change{}, err
		}
		ch := change{task: t}
		if t.Status == task.Merging {
			if err := a.undo(&ch, c.Actor(), "the accept was given up"); err != nil {
				return change{}, err
			}
		}
		if err := a.abandon(&ch, task.Then{On: on, Reason: reason, Actor: c.Actor()}); err != nil {
			return change{}, verbHint(err, t, on)
		}
		ch.writes = append(ch.writes, a.confirmWrites(c)...)
		ch.result = out
		return ch, nil
	})
	return out, err
}

func endGuidance(t task.Task, on task.Trigger) Guidance {
	g := Guidance{
		Will:   "the task is abandoned, its workspace and branch are removed, and its agent's session ends",
		Cannot: "edits that were never committed survive only as a patch",
		LookAt: "lazy_show and lazy_diff of this task",
	}
	if t.Status == task.Working {
		g.Will = "its running turn is stopped, then " + g.Will
	}
	if on == task.Reopen {
		g.Will = "the finished task is taken up again"
		g.Cannot = "nothing; it can be closed again"
	}
	return g
}

// mayEnd refuses a reject or close by status, before a code is issued for it
// (CF-008).
func (a *App) mayEnd(ctx context.Context, c Call, t task.Task, on task.Trigger) error {
	if t.Status == task.Merging {
		return a.acceptRests(ctx, t, string(on))
	}
	if t.Status == task.Working && t.Claimed {
		return nil
	}
	if !slices.Contains(task.From(on, c.Actor().Role), t.Status) {
		return verbHint(refusal.Of(refusal.StatusNotAllowed, on, t.Status.Words(), "blocked, conflict, interrupted, submitted, working"), t, on)
	}
	return nil
}

// clean refuses a workspace that is mid-merge or dirty, telling the two apart and
// looking for the merge first (GT-019, AP-020, UW-006, UW-007).
func (a *App) clean(ctx context.Context, t task.Task) error {
	p, err := a.repo(t).Probe(ctx, t)
	if err != nil {
		return err
	}
	if p.MidMerge || len(p.Unmerged) > 0 {
		return refusal.Of(refusal.UnresolvedMerge, t.Name(), joined(p.Unmerged)).
			WithDetail("merge_state", "unresolved merge — "+joined(p.Unmerged))
	}
	if len(p.Dirty) > 0 {
		return refusal.Of(refusal.Uncommitted, t.Name(), joined(p.Dirty)).WithDetail("paths", p.Dirty)
	}
	return nil
}

// abandon moves a resting task to abandoned, revokes its token in the same
// transaction and leaves the clean-up to the outbox.
func (a *App) abandon(ch *change, then task.Then) error {
	if err := a.move(ch, task.Change{To: task.Abandoned, On: then.On, Actor: then.Actor, Reason: then.Reason}); err != nil {
		return err
	}
	ch.task.Salt = "" // its agent's token is over
	ch.task.Claimed, ch.task.Then, ch.task.Why = false, nil, then.Reason
	ch.jobs = append(ch.jobs, Job{Kind: Clean, Epoch: ch.task.Epoch, Text: string(then.On)})
	return nil
}

// Reopen returns a finished task to work (HA-023).
func (a *App) Reopen(ctx context.Context, c Call, word, why string) (Ended, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Ended{}, err
	}
	if !t.Status.Terminal() {
		return Ended{}, verbHint(refusal.Of(refusal.StatusNotAllowed, "reopen", t.Status.Words(), "complete, abandoned"), t, task.Reopen)
	}
	if t.Status == task.Complete && text.Blank(why) {
		return Ended{}, refusal.Of(refusal.InvalidArguments, "reason", "why a merged task is taken up again", "nothing")
	}
	if need, err := a.confirm(ctx, c, t, endGuidance(t, task.Reopen)); err != nil || need != nil {
		return Ended{Confirmation: need, Task: t.ID, Code: t.Code, Status: string(t.Status)}, err
	}
	if t.Workspace != nil {
		// What the task left must be gone before a branch of its name is made again.
		if err := a.cleanUp(ctx, t, "reopen"); err != nil {
			return Ended{}, err
		}
	}
	out := Ended{Task: t.ID, Code: t.Code}
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		to := task.Backlog
		if t.Status == task.Complete && t.HadSession || t.Status == task.Abandoned && t.Commits > 0 {
			to = task.Blocked
		}
		ch := change{task: t}
		if err := a.move(&ch, task.Change{
			To: to, On: task.Reopen, Actor: c.Actor(), Reason: text.Prose(why),
			Facts: task.Facts{Commits: t.Commits > 0},
		}); err != nil {
			return change{}, verbHint(err, t, task.Reopen)
		}
		n := &ch.task
		if t.Workspace != nil {
			return change{}, fault.New(fault.Unavailable, "%s is still being cleaned up. Nothing was changed.", t.Name()).
				WithNext("Try again in a moment.")
		}
		n.Session, n.Final, n.Merge = "", nil, ""
		n.Hold, n.Interruptions, n.Resumes, n.Launches, n.MidMerge, n.Merging = false, 0, 0, 0, nil, ""
		if t.Status == task.Complete {
			// What landed is on the target; the next turn begins a branch anew.
			n.Base, n.Tip, n.Commits, n.Violations = "", "", 0, nil
		}
		ch.writes = append(ch.writes, a.confirmWrites(c)...)
		out.Status = string(to)
		ch.result = out
		return ch, nil
	})
	return out, err
}

// thenEnd carries out a reject or close that waited for the turn to end.
func (a *App) thenEnd(ch *change) error {
	if ch.task.Then == nil {
		return nil
	}
	return a.abandon(ch, *ch.task.Then)
}
