package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// merging loads the task of an accept step. done is true when the merge has been
// recorded already, so that a repeated step changes nothing.
func (a *App) merging(ctx context.Context, p Payload) (o Op, t task.Task, done bool, err error) {
	o, t, err = a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return o, t, false, err
	}
	if t.Accept == nil || t.Accept.Operation != o.ID {
		return o, t, false, fenced(t, o.Epoch)
	}
	if t.Status == task.Complete {
		return o, t, true, nil
	}
	if t.Epoch != o.Epoch || !t.Claimed || t.Status != task.Merging {
		return o, t, false, fenced(t, o.Epoch)
	}
	return o, t, false, nil
}

// setAccept records the progress of the merge phase.
func (a *App) setAccept(ctx context.Context, o Op, t task.Task, set func(*task.MergePhase)) error {
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed || t.Status != task.Merging {
			return change{}, fenced(t, o.Epoch)
		}
		ch := change{task: t}
		acc := *t.Accept
		set(&acc)
		ch.task.Accept = &acc
		return ch, nil
	})
	return err
}

// stepDescribe makes the task's branch what its record says before it is
// described. The description is written with the intent, which needs it first.
func (a *App) stepDescribe(ctx context.Context, p Payload) (any, error) {
	_, t, done, err := a.merging(ctx, p)
	if err != nil || done {
		return struct{}{}, err
	}
	return struct{}{}, a.finishCommit(ctx, t)
}

// describe is the message of a task's merge commit: the goal, the commits, the
// reason. The same task at the same tip is always described alike.
func (a *App) describe(ctx context.Context, t task.Task) (string, error) {
	subjects, err := a.repo(t).Subjects(ctx, t.Base, t.Tip)
	if err != nil {
		return "", err
	}
	title, why := described(t)
	return turn.MergeMessage(t.ID, title, why, subjects), nil
}

// described is what the merge commit of a task says besides its commits.
func described(t task.Task) (title, reason string) {
	title, _ = text.Cut(text.Line(t.Goal), 72)
	return title, cut(text.Field(t.Accept.Reason), 500)
}

// stepIntent records the intended target head and merge commit before anything is
// merged, so that a resume can tell landed from not landed (AP-018). A target
// that moved since an earlier visit is computed anew, unless that commit landed.
func (a *App) stepIntent(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil || done {
		return struct{}{}, err
	}
	return struct{}{}, a.intend(ctx, o, t)
}

func (a *App) intend(ctx context.Context, o Op, t task.Task) error {
	if landed, err := a.landed(ctx, t); err != nil || landed {
		return err
	}
	if err := a.parentSettled(ctx, t); err != nil {
		return err
	}
	l, err := a.repo(t).Plan(ctx, t)
	if err != nil {
		return a.planFault(t, err)
	}
	message, err := a.describe(ctx, t)
	if err != nil {
		return err
	}
	commit, err := a.repo(t).Commit(ctx, l, message, t.Accept.Began)
	if err != nil {
		return err
	}
	return a.setAccept(ctx, o, t, func(m *task.MergePhase) {
		m.TargetHead, m.Tree, m.Commit, m.Step = l.TargetHead, l.Tree, commit, "intended"
	})
}

func (a *App) landed(ctx context.Context, t task.Task) (bool, error) {
	if t.Accept == nil || t.Accept.Commit == "" {
		return false, nil
	}
	return a.repo(t).Contains(ctx, t.Target, t.Accept.Commit)
}

// stepLand merges, at most once: a commit the target already contains is not
// merged again (AP-010, SM-032), under the lease of the target branch (GT-023).
func (a *App) stepLand(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil || done {
		return struct{}{}, err
	}
	if landed, err := a.landed(ctx, t); err != nil {
		return nil, err
	} else if landed {
		return struct{}{}, a.finishLanding(ctx, t)
	}
	// Merges into one branch queue here, so that many accepts at once do not use up
	// their retries on each other; the lease is what keeps other processes out.
	defer a.lanes.enter("branch/" + t.Target)()
	release, err := a.lease(ctx, t, "branch/"+t.Target, o.ID)
	if err != nil {
		return nil, err
	}
	carriedOut := false
	defer func() { release(carriedOut) }()
	for n := 0; ; n++ {
		err := a.landOnce(ctx, t)
		if err == nil {
			carriedOut = true
			return struct{}{}, nil
		}
		if fault.Code(err) != moved {
			return nil, err
		}
		if n == 2 {
			return nil, fault.Wrap(fault.Unavailable, err, "%s keeps moving", t.Target)
		}
		// The target moved between intent and landing: the landing is computed, and
		// its intent recorded, anew.
		if _, err := a.stepIntent(ctx, p); err != nil {
			return nil, err
		}
		if _, t, done, err = a.merging(ctx, p); err != nil || done {
			return struct{}{}, err
		}
	}
}

