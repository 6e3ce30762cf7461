package app_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestThePauseStopsEveryStartUntilItsReset(t *testing.T) {
	req.Covers(t, "US-008", "US-018", "US-012", "US-011", "US-003")
	r := paused(t, 0.94)
	tid := do[app.Created](r, r.owner(), "createTask", args{"goal": "g", "code": "g", "prompt": "p", "agent": "paid"}).TaskID
	parent := r.working("parent", "")
	if _, err := r.try(r.call(r.owner()), "startTask", args{"task_id": "g"}); err != nil {
		t.Fatal("below the threshold:", err)
	}
	r.read(tid, 0.95)
	r.report(tid, turn.Response{})
	at := r.reset.Format(time.RFC3339)
	all := map[string]args{
		"unblockTask": {"task_id": "g", "feedback": "f"}, "resumeTask": {"task_id": "g"}, "askTask": {"task_id": "g", "question": "q"},
	}
	for name, in := range all {
		err := r.refused(r.owner(), refusal.UsagePaused, name, in)
		if f := fault.Of(err); f.Public != "claude is paused until "+at+" to avoid paid overage." || !says(err, "person", "--past-usage-pause") {
			t.Errorf("%s by a person: %q %v", name, f.Public, f.Next)
		}
		err = r.refused(r.builder(), refusal.UsagePaused, name, in)
		if !says(err, "builder", "only if the person asked for it") {
			t.Errorf("%s by a builder: %v", name, fault.Of(err).Next)
		}
	}
	// An agent is told the time and nothing else, and has no way around it.
	sub := do[app.Created](r, r.agent(parent), "lazy_create", args{"goal": "sub", "prompt": "p", "agent": "paid"}).TaskID
	r.finishTurn(sub)
	err := r.refused(r.agent(parent), refusal.UsagePaused, "lazy_resume", args{"task_id": string(sub)})
	if f := fault.Of(err); f.Public != "The usage window resets at "+at+"." || len(f.Next)+len(f.Details) != 0 {
		t.Errorf("an agent is told %q, %v, %v", f.Public, f.Next, f.Details)
	}
	for _, name := range []string{"lazy_start", "lazy_unblock", "lazy_resume", "lazy_ask"} {
		if _, ok := r.op(name).Schema(identity.Task).Properties["past_usage_pause"]; ok {
			t.Errorf("%s offers an agent a way past the pause", name)
		}
		_, ok := r.op(name).Schema(identity.Builder).Properties["past_usage_pause"]
		if want := name != "lazy_ask"; ok != want {
			t.Errorf("%s offers the builder a way past the pause: %v", name, ok)
		}
		in := args{"task_id": string(sub), "past_usage_pause": true}
		maps.Copy(in, map[string]args{"lazy_unblock": {"feedback": "f"}, "lazy_ask": {"question": "q"}}[name])
		r.refused(r.agent(parent), refusal.UsagePassDenied, name, in)
	}
	c := r.call(r.agent(parent))
	c.Rule = app.Rule{Agent: app.Any}
	if _, err := r.LetTaskPastPause(t.Context(), c, string(sub), false); !refusal.Is(err, refusal.UsagePassDenied) {
		t.Errorf("the writer of passes took an agent's: %v", err)
	}
	if _, err := r.Resume(t.Context(), c, string(sub), true); !refusal.Is(err, refusal.UsagePassDenied) {
		t.Errorf("the handler took an agent's pass: %v", err)
	}
	r.held(text(do[app.UsageLimits](r, r.owner(), "usageLimits", args{})))
	r.clock.advance(5 * time.Hour)
	do[app.Begun](r, r.owner(), "resumeTask", args{"task_id": "g"})
}

// finishTurn lets a task rest after a turn that the pause did not hold.
func (r *rig) finishTurn(tid id.Task) {
	r.t.Helper()
	r.repo.branchFrom(r.load(tid).Target, "main")
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid), "past_usage_pause": true})
	r.report(tid, turn.Response{})
}

