package app_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// launches is every verb that starts a turn, on a task it applies to.
func (r *rig) launches() map[string]args {
	backlog := string(r.create("backlog", "").TaskID)
	rest := r.working("rest", "")
	r.park(rest)
	return map[string]args{
		"startTask":   {"task_id": backlog},
		"unblockTask": {"task_id": string(rest), "feedback": "go on"},
		"resumeTask":  {"task_id": string(rest)},
		"askTask":     {"task_id": string(rest), "question": "why"},
		"syncTask":    {"task_id": string(rest)},
	}
}

func TestAGroundStopAndADrainRefuseEveryStart(t *testing.T) {
	req.Covers(t, "US-022", "GN-09", "CM-046")
	r := newRig(t)
	all := r.launches()
	for _, c := range []struct {
		on, off string
		in, out args
		code    refusal.Code
		says    []string
	}{
		{"engageGroundStop", "releaseGroundStop", args{"reason": "it burns money"}, args{}, refusal.GroundStop, []string{"this project", "it burns money", "Ada", "2026-"}},
		{"engageGroundStop", "releaseGroundStop", args{"reason": "all of it", "scope": "tenant"}, args{"scope": "tenant"}, refusal.GroundStop, []string{"this tenant", "all of it"}},
		{"setDrain", "setDrain", args{"on": true}, args{"on": false}, refusal.Draining, []string{"This project is being drained"}},
	} {
		do[app.GateState](r, r.owner(), c.on, c.in)
		do[app.GateState](r, r.owner(), c.on, c.in) // a second time changes nothing
		for name, in := range all {
			for _, who := range []identity.Caller{r.owner(), r.builder()} {
				err := r.refused(who, c.code, name, in)
				for _, want := range c.says {
					if !strings.Contains(fault.Of(err).Public, want) {
						t.Errorf("%s: %q does not say %q", name, fault.Of(err).Public, want)
					}
				}
			}
		}
		for _, name := range []string{"startTask", "unblockTask", "resumeTask"} {
			in := args{"past_usage_pause": true}
			maps.Copy(in, all[name])
			r.refused(r.builder(), c.code, name, in)
		}
		if n := r.runner.count(); n != 0 {
			t.Errorf("%d runs were launched", n)
		}
		do[app.GateState](r, r.owner(), c.off, c.out)
	}
	do[app.Begun](r, r.owner(), "startTask", all["startTask"])
}

func TestOnlyAPersonReleasesAGroundStop(t *testing.T) {
	req.Covers(t, "GN-06", "GN-01")
	r := newRig(t)
	tid := r.working("task", "")
	r.refused(r.agent(tid), refusal.BuilderOnly, "lazy_ground_stop", args{"reason": "x"})
	r.refused(r.builder(), refusal.HumanOnly, "lazy_ground_stop", args{"reason": "x", "scope": "tenant"})
	got := do[app.GateState](r, r.builder(), "lazy_ground_stop", args{"reason": "x"})
	if got.Stop == nil || got.Stop.By.Role != identity.BuilderRole || got.Stop.Scope != "project" {
		t.Errorf("engaged: %+v", got.Stop)
	}
	for _, who := range []identity.Caller{r.builder(), r.agent(tid), r.operator()} {
		if out, err := r.try(r.call(who), "releaseGroundStop", args{}); err == nil {
			t.Errorf("a %s released it: %v", who.Kind, out)
		}
	}
	if o := r.op("releaseGroundStop"); o.Tool != "" {
		t.Error("releasing is a tool")
	}
	if s := do[app.Standing](r, r.agent(tid), "lazy_status", args{}); s.Stop == nil || s.Stop.Reason != "x" {
		t.Errorf("an agent's status shows %+v", s.Stop)
	}
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	if s := do[app.GateState](r, r.operator(), "groundStopStatus", args{}); s.Stop != nil {
		t.Errorf("after the release: %+v", s.Stop)
	}
}

