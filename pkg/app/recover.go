package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Verdicts of the recovery flow's look at a run.
type look struct {
	Verdict string `json:"verdict"` // wait, alive, gone, settled, stale
	Seconds int    `json:"seconds"`
}

// stepConfirm looks at the predecessor and says what recovery may do: nothing is
// restarted until it is proven gone (SY-031, SY-043).
func (a *App) stepConfirm(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	if t.Epoch != o.Epoch || t.Status.Terminal() {
		return look{Verdict: "stale"}, nil
	}
	if !t.Claimed {
		if t.Status == task.Interrupted {
			return look{Verdict: "gone"}, nil // settled as an interruption; only the resume is to be decided
		}
		return look{Verdict: "stale"}, nil
	}
	if t.Status != task.Working {
		return look{Verdict: "stale"}, nil
	}
	if t.Wait != nil {
		return look{Verdict: "stale"}, a.again(ctx, t, o) // nothing of it can have crashed
	}
	if _, ok, err := get[turn.Response](ctx, a.Store, a.part(t).Response(o.Epoch)); err != nil || ok {
		return look{Verdict: "settled"}, err
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	rep, err := a.observe(ctx, t, &r)
	if err != nil {
		return nil, err
	}
	now := a.Now()
	if rep.Sight != runner.Gone {
		if r.Stop == "" && now.Sub(r.Beat) < names.Adoption && !r.Hello.IsZero() && rep.Sight == runner.Alive {
			// The run lives and holds its token: adopt it under a next execution
			// instead of killing it (SY-040).
			if err := a.back(ctx, t, o); err != nil {
				return nil, err
			}
			return look{Verdict: "stale"}, a.again(ctx, t, o)
		}
		return look{Verdict: "alive"}, nil
	}
	if age := now.Sub(t.TurnBegan); age < names.DeadTurnGrace {
		return look{Verdict: "wait", Seconds: int((names.DeadTurnGrace-age)/time.Second) + 1}, nil
	}
	err = a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		if r.State == "gone" && r.Reason != "" {
			return change{}, false, nil
		}
		r.State, r.ExitCode, r.Reason, r.Ended = "gone", rep.ExitCode, rep.Reason, now
		return change{}, true, nil
	})
	return look{Verdict: "gone"}, err
}

// back takes back that a run is gone, which somebody told of one that lives.
func (a *App) back(ctx context.Context, t task.Task, o Op) error {
	return a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		if r.State != RunGone {
			return change{}, false, nil
		}
		r.State, r.Ended, r.ExitCode, r.Reason = RunLaunched, time.Time{}, 0, ""
		if !r.Running.IsZero() {
			r.State = RunRunning
		}
		return change{}, true, nil
	})
}

// observe finds the run by reference or by our own tag. A run never launched is
// gone.
func (a *App) observe(ctx context.Context, t task.Task, r *turn.Run) (runner.Report, error) {
	if r.Ref == "" {
		ref, ok, err := runner.Find(ctx, a.Runner, t.Tenant, t.ID, r.Epoch)
		if err != nil {
			return runner.Report{}, err
		}
		if !ok {
			return runner.Report{Sight: runner.Gone, Reason: "the run was never launched"}, nil
		}
		r.Ref = ref
	}
	return a.Runner.Observe(ctx, r.Ref)
}

// again starts the next execution of a turn whose run goes on. The number of
// executions advances by a conditional write, after the old one is known closed
// (SY-045).
func (a *App) again(ctx context.Context, t task.Task, o Op) error {
	key := a.part(t).Turn(o.Seq)
	tr, err := a.turnOf(ctx, t, o)
	if err != nil {
		return err
	}
	e, err := a.Engine.Describe(ctx, names.MachineTurn, fmt.Sprintf("%s-%d", o.ID, tr.N))
	switch {
	case errors.Is(err, engine.ErrNoExecution):
		return nil // ordered, and begun by its outbox row or the sweep
	case err != nil:
		return err
	case e.State == engine.Running:
		return nil
	}
	was := tr.N
	tr.N++
	w := turnWrite(key, tr, store.FieldIs("n", int64(was)))
	_, err = a.commit(ctx, Call{}, t, change{task: t, silent: true, writes: []store.Write{w, a.holds(t)}, jobs: []Job{{
		Kind: StartFlow, Name: fmt.Sprintf("again-%d-%d", o.Epoch, tr.N), Flow: names.MachineTurn,
		Exec: fmt.Sprintf("%s-%d", o.ID, tr.N), Turn: o.ID, N: tr.N, Epoch: o.Epoch,
	}}})
	if lost, ok := errors.AsType[*store.ConflictError](err); ok && lost.Key == key {
		return nil // somebody else has advanced it
	}
	return err
}

// stepStop ends a predecessor that may still run.
func (a *App) stepStop(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	r, ok, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil || !ok || r.Ref == "" {
		return struct{}{}, err
	}
	return struct{}{}, a.Runner.Stop(ctx, r.Ref, "recovery")
}

