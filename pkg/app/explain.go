package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Fact is one thing that is true of a task at this moment.
type Fact struct {
	About string `json:"about" jsonschema:"what it is about: status, run, process, flow, order, breaker, accept or words"`
	Says  string `json:"says" jsonschema:"what is true of it"`
}

// Explained says why a task is where it is, what happens next without anybody, and
// what a person can type.
type Explained struct {
	Task   id.Task   `json:"task_id" jsonschema:"full id"`
	Code   string    `json:"code" jsonschema:"the task's code"`
	Status string    `json:"status" jsonschema:"its status"`
	Facts  []Fact    `json:"facts" jsonschema:"what is known about it, most telling first"`
	Next   string    `json:"next" jsonschema:"what happens next by itself"`
	At     time.Time `json:"at,omitzero" jsonschema:"when it is looked at next at the latest"`
	Do     []string  `json:"do" jsonschema:"what a person can type, best first"`
}

// explainer gathers the facts about one task.
type explainer struct {
	a   *App
	t   task.Task
	out Explained
	run turn.Run
	rep runner.Report
}

func (x *explainer) fact(about, format string, args ...any) {
	x.out.Facts = append(x.out.Facts, Fact{about, text.Field(fmt.Sprintf(format, args...))})
}

// Explain looks at one task from all sides: its row, its run and process, its
// flow, the work ordered for it, and its counts. It changes nothing.
func (a *App) Explain(ctx context.Context, c Call, word string) (Explained, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Explained{}, err
	}
	x := &explainer{a: a, t: t, out: Explained{Task: t.ID, Code: t.Code, Status: string(t.Status), Facts: []Fact{}, Do: []string{}}}
	x.fact("status", "%s since %s, by %s (%s)", t.Status.Words(), stamp(t.Updated), t.Last.Actor, t.Last.Did)
	if t.Why != "" {
		x.fact("status", "because: %s", t.Why)
	}
	for _, look := range []func(context.Context) error{x.process, x.flow, x.ordered} {
		if err := look(ctx); err != nil {
			return Explained{}, err
		}
	}
	x.counts()
	if it, err := a.Store.Get(ctx, a.part(t).Meta()); err == nil {
		if at, ok := store.DueTime(it.Index[store.Due]); ok {
			x.out.At = at
		}
	}
	x.verdict()
	return x.out, nil
}

// process says what is known of the present run and its process.
func (x *explainer) process(ctx context.Context) error {
	if x.t.Epoch == 0 {
		return nil
	}
	r, ok, err := x.a.seenRun(ctx, x.t, x.t.Epoch)
	if err != nil || !ok {
		return err
	}
	x.run = r
	if !x.t.Claimed {
		return nil
	}
	if w := x.t.Wait; w != nil {
		x.fact("run", "none is kept while it waits until %s: %s", stamp(w.Until), r.Retry)
		return nil
	}
	x.fact("run", "run %d is %s, begun %s%s%s", r.Epoch, r.State, stamp(r.Claimed), since(", last sign of life ", r.Beat), retrying(r))
	rep, err := x.a.observe(ctx, x.t, &r)
	if err != nil {
		x.fact("process", "cannot be looked at now: %v", err)
		return nil
	}
	x.rep = rep
	switch rep.Sight {
	case runner.Gone:
		x.fact("process", "gone: %s", rep.Reason)
	case runner.Alive:
		x.fact("process", "alive")
	case runner.Unclear:
		x.fact("process", "nothing can be said about it, so it counts as alive")
	}
	return nil
}

func since(what string, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return what + stamp(at)
}

func retrying(r turn.Run) string {
	if r.Retry == "" {
		return ""
	}
	return ", trying again: " + r.Retry
}

