package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func (a *App) visit(ctx context.Context, it store.Item) error {
	var err error
	switch it.Str(store.AttrType) {
	case "job":
		var j Job
		if j, err = decode[Job](it); err == nil {
			if j.Attempts == 0 && j.After.IsZero() {
				a.repaired(ctx, task.Task{Tenant: j.Tenant, Project: j.Project, ID: j.Task, Turn: id.Turn(j.Turn)}, "outbox "+string(j.Kind))
			}
			return a.Consume(ctx, it.Key)
		}
	case "transfer":
		var t Transfer
		if t, err = decode[Transfer](it); err == nil {
			err = a.serveTransfer(ctx, it.Key, t)
		}
		if err == nil {
			return nil
		}
	case "task":
		var t task.Task
		if t, err = decode[task.Task](it); err == nil {
			return a.look(ctx, t)
		}
	default:
		err = fmt.Errorf("a row of type %q is not the sweep's", it.Str(store.AttrType))
	}
	return errors.Join(err, a.putOff(ctx, it))
}

// putOff makes a row that nobody can serve due again much later.
func (a *App) putOff(ctx context.Context, it store.Item) error {
	return a.Store.Transact(ctx, store.Write{
		Act: store.Update, If: []store.Cond{store.Present()},
		Item: store.Item{Key: it.Key, Index: map[store.Index]store.Slot{store.Due: store.DueAt(it.Key, a.Now().Add(names.OutboxMost))}},
	})
}

// look finds what the events missed about one task (SY-003, SY-004): a claim
// whose execution never began or has closed, an accept that died, a branch that
// was merged by somebody else.
func (a *App) look(ctx context.Context, t task.Task) error {
	cur, ok, err := a.loadTask(ctx, t.Tenant, t.ID)
	if err != nil || !ok {
		return err
	}
	return errors.Join(a.lookAt(ctx, cur), a.touch(ctx, cur))
}

// LookAround looks at every task of a project that is held or on its way,
// whatever its row's time: a control plane that was away has missed the ends of
// runs (SY-040).
func (a *App) LookAround(ctx context.Context, tenant, project string) error {
	live, err := a.liveRows(ctx, identity.Caller{Tenant: tenant, Project: project})
	if err != nil {
		return err
	}
	var all error
	for _, l := range live {
		switch l.Status {
		case task.Working, task.Merging, task.Zombie, task.Interrupted:
			all = errors.Join(all, a.look(ctx, task.Task{Tenant: tenant, ID: l.ID}))
		default: // a person's move
		}
	}
	return all
}

// touch gives a task row its next due time without changing the task.
func (a *App) touch(ctx context.Context, t task.Task) error {
	k := a.part(t).Meta()
	idx := map[store.Index]store.Slot{}
	if at := a.dueTask(t, a.Now()); !at.IsZero() {
		if !at.After(a.Now()) {
			at = a.Now().Add(names.OutboxFirst)
		}
		idx[store.Due] = store.DueAt(k, at)
	}
	if t.Status.Terminal() {
		idx[store.Past] = store.PastAt(store.For(t.Tenant).Project(t.Project), t.Updated, t.ID)
	}
	err := a.Store.Transact(ctx, store.Write{
		Act: store.Update, Item: store.Item{Key: k, Index: idx}, If: []store.Cond{store.VersionIs(t.Version)},
	})
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return nil // whoever wrote gave it a time
	}
	return err
}

// dueTask says when a task row must next be looked at, zero for never: while a
// claim is held, while an automatic resume is to come, in zombie, which the system
// alone leads on, and, at rest, whenever somebody may have merged its branch.
func (a *App) dueTask(t task.Task, now time.Time) time.Time {
	switch {
	case t.Status == task.Pairing:
		return now.Add(names.PairSilence)
	case t.Claimed, t.Status == task.Merging:
		// Less often the longer nothing happened: the flow's own timers are first.
		return now.Add(min(max(now.Sub(t.Updated), names.BeatTimeout), 10*names.BeatTimeout))
	case stranded(t):
		return now
	case t.Status == task.Zombie:
		// It was left there: its work may be on its target already, or come later.
		return now.Add(min(max(now.Sub(t.Updated), names.OutboxFirst), names.OutboxMost))
	case waits(t):
		return later(t.Held.Until, now)
	case t.Status == task.Interrupted && t.Then == nil && resumable(t):
		return now.Add(names.BeatTimeout)
	case uncleaned(t):
		return now.Add(min(max(now.Sub(t.Updated), names.OutboxFirst), names.OutboxMost))
	case mergeable(t) && a.Local:
		return now.Add(min(max(now.Sub(t.Updated)/4, mergedLook), 10*mergedLook))
	}
	return time.Time{}
}

