package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// runner is the supervisor of a task's run in force.
func (r *rig) supervisor(tid id.Task) identity.Caller {
	t := r.load(tid)
	return identity.Caller{Kind: identity.Runner, Tenant: tenant, Project: project, Subject: string(tid), Turn: t.Turn, Epoch: t.Epoch, Hash: "runner"}
}

func (r *rig) beat(tid id.Task, b turn.BeatIn) turn.BeatOut {
	r.t.Helper()
	who := r.supervisor(tid)
	b.Turn, b.Epoch = who.Turn, who.Epoch
	out, err := r.Beat(r.t.Context(), who, b)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// report hands in what a run left and settles it as the flow does.
func (r *rig) report(tid id.Task, resp turn.Response) {
	r.t.Helper()
	who := r.supervisor(tid)
	resp.Turn, resp.Epoch = who.Turn, who.Epoch
	if resp.Outcome == "" {
		resp.Outcome = "ok"
	}
	if _, err := r.Report(r.t.Context(), who, resp); err != nil {
		r.t.Fatal(err)
	}
	r.steps(tid, "record.v1", "decide.v1")
}

// drain does what the outbox rows of a task ask for.
func (r *rig) drain(tid id.Task) {
	r.t.Helper()
	for _, k := range r.log.all() {
		if k.PK == store.For(tenant).Task(tid).PK && strings.HasPrefix(k.SK, "OUT#") {
			if err := r.Consume(r.t.Context(), k); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func (r *rig) steps(tid id.Task, names ...string) {
	r.t.Helper()
	for _, name := range names {
		if _, err := r.Steps()[name](r.t.Context(), app.Payload{Tenant: tenant, Turn: string(r.load(tid).Turn), N: 1}); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
}

func used(name string, in, out int64) []model.Usage {
	return []model.Usage{{Model: name, Credential: "secret-label", Requests: 1, Input: in, Output: out}}
}

func TestATaskCountsWhatItsTurnsSpent(t *testing.T) {
	req.Covers(t, "ST-001", "ST-004")
	r := newRig(t)
	tid := r.working("dear", "")
	before := r.log.writes()
	r.clock.advance(40e9)
	r.beat(tid, turn.BeatIn{State: "running", Progress: 1, Usage: used("opus", 5, 1)})
	if n := r.log.writes() - before; n != 1 {
		t.Errorf("a beat with usage made %d writes, want the run item's alone", n)
	}
	if got := do[app.Shown](r, r.owner(), "showTask", args{"task_id": string(tid), "sections": []string{"usage"}}); got.Usage.Tokens != 6 || len(got.Usage.Running) != 1 {
		t.Errorf("while it runs: %+v", got.Usage)
	}
	r.report(tid, turn.Response{Usage: used("opus", 10, 2)})
	do[app.Begun](r, r.owner(), "unblockTask", args{"task_id": string(tid), "feedback": "again"})
	r.report(tid, turn.Response{Usage: append(used("opus", 100, 20), used("haiku", 1000, 0)...)})

	shown := do[app.Shown](r, r.owner(), "showTask", args{"task_id": string(tid)})
	want := []app.Spend{{Model: "haiku", Requests: 1, Input: 1000, Tokens: 1000}, {Model: "opus", Requests: 2, Input: 110, Output: 22, Tokens: 132}}
	if d := cmp.Diff(want, shown.Usage.Models); d != "" || shown.Usage.Tokens != 1132 {
		t.Errorf("task: %s", d)
	}
	var perTurn []int64
	for _, tr := range shown.Turns.Items {
		for _, s := range tr.Usage {
			perTurn = append(perTurn, s.Tokens)
		}
	}
	if d := cmp.Diff([]int64{12, 1000, 120}, perTurn); d != "" {
		t.Errorf("per turn: %s", d)
	}
	people := do[app.TokenStats](r, r.owner(), "tokenStats", args{})
	if len(people.Tasks) != 1 || people.Tasks[0].Tokens != 1132 || people.Tasks[0].Rounds != 1 || people.Tasks[0].Outcome != "open" {
		t.Errorf("stats: %+v", people)
	}
	if d := cmp.Diff(people, do[app.TokenStats](r, r.builder(), "lazy_token_stats", args{})); d != "" {
		t.Errorf("the builder sees something else: %s", d)
	}
	if s := text(people) + text(shown); strings.Contains(s, "secret-label") {
		t.Error("a credential's label is shown")
	}
}

// A budget that is spent ends the turn for good: nothing asks again.
func TestATaskWhoseBudgetIsSpentRestsUntilItIsRaised(t *testing.T) {
	req.Covers(t, "B46", "US-022", "P6")
	r := newRig(t)
	r.set.TokenBudget = 1000
	tid := r.working("dear", "")
	who := r.supervisor(tid)
	if got := r.load(tid); got.Status != task.Working {
		t.Fatal(got.Status)
	}
	r.report(tid, turn.Response{
		Outcome: "stopped", Stopped: turn.StopBudget, Usage: used("opus", 990, 15),
		Failure: &turn.Failure{Class: turn.Unknown, Reason: "the task's token budget is spent"},
	})
	got := r.load(tid)
	if got.Status != task.Blocked || !strings.HasPrefix(got.Why, "budget:") || got.Resumes != 0 || got.Interruptions != 0 {
		t.Errorf("it rests as %s, %q", got.Status, got.Why)
	}
	in := args{"task_id": string(tid), "feedback": "go on"}
	before := r.snapshot()
	for _, by := range []identity.Caller{r.owner(), r.builder()} {
		name := "unblockTask"
		if by.Kind == identity.Builder {
			name = "lazy_unblock"
		}
		err := r.refused(by, refusal.BudgetSpent, name, in)
		if err == nil || !strings.Contains(err.Error(), "1005 of 1000 tokens") {
			t.Errorf("%s was told %v", by.Kind, err)
		}
	}
	if d := cmp.Diff(before, r.snapshot()); d != "" {
		t.Errorf("a refusal wrote: %s", d)
	}
	r.set.TokenBudget = 2000
	do[any](r, r.owner(), "unblockTask", in)
	if got := r.load(tid); got.Status != task.Working || got.Epoch == who.Epoch {
		t.Errorf("with a larger budget it is %s", got.Status)
	}
}

func TestACrashCountsOnceAlsoWhenItsAnswerComesLate(t *testing.T) {
	r := newRig(t)
	tid := r.working("fragile", "")
	r.clock.advance(40e9)
	r.beat(tid, turn.BeatIn{State: "running", Progress: 1, Usage: used("opus", 50, 5)})
	who := r.supervisor(tid)
	r.steps(tid, "crash.v1")
	if got := r.load(tid); got.Status != task.Interrupted || len(got.Spent) != 1 || got.Spent[0].Tokens() != 55 {
		t.Fatalf("after the crash: %s %+v", got.Status, got.Spent)
	}
	ack, err := r.Report(t.Context(), who, turn.Response{Turn: who.Turn, Epoch: who.Epoch, Outcome: "ok", Usage: used("opus", 70, 7)})
	if err != nil || !ack.Stored {
		t.Fatal(ack, err)
	}
	r.drain(tid)
	if got := r.load(tid); got.Status != task.Blocked || len(got.Spent) != 1 || got.Spent[0].Input != 70 || got.Spent[0].Requests != 1 {
		t.Errorf("after the late answer: %s %+v", got.Status, got.Spent)
	}
}

func TestATaskAgentSeesItsOwnSpendingOnly(t *testing.T) {
	req.Covers(t, "ST-002", "ST-003", "ST-005", "CM-022")
	r := newRig(t)
	spent := func(goal string, parent id.Task, n int64) id.Task {
		tid := r.working(goal, parent)
		r.report(tid, turn.Response{Usage: used("opus", n, 0)})
		return tid
	}
	self := spent("self", "", 1)
	child := spent("child", self, 2)
	grand := spent("grandchild", child, 4)
	other := spent("other", "", 8)
	who := r.agent(self)
	sum := func(who identity.Caller, in args) (n int64) {
		for _, row := range do[app.TokenStats](r, who, "lazy_token_stats", in).Tasks {
			n += row.Tokens
		}
		return n
	}
	for _, c := range []struct {
		in   args
		want int64
	}{{args{}, 1}, {args{"subtree": true}, 7}, {args{"task_id": string(self)}, 1}, {args{"task_id": string(child), "subtree": true}, 6}} {
		if got := sum(who, c.in); got != c.want {
			t.Errorf("%v: %d tokens, want %d", c.in, got, c.want)
		}
	}
	r.refused(who, refusal.OwnStatsOnly, "lazy_token_stats", args{"task_id": string(child)})
	r.refused(who, refusal.OwnStatsOnly, "lazy_token_stats", args{"task_id": string(other), "subtree": true})
	for tid, open := range map[id.Task]bool{self: true, child: true, grand: true, other: false} {
		got := do[app.Shown](r, who, "lazy_show", args{"task_id": string(tid)})
		if (got.Usage != nil) != open || (text(got.Turns) != "" && strings.Contains(text(got.Turns), `"tokens"`)) != open {
			t.Errorf("lazy_show of %s shows its spending: %v, want %v", got.Code, got.Usage != nil, open)
		}
	}
	models := func(who identity.Caller) app.ModelStats {
		return do[app.TokenStats](r, who, "lazy_token_stats", args{}).Models[0]
	}
	for i, tid := range []id.Task{grand, child, other} {
		r.finish(tid, task.Complete)
		r.lag.Settle()
		mine, all := models(who), models(r.builder())
		if mine.Tasks != 4 || mine.Accepted != i+1 || *mine.FirstPass != 1 || all.Tokens == nil {
			t.Errorf("%d accepted: %+v and %+v", i+1, mine, all)
		}
		if told := i+1 >= 3; (mine.Tokens != nil) != told || (mine.Withheld == "") != told {
			t.Errorf("with %d accepted an agent is told %v (%s)", i+1, mine.Tokens, mine.Withheld)
		}
		mine.Tokens, mine.Withheld, all.Tokens = nil, "", nil
		if d := cmp.Diff(all, mine); d != "" {
			t.Errorf("an agent's aggregates differ: %s", d)
		}
	}
}

func TestTheRetryLineIsOnEverySurfaceUntilItWorksAgain(t *testing.T) {
	req.Covers(t, "OB-040", "FC-011")
	r := newRig(t)
	tid := r.working("busy", "")
	line := "attempt 7 (transient_overload): the service is overloaded"
	for range 60 { // a quarter of an hour of it is no crash and no reason to give up
		r.clock.advance(15e9)
		r.beat(tid, turn.BeatIn{State: "running", Progress: 3, Retry: line})
	}
	surfaces := func() map[string]app.Row {
		return map[string]app.Row{
			"list":      do[app.Listing](r, r.owner(), "listTasks", args{}).Tasks[0],
			"active":    do[app.Listing](r, r.builder(), "lazy_active", args{}).Tasks[0],
			"status":    do[app.Standing](r, r.owner(), "getStatus", args{"task_id": "busy"}).Task.Row,
			"project":   do[app.Standing](r, r.owner(), "getStatus", args{}).Active[0],
			"lazy_show": do[app.Shown](r, r.builder(), "lazy_show", args{"task_id": "busy"}).Row,
		}
	}
	for name, row := range surfaces() {
		if row.Retry != line || row.Substate != "harness:retrying: "+line || row.Status != task.Working {
			t.Errorf("%s shows %q, %q", name, row.Retry, row.Text)
		}
	}
	if got := r.load(tid); got.Interruptions != 0 || !got.Claimed {
		t.Errorf("it counted as %d interruptions", got.Interruptions)
	}
	r.clock.advance(15e9)
	r.beat(tid, turn.BeatIn{State: "running", Progress: 4})
	for name, row := range surfaces() {
		if row.Retry != "" || strings.Contains(row.Text, "retrying") {
			t.Errorf("%s still shows %q, %q", name, row.Retry, row.Text)
		}
	}
}

func TestAFailureThatNoRetryCanHelpParksTheTurn(t *testing.T) {
	req.Covers(t, "FC-006", "FC-024")
	r := newRig(t)
	tid := r.working("broke", "")
	broke := &turn.Failure{Class: turn.FatalAuth, Reason: "your credit balance is too low"}
	for i := range 2 {
		r.report(tid, turn.Response{Outcome: "error", Failure: broke})
		got := r.load(tid)
		if got.Status != task.Blocked || got.Why != "fatal_auth: your credit balance is too low" || got.Interruptions != 0 {
			t.Fatalf("%d: %s, %q", i, got.Status, got.Why)
		}
		r.lag.Settle()
		r.clock.advance(24 * 3600e9)
		if _, err := r.Sweep(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		if n := r.engine.recoveries(); n != 0 {
			t.Fatalf("%d recoveries of a failure that stays", n)
		}
		do[app.Begun](r, r.owner(), "unblockTask", args{"task_id": "broke", "feedback": "try again"})
	}
	n := 0
	for _, tr := range rows[turn.Turn](r, tid, "TRN#") {
		if tr.Side == turn.Answer && tr.Failure != nil && tr.Failure.Class == turn.FatalAuth {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d records of two equal failures", n)
	}
}
