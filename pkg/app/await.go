package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Await answers for an operation to the credential that began it, and no other
// (OT-048): at once when something has changed since the cursor or it has ended,
// else when something does, the hold is over, or the hop ends. Waiting reads the
// operation's own task and nothing else.
func (a *App) Await(ctx context.Context, c Call, opID, cursor string) (Progress, error) {
	missing := refusal.Of(refusal.NotFound, "operation", opID)
	tn := store.For(c.Who.Tenant)
	o, ok, err := get[Op](ctx, a.Store, tn.Operation(opID))
	if err != nil {
		return Progress{}, err
	}
	if !ok || o.Caller != c.Who.Hash || o.Project != c.Who.Project {
		return Progress{}, missing
	}
	if o.At.Add(names.IdempotencyKept).Before(a.Now()) {
		return Progress{}, missing
	}
	hold := c.Hold
	if hold <= 0 || hold > a.Hop {
		hold = a.Hop
	}
	seen, _ := strconv.Atoi(cursor)
	end := a.Now().Add(hold)
	for {
		changed := a.hub.watch(string(o.Task))
		p, err := a.progress(ctx, c, o)
		if err != nil {
			return Progress{}, err
		}
		if n := reached(p.Phases); n > seen || p.Done {
			p.Cursor = strconv.Itoa(n)
			return p, nil
		}
		left := end.Sub(a.Now())
		if left <= 0 {
			p.Cursor = strconv.Itoa(seen)
			return p, nil
		}
		select {
		case <-changed:
		case <-a.After(min(recheck, left)):
		case <-ctx.Done():
			p.Cursor = strconv.Itoa(seen)
			return p, nil
		}
	}
}

// reached counts what has happened to a list of phases, so that a cursor is one
// number: a start and an end of each.
func reached(ps []Phase) int {
	n := 0
	for _, p := range ps {
		switch p.State {
		case "started":
			n++
		case "done", "skipped", "failed":
			n += 2
		}
	}
	return n
}

// progress derives an operation's phases from what the flow and the run recorded,
// so narration costs no write and the announced plan is the executed plan (OB-018).
func (a *App) progress(ctx context.Context, c Call, o Op) (Progress, error) {
	t, ok, err := a.loadTask(ctx, c.Who.Tenant, o.Task)
	if err != nil || !ok {
		return Progress{}, err
	}
	switch o.Kind {
	case "accept":
		return acceptProgress(t, o), nil
	case "stop":
		return stopProgress(t, o), nil
	}
	if t.Epoch != o.Epoch { // a wait between two runs moves it on
		if o, _, err = get[Op](ctx, a.Store, store.For(c.Who.Tenant).Operation(o.ID)); err != nil {
			return Progress{}, err
		}
	}
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return Progress{}, err
	}
	resp, there, err := get[turn.Response](ctx, a.Store, a.part(t).Response(o.Epoch))
	if err != nil {
		return Progress{}, err
	}
	if there && r.State != RunReported {
		reported(&r, resp)
	}
	if r.Claimed.IsZero() {
		r.Claimed = o.At // it ended before its run had anything to say
	}
	over := t.Epoch != o.Epoch || !t.Claimed
	there = there && (over || t.Wait == nil)
	return turnProgress(t, o, r, resp, there, over), nil
}

// mark is one phase with the time at which it was finished.
type mark struct {
	name string
	at   time.Time
	skip string
}

// lay turns marks into phases: the first unfinished one is under way.
func lay(marks []mark, failed string) []Phase {
	out := make([]Phase, len(marks))
	open := false
	for i, m := range marks {
		p := Phase{N: i + 1, Of: len(marks), Name: m.name, State: "planned", At: m.at}
		switch {
		case m.skip != "":
			p.State, p.Note = "skipped", m.skip
		case !m.at.IsZero():
			p.State = "done"
		case !open:
			open = true
			p.State = "started"
			if failed != "" {
				p.State, p.Note = "failed", failed
			}
		}
		out[i] = p
	}
	return out
}