// mergedLook is how often a laptop asks git whether a resting task's branch was
// merged by hand, less often the longer it rests. Hosted, the forge tells.
const mergedLook = time.Minute

// stranded reports a status that only a fault or an import leaves (SY-009).
func stranded(t task.Task) bool {
	return t.Status == task.Blocked && !t.HadSession && t.Commits == 0 || t.Status == task.Backlog && t.Commits > 0
}

// mergeable reports whether a task at rest has work of its own that could have
// been merged elsewhere. A branch without commits of its own never has (B12).
func mergeable(t task.Task) bool {
	return (t.Status.Waiting() || t.Status == task.Interrupted) && !t.Claimed && t.Commits > 0 && t.Tip != "" && t.Tip != t.Base
}

func (a *App) lookAt(ctx context.Context, t task.Task) (err error) {
	switch {
	case t.Status == task.Merging:
		return a.resumeAccept(ctx, t, false)
	case t.Status == task.Zombie:
		_, err := a.mergedElsewhere(ctx, t)
		return err
	case t.Status == task.Pairing:
		return a.unpair(ctx, t)
	case stranded(t):
		return a.unstrand(ctx, t)
	case t.Claimed && t.Status == task.Working:
		return a.lookAtRun(ctx, t)
	case uncleaned(t):
		return a.cleanUp(ctx, t, accepted)
	case t.Status == task.Interrupted && late(t, t.Epoch):
		// An answer may have come since, and with it the process that was to follow it
		// have ended.
		if err := a.findLate(ctx, t); err != nil {
			return err
		}
		if t, _, err = a.loadTask(ctx, t.Tenant, t.ID); err != nil {
			return err
		}
	}
	if mergeable(t) {
		done, err := a.mergedElsewhere(ctx, t)
		if err != nil || done {
			return err
		}
	}
	if waits(t) && t.Held.Verb == "start" {
		return a.startHeld(ctx, t)
	}
	if t.Status == task.Interrupted && t.Then == nil && resumable(t) {
		why, err := a.closed(ctx, t)
		if err != nil {
			return err
		}
		o, _, err := a.operation(ctx, t.Tenant, string(t.Turn))
		if err != nil {
			return err
		}
		if why != nil {
			return a.holdResume(ctx, t, o, why)
		}
		return a.recover(ctx, t, o, 0)
	}
	return nil
}

// later is when a held launch is looked at again: at the time it waits for, and
// where nobody knows one, or it has passed, soon.
func later(until, now time.Time) time.Time {
	if until.After(now) {
		return until
	}
	if until.IsZero() {
		return now.Add(names.BeatTimeout)
	}
	return now
}

// lookAtRun looks at a claim that is held.
func (a *App) lookAtRun(ctx context.Context, t task.Task) error {
	o, _, err := a.operation(ctx, t.Tenant, string(t.Turn))
	if err != nil {
		return err
	}
	tr, err := a.turnOf(ctx, t, o)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%d", o.ID, tr.N)
	e, err := a.Engine.Describe(ctx, names.MachineTurn, name)
	switch {
	case errors.Is(err, engine.ErrNoExecution):
		a.repaired(ctx, t, "start of a turn's flow")
		return a.Engine.Start(ctx, names.MachineTurn, name, a.input(t.Tenant, o.ID, tr.N))
	case err != nil:
		return err
	case e.State == engine.Running:
		return a.lookAtProcess(ctx, t)
	}
	if t.Wait != nil {
		a.repaired(ctx, t, "timer of a turn's wait")
		return a.again(ctx, t, o)
	}
	// The execution is closed and the claim still held: recovery, by its one door.
	a.repaired(ctx, t, "end of a turn's flow")
	return a.recover(ctx, t, o, tr.N)
}

// lookAtProcess answers the token of a running execution for what its events were
// lost about: a hello, a report, the end of the process.
func (a *App) lookAtProcess(ctx context.Context, t task.Task) error {
	if err := a.answerToken(ctx, t, t.Epoch); err != nil {
		return err
	}
	r, ok, err := a.seenRun(ctx, t, t.Epoch)
	if err != nil || !ok || r.Ref == "" || r.State == RunReported {
		return err
	}
	if !a.Local && a.Now().Sub(r.Beat) < names.BeatStored {
		return nil // asking a cloud costs a call; a laptop's process table does not
	}
	rep, err := a.Runner.Observe(ctx, r.Ref)
	if err != nil || rep.Sight != runner.Gone {
		return err
	}
	return a.RunnerGone(ctx, t.Tenant, t.ID, t.Epoch, rep)
}

