package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// command is what a supervisor is told to run (WF-09).
func (a *App) command(ctx context.Context, t task.Task, o Op, r turn.Run) (turn.Command, error) {
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return turn.Command{}, err
	}
	in, ok, err := get[turn.Turn](ctx, a.Store, a.part(t).Turn(o.Seq))
	if err != nil || !ok {
		return turn.Command{}, fmt.Errorf("read turn %d of %s: %w", o.Seq, t.ID, err)
	}
	prompt, ref := r.Prompt, cmp.Or(r.PromptBody, promptOf(in.Seq))
	if prompt == "" {
		if prompt, err = a.getBody(ctx, t, ref); err != nil {
			return turn.Command{}, err
		}
	}
	if t.Workspace == nil {
		return turn.Command{}, fault.New(fault.Unavailable, "the workspace of %s is not prepared", t.Name())
	}
	ag := set.Agents[t.Agent]
	now := a.Now()
	cmd := turn.Command{
		Turn: t.Turn, Task: t.ID, Code: t.Code, Epoch: t.Epoch, Kind: in.Kind, Prompt: prompt, PromptRef: ref,
		Session: t.Session, ReadOnly: in.Kind.ReadOnly(), WatchdogMS: set.Watchdog.Milliseconds(), Tokens: tokensLeft(set, t), Pace: r.Pace,
		Deadline: t.TurnBegan.Add(set.TurnAge), ModelUntil: now.Add(names.ModelPermission),
		Agent: t.Agent, Model: t.Model, Effort: t.Effort, Argv: ag.Argv, Env: ag.Env, Network: set.Network, Limits: set.Limits,
		Host: set.HostProcess, Tree: t.Workspace.Tree, GitDir: t.Workspace.GitDir, Objects: t.Workspace.Objects,
		Shared: t.Workspace.Shared, State: t.Workspace.State, Borrowed: t.Workspace.Borrowed, Branch: t.Branch, Base: t.Base, Tip: t.Tip, Author: "lazy agent <agent@lazyplane.invalid>",
	}
	if !t.Workspace.Ready && in.Kind == turn.Work {
		cmd.Setup, cmd.Copy, cmd.Source = set.Setup, set.Copy, set.Source
	}
	g, err := a.gatesOf(ctx, t.Tenant, t.Project)
	if err != nil {
		return turn.Command{}, err
	}
	if g.stop != nil {
		cmd.ModelUntil = time.Time{} // the first beat says why
	}
	if r.Own != nil && r.Own.Commit != "" {
		cmd.Own = &turn.Merge{Upstream: r.Own.Commit, Ref: r.Own.Ref}
	}
	cmd.Merge, err = a.upstream(ctx, t, in)
	return cmd, err
}

// upstream says what the broker is to merge before the agent runs: the target on
// a sync, and on an automatic resume of a clean workspace (CR-006). A merge that
// was left to the agent is named again, so that its commit may conclude it.
func (a *App) upstream(ctx context.Context, t task.Task, in turn.Turn) (*turn.Merge, error) {
	if t.Target == "" {
		return nil, nil
	}
	if in.Kind != turn.Sync {
		if t.Merging != "" {
			ref, _, err := a.follows(ctx, t, t.Merging)
			return &turn.Merge{Upstream: t.Merging, Ref: cmp.Or(ref, t.Target)}, err
		}
		if in.Verb != "auto_resume" {
			return nil, nil
		}
		p, err := a.repo(t).Probe(ctx, t)
		if err != nil || len(p.Dirty) > 0 || p.MidMerge {
			return nil, err
		}
	}
	up, err := a.repo(t).Tip(ctx, t.Target)
	if err != nil {
		return nil, err
	}
	return &turn.Merge{Upstream: up, Ref: t.Target}, nil
}

// mine loads the task of a runner and whether the run still holds it.
func (a *App) mine(ctx context.Context, who identity.Caller) (task.Task, bool, error) {
	t, ok, err := a.loadTask(ctx, who.Tenant, who.Task())
	if err != nil {
		return t, false, err
	}
	if !ok {
		return t, false, refusal.Of(refusal.Unauthenticated)
	}
	if t.Status.Terminal() {
		return t, false, refusal.Of(refusal.SessionEnded, t.Name(), howEnded(t))
	}
	return t, t.Epoch == who.Epoch && t.Claimed, nil
}