func turnProgress(t task.Task, o Op, r turn.Run, resp turn.Response, reported, over bool) Progress {
	running := r.Running
	if running.IsZero() && reported {
		running = r.Ended
	}
	var ms []mark
	switch o.Verb {
	case "start":
		ms = []mark{
			{name: "create session", at: r.Claimed},
			{name: "prepare workspace", at: r.Prepared},
			{name: "publish branch", skip: `published at submit or accept; publish = "turn" is not set`},
			{name: "launch runner", at: running},
			{name: "deliver prompt", at: running},
		}
	case "ask":
		ms = []mark{
			{name: "record question", at: r.Claimed},
			{name: "launch", at: running},
			{name: "wait for answer", at: doneAt(over, r.Ended, t.Updated)},
			{name: "restore status", at: doneAt(over, r.Ended, t.Updated)},
		}
	case "sync":
		end := doneAt(over, r.Ended, t.Updated)
		ms = []mark{
			ownMark(r),
			{name: "upstream", at: r.Prepared},
			{name: "compare", at: running},
			{name: "merge", at: end},
			{name: "resolve conflicts", at: end},
			{name: "record", at: end},
		}
		if over && reported && r.Merged == "" && resp.Failure == nil {
			ms[2].name, ms[3].skip, ms[4].skip, ms[5].skip = "compare: already up to date", "nothing to merge", "nothing to merge", "nothing to record"
		}
	default:
		first := "record feedback"
		if o.Verb == "resume" || o.Verb == "auto_resume" {
			first = "choose prompt"
		}
		ms = []mark{{name: first, at: r.Claimed}, {name: "launch runner", at: running}, {name: "deliver prompt", at: running}}
	}
	p := Progress{Operation: o.ID, Cursor: "0"}
	failure := ""
	if over && running.IsZero() {
		failure = t.Why
		if failure == "" {
			failure = "the run ended before the agent ran"
		}
	}
	if reported && resp.Outcome == "error" && r.Running.IsZero() && resp.Failure != nil {
		failure = resp.Failure.Reason
		if over {
			for i := range ms {
				if ms[i].name == "launch runner" || ms[i].name == "deliver prompt" || ms[i].name == "launch" {
					ms[i].at = time.Time{}
				}
			}
		}
	}
	p.Phases = lay(ms, failure)
	p.Done = failure != "" && over || failure == "" && !running.IsZero() && (o.Verb != "ask" && o.Verb != "sync" || over)
	if !p.Done {
		return p
	}
	if why := syncFailed(o, resp); why != "" {
		p.Error = &fault.Error{
			Code: "sync_failed", Kind: fault.Failed,
			Public: fmt.Sprintf("%s was not brought up to date with %s: %s. It is %s.", t.Name(), t.Target, why, t.Status.Words()),
		}
		return p
	}
	if failure != "" {
		p.Error = &fault.Error{Code: "turn_failed", Kind: fault.Failed, Public: fmt.Sprintf("%s did not run: %s", t.Name(), failure)}
		return p
	}
	res := map[string]any{
		"task_id": t.ID, "code": t.Code, "turn_id": o.ID, "operation_id": o.ID, "status": t.Status, "turn_kind": r.Kind,
	}
	switch o.Verb {
	case "ask":
		res["answer"] = resp.Text
	case "sync":
		res["merged"] = r.Merged
	}
	p.Result = encode(res)
	return p
}

// ownMark is the phase of a sync that fetches the task's branch from its remote.
func ownMark(r turn.Run) mark {
	m := mark{name: "own branch on origin"}
	switch {
	case r.Own == nil && r.Prepared.IsZero(): // not looked for yet
	case r.Own == nil:
		m.skip = "the repository has no remote of its own here"
	case r.Own.Skip != "":
		m.skip = r.Own.Skip
	default:
		m.at = r.Prepared
	}
	return m
}

func syncFailed(o Op, resp turn.Response) string {
	switch {
	case o.Verb != "sync":
		return ""
	case resp.Failure != nil:
		return strings.TrimSuffix(resp.Failure.Reason, ".")
	}
	return MergeState(resp.MergeState)
}

func doneAt(over bool, at, otherwise time.Time) time.Time {
	switch {
	case !over:
		return time.Time{}
	case at.IsZero():
		return otherwise
	}
	return at
}

func acceptProgress(t task.Task, o Op) Progress {
	p := Progress{Operation: o.ID, Cursor: "0"}
	acc := t.Accept
	if acc == nil || acc.Operation != o.ID && acc.Operation != o.Of {
		p.Done = true
		p.Error = &fault.Error{Code: "superseded", Kind: fault.Conflict, Public: "this accept of " + t.Name() + " has been succeeded by another act"}
		return p
	}
	steps := map[string]int{"claimed": 0, "described": 1, "intended": 1, "complete": 3}
	n := steps[acc.Step]
	cleaned := t.Status == task.Complete && t.Workspace == nil
	if cleaned {
		n = 4
	}
	at := func(i int) time.Time {
		if n >= i {
			return t.Updated
		}
		return time.Time{}
	}
	failure := ""
	if acc.Failure != "" && t.Status != task.Complete {
		failure = acc.Failure
	}
	ms := []mark{
		{name: "merge description", at: at(1)}, {name: "merge", at: at(3)}, {name: "finalize", at: at(3)}, {name: "clean up", at: at(4)},
	}
	if acc.Step == "complete" && t.Status != task.Complete {
		// Taken up again since: this accept had succeeded all the same.
		t.Status, t.Merge, cleaned, failure = task.Complete, acc.Commit, true, ""
		for i := range ms {
			ms[i].at = acc.Began
		}
	}
	switch {
	case t.Status == task.Complete && !cleaned && acc.Failure != "":
		p.Phases, p.Done = lay(ms, acc.Failure), true
		p.Error = &fault.Error{
			Code: "cleanup_pending", Kind: fault.Failed,
			Public: fmt.Sprintf("%s is merged into %s as %s and complete; %s. It is tried again until it succeeds.", t.Name(), t.Target, short(t.Merge), acc.Failure),
		}
		return p
	case t.Status == task.Complete:
		p.Phases, p.Done = lay(ms, ""), cleaned
	case t.Status == task.Merging:
		// A dead accept that waits to be resumed has not failed: it goes on.
		p.Phases, p.Done = lay(ms, ""), acceptGivenUp(t)
	default:
		p.Phases, p.Done = lay(ms, failure), true
	}
	if !p.Done {
		return p
	}
	if t.Status != task.Complete {
		p.Error = &fault.Error{
			Code: "accept_aborted", Kind: fault.Failed,
			Public: fmt.Sprintf("the accept of %s was given up: %s Nothing was merged; it is %s.", t.Name(), failure, t.Status.Words()),
			Next:   []fault.Next{{Text: "Sync the task if its target moved, then accept again."}},
		}
		return p
	}
	p.Result = encode(map[string]any{
		"task_id": t.ID, "code": t.Code, "status": t.Status, "merge_sha": t.Merge, "target": t.Target, "operation_id": o.ID,
	})
	return p
}
