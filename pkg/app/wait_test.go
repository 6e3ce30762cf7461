package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

type waited struct {
	app.Waited
	err error
}

// waits begins a wait and returns when it is under way.
func (r *rig) wait(c app.Call, in args) <-chan waited {
	r.t.Helper()
	done := make(chan waited, 1)
	go func() {
		out, err := r.try(c, "waitTasks", in)
		w, _ := out.(app.Waited)
		done <- waited{w, err}
	}()
	r.clock.waiting(r.t)
	return done
}

// settle lets time pass second by second until the wait is over, and returns how
// much of it did.
func (r *rig) settle(done <-chan waited, most time.Duration) (waited, time.Duration) {
	r.t.Helper()
	for past := time.Duration(0); past <= most; past += time.Second {
		select {
		case w := <-done:
			return w, past
		default:
		}
		r.clock.advance(time.Second)
		select {
		case w := <-done:
			return w, past + time.Second
		case <-r.clock.made: // it looked again and waits for the next second
		case <-r.t.Context().Done():
		}
	}
	r.t.Fatalf("the wait is not over after %s", most)
	return waited{}, 0
}

func ids(tids ...id.Task) []string {
	var out []string
	for _, t := range tids {
		out = append(out, string(t))
	}
	return out
}

func TestAWaitEndsWhenTheFirstTaskRests(t *testing.T) {
	r := newRig(t)
	a, b := r.working("a", ""), r.working("b", "")
	done := r.wait(r.call(r.owner()), args{"task_ids": ids(a, b)})
	r.raised(b, "which?", true)
	r.park(b)
	w := <-done // the change itself wakes it; no time passes
	if w.err != nil || len(w.Settled) != 1 || w.Settled[0].TaskID != b || w.Settled[0].Status != task.Blocked || w.Settled[0].Blocking != 1 || w.TimedOut {
		t.Errorf("the wait answered %+v", w)
	}
	r.finish(b, task.Complete)
	got := do[app.Waited](r, r.owner(), "waitTasks", args{"task_ids": ids(a, b)})
	if s := got.Settled[0]; s.Status != task.Complete || s.HeadSHA == "" || s.HeadSHA != r.load(b).Merge {
		t.Errorf("a complete task answered %+v", s)
	}
}

func TestAWaitLooksAgainByItself(t *testing.T) {
	r := newRig(t)
	a := r.working("a", "")
	done := r.wait(r.call(r.owner()), args{"task_ids": ids(a)})
	// Another process parks it: no wake-up reaches this one.
	other := app.New(r.Deps)
	if err := other.Park(t.Context(), tenant, a); err != nil {
		t.Fatal(err)
	}
	w, past := r.settle(done, 5*time.Second)
	if w.err != nil || len(w.Settled) != 1 || past > 2*time.Second {
		t.Errorf("after %s: %+v", past, w)
	}
}

func TestAWaitIsBoundedAndWritesNothing(t *testing.T) {
	req.Covers(t, "CM-024")
	r := newRig(t)
	self, peer := r.working("self", ""), r.working("peer", "")
	for _, who := range []identity.Caller{r.owner(), r.agent(self)} {
		before := r.snapshot()
		done := r.wait(r.call(who), args{"task_ids": ids(peer)})
		w, past := r.settle(done, 700*time.Second)
		if w.err != nil || !w.TimedOut || past != 600*time.Second || len(w.Waiting) != 1 || w.Waiting[0].Code != "peer" {
			t.Errorf("%s: after %s: %+v", who.Kind, past, w)
		}
		after := r.snapshot()
		for k := range after {
			if before[k] != after[k] && !strings.Contains(k, "RUN#") {
				t.Errorf("%s: the wait wrote %s", who.Kind, k)
			}
		}
	}
	r.refused(r.owner(), refusal.InvalidArguments, "waitTasks", args{"task_ids": ids(peer), "timeout_s": 601})
	r.refused(r.owner(), refusal.InvalidArguments, "waitTasks", args{})
	r.refused(r.owner(), refusal.InvalidArguments, "waitTasks", args{"task_ids": ids(peer), "operation_id": "x"})
}

