package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Payload is what a definition hands to a step: ids, the step with its version,
// and a task token where it waits; never a body or a secret (WF-21).
type Payload struct {
	Step   string `json:"step"`
	V      int    `json:"v"`
	Tenant string `json:"tenant"`
	Turn   string `json:"turn"` // turn or accept operation
	N      int    `json:"n"`
	Token  string `json:"token,omitempty"`
	Error  string `json:"error,omitempty"`
	Cause  string `json:"cause,omitempty"`
}

// StepFunc is one step of a flow. Steps try once and are idempotent; waiting and
// retrying live in the definition.
type StepFunc func(context.Context, Payload) (any, error)

// Steps is the table from step name to step (SY-042).
func (a *App) Steps() map[string]StepFunc {
	return map[string]StepFunc{
		names.StepPrepare: a.stepPrepare, names.StepLaunch: a.stepLaunch, names.StepRun: a.stepRun,
		names.StepRecord: a.stepRecord, names.StepDecide: a.stepDecide, names.StepRenew: a.stepRenew, names.StepHandOver: a.stepHandOver,
		names.StepConfirm: a.stepConfirm, names.StepStop: a.stepStop, names.StepCrash: a.stepCrash,
		names.StepResume: a.stepResume, names.StepDescribe: a.stepDescribe, names.StepIntent: a.stepIntent,
		names.StepLand: a.stepLand, names.StepComplete: a.stepComplete, names.StepCleanUp: a.stepCleanUp,
		names.StepAbort: a.stepAbort, names.StepAcceptFailed: a.stepAcceptFailed,
		names.StepPlan: a.stepPlan, names.StepBroker: a.stepBroker,
	}
}

// operation loads what an operation id stands for. A stale one, whose epoch has
// been succeeded or settled, is reported as fenced.
func (a *App) operation(ctx context.Context, tenant, opID string) (Op, task.Task, error) {
	o, ok, err := get[Op](ctx, a.Store, store.For(tenant).Operation(opID))
	if err != nil {
		return o, task.Task{}, err
	}
	if !ok {
		return o, task.Task{}, fault.New(fault.NotFound, "no operation %s", opID)
	}
	t, ok, err := a.loadTask(ctx, tenant, o.Task)
	if err == nil && !ok {
		err = fault.New(fault.NotFound, "no task %s", o.Task)
	}
	if err == nil && a.About != nil {
		a.About(ctx, t)
	}
	return o, t, err
}

func (a *App) holding(ctx context.Context, p Payload) (Op, task.Task, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return o, t, err
	}
	if t.Epoch != o.Epoch || !t.Claimed {
		return o, t, fenced(t, o.Epoch)
	}
	return o, t, nil
}

// holds is the fence of a write that leaves the task row alone.
func (a *App) holds(t task.Task) store.Write {
	return store.Write{
		Act: store.Check, Item: store.Item{Key: a.part(t).Meta()}, If: []store.Cond{store.EpochIs(t.Epoch)},
	}
}

// turnWrite puts a turn's row. How many executions were begun for it is a field
// that a condition can see (SY-045).
func turnWrite(k store.Key, tr turn.Turn, conds ...store.Cond) store.Write {
	w := put(k, "turn", tr, conds...)
	w.Item.Attr["n"] = int64(tr.N)
	return w
}