func TestAPassServesOneTaskOnce(t *testing.T) {
	req.Covers(t, "US-009", "US-010", "US-015")
	r := paused(t, 0.99)
	first := r.find("first")
	other := do[app.Created](r, r.owner(), "createTask", args{"goal": "other", "prompt": "p", "agent": "paid"}).TaskID
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first"})
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first"}) // one, however often
	if p := do[app.UsageLimits](r, r.owner(), "usageLimits", args{}).Pause.Passes; len(p) != 1 || p[0].TaskID != first || !strings.HasPrefix(p[0].By, "Ada") {
		t.Errorf("passes: %+v", p)
	}
	r.refused(r.owner(), refusal.UsagePaused, "startTask", args{"task_id": string(other)})
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first", "revoke": true})
	r.refused(r.owner(), refusal.UsagePaused, "resumeTask", args{"task_id": "first"})
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first"})
	// Whichever launch comes first uses it up: here a builder's.
	do[app.Begun](r, r.builder(), "resumeTask", args{"task_id": "first"})
	if tr := rows[turn.Turn](r, first, "TRN#"); !tr[len(tr)-1].Passed {
		t.Error("the turn does not say that it was let past")
	}
	r.report(first, turn.Response{})
	r.refused(r.owner(), refusal.UsagePaused, "resumeTask", args{"task_id": "first"})
	// With the flag it is one call.
	do[app.Begun](r, r.owner(), "askTask", args{"task_id": "first", "question": "q", "past_usage_pause": true})
	r.report(first, turn.Response{})
	r.refused(r.owner(), refusal.UsagePaused, "resumeTask", args{"task_id": "first"})
	r.refused(r.operator(), refusal.OperatorNotAPerson, "letTaskPastPause", args{"task_id": "first"})
}

func (r *rig) find(code string) id.Task {
	r.t.Helper()
	for _, row := range do[app.Listing](r, r.owner(), "listTasks", args{}).Tasks {
		if row.Code == code {
			return row.TaskID
		}
	}
	r.t.Fatal("no task", code)
	return ""
}

func TestOneOfTwoLaunchesGetsThePass(t *testing.T) {
	req.Covers(t, "US-009")
	r := paused(t, 0.99)
	tid := r.find("first")
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first"})
	// The other launch of the same task comes between this one's look and its write.
	r.log.before(meta(tid), func() {
		do[app.Begun](r, r.builder(), "resumeTask", args{"task_id": "first"})
		r.report(tid, turn.Response{})
	})
	r.refusedAfter(r.owner(), refusal.UsagePaused, "unblockTask", args{"task_id": "first", "feedback": "f"})
}

func TestReadingsThatCannotBeReadStopEveryLaunch(t *testing.T) {
	req.Covers(t, "US-016", "US-002")
	r := paused(t, 0.1)
	do[app.LetPast](r, r.owner(), "letTaskPastPause", args{"task_id": "first"})
	k := store.For(tenant).Reading("claude")
	if err := r.lag.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: store.Attr{"type": "reading", "schema": int64(1), "at": int64(1)}, Doc: []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	for _, who := range []identity.Caller{r.owner(), r.builder()} {
		for _, in := range []args{{"task_id": "first"}, {"task_id": "first", "past_usage_pause": true}} {
			if err := r.refused(who, refusal.UsageUnreadable, "resumeTask", in); !strings.Contains(fault.Of(err).Public, k.String()) {
				t.Errorf("the record is not named: %v", err)
			}
		}
	}
	r.refused(r.owner(), refusal.UsageUnreadable, "usageLimits", args{})
	r.refused(r.builder(), refusal.UsageUnreadable, "lazy_usage_limits", args{})
	free := r.create("free", "").TaskID
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(free)}) // it spends nothing
	tid := r.working("more", "")
	r.beat(tid, turn.BeatIn{State: "running", Readings: []model.Reading{{Credential: "claude", At: r.clock.Now(), Headers: map[string]string{"x-ratelimit-a": "1"}}}})
	r.refused(r.owner(), refusal.UsageUnreadable, "usageLimits", args{}) // and nothing wrote over it
}