// finishLanding lands again what a crash may have left between the target's ref
// and the index of its checkout. What has landed whole is left alone; so is a
// parent's workspace that has gone on since (AP-013).
func (a *App) finishLanding(ctx context.Context, t task.Task) error {
	l := Landing{
		Target: t.Target, TargetHead: t.Accept.TargetHead, Tip: t.Tip, Tree: t.Accept.Tree, Task: string(t.ID),
	}
	p, below, err := a.parentOf(ctx, t)
	if err != nil {
		return err
	}
	if below {
		if p.Tip != t.Accept.Commit {
			return nil
		}
		l.Parent = p.Workspace
	}
	return a.repo(t).Land(ctx, l, t.Accept.Commit)
}

// filterFailed is the code of a landing refused because a content filter of the
// person's own fails in the target's checkout: trying again changes nothing.
const filterFailed = "filter_failed"

// moved is the code of a landing refused because its target went on.
const moved = "target_moved"

func hasMoved(t task.Task) error {
	return &fault.Error{Code: moved, Kind: fault.Conflict, Public: t.Target + " has moved"}
}

func (a *App) landOnce(ctx context.Context, t task.Task) error {
	l := Landing{
		Target: t.Target, TargetHead: t.Accept.TargetHead, Tip: t.Tip, Tree: t.Accept.Tree, Task: string(t.ID),
	}
	p, below, err := a.parentOf(ctx, t)
	if err != nil {
		return err
	}
	if below {
		l.Parent = p.Workspace
	}
	paths, at, err := a.repo(t).Overlap(ctx, l)
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		return fault.New(fault.Conflict, "%s is checked out at %s with edits to files this change touches: %s", t.Target, at, joined(paths))
	}
	if below {
		if err := a.reserve(ctx, t, p); err != nil {
			return err
		}
	}
	err = a.repo(t).Land(ctx, l, t.Accept.Commit)
	if err == nil {
		return nil
	}
	if below {
		// Whatever stopped the landing, the parent's row must not name a commit its
		// branch does not have.
		if landed, lerr := a.landed(ctx, t); lerr != nil || landed {
			return errors.Join(lerr, err)
		}
		if uerr := a.unreserve(ctx, t, p); uerr != nil {
			return errors.Join(uerr, err)
		}
	}
	if fault.KindOf(err) == fault.Conflict && fault.Code(err) != filterFailed {
		return hasMoved(t)
	}
	return err
}

// stepComplete verifies the landing against the target and commits the accept:
// from here on the task is complete, whatever fails after (SM-031, AP-023).
func (a *App) stepComplete(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil || done {
		return struct{}{}, err
	}
	landed, err := a.landed(ctx, t)
	if err != nil {
		return nil, err
	}
	if !landed {
		return nil, fault.New(fault.Unavailable, "%s does not contain the merge of %s", t.Target, t.Name())
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed || t.Status != task.Merging {
			return change{}, fenced(t, o.Epoch)
		}
		ch := change{task: t}
		if err := a.move(&ch, task.Change{To: task.Complete, On: task.Landed, Actor: t.Accept.Actor, Reason: t.Accept.Reason, Turn: o.ID}); err != nil {
			return change{}, err
		}
		acc := *t.Accept
		acc.Step, acc.Failure = "complete", ""
		ch.task.Accept, ch.task.Merge, ch.task.Claimed = &acc, t.Accept.Commit, false
		// The clean-up is the flow's own next step; the task's due time stands behind
		// it for as long as there is a workspace.
		completed(&ch)
		if !uncleaned(ch.task) {
			ch.jobs = append(ch.jobs, Job{Kind: Clean, Epoch: t.Epoch, Text: accepted, Turn: o.ID, After: a.Now().Add(names.OutboxFirst)})
		}
		return ch, nil
	})
	return struct{}{}, err
}

