package app_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// walk is the proof of one row of the table of moves: its actors really make the
// move, by the use cases a surface calls and the steps a flow runs.
type walk struct {
	*rig
	id       string
	from, to task.Status
	seen     map[id.Task]int // how often a task's history names the row
	made     int
	other    id.Task // whose agent is no relation of any task under test
}

// TestTransitionRows proves the rows of the table of moves (lifecycle 1.1) one by
// one. A row whose verb, or one of whose triggers, does not exist yet is missing here.
func TestTransitionRows(t *testing.T) {
	for _, row := range slices.Concat(turnRows(), restRows(), mergeRows(), endRows()) {
		t.Run(row.id, func(t *testing.T) {
			req.Covers(t, row.id)
			w := &walk{rig: newRig(t), id: row.id, from: row.from, to: row.to, seen: map[id.Task]int{}}
			w.set.Protected = []string{"deploy/"}
			row.prove(w)
		})
	}
}

// moveRow is a row of the specification's table, with its proof.
type moveRow struct {
	id       string
	from, to task.Status
	prove    func(*walk)
}

// moved fails unless exactly one more row of the task's history is this one's, with
// the trigger and actor it names.
func (w *walk) moved(tid id.Task, on task.Trigger, by identity.Role) task.History {
	w.t.Helper()
	var mine []task.History
	for _, h := range rows[task.History](w.rig, tid, "HIS#") {
		if h.Edge == w.id {
			mine = append(mine, h)
		}
	}
	if len(mine) != w.seen[tid]+1 {
		w.t.Fatalf("%s is named %d times by the history of %s, want %d: %s", w.id, len(mine), tid.Short(), w.seen[tid]+1, w.way(tid))
	}
	w.seen[tid]++
	h := mine[len(mine)-1]
	if h.From != w.from || h.To != w.to || h.Trigger != on || h.Actor.Role != by || h.At.IsZero() {
		w.t.Errorf("%s moved from %s to %s on %s by %s, want %s to %s on %s by %s", tid.Short(), h.From, h.To, h.Trigger, h.Actor.Role, w.from, w.to, on, by)
	}
	return h
}

// stays fails unless a task has not made the move.
func (w *walk) stays(tid id.Task, at task.Status) {
	w.t.Helper()
	if got := w.load(tid).Status; got != at {
		w.t.Errorf("%s is %s, want %s", tid.Short(), got, at)
	}
	for _, h := range rows[task.History](w.rig, tid, "HIS#") {
		if h.Edge == w.id {
			w.t.Errorf("it went by %s: %s", w.id, w.way(tid))
		}
	}
}

// way is a task's recorded path.
func (w *walk) way(tid id.Task) string {
	var b strings.Builder
	for _, h := range rows[task.History](w.rig, tid, "HIS#") {
		b.WriteString(" " + string(h.To))
	}
	return strings.TrimSpace(b.String())
}

// fresh makes a backlog task, at the top level for "".
func (w *walk) fresh(parent id.Task) id.Task {
	w.t.Helper()
	w.made++
	return w.create(fmt.Sprintf("task-%d", w.made), parent).TaskID
}

// launched brings a claimed turn to its running agent: the flow's steps, the hello
// and the first beat of its supervisor.
func (w *walk) launched(tid id.Task) {
	w.t.Helper()
	t := w.load(tid)
	w.repo.branchFrom(t.Target, "main")
	p := app.Payload{Tenant: tenant, Turn: string(t.Turn), N: 1, Token: "token-" + string(t.Turn)}
	for _, step := range []string{"prepare.v1", "launch.v1"} {
		if _, err := w.Steps()[step](w.t.Context(), p); err != nil {
			w.t.Fatalf("%s: %v", step, err)
		}
	}
	w.runner.mu.Lock()
	nonce := w.runner.launched[w.ref(t)].Nonce
	w.runner.mu.Unlock()
	if _, err := w.Hello(w.t.Context(), turn.Hello{Nonce: nonce, Key: "key-" + string(t.Turn)}); err != nil {
		w.t.Fatal(err)
	}
	w.beat(tid, turn.BeatIn{State: "running"})
}

func (w *walk) ref(t task.Task) string { return fmt.Sprintf("run-%s-%d", t.ID.Short(), t.Epoch) }

// running is a task in its first turn.
func (w *walk) running(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.fresh(parent)
	do[app.Begun](w.rig, w.owner(), "startTask", args{"task_id": string(tid)})
	w.launched(tid)
	return tid
}

// edits has the running agent commit a file.
func (w *walk) edits(tid id.Task, file string) {
	w.t.Helper()
	w.made++
	w.commit(tid, w.repo.commit(w.load(tid).Tip, "work", map[string]string{file: fmt.Sprintf("%d\n", w.made)}))
}

// blocked is a task at rest with a commit; conflict one that changed two protected
// files, interrupted one whose agent was killed after its commit.
func (w *walk) blocked(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.running(parent)
	w.edits(tid, string(tid.Short())+".txt")
	w.report(tid, turn.Response{})
	w.at(tid, task.Blocked)
	return tid
}

func (w *walk) conflict(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.running(parent)
	w.edits(tid, "deploy/"+string(tid.Short())+"-a")
	w.edits(tid, "deploy/"+string(tid.Short())+"-b")
	w.report(tid, turn.Response{})
	w.at(tid, task.Conflict)
	return tid
}

func (w *walk) interrupted(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.running(parent)
	w.edits(tid, string(tid.Short())+".txt")
	w.crashes(tid)
	w.at(tid, task.Interrupted)
	return tid
}