// stepPrepare makes the workspace and records where it is and what it was cut from.
func (a *App) stepPrepare(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil || !r.Prepared.IsZero() {
		return struct{}{}, err
	}
	if err := a.cutParent(ctx, t); err != nil {
		return nil, err
	}
	branch, base, err := a.start(ctx, t)
	if err != nil {
		return nil, err
	}
	ws := t.Workspace
	if ws == nil {
		made, err := a.repo(t).Prepare(ctx, t, branch, base)
		if err != nil {
			return nil, err
		}
		ws = &made
	}
	if err := a.finishCommit(ctx, t); err != nil {
		return nil, err
	}
	if r.Kind == turn.Sync && r.Own == nil {
		if err := a.fetchOwn(ctx, o, t, branch); err != nil {
			return nil, err
		}
	}
	if t.Workspace != nil && t.Branch == branch && t.Base != "" && t.Tip != "" {
		return struct{}{}, nil
	}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch || !t.Claimed {
			return change{}, fenced(t, o.Epoch)
		}
		ch := change{task: t}
		n := &ch.task
		n.Workspace, n.Branch = ws, branch
		if n.Base == "" {
			n.Base = base
		}
		if n.Tip == "" {
			n.Tip = base
		}
		if t.Workspace != nil || len(ws.Unfilled) == 0 {
			return ch, nil
		}
		// The task starts all the same; its first turn says what is missing (B19).
		tr, err := a.turnOf(ctx, t, o)
		if err != nil {
			return change{}, err
		}
		tr.Setup = fmt.Sprintf("setup-in-%08d", o.Seq)
		w, err := a.putBody(ctx, t, tr.Setup, text.Prose("Submodules without their files:\n"+strings.Join(ws.Unfilled, "\n")))
		ch.writes = append(ch.writes, w, turnWrite(a.part(t).Turn(o.Seq), tr))
		return ch, err
	})
	return struct{}{}, err
}

// promptOf is the body row of the prompt that was assembled for the turn seq.
func promptOf(seq int64) string { return fmt.Sprintf("prompt-%08d", seq) }

// start says where the task's branch begins: its recorded tip once it has one,
// else the head of its target at this moment (OT-003).
func (a *App) start(ctx context.Context, t task.Task) (branch, base string, err error) {
	branch = t.Branch
	if branch == "" {
		branch = "lazy/" + t.Name()
	}
	if t.Tip != "" {
		return branch, t.Tip, nil
	}
	base, err = a.repo(t).Tip(ctx, t.Target)
	return branch, base, err
}

// stepLaunch stores the task token under the epoch with what the run is told, and
// in that transaction stamps the comments the prompt carries as shown (AN-005); then
// it launches the runner (SY-030). A repeated visit finds what is there already: by
// reference, else by our own tag (B24).
func (a *App) stepLaunch(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	var ref, nonce string
	var hello, gone, stopped bool
	err = a.dispatch(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		ref, hello, stopped = r.Ref, !r.Hello.IsZero() || r.State == RunReported, r.Stop != ""
		gone = r.State == RunGone
		r.Token, r.TokenFor = p.Token, "launch"
		ch := change{}
		if hello || gone {
			ch.jobs = []Job{{Kind: AnswerToken, Name: fmt.Sprintf("launch-%d-%d", o.Epoch, p.N), Turn: p.Turn, Epoch: o.Epoch}}
			return ch, true, nil
		}
		if ref != "" || stopped {
			return ch, true, nil
		}
		if r.Prepared.IsZero() {
			if err := a.brief(ctx, o, t, r, &ch); err != nil {
				return change{}, false, err
			}
		}
		if r.State == RunPrepared || r.State == RunClaimed {
			r.State, r.Launched = "launching", a.Now()
		}
		r.NonceUntil = a.Now().Add(names.Nonce)
		nonce = a.nonceOf(t, *r)
		return ch, true, nil
	})
	if err != nil || hello || gone {
		return struct{}{}, err
	}
	if ref == "" {
		found, ok, err := runner.Find(ctx, a.Runner, t.Tenant, t.ID, o.Epoch)
		if err != nil {
			return nil, err
		}
		if ok {
			ref = found
		}
	}
	if ref == "" && stopped {
		return struct{}{}, a.neverRan(ctx, t, p, o, turn.StopAsked, "Stopped before the agent ran.")
	}
	if ref == "" {
		why, text, err := a.closedSince(ctx, t, o)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return struct{}{}, a.neverRan(ctx, t, p, o, why, text)
		}
		set, err := a.Settings(ctx, t.Tenant, t.Project)
		if err != nil {
			return nil, err
		}
		ref, err = a.Runner.Launch(ctx, runner.Spec{
			Tenant: t.Tenant, Project: t.Project, Task: t.ID, Turn: t.Turn, Epoch: o.Epoch, Nonce: nonce, Host: set.HostProcess,
		})
		if err != nil {
			a.alarm(ctx, names.MetricLaunch, "a run could not be started", t, fault.Of(err).Public)
			return nil, err
		}
	}
	return struct{}{}, a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		if r.Ref == ref {
			return change{}, false, nil
		}
		r.Ref = ref
		return change{}, true, nil
	})
}