func TestABeatCarriesTheGroundStopAndItsAcknowledgement(t *testing.T) {
	req.Covers(t, "US-023", "SY-044", "GN-03")
	r := newRig(t)
	tid := r.working("task", "")
	if out := r.beat(tid, turn.BeatIn{State: "running"}); out.NoModel != "" || !out.ModelUntil.Equal(r.clock.Now().Add(30*time.Second)) {
		t.Errorf("without a stop: %+v", out)
	}
	do[app.GateState](r, r.owner(), "setDrain", args{"on": true})
	if out := r.beat(tid, turn.BeatIn{State: "running"}); out.NoModel != "" || out.ModelUntil.IsZero() {
		t.Errorf("a drain reached a running turn: %+v", out)
	}
	do[app.GateState](r, r.owner(), "engageGroundStop", args{"reason": "runaway"})
	acked := func() bool {
		s := do[app.Standing](r, r.owner(), "getStatus", args{})
		if s.Stop == nil || s.Drain == nil || len(s.Acks) != 1 || s.Acks[0].TaskID != tid {
			t.Fatalf("status: %+v", s)
		}
		return s.Acks[0].Acknowledged
	}
	if acked() {
		t.Error("acknowledged before any beat")
	}
	r.clock.advance(time.Second)
	out := r.beat(tid, turn.BeatIn{State: "running"})
	if !strings.Contains(out.NoModel, "runaway") || !out.ModelUntil.IsZero() || out.Stop != "" {
		t.Errorf("under the stop: %+v", out)
	}
	if acked() {
		t.Error("acknowledged before the supervisor said so")
	}
	r.beat(tid, turn.BeatIn{State: "running", NoModel: out.NoModel})
	if !acked() {
		t.Error("not acknowledged after the supervisor said so")
	}
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	if out := r.beat(tid, turn.BeatIn{State: "running", NoModel: out.NoModel}); out.NoModel != "" || out.ModelUntil.IsZero() {
		t.Errorf("after the release: %+v", out)
	}
}

func TestAGroundStopThatCannotBeReadIsInForce(t *testing.T) {
	req.Covers(t, "GN-07")
	r := newRig(t)
	tid := r.working("task", "")
	backlog := r.create("backlog", "").TaskID
	k := store.For(tenant).Project(project).Key("GATES")
	if err := r.lag.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: store.Attr{"type": "gates", "schema": int64(1), "generation": int64(3)}, Doc: []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	r.refused(r.owner(), refusal.GroundStop, "startTask", args{"task_id": string(backlog)})
	if out := r.beat(tid, turn.BeatIn{State: "running"}); out.NoModel == "" {
		t.Errorf("a beat under an unreadable flag: %+v", out)
	}
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(backlog)})
}

func TestATurnClaimedBeforeAGroundStopNeverRuns(t *testing.T) {
	req.Covers(t, "GN-02", "GN-04")
	r := newRig(t)
	tid := r.create("late", "").TaskID
	b := do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
	do[app.GateState](r, r.owner(), "engageGroundStop", args{"reason": "now"})
	r.nonce(b)
	if n := r.runner.count(); n != 0 {
		t.Fatalf("%d runs were launched under the stop", n)
	}
	r.steps(tid, "record.v1", "decide.v1")
	got := r.load(tid)
	if got.Status != task.Interrupted || !strings.HasPrefix(got.Why, "ground_stop: ") || got.Interruptions != 0 || got.Claimed {
		t.Errorf("settled as %s, %q, %d interruptions", got.Status, got.Why, got.Interruptions)
	}
	if tr := rows[turn.Turn](r, tid, "TRN#"); tr[0].Gates != 0 || tr[1].Outcome != "stopped" || tr[1].Failure != nil {
		t.Errorf("recorded: %+v", tr)
	}
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	r.sweep(time.Hour)
	if got := r.load(tid); got.Status != task.Interrupted {
		t.Errorf("the release started it again: %s", got.Status)
	}
	do[app.Begun](r, r.owner(), "resumeTask", args{"task_id": string(tid)})
	if tr := rows[turn.Turn](r, tid, "TRN#"); tr[2].Gates != 2 {
		t.Errorf("the turn carries generation %d", tr[2].Gates)
	}
}

// sweep visits what is due after a while, and does what follows.
func (r *rig) sweep(after time.Duration) {
	r.t.Helper()
	r.clock.advance(after)
	r.lag.Settle()
	if _, err := r.Sweep(r.t.Context(), 100); err != nil {
		r.t.Fatal(err)
	}
	r.lag.Settle()
}

// recoveries counts the recoveries that were started.
func (e *fakeEngine) recoveries() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for k := range e.execs {
		if strings.HasPrefix(k, "recovery/") {
			n++
		}
	}
	return n
}