// submitted is a blocked task of which it is on record that it awaits review on a
// forge; submitting itself is not what the rows from here are about.
func (w *walk) submitted(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.blocked(parent)
	if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) { t.Status = task.Submitted }); err != nil {
		w.t.Fatal(err)
	}
	return tid
}

func (w *walk) at(tid id.Task, want task.Status) {
	w.t.Helper()
	if got := w.load(tid); got.Status != want {
		w.t.Fatalf("%s is %s, want %s: %s", tid.Short(), got.Status, want, w.way(tid))
	}
}

// dies has the runner say that a task's run is gone.
func (w *walk) dies(tid id.Task) {
	w.runner.mu.Lock()
	defer w.runner.mu.Unlock()
	w.runner.sight[w.ref(w.load(tid))] = runner.Report{Sight: runner.Gone, ExitCode: 137, Reason: "killed"}
}

// crashes kills the run of a task that has worked long enough, and recovers it up to
// the decision whether it is resumed.
func (w *walk) crashes(tid id.Task) {
	w.t.Helper()
	w.clock.advance(time.Minute)
	w.dies(tid)
	if got := w.confirm(tid); got != "gone" {
		w.t.Fatalf("recovery sees the run as %s", got)
	}
	w.steps(tid, "crash.v1")
}

// confirm is recovery's look at a task's run.
func (w *walk) confirm(tid id.Task) string {
	w.t.Helper()
	out, err := w.Steps()["confirm.v1"](w.t.Context(), app.Payload{Tenant: tenant, Turn: string(w.load(tid).Turn)})
	if err != nil {
		w.t.Fatal(err)
	}
	_, after, _ := strings.Cut(text(out), `"verdict":"`)
	verdict, _, _ := strings.Cut(after, `"`)
	return verdict
}

// act is a call that must succeed. A caller who is asked to confirm it does so.
func (w *walk) act(who identity.Caller, name string, in args) {
	w.t.Helper()
	asked := do[app.Ended](w.rig, who, name, in)
	if asked.Confirmation == nil || !asked.Required {
		return
	}
	in["confirmation_code"] = asked.Secret
	do[app.Ended](w.rig, who, name, in)
}

// denied is a call that must be refused, and write nothing.
func (w *walk) denied(who identity.Caller, name string, in args) {
	w.t.Helper()
	before := w.log.writes()
	out, err := w.try(w.call(who), name, in)
	if k := fault.KindOf(err); err == nil || k == fault.Internal || k == fault.Unavailable {
		w.t.Errorf("%s %v by %s answered %v, %v; want a refusal", name, in, who.Kind, out, err)
	}
	if n := w.log.writes() - before; n != 0 {
		w.t.Errorf("%s %v by %s was refused and wrote %d rows", name, in, who.Kind, n)
	}
}

// mover is one of those who may do what people do: to a task at the top level, or,
// as an agent, to a child of his own.
type mover struct {
	role   identity.Role
	who    func() identity.Caller
	parent id.Task
}

// movers is a person, the builder, and the running agent of a parent.
func (w *walk) movers() []mover {
	w.t.Helper()
	w.made++
	parent := w.working(fmt.Sprintf("parent-%d", w.made), "")
	return []mover{
		{identity.Human, w.owner, ""},
		{identity.BuilderRole, w.builder, ""},
		{identity.Agent, func() identity.Caller { return w.agent(parent) }, parent},
	}
}

// each has every mover make the move, each with a task of his own, and tries whether
// an agent that is no relation and an operator are kept from it.
func (w *walk) each(ready func(parent id.Task) id.Task, on task.Trigger, name string, in args) {
	w.t.Helper()
	if w.other == "" {
		w.other = w.working("other", "")
	}
	for _, m := range w.movers() {
		tid := ready(m.parent)
		full := args{"task_id": string(tid)}
		maps.Copy(full, in)
		w.denied(w.agent(w.other), name, full)
		w.denied(w.operator(), name, full)
		w.at(tid, w.from)
		w.act(m.who(), name, full)
		if h := w.moved(tid, on, m.role); m.role == identity.Human && h.Actor.Email != "ada@example.com" {
			w.t.Errorf("it was done by %+v", h.Actor)
		}
		w.at(tid, w.to)
		if reason, ok := in["reason"].(string); ok && w.lastMove(tid).Reason != reason {
			w.t.Errorf("the reason on record is %q", w.lastMove(tid).Reason)
		}
	}
}

func (w *walk) lastMove(tid id.Task) task.History {
	hs := rows[task.History](w.rig, tid, "HIS#")
	return hs[len(hs)-1]
}

// merges runs the accept flow of a task as its definition does: what a step cannot
// go on from is given up.
func (w *walk) merges(tid id.Task) {
	w.t.Helper()
	for _, step := range []string{"describe.v1", "intent.v1", "land.v1", "complete.v1", "cleanup.v1"} {
		err := w.acceptStep(tid, step, nil)
		if err == nil {
			continue
		}
		if fault.KindOf(err) != fault.Conflict {
			w.t.Fatalf("%s: %v", step, err)
		}
		if err := w.acceptStep(tid, "abort.v1", err); err != nil {
			w.t.Fatal(err)
		}
		return
	}
}

// acceptStep runs one step of a task's accept, after a failed one if cause is not nil.
func (w *walk) acceptStep(tid id.Task, step string, cause error) error {
	acc := w.load(tid).Accept
	if acc == nil {
		return errors.New("the task has no accept")
	}
	p := app.Payload{Tenant: tenant, Turn: acc.Operation, N: acc.N}
	if cause != nil {
		p.Error, p.Cause = engine.ErrorName(cause), fault.Of(cause).Public
	}
	_, err := w.Steps()[step](w.t.Context(), p)
	return err
}