// recover starts a recovery of a turn, from the number n on, unless one runs.
func (a *App) recover(ctx context.Context, t task.Task, o Op, n int) error {
	for end := n + 100; n < end; n++ {
		rec := fmt.Sprintf("rec-%s-%d", o.ID, n)
		err := a.Engine.Start(ctx, names.MachineRecovery, rec, a.input(t.Tenant, o.ID, n))
		if !errors.Is(err, engine.ErrNameUsed) {
			return err
		}
		if d, derr := a.Engine.Describe(ctx, names.MachineRecovery, rec); derr != nil || d.State == engine.Running {
			return derr
		}
	}
	return nil
}

// unpair ends a pairing whose client has left no mark for a minute (SY-008).
func (a *App) unpair(ctx context.Context, t task.Task) error {
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		r, _, err := a.loadRun(ctx, t, t.Epoch)
		if err != nil {
			return change{}, err
		}
		last := t.TurnBegan
		if r.Beat.After(last) {
			last = r.Beat
		}
		if t.Status != task.Pairing || a.Now().Sub(last) < names.PairSilence {
			return change{}, errSettled
		}
		ch := change{task: t}
		n := &ch.task
		n.Claimed, n.Why = false, "the pairing session is gone"
		if err := a.recheck(ctx, n); err != nil {
			return change{}, err
		}
		return ch, a.move(&ch, task.Change{
			To: task.Rest(n.Pending()), On: task.PairEnded, Actor: identity.SystemActor(), Turn: string(t.Turn), Reason: n.Why,
		})
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// unstrand brings a stranded status back into line (SY-009).
func (a *App) unstrand(ctx context.Context, t task.Task) error {
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if !stranded(t) {
			return change{}, errSettled
		}
		ch := change{task: t}
		c := task.Change{To: task.Backlog, On: task.Reconcile, Actor: identity.SystemActor(), Reason: "it has no session"}
		if t.Status == task.Backlog {
			c.To, c.Reason = task.Blocked, "its branch has commits"
			c.Facts.Commits = true
		}
		return ch, a.move(&ch, c)
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// Absorber is a Repository that can tell whether a task's work is in its target
// although no accept put it there.
type Absorber interface {
	// Absorbed returns the target's head when it holds all of the task's own work,
	// merged, squashed or picked, and "" when it does not.
	Absorbed(ctx context.Context, t task.Task) (head string, err error)
}

// mergedElsewhere completes a task whose branch was merged by hand (SY-007, B11).
func (a *App) mergedElsewhere(ctx context.Context, t task.Task) (bool, error) {
	repo, ok := a.repo(t).(Absorber)
	if !ok {
		return false, nil
	}
	head, err := repo.Absorbed(ctx, t)
	if err != nil || head == "" {
		return false, err
	}
	return true, a.zombie(ctx, t, head)
}

// zombie leads a task whose work is in its target to complete, by way of the
// status that says so, in one transaction (TR-69). Nothing is deleted before the
// landing is proven once more (AP-023).
func (a *App) zombie(ctx context.Context, t task.Task, head string) error {
	was := t
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Status != task.Zombie && (!mergeable(t) || t.Tip != was.Tip) {
			return change{}, errSettled
		}
		ch := change{task: t}
		sys := identity.SystemActor()
		if t.Status != task.Zombie {
			if err := a.move(&ch, task.Change{To: task.Zombie, On: task.FoundMerged, Actor: sys, Reason: "its branch is merged into " + t.Target}); err != nil {
				return change{}, err
			}
		}
		if err := a.move(&ch, task.Change{To: task.Complete, On: task.Confirmed, Actor: sys, Reason: "merged as part of " + short(head)}); err != nil {
			return change{}, err
		}
		ch.task.Merge, ch.task.Claimed, ch.task.Why = head, false, ""
		completed(&ch)
		ch.jobs = append(ch.jobs, Job{Kind: Clean, Epoch: t.Epoch, Text: "merged elsewhere"})
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// completed adds to a change what every completion brings: the token's end and the
// notice on the parent.
func completed(ch *change) {
	ch.task.Salt = "" // its agent's token is over
	if t := ch.task; t.Parent != "" {
		ch.jobs = append(ch.jobs, Job{
			Kind: Notify, Text: fmt.Sprintf("[Subtask accepted] %s merged as %s", t.Name(), t.Merge), Turn: string(t.Parent),
		})
	}
}

// NextSweep is when a sweep should look again.
func NextSweep(local bool) time.Duration {
	if local {
		return names.SweepLocal
	}
	return names.SweepHosted
}
