package local_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// race makes n calls at once and returns how many succeeded and the refusals.
func (r *rig) race(n int, call func(i int) error) (won int, lost []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			err := call(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else {
				lost = append(lost, err)
			}
		})
	}
	all.Wait()
	return won, lost
}

func TestOneOfManyStartsWins(t *testing.T) {
	req.Covers(t, "SY-010", "OT-045", "P1", "B45", "SY-035")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(func(s *sup) { s.begin(); s.goOn(time.Minute); s.ok("") })
		won, lost := r.race(64, func(i int) error {
			who := r.owner
			if i%2 == 1 {
				who = r.bench
			}
			_, err := r.try(who, "startTask", in{"task_id": "one"})
			return err
		})
		if won != 1 || len(lost) != 63 {
			t.Fatalf("%d won, %d lost", won, len(lost))
		}
		winner := r.task(tid).Last
		for _, err := range lost {
			e := fault.Of(err)
			if e.Code != string(refusal.TaskBusy) || e.Details["by"] != winner.Actor || e.Details["did"] != "start" || e.Details["at"] != winner.At {
				t.Fatalf("a loser was told %v %v", err, e.Details)
			}
			if !strings.Contains(e.Public, winner.Actor.String()) || !strings.Contains(e.Public, "send this again when it is idle") {
				t.Fatalf("a loser read %q", e.Public)
			}
		}
		if n := len(r.turns(tid)); n != 1 {
			t.Errorf("%d turns were stored", n)
		}
		r.rest(tid, task.Blocked)
		if r.host.launched() != 1 || r.host.atOnce() != 1 {
			t.Errorf("%d launches, %d at once", r.host.launched(), r.host.atOnce())
		}
	})
}

func TestOneOfManyDifferentVerbsWins(t *testing.T) {
	req.Covers(t, "SY-010", "SY-012", "P6", "HA-014")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		hold := func(s *sup) { s.begin(); s.goOn(time.Minute); s.ok("") }
		r.host.next(hold)
		before := len(r.turns(tid))
		ops := []struct {
			verb string
			args in
		}{
			{"unblockTask", in{"task_id": "one", "feedback": "words of a loser or of the winner"}},
			{"askTask", in{"task_id": "one", "question": "why?"}},
			{"resumeTask", in{"task_id": "one"}},
			{"syncTask", in{"task_id": "one"}},
		}
		won, lost := r.race(50, func(i int) error {
			o := ops[i%len(ops)]
			_, err := r.try(r.owner, o.verb, o.args)
			return err
		})
		if won != 1 {
			t.Fatalf("%d won", won)
		}
		for _, err := range lost {
			if code := fault.Code(err); code != string(refusal.TaskBusy) && code != string(refusal.WorkingSync) {
				t.Fatalf("a loser was told %v", err)
			}
		}
		if n := len(r.turns(tid)) - before; n != 1 {
			t.Errorf("%d inputs were stored", n)
		}
		if n := len(rows[map[string]any](r, tid, "BDY#turn-")); n > 1 {
			t.Errorf("%d texts were stored", n)
		}
		r.until("it rests", func() bool { return !r.task(tid).Claimed })
		if r.host.atOnce() != 1 {
			t.Errorf("%d runs at once", r.host.atOnce())
		}
	})
}

func TestStartsOfDifferentTasksNeverConflict(t *testing.T) {
	req.Covers(t, "SY-010")
	inBubble(t, func(t *testing.T, r *rig) {
		const n = 12
		for i := range n {
			r.create(fmt.Sprintf("t%d", i))
			r.host.next(func(s *sup) { s.begin(); s.ok("") })
		}
		won, lost := r.race(n, func(i int) error {
			_, err := r.try(r.owner, "startTask", in{"task_id": fmt.Sprintf("t%d", i)})
			return err
		})
		if won != n {
			t.Errorf("%d of %d started: %v", won, n, lost)
		}
	})
}

