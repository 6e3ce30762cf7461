package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// storeResponse keeps a run's report before any status changes (CR-019). One
// response is accepted per epoch; a second leaves the first (CR-018).
func (a *App) storeResponse(ctx context.Context, t task.Task, resp turn.Response) error {
	resp.At = a.Now()
	err := a.Store.Transact(ctx, put(a.part(t).Response(resp.Epoch), "response", resp, store.Absent()))
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return nil
	}
	return err
}

// stepRecord closes the turn's own record from the stored response. Status and
// epoch stay (SY-030). Every write is a put of the same content, so a repeated
// visit changes nothing.
func (a *App) stepRecord(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	resp, ok, err := a.response(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.Unavailable, "run %d of %s has left no response", o.Epoch, t.Name())
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	resp = a.aged(t, resp)
	if turn.Decide(situation(t, o, resp, r)) == turn.Wait {
		return struct{}{}, nil // the turn is not over
	}
	return struct{}{}, a.recordAnswer(ctx, t, o, resp, turn.Answer)
}

// inlineAnswer is the length up to which an answer lies in its turn's own row.
const inlineAnswer = 1 << 10

// recordAnswer writes the turn that a run left: an answer, a crash, or, when the
// epoch has been succeeded, history. An answer that comes after its run was
// recorded as crashed is kept beside the crash (SY-005, CR-015).
func (a *App) recordAnswer(ctx context.Context, t task.Task, o Op, resp turn.Response, side turn.Side) error {
	key := a.part(t).Turn(o.Seq + 1)
	have, done, err := get[turn.Turn](ctx, a.Store, key)
	if err != nil || done && (side == turn.Crash || have.Side != turn.Crash) {
		return err
	}
	if done {
		key = a.part(t).Key(key.SK + ".1")
		if _, done, err = get[turn.Turn](ctx, a.Store, key); err != nil || done {
			return err
		}
	}
	in, _, err := get[turn.Turn](ctx, a.Store, a.part(t).Turn(o.Seq))
	if err != nil {
		return err
	}
	raised, err := a.openBlockingOf(ctx, t, o.ID)
	if err != nil {
		return err
	}
	for _, h := range handed(resp, in.Kind) {
		raised = raised || h.Blocking
	}
	declared := t.Final != nil && string(t.Final.Turn) == o.ID
	ans := turn.Turn{
		ID: in.ID, Seq: o.Seq + 1, Side: side, Kind: in.Kind, Verb: in.Verb, Epoch: o.Epoch,
		Agent: in.Agent, Model: in.Model, Effort: in.Effort, Host: resp.Host, Answers: in.ID,
		Outcome: resp.Outcome, Failure: resp.Failure, Head: resp.Head, Commits: resp.Commits,
		Uncommitted: resp.Uncommitted, Drifted: resp.Drifted, Lost: cut(resp.Lost, 200), LostWhy: cut(text.Line(resp.LostWhy), 300), ExitCode: resp.ExitCode,
		Summary: cut(text.Line(resp.Text), 300), Began: in.Began, Ended: a.Now(), Usage: resp.Usage,
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return err
	}
	gate := resp.Stopped == turn.StopGround || resp.Stopped == turn.StopPause
	if (r.Stop == turn.StopAsked || gate) && side == turn.Answer && resp.Outcome != "ok" {
		ans.Outcome, ans.Failure = "stopped", nil // a run that was stopped has not failed
	}
	switch in.Kind {
	case turn.Work:
		ans.Ending = turn.EndingOf(resp.Outcome == "ok" && resp.Stopped == "", declared, raised)
	case turn.Sync:
		r, _, err := a.loadRun(ctx, t, o.Epoch)
		if err != nil {
			return err
		}
		ans.Text = r.Merged
	default: // an answer of another kind is its summary
	}
	ans.Normal = side == turn.Answer && resp.Outcome == "ok" && resp.Stopped == "" && o.Epoch == t.Epoch
	if side == turn.Answer {
		if err := a.addEarlier(ctx, t, in, &ans); err != nil {
			return err
		}
	}
	if o.Epoch != t.Epoch {
		ans.Outcome = "history"
	}
	if len(ans.Uncommitted.Paths) > names.UncommittedKept {
		ans.Uncommitted.Paths = ans.Uncommitted.Paths[:names.UncommittedKept]
	}
	var ws []store.Write
	for name, s := range map[string]string{"answer": resp.Text, "setup": resp.Setup, "log": resp.Log} {
		if s == "" {
			continue
		}
		if s = text.Field(s); name == "answer" && ans.Text == "" && len(s) <= inlineAnswer {
			ans.Text = s // in the row it belongs to, which is written anyway
			continue
		}
		ref := name + "-" + strings.TrimPrefix(key.SK, "TRN#")
		w, err := a.putBody(ctx, t, ref, s)
		if err != nil {
			return err
		}
		switch name {
		case "answer":
			ans.Body = ref
		case "setup":
			ans.Setup = ref
		case "log":
			ans.Log = ref
		}
		ws = append(ws, w)
	}
	ws = append(ws, put(key, "turn", ans, store.Absent()))
	err = a.Store.Transact(ctx, ws...)
	var lost *store.ConflictError
	if errors.As(err, &lost) && lost.Key == key {
		return nil
	}
	return err
}

