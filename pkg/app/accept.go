package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// AcceptIn is a request to merge a task.
type AcceptIn struct {
	Reason        string
	Approve       []string // protected files
	Resolve       []Resolution
	AllowComments bool // a person's: merge although comments were never read
}

// Accepted answers an accept whose merge phase has begun or is being resumed.
type Accepted struct {
	Task      id.Task `json:"task_id"`
	Code      string  `json:"code"`
	Status    string  `json:"status"`
	Operation string  `json:"operation_id"`
	Resumed   bool    `json:"resumed,omitempty"`
	Target    string  `json:"target"`
	Merge     string  `json:"merge_sha,omitempty"`
	*Confirmation
}

// Accept checks every precondition before any write, then claims the task for
// the merge phase and lets the accept flow do it; the request only follows
// (AP-003, AP-017). Accepting a task whose accept is in flight resumes that one
// (SM-032); of two concurrent accepts the second follows the first (AP-010).
func (a *App) Accept(ctx context.Context, c Call, word string, in AcceptIn) (Accepted, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Accepted{}, err
	}
	if out, ok, err := a.follow(ctx, c, t); ok || err != nil {
		return out, err
	}
	// The rules may have changed since the task came to rest.
	if err := a.recheck(ctx, &t); err != nil {
		return Accepted{}, err
	}
	if err := a.preflight(ctx, c, t, in); err != nil {
		return Accepted{}, err
	}
	if need, err := a.confirmAccept(ctx, c, t); err != nil || need != nil {
		return Accepted{Task: t.ID, Code: t.Code, Status: string(t.Status), Target: t.Target, Confirmation: need}, err
	}
	opID, err := a.operationID(ctx, c)
	if err != nil {
		return Accepted{}, err
	}
	out := Accepted{Task: t.ID, Code: t.Code, Operation: opID, Target: t.Target}
	followed := false
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(now task.Task) (change, error) {
		if err := related(c, now); err != nil {
			return change{}, err
		}
		if f, ok, err := a.follow(ctx, c, now); ok || err != nil {
			out, followed = f, true
			return change{}, errors.Join(err, errSettled)
		}
		if now.Version == t.Version {
			now.Violations = t.Violations
		} else {
			// Somebody wrote since the pre-flight: look again before merging.
			if err := a.recheck(ctx, &now); err != nil {
				return change{}, err
			}
			if err := a.preflight(ctx, c, now, in); err != nil {
				return change{}, err
			}
		}
		ch := change{task: now}
		n := &ch.task
		n.Violations = approve(now.Violations, in.Approve)
		if len(in.Resolve) > 0 {
			ws, next, err := a.resolveRaised(ctx, c, *n, in.Resolve)
			if err != nil {
				return change{}, err
			}
			ch.task, ch.writes = next, append(ch.writes, ws...)
			n = &ch.task
		}
		prior := now.Status
		if err := a.move(&ch, task.Change{To: task.Merging, On: task.Accept, Actor: c.Actor(), Turn: opID, Reason: text.Prose(in.Reason)}); err != nil {
			return change{}, verbHint(err, now, task.Accept)
		}
		n.Prior, n.Epoch, n.Claimed = prior, now.Epoch+1, true
		n.Accept = &task.MergePhase{
			Operation: opID, N: 1, Actor: c.Actor(), Reason: text.Prose(in.Reason), Step: "claimed",
			Tip: now.Tip, Began: a.Now(),
		}
		ch.op = &Op{
			ID: opID, Kind: "accept", Verb: "accept", Project: now.Project, Task: now.ID, Epoch: n.Epoch,
			Caller: c.Who.Hash, At: a.Now(),
		}
		ch.writes = append(ch.writes, a.confirmWrites(c)...)
		ch.follow = true // the flow is started
		out.Status = string(task.Merging)
		ch.result = out
		return ch, nil
	})
	if followed {
		return out, nil
	}
	return out, err
}

// follow answers an accept of a task that is being, or was, accepted.
func (a *App) follow(ctx context.Context, c Call, t task.Task) (Accepted, bool, error) {
	if t.Accept == nil || t.Status != task.Complete && t.Status != task.Merging {
		return Accepted{}, false, nil
	}
	out := Accepted{Task: t.ID, Code: t.Code, Status: string(t.Status), Resumed: true, Target: t.Target, Merge: t.Merge}
	if t.Status == task.Merging {
		if err := a.resumeAccept(ctx, t, true); err != nil {
			return out, true, err
		}
	}
	return out, true, a.followed(ctx, c, t, &out)
}

// preflight holds every gate of an accept. It only reads.
func (a *App) preflight(ctx context.Context, c Call, t task.Task, in AcceptIn) error {
	switch {
	case t.Status == task.Interrupted:
		return refusal.Of(refusal.InterruptedEnding, t.Name())
	case t.Status == task.Working && t.Claimed:
		return busy(t)
	case !t.Status.Waiting():
		return verbHint(refusal.Of(refusal.StatusNotAllowed, "accept", t.Status.Words(), "blocked, conflict (protected files), submitted, merging"), t, task.Accept)
	}
	if err := a.parentRests(ctx, c, t); err != nil {
		return err
	}
	if t.Workspace != nil {
		if err := a.clean(ctx, t); err != nil {
			return err
		}
	}
	if t.Tip == "" || t.Tip == t.Base {
		return fault.New(fault.Conflict, "%s has no commits, so there is nothing to merge", t.Name()).
			WithNext("Give it a turn that commits, or close it.")
	}
	if err := a.raisedCovered(ctx, t, in.Resolve); err != nil {
		return err
	}
	var open []string
	for _, v := range approve(t.Violations, in.Approve) {
		if !v.Approved {
			line := v.Path
			if v.Reason != "" {
				line += " (" + v.Reason + ")"
			}
			open = append(open, line)
		}
	}
	if len(open) > 0 {
		return refusal.Of(refusal.ProtectedPending, joined(open)).WithDetail("paths", open)
	}
	if t.Queued > 0 && !(in.AllowComments && c.Who.Person()) {
		return refusal.Of(refusal.QueuedComments, t.Queued, "people")
	}
	l, err := a.repo(t).Plan(ctx, t)
	if err != nil {
		return a.planFault(t, err)
	}
	if p, below, err := a.parentOf(ctx, t); err != nil {
		return err
	} else if below {
		l.Parent = p.Workspace
	}
	if paths, at, err := a.repo(t).Overlap(ctx, l); err != nil || len(paths) > 0 {
		if err != nil {
			return err
		}
		return refusal.Of(refusal.TargetOverlap, t.Target, at, joined(paths)).WithDetail("paths", paths)
	}
	return nil
}