// howEnded says how a finished task came to its end.
func howEnded(t task.Task) string {
	switch {
	case t.Status == task.Complete:
		return "accepted"
	case t.Last.Did == string(task.Reject):
		return "rejected"
	}
	return "closed"
}

// Beat records a sign of life and answers with what the run must know: stop, and
// permission to go on calling the model (WF-20, AG-029). A beat with nothing new
// is stored at most every 30 s (SY-017).
func (a *App) Beat(ctx context.Context, who identity.Caller, b turn.BeatIn) (turn.BeatOut, error) {
	if b.Turn != who.Turn || b.Epoch != who.Epoch {
		return turn.BeatOut{}, refusal.Of(refusal.InvalidArguments, "turn_id, epoch", "those of this runner's token", "others")
	}
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return turn.BeatOut{}, err
	}
	if !held {
		return turn.BeatOut{}, fenced(t, who.Epoch)
	}
	g, err := a.gatesOf(ctx, t.Tenant, t.Project)
	if err != nil {
		return turn.BeatOut{}, err
	}
	out := turn.BeatOut{Tip: t.Tip, NoModel: g.words()}
	if out.NoModel == "" {
		out.ModelUntil = a.Now().Add(names.ModelPermission)
	}
	if b.Lost != "" {
		o, t, err := a.operation(ctx, t.Tenant, string(who.Turn))
		if err != nil {
			return turn.BeatOut{}, err
		}
		if out.Handover, err = a.handover(ctx, t, o.Seq, b.Lost); err != nil {
			return turn.BeatOut{}, err
		}
	}
	token := ""
	err = a.driveRun(ctx, t, who.Epoch, func(r *turn.Run) (change, bool, error) {
		now := a.Now()
		out.Stop = r.Stop
		if r.TokenFor == "run" || r.TokenFor == forBroker {
			token = r.Token
		}
		told := b.NoModel != "" && out.NoModel != ""
		fresh := told == !r.StopSeen.IsZero() && r.Phase == b.Phase && r.Retry == b.Retry && r.Steps == b.Progress &&
			now.Sub(r.Beat) < names.BeatStored && (b.State != "running" || !r.Running.IsZero())
		if fresh {
			return change{}, false, nil
		}
		r.Beat, r.Phase, r.Retry, r.Steps = now, cut(b.Phase, 60), cut(b.Retry, 300), b.Progress
		switch {
		case !told:
			r.StopSeen = time.Time{}
		case r.StopSeen.IsZero():
			r.StopSeen = now
		}
		if len(b.Usage) > 0 {
			r.Usage = model.Merge(runUsages, b.Usage) // it rides along: a beat is not stored for it
		}
		if b.State == "running" && r.Running.IsZero() {
			r.Running, r.State = now, "running"
		}
		return change{}, true, nil
	})
	if err != nil {
		return turn.BeatOut{}, err
	}
	a.noteReadings(ctx, t.Tenant, t.Project, b.Readings, false)
	a.hub.wake(string(t.ID))
	if token != "" {
		if err := a.Engine.Beat(ctx, token); err != nil && !errors.Is(err, engine.ErrTokenGone) {
			return turn.BeatOut{}, err
		}
	}
	return out, nil
}