// flow says where the executions of the present operation stand.
func (x *explainer) flow(ctx context.Context) error {
	if x.t.Status == task.Merging && x.t.Accept != nil {
		m := x.t.Accept
		x.fact("accept", "last recorded step %q, resumed %d of %d times by itself%s", m.Step, m.Resumes, names.AcceptResumes, said(", last failure: ", m.Failure))
		return x.execution(ctx, names.MachineAccept, fmt.Sprintf("%s-%d", m.Operation, m.N))
	}
	if x.t.Turn == "" || x.t.Status.Waiting() || x.t.Status.Terminal() {
		return nil
	}
	o, _, err := x.a.operation(ctx, x.t.Tenant, string(x.t.Turn))
	if err != nil {
		return err
	}
	tr, err := x.a.turnOf(ctx, x.t, o)
	if err != nil {
		return err
	}
	if err := x.execution(ctx, names.MachineTurn, fmt.Sprintf("%s-%d", o.ID, tr.N)); err != nil {
		return err
	}
	for n := tr.N; n >= 0; n-- {
		name := fmt.Sprintf("rec-%s-%d", o.ID, n)
		if _, err := x.a.Engine.Describe(ctx, names.MachineRecovery, name); errors.Is(err, engine.ErrNoExecution) {
			continue
		}
		return x.execution(ctx, names.MachineRecovery, name)
	}
	return nil
}

func said(what, s string) string {
	if s == "" {
		return ""
	}
	return what + s
}

func (x *explainer) execution(ctx context.Context, machine, name string) error {
	e, err := x.a.Engine.Describe(ctx, machine, name)
	if errors.Is(err, engine.ErrNoExecution) {
		x.fact("flow", "%s is ordered and has not begun", machine)
		return nil
	}
	if err != nil {
		return err
	}
	switch e.State {
	case engine.Running:
		x.fact("flow", "%s runs since %s", machine, stamp(e.Started))
	case engine.Succeeded:
		x.fact("flow", "%s is over", machine)
	default:
		x.fact("flow", "%s ended %s: %s %s", machine, e.State, e.Error, e.Cause)
	}
	return nil
}

// ordered lists the work that waits in the outbox, and what of a finished task is
// still to be removed.
func (x *explainer) ordered(ctx context.Context) error {
	if t := x.t; t.Status.Terminal() && t.Workspace != nil {
		switch {
		case t.Workspace.Kept != "":
			x.fact("order", "its workspace was kept at %s: %s", t.Workspace.Tree, t.Workspace.Kept)
		case t.Accept != nil && t.Accept.Failure != "":
			x.fact("order", "%s", t.Accept.Failure)
		default:
			x.fact("order", "its workspace and branch are to be removed")
		}
	}
	var bad error
	err := store.All(ctx, x.a.Store, store.Query{PK: x.a.part(x.t).PK, Prefix: "OUT#"}, func(it store.Item) bool {
		j, err := decode[Job](it)
		if err != nil {
			bad = err
			return false
		}
		at, _ := store.DueTime(it.Index[store.Due])
		x.fact("order", "%s is to be done%s, tried %d times%s", j.Kind, since(", at the latest ", at), j.Attempts, said(": ", j.Error))
		return true
	})
	return errors.Join(err, bad)
}

// counts says what the breaker and the words that wait are.
func (x *explainer) counts() {
	t := x.t
	if t.Interruptions > 0 || t.Resumes > 0 {
		x.fact("breaker", "%d of %d interruptions in a row, %d of %d automatic resumes", t.Interruptions, names.Breaker, t.Resumes, names.AutoResumes)
	}
	if t.Launches > 0 {
		x.fact("breaker", "%d of %d launches in a row never started", t.Launches, names.Breaker)
	}
	if t.Hold {
		x.fact("breaker", "somebody stopped it, so it is held")
	}
	if len(t.MidMerge) > 0 {
		x.fact("breaker", "%s", MergeState(t.MidMerge))
	}
	if t.Queued > 0 {
		x.fact("words", "%d comments wait for the next turn", t.Queued)
	}
	if t.Blocking > 0 {
		x.fact("words", "%d open items hold the accept", t.Blocking)
	}
	if n := t.Pending(); n > 0 {
		x.fact("words", "%d protected files wait for approval", n)
	}
}