// closedSince says whether a ground stop or usage pause came between the claim of
// a turn and its launch, and in which words it is settled then (GN-02, US-008).
func (a *App) closedSince(ctx context.Context, t task.Task, o Op) (stop, words string, err error) {
	g, err := a.gatesOf(ctx, t.Tenant, t.Project)
	if err != nil {
		return "", "", err
	}
	if g.stop != nil {
		return turn.StopGround, "Before the agent ran " + g.words() + ".", nil
	}
	tr, err := a.turnOf(ctx, t, o)
	if err != nil || tr.Passed {
		return "", "", err
	}
	why, err := a.closed(ctx, t)
	if refusal.Is(why, refusal.UsagePaused) || refusal.Is(why, refusal.UsageUnreadable) {
		return turn.StopPause, "The usage pause came before the agent ran.", err
	}
	return "", "", err
}

// neverRan settles a run that was stopped before there was anything to launch: its
// report says so, and no agent is started (HA-028).
func (a *App) neverRan(ctx context.Context, t task.Task, p Payload, o Op, why, text string) error {
	resp := turn.Response{Turn: t.Turn, Epoch: o.Epoch, Outcome: "stopped", Stopped: why, Settled: true, Text: text}
	return a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		r.State, r.Ended = RunReported, a.Now()
		return change{
			writes: []store.Write{put(a.part(t).Response(o.Epoch), "response", resp)},
			jobs:   []Job{{Kind: AnswerToken, Name: fmt.Sprintf("launch-%d-%d", o.Epoch, p.N), Turn: p.Turn, Epoch: o.Epoch}},
		}, true, nil
	})
}

// stepRun stores the second task token. A report that came first answers it, and so
// does the end of a run that died between its two tokens: nobody would beat it.
func (a *App) stepRun(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.holding(ctx, p)
	if err != nil {
		return nil, err
	}
	told := false
	answer := Job{Kind: AnswerToken, Name: fmt.Sprintf("run-%d-%d", o.Epoch, p.N), Turn: p.Turn, Epoch: o.Epoch}
	err = a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		r.Token, r.TokenFor = p.Token, "run"
		ch := change{}
		if told = r.State == RunReported || r.State == RunGone; told {
			ch.jobs = []Job{answer}
		}
		return ch, true, nil
	})
	if err != nil || told {
		return struct{}{}, err
	}
	// Looked at after the token is stored: a report that comes later finds the token.
	_, ok, err := get[turn.Response](ctx, a.Store, a.part(t).Response(o.Epoch))
	if err != nil || !ok {
		return struct{}{}, err
	}
	return struct{}{}, a.enqueue(ctx, t, answer)
}

// answerToken answers the token in force for what has happened since it was
// stored. An answered or expired token makes the event history, not an error
// (SY-049).
func (a *App) answerToken(ctx context.Context, t task.Task, epoch int64) error {
	r, ok, err := a.loadRun(ctx, t, epoch)
	if err != nil || !ok || r.Token == "" {
		return err
	}
	_, reported, err := get[turn.Response](ctx, a.Store, a.part(t).Response(epoch))
	if err != nil {
		return err
	}
	switch {
	case r.TokenFor == forBroker && r.State == RunReported && r.Refused != "":
		err = a.Engine.Fail(ctx, r.Token, r.Refused, r.Reason)
	case r.TokenFor == forBroker && r.State == RunReported:
		err = a.Engine.Succeed(ctx, r.Token, []byte("{}"))
	case r.TokenFor == "launch" && (!r.Hello.IsZero() || reported), r.TokenFor == "run" && reported:
		err = a.Engine.Succeed(ctx, r.Token, []byte("{}"))
	case r.State == RunGone:
		err = a.Engine.Fail(ctx, r.Token, "Lazy.RunnerGone", r.Reason)
	default:
		return nil
	}
	if errors.Is(err, engine.ErrTokenGone) {
		return nil
	}
	return err
}