// Report stores what a run left, then lets the outbox answer its task token. The
// acknowledgement says the row is durable (SY-049). A run that has been succeeded
// is kept as history and changes nothing (CR-015, SY-015); an answer that comes
// after its task was interrupted is settled by way of working (SY-005).
func (a *App) Report(ctx context.Context, who identity.Caller, resp turn.Response) (turn.Ack, error) {
	if resp.Turn != who.Turn || resp.Epoch != who.Epoch {
		return turn.Ack{}, refusal.Of(refusal.InvalidArguments, "turn_id, epoch", "those of this runner's token", "others")
	}
	switch resp.Outcome {
	case "ok", "error", "stopped", "crashed":
	default:
		return turn.Ack{}, refusal.Of(refusal.InvalidArguments, "outcome", "ok, error, stopped or crashed", fmt.Sprintf("%q", cut(resp.Outcome, 40)))
	}
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return turn.Ack{}, err
	}
	if err := notOfAccept(t, who); err != nil {
		return turn.Ack{}, err
	}
	resp.Usage = model.Merge(turnUsages, resp.Usage)
	resp.Text, resp.Log, resp.Setup = cut(resp.Text, 1<<20), cut(resp.Log, names.LogTailBytes), cut(resp.Setup, names.LogTailBytes)
	if resp, err = a.spill(ctx, t, resp); err != nil {
		return turn.Ack{}, err
	}
	resp.At = a.Now()
	// Whether it is the answer waited for, a late one or history is decided when it
	// is followed: it may change until then. Nothing else looks after a run that its
	// task has gone on from, so that one has an outbox row. The run's own row is left
	// alone: that there is a response says the same (see seenRun).
	ch := change{task: t, silent: true, follow: held, writes: []store.Write{
		put(a.part(t).Response(resp.Epoch), "response", resp, store.Absent()),
	}}
	if !held {
		ch.jobs = []Job{{Kind: Answered, Name: fmt.Sprintf("report-%d", who.Epoch), Turn: string(who.Turn), Epoch: who.Epoch}}
	}
	_, err = a.commit(ctx, Call{}, t, ch)
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		err = nil // one response is accepted per epoch (CR-018)
	}
	if err != nil {
		return turn.Ack{}, err
	}
	a.noteReadings(ctx, t.Tenant, t.Project, resp.Readings, true)
	return turn.Ack{Stored: true, History: !held && !late(t, who.Epoch)}, nil
}

// late reports whether an answer of that run would come after its task was
// interrupted without it.
func late(t task.Task, epoch int64) bool {
	return t.Epoch == epoch && !t.Claimed && t.Status == task.Interrupted && t.Answered != epoch
}

// answered does what follows from a stored report: it answers the token that
// waits for it, settles it when it came late, and keeps it as history otherwise.
func (a *App) answered(ctx context.Context, j Job) error {
	o, t, err := a.operation(ctx, j.Tenant, j.Turn)
	if err != nil {
		return err
	}
	if t.Epoch == o.Epoch && t.Claimed {
		return a.answerToken(ctx, t, o.Epoch)
	}
	return a.lateAnswer(ctx, t, o)
}

// lateAnswer settles an answer that arrived after its task was interrupted: by
// way of working, in one transaction (SY-005, TR-56).
func (a *App) lateAnswer(ctx context.Context, t task.Task, o Op) error {
	resp, ok, err := a.response(ctx, t, o.Epoch)
	if err != nil || !ok {
		return err
	}
	resp.Wait = 0 // nothing is kept open that was interrupted
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if !late(t, o.Epoch) {
			return change{}, errSettled
		}
		r, _, err := a.loadRun(ctx, t, o.Epoch)
		if err != nil {
			return change{}, err
		}
		r.Stop = ""
		ch := change{task: t}
		if err := a.move(&ch, task.Change{To: task.Working, On: task.LateAnswer, Actor: identity.SystemActor(), Turn: o.ID}); err != nil {
			return change{}, err
		}
		crash, err := a.crashRecord(ctx, t, o)
		if err != nil {
			return change{}, err
		}
		rest := resp
		rest.Usage = model.Less(resp.Usage, crash.Usage) // the crash has booked the other part
		mid := ch.task
		mid.Claimed, mid.Version = true, t.Version
		v := turn.Decide(situation(mid, o, resp, r))
		next, err := a.settle(ctx, mid, o, rest, r, v)
		if err != nil {
			return change{}, err
		}
		next.history = append(ch.history, next.history...)
		return next, nil
	})
	if err != nil && !errors.Is(err, errSettled) {
		return err
	}
	if t, _, err = a.loadTask(ctx, t.Tenant, t.ID); err != nil {
		return err
	}
	return a.recordAnswer(ctx, t, o, resp, turn.Answer)
}

// tokensLeft is what a run may still spend of its task's budget; 0 is no bound.
func tokensLeft(set Settings, t task.Task) int64 {
	if set.TokenBudget <= 0 {
		return 0
	}
	return max(1, set.TokenBudget-model.Total(t.Spent))
}