// recovered runs the recovery of a task's last turn as its definition does, and
// says whether it resumed.
func (r *rig) recovered(tid id.Task) bool {
	r.t.Helper()
	p := app.Payload{Tenant: tenant, Turn: string(r.load(tid).Turn)}
	out, err := r.Steps()["crash.v1"](r.t.Context(), p)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(text(out), `"resume":true`) {
		return false
	}
	if _, err := r.Steps()["resume.v1"](r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
	return r.load(tid).Claimed
}

func TestACrashUnderAGroundStopOrPauseResumesNothing(t *testing.T) {
	req.Covers(t, "CR-022", "US-008", "US-020")
	r := paused(t, 0.5)
	engage := map[string]func(tid id.Task){
		"ground_stop":  func(id.Task) { do[app.GateState](r, r.owner(), "engageGroundStop", args{"reason": "x"}) },
		"usage_paused": func(tid id.Task) { r.read(tid, 0.96) },
	}
	tids := map[string]id.Task{"usage_paused": r.paidWork("usage_paused"), "ground_stop": r.paidWork("ground_stop")}
	for _, name := range []string{"usage_paused", "ground_stop"} {
		tid := tids[name]
		engage[name](tid)
		r.clock.advance(time.Minute)
		if r.recovered(tid) {
			t.Fatalf("%s: it was resumed", name)
		}
		got := r.load(tid)
		if got.Status != task.Interrupted || got.Interruptions != 0 || got.Resumes != 0 || !strings.HasPrefix(got.Why, name+": ") {
			t.Errorf("%s: %s, %d interruptions, %d resumes, why %q", name, got.Status, got.Interruptions, got.Resumes, got.Why)
		}
	}
	waits := tids["usage_paused"]
	var row app.Row
	for _, one := range do[app.Listing](r, r.owner(), "listActive", args{}).Tasks {
		if one.TaskID == waits {
			row = one
		}
	}
	if !strings.HasPrefix(row.Text, "interrupted(waiting on usage pause until 2026-") {
		t.Errorf("it is shown as %q", row.Text)
	}
	lim := do[app.UsageLimits](r, r.owner(), "usageLimits", args{})
	if len(lim.Pause.Waiting) != 1 || lim.Pause.Waiting[0].TaskID != waits || !lim.Pause.Waiting[0].Until.Equal(r.reset) {
		t.Errorf("limits show as waiting %+v", lim.Pause.Waiting)
	}
	execs := r.engine.recoveries()
	r.sweep(10 * time.Minute)
	if r.engine.recoveries() != execs {
		t.Error("a recovery was started under the stop")
	}
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	r.sweep(10 * time.Minute)
	if r.engine.recoveries() != execs {
		t.Error("a recovery was started under the pause")
	}
	r.sweep(5 * time.Hour)
	if r.engine.recoveries() != execs+1 {
		t.Errorf("%d recoveries were started at the reset, want the one of the paused task", r.engine.recoveries()-execs)
	}
	if !r.recovered(waits) {
		t.Error("it was not resumed at the reset")
	}
	if got := r.load(waits); got.Held != nil || got.Resumes != 1 {
		t.Errorf("after the resume: held %+v, %d resumes", got.Held, got.Resumes)
	}
}

// paused is a paying rig whose credential has a window that is used up by part.
func paused(t *testing.T, part float64) *rig {
	t.Helper()
	r := paying(t)
	r.set.UsagePause = 95
	r.reset = r.clock.Now().Add(5 * time.Hour).UTC()
	do[app.CredentialShown](r, r.owner(), "putModelCredential", args{"provider": "claude", "secret": canary})
	tid := r.paidWork("first")
	r.read(tid, part)
	r.report(tid, turn.Response{})
	return r
}

// paidWork makes a task whose paid agent works.
func (r *rig) paidWork(code string) id.Task {
	r.t.Helper()
	c := do[app.Created](r, r.owner(), "createTask", args{"goal": strings.ReplaceAll(code, "_", "-"), "code": strings.ReplaceAll(code, "_", "-"), "prompt": "p", "agent": "paid"})
	r.start(c.TaskID)
	return c.TaskID
}

// read hands in, with a beat of a task's run, how much of the window is used.
func (r *rig) read(tid id.Task, part float64) {
	r.t.Helper()
	r.clock.advance(time.Second)
	r.beat(tid, turn.BeatIn{State: "running", Readings: []model.Reading{{
		Credential: "claude", At: r.clock.Now(), Headers: map[string]string{
			"anthropic-ratelimit-unified-5h-utilization": fmt.Sprint(part),
			"anthropic-ratelimit-unified-5h-reset":       fmt.Sprint(r.reset.Unix()),
			"set-cookie":                                 canary,
		},
	}}})
}