// openBlockingOf reports whether an item that turn filed is open and blocking.
func (a *App) openBlockingOf(ctx context.Context, t task.Task, turnID string) (bool, error) {
	if t.Blocking == 0 {
		return false, nil
	}
	found := false
	err := a.eachRaised(ctx, t, func(it raise.Item) bool {
		found = it.Blocking && it.State == "open" && string(it.Turn) == turnID
		return !found
	})
	return found, err
}

func (a *App) eachRaised(ctx context.Context, t task.Task, yield func(raise.Item) bool) error {
	var bad error
	err := store.All(ctx, a.Store, store.Query{PK: a.part(t).PK, Prefix: "RSD#"}, func(it store.Item) bool {
		v, err := decode[raise.Item](it)
		if err != nil {
			bad = err
			return false
		}
		return yield(v)
	})
	return errors.Join(err, bad)
}

// stepDecide applies the decision table and commits its outcome, the status and
// the release of the epoch in one transaction (goals and chains 1.2, SY-030).
func (a *App) stepDecide(ctx context.Context, p Payload) (any, error) {
	o, t, err := a.operation(ctx, p.Tenant, p.Turn)
	if err != nil {
		return nil, err
	}
	resp, ok, err := a.response(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.Unavailable, "run %d of %s has left no response", o.Epoch, t.Name())
	}
	out := decision{Verdict: string(turn.History)}
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		r, _, err := a.loadRun(ctx, t, o.Epoch)
		if err != nil {
			return change{}, err
		}
		if r.State != RunReported {
			reported(&r, resp)
		}
		resp := a.aged(t, resp)
		verdict := turn.Decide(situation(t, o, resp, r))
		out = decision{Verdict: string(verdict)}
		if verdict == turn.History || verdict == turn.Wait && t.Wait != nil {
			out.Seconds = a.slice(t)
			return change{}, errSettled
		}
		if resp.Wait > 0 && verdict != turn.Wait {
			// What ends the wait may have come after Record had seen a turn that goes on.
			if err := a.recordAnswer(ctx, t, o, resp, turn.Answer); err != nil {
				return change{}, err
			}
		}
		ch, err := a.settle(ctx, t, o, resp, r, verdict)
		if verdict == turn.Wait {
			out.Seconds = a.slice(ch.task)
		}
		return ch, err
	})
	if errors.Is(err, errSettled) {
		err = nil
	}
	return out, err
}

var errSettled = errors.New("app: already settled")

func situation(t task.Task, o Op, resp turn.Response, r turn.Run) turn.Situation {
	s := turn.Situation{
		Epoch: o.Epoch, TaskEpoch: t.Epoch, Claimed: t.Claimed, Kind: r.Kind,
		Failure: resp.Failure, Stopped: resp.Stopped, Crashed: resp.Outcome == "crashed",
		Waits: resp.Wait > 0 && resp.Outcome == "error" && len(resp.MergeState) == 0 && r.Kind != turn.Sync,
	}
	// Whoever ended the run, a stop that was asked for is why (HA-028). A turn that
	// had ended normally before it heard keeps its ending.
	if r.Stop == turn.StopAsked && resp.Outcome != "ok" {
		s.Stopped = turn.StopAsked
	}
	return s
}