func TestAVerbThatIsRefusedHasWrittenNothing(t *testing.T) {
	req.Covers(t, "HA-032", "P6", "SY-011", "AP-002", "HA-011")
	inBubble(t, func(t *testing.T, r *rig) {
		verbs := []struct {
			name string
			args in
		}{
			{"startTask", in{}},
			{"unblockTask", in{"feedback": "go"}},
			{"resumeTask", in{}},
			{"askTask", in{"question": "why"}},
			{"syncTask", in{}},
			{"stopTask", in{}},
			{"acceptTask", in{}},
			{"rejectTask", in{"reason": "no"}},
			{"closeTask", in{"reason": "no"}},
			{"reopenTask", in{"reason": "again"}},
		}
		allowed := map[task.Status][]string{
			task.Backlog:     {"startTask", "closeTask"},
			task.Working:     {"stopTask", "rejectTask", "closeTask"},
			task.Interrupted: {"unblockTask", "resumeTask", "rejectTask", "closeTask"},
			task.Pairing:     {},
		}
		ids := map[task.Status]id.Task{task.Backlog: r.create("backlog")}
		r.host.next(func(s *sup) { s.begin(); s.goOn(24 * time.Hour) })
		ids[task.Working] = r.create("working")
		r.do("startTask", in{"task_id": "working"})
		ids[task.Interrupted] = r.create("interrupted")
		r.host.next(func(s *sup) {
			s.begin()
			s.goOn(24 * time.Hour)
			s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopAsked})
		})
		r.do("startTask", in{"task_id": "interrupted"})
		r.until("it runs", func() bool { _, ok := r.host.heard(ids[task.Interrupted], 1); return ok })
		r.do("stopTask", in{"task_id": "interrupted"})
		r.rest(ids[task.Interrupted], task.Interrupted)
		ids[task.Pairing] = r.create("pairing")
		r.force(ids[task.Pairing], func(t *task.Task) { t.Status = task.Pairing; t.HadSession = true })
		for status, yes := range allowed {
			for _, v := range verbs {
				skip := false
				for _, y := range yes {
					skip = skip || y == v.name
				}
				if skip {
					continue
				}
				v.args["task_id"] = string(ids[status])
				for _, who := range []identity.Caller{r.owner, r.bench} {
					before := r.snapshotOf(ids[status])
					_, err := r.try(who, v.name, v.args)
					if err == nil {
						t.Errorf("%s went through in %s", v.name, status)
						continue
					}
					if after := r.snapshotOf(ids[status]); after != before {
						t.Errorf("%s in %s was refused (%v) and wrote", v.name, status, err)
					}
					if k := fault.KindOf(err); k != fault.Conflict {
						t.Errorf("%s in %s is %s: %v", v.name, status, k, err)
					}
				}
			}
		}
		_, err := r.try(r.owner, "askTask", in{"task_id": "backlog", "question": "why"})
		if !strings.Contains(err.Error(), "never ran") {
			t.Errorf("a question to a task that never ran: %v", err)
		}
	})
}

func TestAnotherTeamFindsNoTask(t *testing.T) {
	req.Covers(t, "SM-040")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		text, err := r.app().MintOwner(t.Context(), "rival", project, "eve@example.com", "Eve")
		if err != nil {
			t.Fatal(err)
		}
		eve, err := r.app().Authenticate(t.Context(), text, "rpc")
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{string(tid), tid.Short(), "one"} {
			for _, verb := range []string{"startTask", "showTask", "closeTask"} {
				args := in{"task_id": word}
				if verb == "closeTask" {
					args["reason"] = "mine"
				}
				_, err := r.try(eve, verb, args)
				if fault.KindOf(err) != fault.NotFound {
					t.Errorf("%s %s: %v, want not found", verb, word, err)
				}
			}
		}
	})
}

func TestARepeatedCallStartsOneTurn(t *testing.T) {
	req.Covers(t, "RP-027", "OT-025", "B42")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(func(s *sup) { s.begin(); s.goOn(time.Minute); s.ok("") })
		first, err := r.tryKey(r.owner, "startTask", in{"task_id": "one"}, "k")
		if err != nil {
			t.Fatal(err)
		}
		won, lost := r.race(8, func(int) error {
			again, err := r.tryKey(r.owner, "startTask", in{"task_id": "one"}, "k")
			if err == nil && again["turn_id"] != first["turn_id"] {
				err = fmt.Errorf("another turn: %v", again)
			}
			return err
		})
		if won != 8 {
			t.Errorf("repeats: %v", lost)
		}
		_, err = r.tryKey(r.owner, "startTask", in{"task_id": "one", "model": "other"}, "k")
		wantRefusal(t, err, refusal.KeyReused)
		r.rest(tid, task.Blocked)
		if n := len(r.turns(tid)); n != 2 || r.host.launched() != 1 {
			t.Errorf("%d turns, %d launches", n, r.host.launched())
		}
	})
}