func TestAnAgentsStartOnAPausedCredentialIsHeldAndBeginsAtTheReset(t *testing.T) {
	req.Covers(t, "US-017", "US-020")
	r := paused(t, 0.99)
	parent := r.working("parent", "")
	kid := do[app.Created](r, r.agent(parent), "lazy_create", args{"goal": "kid", "prompt": "p", "agent": "paid"}).TaskID
	held := do[app.Begun](r, r.agent(parent), "lazy_start", args{"task_id": string(kid), "model": "opus"})
	if !held.Held || !held.Resets.Equal(r.reset) || held.Turn != "" || !strings.Contains(held.Note, "End your turn") {
		t.Errorf("held: %+v", held)
	}
	state := do[app.Standing](r, r.owner(), "getStatus", args{"task_id": string(kid)}).Task
	if want := "backlog(waiting on usage pause until " + r.reset.Format(time.RFC3339) + ")"; state.Text != want || state.Status != task.Backlog {
		t.Errorf("it is shown as %q, want %q", state.Text, want)
	}
	mine := do[app.UsageLimits](r, r.agent(kid), "lazy_usage_limits", args{})
	if len(mine.Pause.Waiting) != 1 || len(mine.Readings) != 0 {
		t.Errorf("the held task's own view: %+v", mine)
	}
	r.park(parent)
	r.sweep(time.Hour)
	if got := r.load(kid); got.Status != task.Backlog {
		t.Fatalf("an hour later it is %s", got.Status)
	}
	r.sweep(4 * time.Hour)
	got := r.load(kid)
	if got.Status != task.Working || got.Held != nil || got.Model != "opus" || got.Last.Actor.Role != identity.Agent {
		t.Fatalf("after the reset: %s, held %+v, model %q, by %+v", got.Status, got.Held, got.Model, got.Last.Actor)
	}
	r.drain(kid)
	notes := rows[raise.Comment](r, parent, "CMT#")
	if n := len(notes); n == 0 || !strings.Contains(notes[n-1].Text, "[Subtask started] kid") {
		t.Errorf("its parent is told %+v", notes)
	}
}

func TestUsageReadingsAreNarrowed(t *testing.T) {
	req.Covers(t, "US-001", "US-004", "US-005", "US-006", "US-021")
	r := paused(t, 0.5)
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "name": "unread", "secret": canary + "2"})
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"name": "claude", "rotate": true, "secret": canary + "3"})
	own := do[app.UsageLimits](r, r.owner(), "usageLimits", args{})
	if len(own.Readings) != 1 || own.Readings[0].Windows[0].Percent != 50 || own.Readings[0].Headers["anthropic-ratelimit-unified-5h-utilization"] != "0.5" || own.Pause.Threshold != 95 {
		t.Errorf("readings: %+v", own)
	}
	if a := own.Pause.Armed; len(a) != 2 || a[0].Unread || !a[1].Unread || a[1].Credential != "unread" {
		t.Errorf("armed: %+v", a)
	}
	if d := cmp.Diff(own, do[app.UsageLimits](r, r.builder(), "lazy_usage_limits", args{})); d != "" {
		t.Errorf("the builder of a laptop sees something else: %s", d)
	}
	free, paid := r.working("free", ""), r.paidWork("paid-task")
	if got := do[app.UsageLimits](r, r.agent(free), "lazy_usage_limits", args{}); len(got.Readings)+len(got.Pause.Armed) != 0 {
		t.Errorf("an agent that spends nothing sees %+v", got)
	}
	if got := do[app.UsageLimits](r, r.agent(paid), "lazy_usage_limits", args{}); len(got.Readings) != 1 || len(got.Pause.Armed) != 1 || len(got.Pause.Passes) != 0 {
		t.Errorf("an agent sees of what it spends %+v", got)
	}
	r.park(paid)
	if got := do[app.UsageLimits](r, r.agent(paid), "lazy_usage_limits", args{}); len(got.Readings) != 0 {
		t.Errorf("after its turn it sees %+v", got)
	}
	if _, err := r.try(r.call(r.agent(paid)), "lazy_usage_limits", args{"credential": "unread"}); err == nil {
		t.Error("a parameter was taken")
	}
	// In a team a member sees the project's and their own.
	r.Local = false
	do[app.CredentialShown](r, r.member(), "putModelCredential", args{"provider": "claude", "name": "bo", "secret": canary + "4"})
	for who, want := range map[identity.Kind]int{identity.User: 3, identity.Owner: 2, identity.Operator: 3} {
		c := map[identity.Kind]identity.Caller{identity.User: r.member(), identity.Owner: r.owner(), identity.Operator: r.operator()}[who]
		if got := do[app.UsageLimits](r, c, "usageLimits", args{}); len(got.Pause.Armed) != want {
			t.Errorf("%s sees %d credentials, want %d", c.Email, len(got.Pause.Armed), want)
		}
	}
}