// settle is the end of a turn: label or restore, deliver receipts, release the
// epoch, and go on to what was asked for meanwhile.
func (a *App) settle(ctx context.Context, t task.Task, o Op, resp turn.Response, r turn.Run, v turn.Verdict) (change, error) {
	ch := change{task: t}
	n := &ch.task
	n.Claimed, n.Answered, n.Wait = false, o.Epoch, nil
	n.MidMerge = capped(resp.MergeState)
	if t.Wait == nil { // else it was when the wait began
		book(n, resp.Usage)
	}
	if resp.Session != "" {
		n.Session = cut(resp.Session, 200)
	}
	if err := a.merged(ctx, n); err != nil {
		return change{}, err
	}
	if n.Workspace != nil && (resp.Outcome == "ok" || v == turn.Wait && !resp.SetupFailed) {
		w := *n.Workspace
		w.Ready = true
		n.Workspace = &w
	}
	normal := resp.Outcome == "ok" && resp.Stopped == ""
	switch r.Kind {
	case turn.Work:
		if err := a.recheck(ctx, n); err != nil {
			return change{}, err
		}
		if err := a.withdraw(ctx, n, r); err != nil {
			return change{}, err
		}
	case turn.Sync:
		// A sync that had an agent resolve conflicts may have violated; what was
		// pending before stays so whatever it did (AA-002, SM-013).
		was := n.Violations
		if err := a.recheck(ctx, n); err != nil {
			return change{}, err
		}
		n.Violations = union(was, n.Violations)
	default: // nobody committed
	}
	ws, err := a.handOver(ctx, n, o, resp, r.Kind)
	if err != nil {
		return change{}, err
	}
	ch.writes = append(ch.writes, ws...)
	if normal {
		ws, delivered, err := a.deliver(ctx, t, o)
		if err != nil {
			return change{}, err
		}
		ch.writes = append(ch.writes, ws...)
		n.Queued -= delivered
		n.Interruptions, n.Resumes, n.Launches = 0, 0, 0
	}
	if v == turn.Wait {
		return a.leaveWaiting(ctx, ch, o, resp, r)
	}
	sys := identity.SystemActor()
	c := task.Change{Actor: sys, Turn: o.ID}
	switch v {
	case turn.Restore:
		c.To, c.On = task.Restore(t.Prior, n.Pending()), task.Restored
		switch {
		case resp.Failure != nil:
			c.Reason = cut(text.Field(resp.Failure.Reason), 500)
		case r.Kind == turn.Sync && len(n.MidMerge) > 0:
			// A sync must not pass for done while the merge is open (SN-012).
			c.Reason = MergeState(n.MidMerge)
			n.Why = c.Reason
		}
	case turn.Park:
		c.To, c.On = task.Rest(n.Pending()), task.TurnCompleted
		if resp.Stopped == turn.StopAge {
			c.Reason = "the turn reached its maximum age"
			n.Why = c.Reason
		}
		if resp.Stopped == turn.StopBudget {
			c.Reason = "budget: the task has spent the tokens it may spend"
			n.Why = c.Reason
		}
	case turn.ParkFail:
		c.To, c.On = task.Rest(n.Pending()), task.TurnFailed
		c.Reason = string(resp.Failure.Class) + ": " + cut(text.Field(resp.Failure.Reason), 500)
		n.Why = c.Reason
	case turn.Interrupt:
		return a.interrupt(ctx, ch, o, resp, r)
	case turn.History, turn.Wait:
		return change{}, errSettled
	}
	if err := a.move(&ch, c); err != nil {
		return change{}, err
	}
	return ch, a.thenEnd(&ch)
}