// planFault says what to do about a landing that cannot be computed (AP-022).
func (a *App) planFault(t task.Task, err error) error {
	if mc, ok := errors.AsType[*MergeConflict](err); ok {
		return fault.New(fault.Conflict, "%s conflicts with %s in: %s", t.Name(), t.Target, joined(mc.Files)).
			WithNext("Sync the task, resolve the conflict, accept again.").WithDetail("files", mc.Files)
	}
	return err
}

// parentRests refuses to merge under a parent's running work. The one exemption
// is the parent's own agent, in its own turn, accepting a direct subtask (AP-011,
// AP-012, CM-042).
func (a *App) parentRests(ctx context.Context, c Call, t task.Task) error {
	if t.Parent == "" {
		return nil
	}
	p, ok, err := a.loadTask(ctx, t.Tenant, t.Parent)
	if err != nil || !ok || !p.Status.Active() {
		return err
	}
	own := c.Who.Kind == identity.Task && c.Who.Task() == p.ID
	if p.Status == task.Working && own && (c.Who.Epoch == 0 || c.Who.Epoch == p.Epoch) {
		return nil
	}
	return refusal.Of(refusal.ParentActive, p.Name(), p.Status.Words())
}

// approve marks the named files; an approval once given stays given, and naming
// it again always succeeds (SM-007, PF-004).
func approve(vs []task.Violation, names []string) []task.Violation {
	out := slices.Clone(vs)
	for i := range out {
		if slices.Contains(names, out[i].Path) {
			out[i].Approved = true
		}
	}
	return out
}

// raisedCovered demands that the same accept decides every open blocking item
// (AP-001, RI-007).
func (a *App) raisedCovered(ctx context.Context, t task.Task, rs []Resolution) error {
	if t.Blocking == 0 {
		return nil
	}
	var open []string
	err := a.eachRaised(ctx, t, func(it raise.Item) bool {
		if it.Blocking && it.State == "open" && !slices.ContainsFunc(rs, func(r Resolution) bool { return r.Raised == it.ID }) {
			open = append(open, it.ID+" "+it.Title)
		}
		return true
	})
	if err != nil || len(open) == 0 {
		return err
	}
	return refusal.Of(refusal.RaisedUnresolved, len(open), strings.Join(open, "; ")).WithDetail("raised", open)
}

// confirmAccept makes a tool's accept two calls, unless the change is tiny: few
// lines in few files, nothing protected, nothing raised (CF-007).
func (a *App) confirmAccept(ctx context.Context, c Call, t task.Task) (*Confirmation, error) {
	if c.Who.Person() {
		return nil, nil
	}
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return nil, err
	}
	d, err := a.repo(t).Diff(ctx, DiffQuery{Base: t.Base, Tip: t.Tip, MaxBytes: 1})
	if err != nil {
		return nil, err
	}
	lines := 0
	for _, f := range d.Files {
		lines += f.Added + f.Deleted
	}
	if len(d.Files) <= set.TinyFiles && lines <= set.TinyLines && len(t.Violations) == 0 && t.Blocking == 0 {
		return nil, nil
	}
	return a.confirm(ctx, c, t, Guidance{
		Will:   fmt.Sprintf("%d changed lines in %d files are merged into %s as one commit, and the task is complete.", lines, len(d.Files), t.Target),
		Cannot: "The merge commit stays on " + t.Target + ".",
		LookAt: "lazy_diff and lazy_show of this task",
	})
}

func acceptGivenUp(t task.Task) bool {
	return t.Status == task.Merging && t.Accept != nil && t.Accept.GaveUp
}

// acceptRests refuses a verb that could undo an accept: while one may still merge,
// and for good once it has, though it was given up (SM-032, SM-033).
func (a *App) acceptRests(ctx context.Context, t task.Task, verb string) error {
	if t.Status != task.Merging {
		return nil
	}
	landed, err := a.landed(ctx, t)
	if err != nil {
		return err
	}
	if landed || !acceptGivenUp(t) {
		return refusal.Of(refusal.AcceptPending, t.Name(), verb)
	}
	return nil
}

// undo leaves the merge phase for the recorded prior status (SM-025, SM-030).
func (a *App) undo(ch *change, by identity.Actor, why string) error {
	to := task.Undo(ch.task.Prior, ch.task.Pending())
	if err := a.move(ch, task.Change{To: to, On: task.Aborted, Actor: by, Reason: why, Turn: ch.task.Accept.Operation}); err != nil {
		return err
	}
	ch.task.Claimed = false
	acc := *ch.task.Accept
	acc.Failure = why
	ch.task.Accept = &acc
	return nil
}