// RunnerGone tells of a run that ended outside its own report: a stopped
// container, an exited process. It fails the stored token and nothing more; the
// one door to recovery is the flow's own catch (SY-036, SY-046).
func (a *App) RunnerGone(ctx context.Context, tenant string, tid id.Task, epoch int64, rep runner.Report) error {
	t, ok, err := a.loadTask(ctx, tenant, tid)
	if err != nil || !ok {
		return err
	}
	r, ok, err := a.loadRun(ctx, t, epoch)
	if err != nil || !ok {
		return err
	}
	_, reported, err := get[turn.Response](ctx, a.Store, a.part(t).Response(epoch))
	if err != nil {
		return err
	}
	if reported || r.TokenFor == forBroker && r.State == RunReported {
		return a.answerToken(ctx, t, epoch)
	}
	told := false
	err = a.driveRun(ctx, t, epoch, func(r *turn.Run) (change, bool, error) {
		if told = r.TokenFor == forBroker && r.State == RunReported; told || r.State == RunGone {
			return change{}, false, nil // told twice
		}
		r.Ended, r.ExitCode, r.Reason, r.State = a.Now(), rep.ExitCode, cut(rep.Reason, 300), RunGone
		return change{}, true, nil
	})
	if err != nil || told || r.Token == "" || t.Epoch != epoch || !t.Claimed {
		return err
	}
	err = a.Engine.Fail(ctx, r.Token, "Lazy.RunnerGone", rep.Reason)
	if errors.Is(err, engine.ErrTokenGone) {
		return nil
	}
	return err
}

// stepHandOver is the turn flow's own catch: it leads to recovery, the one door
// (SY-046). A fault that no restart can mend parks the task for a person instead.
func (a *App) stepHandOver(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	if t.Epoch != o.Epoch || !t.Claimed {
		return map[string]string{"verdict": "history"}, nil
	}
	switch p.Error {
	case engine.ErrorName(fault.New(fault.Invalid, "")), engine.ErrorName(fault.New(fault.Denied, "")), engine.ErrorName(fault.New(fault.NotFound, "")):
		r, _, err := a.loadRun(ctx, t, o.Epoch)
		if err != nil {
			return nil, err
		}
		if r.Hello.IsZero() {
			resp := turn.Response{
				Turn: t.Turn, Epoch: o.Epoch, Outcome: "error", Settled: true,
				Failure: &turn.Failure{Class: turn.FatalConfig, Reason: cut(reason(p.Cause), 2000)},
			}
			if err := a.storeResponse(ctx, t, resp); err != nil {
				return nil, err
			}
			if _, err := a.stepRecord(ctx, p); err != nil {
				return nil, err
			}
			return a.stepDecide(ctx, p)
		}
	}
	return map[string]string{"verdict": "recovery"}, a.enterRecovery(ctx, t, o, p.N, p.Cause)
}

// reason reads the text out of the cause a definition hands on, which may be a
// JSON document of the engine.
func reason(cause string) string {
	var c struct {
		ErrorMessage string `json:"errorMessage"`
		Cause        string `json:"Cause"`
	}
	if json.Unmarshal([]byte(cause), &c) == nil && (c.ErrorMessage != "" || c.Cause != "") {
		if c.ErrorMessage != "" {
			return c.ErrorMessage
		}
		return reason(c.Cause)
	}
	return cause
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// enterRecovery starts the recovery of one execution of a turn, once.
func (a *App) enterRecovery(ctx context.Context, t task.Task, o Op, n int, why string) error {
	return a.enqueue(ctx, t, Job{
		Kind: StartFlow, Name: fmt.Sprintf("rec-%d-%d", o.Epoch, n), Flow: names.MachineRecovery,
		Exec: fmt.Sprintf("rec-%s-%d", o.ID, n), Turn: o.ID, N: n, Epoch: o.Epoch, Text: cut(why, 500),
	})
}

// enqueue commits outbox rows alone. A row of the same name that is still there
// is the same work.
func (a *App) enqueue(ctx context.Context, t task.Task, jobs ...Job) error {
	_, err := a.commit(ctx, Call{}, t, change{task: t, jobs: jobs, silent: true})
	return err
}