// interrupt settles a run that was killed, stopped or kept dying.
func (a *App) interrupt(ctx context.Context, ch change, o Op, resp turn.Response, r turn.Run) (change, error) {
	n := &ch.task
	before := n.Interruptions
	c := task.Change{To: task.Interrupted, On: task.Watchdog, Actor: identity.SystemActor(), Turn: o.ID}
	switch {
	case r.Stop == turn.StopAsked || resp.Stopped == turn.StopAsked:
		c.On, c.Reason = task.Stop, "stopped"
		if r.StopBy != nil {
			c.Actor = *r.StopBy
		}
		if c.Actor.Role == identity.System || c.Actor.Role == identity.Supervisor {
			c.Actor = identity.Actor{Role: identity.Human}
		}
	case resp.Stopped == turn.StopShutdown:
		c.Reason = "the control plane was shut down"
	case resp.Stopped == turn.StopGround:
		c.Reason = "a ground stop ended the turn"
	case resp.Stopped == turn.StopPause:
		c.Reason = "the usage pause came before the agent ran"
	case resp.Stopped == turn.StopWatchdog:
		c.Reason = fmt.Sprintf("the watchdog saw no finished step for %s; output alone is not progress; relaunched before: %t",
			names.Watchdog, resp.Failure != nil && resp.Failure.Attempts > 1)
	case resp.Failure != nil:
		c.Reason = string(resp.Failure.Class) + ": " + cut(text.Field(resp.Failure.Reason), 500)
	default:
		c.Reason = "the agent ended without a finished turn"
	}
	// The breaker counts only ends that speak about the agent (CR-021).
	asked := resp.Stopped == turn.StopShutdown || resp.Stopped == turn.StopGround || resp.Stopped == turn.StopPause
	if c.On != task.Stop && !asked {
		n.Interruptions++
		a.tripped(ctx, *n, c.Reason)
	}
	n.Why = c.Reason
	if c.On != task.Stop {
		was := ch.task
		was.Interruptions = before
		if err := a.underGate(ctx, was, n, &c.Reason); err != nil {
			return change{}, err
		}
	}
	if err := a.move(&ch, c); err != nil {
		return change{}, err
	}
	if n.Then == nil && c.On != task.Stop {
		ch.jobs = append(ch.jobs, Job{
			Kind: StartFlow, Flow: names.MachineRecovery, Exec: fmt.Sprintf("rec-%s-0", o.ID), Turn: o.ID, Epoch: o.Epoch,
		})
	}
	return ch, a.thenEnd(&ch)
}

// merged notes that the branch has the upstream commit a broker was told to
// merge: the task's own change begins there from then on.
func (a *App) merged(ctx context.Context, t *task.Task) error {
	if t.Merging == "" {
		return nil
	}
	ok, err := a.repo(*t).Contains(ctx, t.Branch, t.Merging)
	if err != nil {
		return err
	}
	switch {
	case ok:
		_, target, err := a.follows(ctx, *t, t.Merging)
		if err != nil {
			return err
		}
		if target {
			t.Base = t.Merging
		}
		t.Merging = ""
	case len(t.MidMerge) == 0:
		t.Merging = "" // it was taken back
	}
	return nil
}

// withdraw takes a declaration back when a later work turn of the agent's own
// added commits. A head that moved in any other way is only said so (TE-013).
func (a *App) withdraw(ctx context.Context, t *task.Task, r turn.Run) error {
	if t.Final == nil || t.Final.Turn == t.Turn || r.Tip == t.Tip {
		return nil
	}
	own := false
	var bad error
	err := store.All(ctx, a.Store, store.Query{
		PK: a.part(*t).PK, Prefix: fmt.Sprintf("COM#%08d#", r.Epoch),
	}, func(it store.Item) bool {
		row, err := decode[CommitRow](it)
		bad = err
		own = err == nil && row.Turn == t.Turn && row.Kind == ""
		return err == nil && !own
	})
	if own {
		t.Final = nil
	}
	return errors.Join(err, bad)
}

// capped is what of a list of files a row holds.
func capped(list []string) []string {
	var out []string
	for _, s := range list[:min(20, len(list))] {
		out = append(out, cut(s, 200))
	}
	return out
}