// stepCrash records the crash as a turn of its own, interrupts the task, counts,
// and says whether and when an automatic resume follows (SY-004, CR-001 to CR-003,
// FC-024).
func (a *App) stepCrash(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	if t.Claimed && t.Epoch == o.Epoch && t.Status == task.Working {
		rep, err := a.observe(ctx, t, &r)
		if err != nil {
			return nil, err
		}
		why := rep.Reason
		if why == "" {
			why = r.Reason
		}
		if why == "" {
			why = "the run ended without an answer"
		}
		crash := turn.Response{
			Turn: t.Turn, Epoch: o.Epoch, Outcome: "crashed", ExitCode: rep.ExitCode, Log: cut(rep.Log, names.LogTailBytes),
			Failure: &turn.Failure{Class: turn.Unknown, Reason: why}, Host: r.Host, Usage: r.Usage,
		}
		if rep.Class != "" {
			crash.Failure.Class = rep.Class
		}
		if err := a.recordAnswer(ctx, t, o, crash, turn.Crash); err != nil {
			return nil, err
		}
		_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
			if !t.Claimed || t.Epoch != o.Epoch || t.Status != task.Working {
				return change{}, errSettled
			}
			return a.crashed(ctx, t, o, r, why)
		})
		if err != nil && !errors.Is(err, errSettled) {
			return nil, err
		}
	}
	t, _, err = a.loadTask(ctx, p.Tenant, t.ID)
	if err != nil {
		return nil, err
	}
	type next struct {
		Resume  bool `json:"resume"`
		Seconds int  `json:"seconds"`
	}
	delays := names.ResumeDelays()
	if !mayResume(t, o) {
		return next{}, nil
	}
	why, err := a.closed(ctx, t)
	if err != nil {
		return nil, err
	}
	if why != nil {
		return next{}, a.holdResume(ctx, t, o, why)
	}
	return next{Resume: true, Seconds: int(delays[min(t.Resumes, len(delays)-1)] / time.Second)}, nil
}

// crashed settles a run that left no answer. A run that was stopped on somebody's
// word ends as a stop does; what a question, review or sync found is put back
// then (HA-028). The breaker counts only ends that speak about the agent (CR-021):
// a run that never said hello is no word about it.
func (a *App) crashed(ctx context.Context, t task.Task, o Op, r turn.Run, why string) (change, error) {
	ch := change{task: t}
	n := &ch.task
	n.Claimed, n.Why, n.Wait = false, cut(why, 500), nil
	left, err := a.crashRecord(ctx, t, o)
	if err != nil {
		return change{}, err
	}
	book(n, left.Usage)
	if r.Kind == turn.Work {
		if err := a.recheck(ctx, n); err != nil {
			return change{}, err
		}
		if err := a.withdraw(ctx, n, r); err != nil {
			return change{}, err
		}
	}
	c := task.Change{
		To: task.Interrupted, On: task.RunnerGone, Actor: identity.SystemActor(), Turn: o.ID, Reason: n.Why,
		Facts: task.Facts{TurnAge: a.Now().Sub(t.TurnBegan)},
	}
	switch {
	case r.Stop == turn.StopAsked && r.Kind.Restores():
		c.To, c.On, c.Reason = task.Restore(t.Prior, n.Pending()), task.Restored, "stopped"
		n.Why = ""
	case r.Kind.ReadOnly():
		// Nobody goes on with a question by himself: it has failed, and what it found
		// is put back (SY-019, SY-020).
		c.To, c.On, c.Reason = task.Restore(t.Prior, n.Pending()), task.Restored, n.Why
	case r.Stop == turn.StopAsked && r.StopBy != nil:
		c.On, c.Actor, c.Reason = task.Stop, *r.StopBy, "stopped"
		n.Why = c.Reason
	case !r.Hello.IsZero():
		n.Interruptions++
		n.Launches = 0
		a.tripped(ctx, *n, n.Why)
	case !r.Launched.IsZero():
		a.neverStarted(ctx, n)
		c.Reason = n.Why
	}
	if c.On == task.RunnerGone {
		if err := a.underGate(ctx, t, n, &c.Reason); err != nil {
			return change{}, err
		}
	}
	if err := a.move(&ch, c); err != nil {
		return change{}, err
	}
	return ch, a.thenEnd(&ch)
}

// neverStarted counts a launch whose supervisor never said a word: an image that
// cannot be pulled, or does not run here. It speaks of no agent, so it has a breaker
// of its own, and what it says names the cause.
func (a *App) neverStarted(ctx context.Context, n *task.Task) {
	n.Launches++
	a.alarm(ctx, names.MetricLaunch, "a run was launched and never started", *n, n.Why)
	if n.Launches >= names.Breaker {
		n.Why = cut(fmt.Sprintf("%d launches in a row never started: %s", n.Launches, n.Why), 500)
	}
}

// mayResume applies the stop hold, the breaker and the rule against resuming into
// a failed merge (CR-003, CR-009, CR-020).
func mayResume(t task.Task, o Op) bool {
	return t.Epoch == o.Epoch && !t.Claimed && t.Status == task.Interrupted && t.Then == nil && resumable(t)
}

// stepResume claims the next epoch on the system's behalf. Its note reads
// "Session interrupted and auto-resumed" (CR-008).
func (a *App) stepResume(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return nil, err
	}
	opID := a.IDs.New()
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if !mayResume(t, o) {
			return change{}, errSettled
		}
		return a.claim(ctx, t, set, identity.SystemActor(), opID, "", Begin{
			Verb: "auto_resume", On: task.AutoResume, Kind: turn.Work, Text: "Session interrupted and auto-resumed",
		})
	})
	switch {
	case errors.Is(err, errSettled):
		err = nil
	case gated(err):
		err = a.holdResume(ctx, t, o, err)
	}
	return struct{}{}, err
}