// stepAbort ends a merge phase that cannot succeed: the prior status comes back
// and a comment of the system says why, before anybody is answered (AP-016,
// AP-022). A merge that landed after all is completed instead.
func (a *App) stepAbort(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil || done {
		return struct{}{}, err
	}
	if landed, err := a.landed(ctx, t); err != nil {
		return nil, err
	} else if landed {
		return a.stepComplete(ctx, p)
	}
	why := reason(p.Cause)
	if why == "" {
		why = p.Error
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed || t.Status != task.Merging {
			return change{}, errSettled
		}
		ch := change{task: t}
		if err := a.undo(&ch, t.Accept.Actor, cut(why, 500)); err != nil {
			return change{}, err
		}
		a.systemComment(&ch, "The accept was given up: "+cut(why, 900)+" Nothing was merged.")
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		err = nil
	}
	return map[string]string{"verdict": "aborted"}, err
}

// systemComment adds lazy's own record to a change; it is never delivered.
func (a *App) systemComment(ch *change, said string) {
	ch.task.Comments++
	ch.writes = append(ch.writes, commentWrite(a.part(ch.task), raise.Comment{
		ID: a.IDs.New(), Seq: ch.task.Comments, Text: said, Actor: identity.SystemActor(),
		At: a.Now(), System: true, Version: 1,
	}, 0))
}

// stepAcceptFailed ends an execution of the accept flow that could not go on. The
// accept itself is not undone: the person already said accept (SM-017). It is
// resumed, at most three times (AP-019, SM-033).
func (a *App) stepAcceptFailed(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if fault.Code(err) == "fenced" || done {
		return struct{}{}, nil
	}
	if err != nil {
		return nil, err
	}
	why := cut(reason(p.Cause), 500)
	if why == "" {
		why = p.Error
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed || t.Accept.N != p.N {
			return change{}, errSettled
		}
		ch := change{task: t}
		acc := *t.Accept
		acc.Failure = why
		if acc.Resumes < names.AcceptResumes {
			acc.Resumes++
			acc.N++
			ch.jobs = []Job{{
				Kind: StartFlow, Flow: names.MachineAccept, Exec: fmt.Sprintf("%s-%d", o.ID, acc.N), Turn: o.ID, N: acc.N,
				Epoch: o.Epoch, After: a.Now().Add(names.OutboxFirst),
			}}
		} else {
			a.giveUp(&ch, &acc)
		}
		ch.task.Accept = &acc
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		err = nil
	}
	return struct{}{}, err
}

// giveUp leaves an accept to a person, once none of its executions runs: until then
// it may still merge, and nothing may undo it (SM-033).
func (a *App) giveUp(ch *change, m *task.MergePhase) {
	m.GaveUp = true
	a.systemComment(ch, "The accept failed "+fmt.Sprint(names.AcceptResumes)+" more times and waits for a person: "+m.Failure)
}

// resumeAccept starts the next execution of an accept whose last one is proven
// not running. now says that a person asked.
func (a *App) resumeAccept(ctx context.Context, t task.Task, now bool) error {
	acc := t.Accept
	e, err := a.Engine.Describe(ctx, names.MachineAccept, fmt.Sprintf("%s-%d", acc.Operation, acc.N))
	switch {
	case errors.Is(err, engine.ErrNoExecution):
		return a.Engine.Start(ctx, names.MachineAccept, fmt.Sprintf("%s-%d", acc.Operation, acc.N), a.input(t.Tenant, acc.Operation, acc.N))
	case err != nil:
		return err
	case e.State == engine.Running:
		return a.lookAtProcess(ctx, t) // of its broker, where it has one
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(cur task.Task) (change, error) {
		if cur.Status != task.Merging || cur.Accept == nil || cur.Accept.Operation != acc.Operation || cur.Accept.N != acc.N {
			return change{}, errSettled
		}
		ch := change{task: cur}
		next := *cur.Accept
		if !now && next.Resumes >= names.AcceptResumes {
			if next.GaveUp {
				return change{}, errSettled
			}
			if next.Failure == "" {
				next.Failure = "its last execution ended without a word"
			}
			a.giveUp(&ch, &next)
			ch.task.Accept = &next
			return ch, nil
		}
		next.N++
		next.Failure, next.GaveUp = "", false // it is under way again
		if !now {
			next.Resumes++
		}
		ch.task.Accept = &next
		ch.jobs = []Job{{
			Kind: StartFlow, Flow: names.MachineAccept, Exec: fmt.Sprintf("%s-%d", next.Operation, next.N),
			Turn: next.Operation, N: next.N, Epoch: cur.Epoch,
		}}
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}
