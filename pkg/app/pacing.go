package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// leaveWaiting keeps a turn open whose run has ended in a failure that passes: the
// claim stays, and the end of the wait is durable before it begins. It lasts at
// most until the turn's maximum age (FC-003, SY-047).
func (a *App) leaveWaiting(ctx context.Context, ch change, o Op, resp turn.Response, r turn.Run) (change, error) {
	set, err := a.Settings(ctx, ch.task.Tenant, ch.task.Project)
	if err != nil {
		return change{}, err
	}
	n := &ch.task
	began := r.Ended
	if began.IsZero() {
		began = a.Now()
	}
	w := task.Wait{Until: began.Add(min(resp.Wait, set.TurnAge))}
	if end := n.TurnBegan.Add(set.TurnAge); !w.Until.Before(end) {
		w = task.Wait{Until: end, Aged: true}
	}
	n.Claimed, n.Wait, n.Answered = true, &w, 0
	was := r.Version
	line := r.Retry
	if line == "" {
		line = fmt.Sprintf("attempt %d (%s): %s", resp.Failure.Attempts, resp.Failure.Class, cut(text.Line(resp.Failure.Reason), 160))
	}
	r.Next = w.Until
	r.Retry = cut(line, 240) + ", next " + stamp(w.Until)
	r.Phase, r.Version = "", was+1
	ch.writes = append(ch.writes, runWrite(a.part(*n).Run(o.Epoch), r, was))
	return ch, nil
}

// decision is what a flow is told of the decision about its turn.
type decision struct {
	Verdict string `json:"verdict"`
	Seconds int    `json:"seconds"` // of a wait
}

// slice is how long a flow waits before it asks again: the rest of the wait, and
// never so long that a flow whose turn was ended meanwhile stays for hours.
func (a *App) slice(t task.Task) int {
	if t.Wait == nil {
		return 0
	}
	left := min(t.Wait.Until.Sub(a.Now()), names.WaitSlice)
	return max(1, int((left+time.Second-1)/time.Second))
}

// aged ends a wait that came to the maximum age of its turn (SY-047).
func (a *App) aged(t task.Task, resp turn.Response) turn.Response {
	if w := t.Wait; w != nil && w.Aged && !a.Now().Before(w.Until) {
		resp.Stopped = turn.StopAge
	}
	return resp
}

// stepRenew goes on with a turn that waits. When its time has come the next epoch
// is claimed for it, by one conditional write: of several timers one goes on, and
// a turn that a person has ended meanwhile is left alone.
func (a *App) stepRenew(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	if t.Epoch == o.Epoch && t.Claimed && t.Wait == nil && t.Status == task.Working {
		if r, _, err := a.loadRun(ctx, t, o.Epoch); err != nil || r.Pace != nil && r.State == RunPrepared {
			return decision{Verdict: "go"}, err // claimed by a visit whose answer was lost
		}
	}
	if t.Epoch != o.Epoch || !t.Claimed || t.Wait == nil {
		return decision{Verdict: string(turn.History)}, nil
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	if r.Stop != "" || t.Wait.Aged && !a.Now().Before(t.Wait.Until) {
		return decision{Verdict: string(turn.History)}, a.endWait(ctx, t)
	}
	if a.Now().Before(t.Wait.Until) {
		return decision{Verdict: string(turn.Wait), Seconds: a.slice(t)}, nil
	}
	if err := a.finishCommit(ctx, t); err != nil {
		return nil, err
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed || t.Wait == nil {
			return change{}, errSettled
		}
		return a.renew(ctx, t, o)
	})
	if errors.Is(err, errSettled) {
		return decision{Verdict: string(turn.History)}, nil
	}
	return decision{Verdict: "go"}, err
}

// renew builds the change that gives a turn its next run.
func (a *App) renew(ctx context.Context, t task.Task, o Op) (change, error) {
	last, _, err := a.loadRun(ctx, t, t.Epoch)
	if err != nil {
		return change{}, err
	}
	if last.Stop != "" {
		return change{}, errSettled // it is settled by the work that the stop has ordered
	}
	resp, _, err := get[turn.Response](ctx, a.Store, a.part(t).Response(t.Epoch))
	if err != nil {
		return change{}, err
	}
	now := a.Now()
	ch := change{task: t}
	n := &ch.task
	n.Epoch, n.Wait = t.Epoch+1, nil
	pace := resp.Pace
	if pace == nil {
		pace = &turn.Pace{}
	}
	run := turn.Run{
		Task: t.ID, Turn: t.Turn, Epoch: n.Epoch, Kind: last.Kind, N: 1, State: RunPrepared, Claimed: now, Prepared: now,
		Tip: t.Tip, Host: last.Host, Salt: salt(), Pace: pace, Version: 1,
		Prompt: last.Prompt, PromptBody: last.PromptBody,
	}
	o.Epoch = n.Epoch
	w, err := a.opMoved(ctx, t.Tenant, o)
	ch.writes = append(ch.writes, runWrite(a.part(t).Run(n.Epoch), run, 0), w)
	return ch, err
}

// endWait settles a turn that waits, for what has come instead of its next run: a
// stop, or its maximum age.
func (a *App) endWait(ctx context.Context, t task.Task) error {
	p := Payload{Tenant: t.Tenant, Turn: string(t.Turn)}
	if _, err := a.stepRecord(ctx, p); err != nil {
		return err
	}
	_, err := a.stepDecide(ctx, p)
	return err
}

// cutWait ends a wait in the transaction of a person's word that claims the task
// anew: the recorded path is working, interrupted, working. The turn that waited
// gets its record by way of the outbox.
func (a *App) cutWait(ctx context.Context, ch *change, by identity.Actor, verb string) error {
	t := ch.task
	o, _, err := a.operation(ctx, t.Tenant, string(t.Turn))
	if err != nil {
		return err
	}
	ch.task.Claimed, ch.task.Wait = false, nil
	if r, _, err := a.loadRun(ctx, t, t.Epoch); err != nil {
		return err
	} else if r.Kind == turn.Work {
		if err := a.recheck(ctx, &ch.task); err != nil {
			return err
		}
	}
	ch.jobs = append(ch.jobs, Job{Kind: Answered, Turn: o.ID, Epoch: o.Epoch})
	return a.move(ch, task.Change{
		To: task.Interrupted, On: task.Stop, Actor: by, Turn: o.ID, Reason: "its wait was ended: " + verb,
	})
}

// addEarlier adds to the record of a turn what the runs before its last one did.
func (a *App) addEarlier(ctx context.Context, t task.Task, in turn.Turn, ans *turn.Turn) error {
	for e := in.Epoch; e < ans.Epoch; e++ {
		resp, _, err := get[turn.Response](ctx, a.Store, a.part(t).Response(e))
		if err != nil {
			return err
		}
		ans.Commits += resp.Commits
		if ans.Lost == "" {
			ans.Lost, ans.LostWhy = resp.Lost, resp.LostWhy
		}
		ans.Usage = model.Merge(turnUsages, resp.Usage, ans.Usage)
	}
	return nil
}