func TestAWaitGoesOnAcrossHopsAndKeepsItsBound(t *testing.T) {
	req.Covers(t, "RP-007")
	r := newRig(t)
	a := r.working("a", "")
	c := r.call(r.owner())
	c.Hold = 25 * time.Second
	in := args{"task_ids": ids(a), "timeout_s": 60}
	var total time.Duration
	for hop, want := range []time.Duration{25 * time.Second, 25 * time.Second, 10 * time.Second} {
		done := r.wait(c, in)
		w, past := r.settle(done, 30*time.Second)
		total += past
		if w.err != nil || past != want || w.Pending == (hop == 2) || w.TimedOut != (hop == 2) {
			t.Fatalf("hop %d took %s: %+v", hop, past, w)
		}
		in["cursor"] = w.Cursor
	}
	if total != 60*time.Second {
		t.Errorf("the whole wait took %s", total)
	}
	r.refused(r.owner(), refusal.InvalidArguments, "waitTasks", args{"task_ids": ids(a), "cursor": "99999999999999"})
}

func TestWaitingOnOneselfIsRefusedAtOnce(t *testing.T) {
	req.Covers(t, "CM-025", "AA-007")
	r := newRig(t)
	self := r.working("self", "")
	kid := r.working("kid", self)
	for _, in := range [][]string{ids(self), ids(kid, self), {"self"}, {self.Short()}} {
		err := r.refused(r.agent(self), refusal.SelfWait, "lazy_wait", args{"task_ids": in})
		if err == nil || !says(err, "", "End the turn") || !says(err, "", "subtasks") {
			t.Errorf("the refusal does not name both ways: %v", err)
		}
	}
}

func TestAWaitShowsOnTheCallersTaskAndIsBookedApart(t *testing.T) {
	req.Covers(t, "OB-030", "OB-031", "OB-032", "OB-033", "AA-006")
	r := newRig(t)
	self := r.working("self", "")
	kids := []id.Task{r.working("a", self), r.working("b", self), r.working("c", self), r.working("d", self)}
	beat := func() { r.run(self, func(run *turn.Run) { run.Beat = r.clock.Now() }) }
	text := func() string {
		beat()
		l := do[app.Listing](r, r.owner(), "listActive", args{})
		for _, row := range l.Tasks {
			if row.TaskID == self {
				for _, other := range []string{
					do[app.Shown](r, r.owner(), "showTask", args{"task_id": "self"}).Substate,
					do[app.Standing](r, r.owner(), "getStatus", args{"task_id": "self"}).Task.Substate,
				} {
					if other != row.Substate {
						t.Errorf("one surface reads %q, another %q", row.Substate, other)
					}
				}
				return row.Text
			}
		}
		return ""
	}
	one := r.wait(r.call(r.agent(self)), args{"task_ids": ids(kids[0])})
	for range 130 {
		r.clock.advance(time.Second)
		r.clock.waiting(t)
	}
	if got := text(); got != "working(waiting on a (2m10s))" {
		t.Errorf("one wait reads %q", got)
	}
	two := r.wait(r.call(r.agent(self)), args{"task_ids": ids(kids[1])})
	if got := text(); got != "working(waiting on a, b (2m10s))" {
		t.Errorf("two waits read %q", got)
	}
	four := r.wait(r.call(r.agent(self)), args{"task_ids": ids(kids[2], kids[3])})
	if got := text(); got != "working(waiting on a, b +2 (2m10s))" {
		t.Errorf("four read %q", got)
	}
	for i, k := range kids[:3] {
		r.park(k)
		if w := <-[]<-chan waited{one, two, four}[i]; w.err != nil || len(w.Settled) != 1 {
			t.Errorf("wait %d: %+v", i, w)
		}
	}
	if got := text(); got != "working(agent)" {
		t.Errorf("after the waits it reads %q", got)
	}
	if run := rows[turn.Run](r, self, "RUN#")[0]; run.Waited != 130*time.Second || len(run.Waiting) != 0 {
		t.Errorf("booked %s, still waiting on %v", run.Waited, run.Waiting)
	}
	// A process that dies leaves its marker behind; it is ignored once it is old.
	r.run(self, func(run *turn.Run) {
		run.Waiting, run.WaitSince, run.WaitUntil = []string{"ghost"}, r.clock.Now(), r.clock.Now().Add(30*time.Second)
	})
	if got := text(); got != "working(waiting on ghost (0s))" {
		t.Errorf("a fresh marker reads %q", got)
	}
	r.clock.advance(30 * time.Second)
	if got := text(); got != "working(agent)" {
		t.Errorf("an old marker reads %q", got)
	}
	// And a store that takes no marker does not touch the wait.
	r.log.failWith(fmt.Errorf("disk full"))
	done := r.wait(r.call(r.agent(self)), args{"task_ids": ids(kids[3]), "timeout_s": 2})
	if w, past := r.settle(done, 5*time.Second); w.err != nil || !w.TimedOut || past != 2*time.Second {
		t.Errorf("without a marker, after %s: %+v", past, w)
	}
	r.log.failWith(nil)
}
