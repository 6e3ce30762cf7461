package local_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	models "github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// busyFor is an agent whose service asks it to come back after d. The supervisor
// does not stay for it. Each command is sent on to seen.
func busyFor(d time.Duration, seen chan<- turn.Command) func(*sup) {
	return func(s *sup) {
		s.begin()
		seen <- s.cmd
		s.write("half.txt", "half\n")
		if err := s.commit("half of it"); err != nil {
			s.die(1, err.Error())
		}
		s.settle(turn.Response{
			Outcome: "error", Session: "talk-1", Commits: 1, Wait: d, Pace: &turn.Pace{Attempts: 3, Transient: 3},
			Failure: &turn.Failure{Class: turn.Overload, Reason: "the service is busy", Attempts: 3, RetryAfter: d},
			Usage:   []models.Usage{{Credential: "claude", Model: "m", Input: 10}},
		})
	}
}

// goesOn is the run after it, which ends the turn well.
func goesOn(seen chan<- turn.Command) func(*sup) {
	return func(s *sup) {
		s.begin()
		seen <- s.cmd
		s.write("done.txt", "done\n")
		if err := s.commit("the rest"); err != nil {
			s.die(1, err.Error())
		}
		s.settle(turn.Response{Outcome: "ok", Text: "done", Session: "talk-1", Commits: 1, Usage: []models.Usage{{Credential: "claude", Model: "m", Input: 5}}})
	}
}

// waiting starts a task and waits until its turn waits without a run.
func (r *rig) waiting(d time.Duration) (tid id.Task, seen chan turn.Command) {
	r.t.Helper()
	seen = make(chan turn.Command, 8)
	r.host.next(busyFor(d, seen), goesOn(seen))
	tid = r.create("one")
	r.do("startTask", in{"task_id": "one"})
	r.until("the turn waits", func() bool { return r.task(tid).Wait != nil })
	return tid, seen
}

func TestAServiceThatAsksForHoursIsWaitedForWithoutARun(t *testing.T) {
	req.Covers(t, "FC-003", "FC-011", "OB-040", "SY-038", "B47")
	inBubble(t, func(t *testing.T, r *rig) {
		tid, seen := r.waiting(2 * time.Hour)
		ends := r.task(tid).Wait.Until
		time.Sleep(time.Hour)
		got := r.task(tid)
		if got.Status != task.Working || !got.Claimed || got.Epoch != 1 || r.host.launched() != 1 || !r.host.run(tid, 1).isGone() {
			t.Fatalf("in the wait it is %s (held %t) at epoch %d, %d launches", got.Status, got.Claimed, got.Epoch, r.host.launched())
		}
		when := ends.UTC().Format(time.RFC3339)
		line := "the service is busy, next " + when
		row := r.do("listTasks", in{})["tasks"].([]any)[0].(map[string]any)
		show := r.do("showTask", in{"task_id": "one"})
		told := r.do("explainTask", in{"task_id": "one"})
		for _, s := range []string{
			fmt.Sprint(row["retry_status"]), fmt.Sprint(row["substate"]), fmt.Sprint(show["retry_status"]), fmt.Sprint(told["facts"]),
		} {
			if !strings.Contains(s, line) || !strings.Contains(s, "attempt 3 (transient_overload)") {
				t.Errorf("a surface says %q", s)
			}
		}
		if next := fmt.Sprint(told["next"]); !strings.Contains(next, when) || !strings.Contains(fmt.Sprint(told["do"]), "lazy unblock one") {
			t.Errorf("explained: %v", told)
		}
		if spent := fmt.Sprint(show["usage"]); !strings.Contains(spent, "tokens:10 ") {
			t.Errorf("in the wait it has spent %s", spent)
		}
		r.sound()
		r.rest(tid, task.Blocked)
		if late := time.Since(ends); late < 0 || late > time.Minute {
			t.Errorf("it went on %s after the time asked for", late)
		}
		first, second := <-seen, <-seen
		if second.Turn != first.Turn || second.Epoch != 2 || second.Session != "talk-1" || second.Pace == nil || second.Pace.Transient != 3 ||
			second.Prompt != first.Prompt || !second.Deadline.Equal(first.Deadline) {
			t.Errorf("the next run was told %+v", second)
		}
		turns := rows[turn.Turn](r, tid, "TRN#")
		if len(turns) != 2 || turns[1].Outcome != "ok" || turns[1].Commits != 2 || models.Total(turns[1].Usage) != 15 {
			t.Errorf("the turns are %+v", turns)
		}
		if got := r.task(tid); r.path(tid) != "backlog working blocked" || r.host.launched() != 2 || got.Wait != nil || models.Total(got.Spent) != 15 {
			t.Errorf("it went %s with %d launches and spent %v", r.path(tid), r.host.launched(), got.Spent)
		}
		r.sound()
	})
}

func TestAWaitOutlivesTheControlPlane(t *testing.T) {
	req.Covers(t, "SY-040", "P7", "P9")
	for _, c := range []struct {
		name string
		away time.Duration
	}{{"back in time", 30 * time.Minute}, {"back too late", 3 * time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid, _ := r.waiting(2 * time.Hour)
				ends := r.task(tid).Wait.Until
				time.Sleep(10 * time.Minute)
				r.down()
				time.Sleep(c.away)
				r.up()
				back := time.Now()
				r.rest(tid, task.Blocked)
				due := ends
				if back.After(due) {
					due = back
				}
				if late := time.Since(due); late < 0 || late > time.Minute {
					t.Errorf("it went on %s after it was due", late)
				}
				time.Sleep(30 * time.Minute)
				if r.path(tid) != "backlog working blocked" || r.host.launched() != 2 || r.host.atOnce() != 1 {
					t.Errorf("it went %s, %d launches", r.path(tid), r.host.launched())
				}
			})
		})
	}
}

func TestAStopEndsAWaitAtOnce(t *testing.T) {
	req.Covers(t, "HA-028")
	inBubble(t, func(t *testing.T, r *rig) {
		tid, _ := r.waiting(2 * time.Hour)
		time.Sleep(10 * time.Minute)
		r.do("stopTask", in{"task_id": "one"})
		asked := time.Now()
		got := r.rest(tid, task.Interrupted)
		if took := time.Since(asked); took > 10*time.Second || !got.Hold || got.Wait != nil {
			t.Errorf("stopped after %s, held %t, wait %+v", took, got.Hold, got.Wait)
		}
		time.Sleep(3 * time.Hour)
		turns := rows[turn.Turn](r, tid, "TRN#")
		if r.path(tid) != "backlog working interrupted" || r.host.launched() != 1 || len(turns) != 2 || turns[1].Outcome != "stopped" {
			t.Errorf("it went %s, %d launches, turns %+v", r.path(tid), r.host.launched(), turns)
		}
		if got := r.task(tid); got.Interruptions != 0 || models.Total(got.Spent) != 10 {
			t.Errorf("%d interruptions, spent %v", got.Interruptions, got.Spent)
		}
		r.sound()
	})
}

func TestAPersonsWordOvertakesAWait(t *testing.T) {
	req.Covers(t, "P3", "CR-010", "P1", "FC-024")
	for _, verb := range []string{"unblock", "resume"} {
		t.Run(verb, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid, seen := r.waiting(2 * time.Hour)
				first := <-seen
				time.Sleep(10 * time.Minute)
				before := r.snapshotOf(tid)
				if _, err := r.try(r.owner, "askTask", in{"task_id": "one", "question": "how far?"}); !refusal.Is(err, refusal.TaskBusy) {
					t.Errorf("a question: %v", err)
				}
				if _, err := r.try(r.owner, "acceptTask", in{"task_id": "one"}); fault.KindOf(err) != fault.Conflict {
					t.Errorf("an accept: %v", err)
				}
				if now := r.snapshotOf(tid); now != before {
					t.Error("a refused call has written something")
				}
				if verb == "unblock" {
					r.do("unblockTask", in{"task_id": "one", "feedback": "use the other key"})
				} else {
					r.do("resumeTask", in{"task_id": "one"})
				}
				r.rest(tid, task.Blocked)
				second := <-seen
				if second.Turn == first.Turn || second.Pace != nil || !strings.Contains(second.Prompt, "Please do one.") {
					t.Errorf("the next run was told %+v", second)
				}
				if verb == "unblock" && !strings.Contains(second.Prompt, "use the other key") {
					t.Errorf("the prompt is %q", second.Prompt)
				}
				time.Sleep(3 * time.Hour)
				if r.path(tid) != "backlog working interrupted working blocked" || r.host.launched() != 2 {
					t.Errorf("it went %s, %d launches", r.path(tid), r.host.launched())
				}
				r.sound()
			})
		})
	}
}

func TestAGroundStopIsNotPassedByTheEndOfAWait(t *testing.T) {
	req.Covers(t, "P10", "SY-044", "GN-03", "CR-022")
	inBubble(t, func(t *testing.T, r *rig) {
		tid, _ := r.waiting(2 * time.Hour)
		state := r.do("engageGroundStop", in{"reason": "runaway"})
		if run, _ := state["running"].([]any); len(run) != 0 {
			t.Errorf("running under the stop: %v", run)
		}
		got := r.rest(tid, task.Interrupted)
		if !strings.HasPrefix(got.Why, "ground_stop: ") || got.Interruptions != 0 || r.host.launched() != 1 {
			t.Errorf("why %q, %d interruptions, %d launches", got.Why, got.Interruptions, r.host.launched())
		}
		r.do("releaseGroundStop", in{})
		time.Sleep(time.Hour)
		if r.host.launched() != 1 {
			t.Errorf("%d launches after the release", r.host.launched())
		}
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
	})
}

func TestAReleasedGroundStopLeavesAWaitAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tid, _ := r.waiting(2 * time.Hour)
		r.do("engageGroundStop", in{"reason": "a look"})
		time.Sleep(time.Hour)
		r.do("releaseGroundStop", in{})
		r.rest(tid, task.Blocked)
		if r.path(tid) != "backlog working blocked" || r.host.launched() != 2 {
			t.Errorf("it went %s, %d launches", r.path(tid), r.host.launched())
		}
	})
}

func TestAWaitEndsWithTheAgeOfItsTurn(t *testing.T) {
	req.Covers(t, "SY-047", "TE-007")
	inBubble(t, func(t *testing.T, r *rig) {
		tid, _ := r.waiting(70 * time.Hour)
		got := r.task(tid)
		if !got.Wait.Aged || !got.Wait.Until.Equal(got.TurnBegan.Add(6*time.Hour)) {
			t.Fatalf("it waits %+v", got.Wait)
		}
		if next := fmt.Sprint(r.do("explainTask", in{"task_id": "one"})["next"]); !strings.Contains(next, "comes to rest") {
			t.Errorf("explained: %s", next)
		}
		time.Sleep(4 * time.Hour)
		got = r.rest(tid, task.Blocked)
		if age := time.Since(got.TurnBegan); age < 6*time.Hour || age > 6*time.Hour+time.Minute || !strings.Contains(got.Why, "maximum age") {
			t.Errorf("at %s it rests for %q", age, got.Why)
		}
		time.Sleep(4 * time.Hour)
		turns := rows[turn.Turn](r, tid, "TRN#")
		if r.host.launched() != 1 || len(turns) != 2 || turns[1].Ending != turn.Neither {
			t.Errorf("%d launches, turns %+v", r.host.launched(), turns)
		}
		r.sound()
	})
}

func TestAFlowThatIsLostInAWaitIsTakenUpByAnother(t *testing.T) {
	req.Covers(t, "SY-045", "P11")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.breakStep(map[string]error{names.StepRenew: fault.New(fault.Internal, "broken")})
		tid, _ := r.waiting(2 * time.Hour)
		time.Sleep(2*time.Hour + 20*time.Minute)
		if got := r.task(tid); got.Status != task.Working || got.Wait == nil || r.host.launched() != 1 {
			t.Fatalf("it is %s, wait %+v, %d launches", got.Status, got.Wait, r.host.launched())
		}
		r.host.breakStep(nil)
		r.rest(tid, task.Blocked)
		if r.path(tid) != "backlog working blocked" || r.host.launched() != 2 || r.host.atOnce() != 1 {
			t.Errorf("it went %s, %d launches", r.path(tid), r.host.launched())
		}
		if tr := rows[turn.Turn](r, tid, "TRN#"); tr[0].N < 2 {
			t.Errorf("the flow was begun %d times", tr[0].N)
		}
		r.sound()
	})
}

func TestKillingThePlaneAtAnyWriteOfAWaitLaunchesOneSuccessor(t *testing.T) {
	run := func(r *rig) id.Task {
		seen := make(chan turn.Command, 8)
		r.host.next(busyFor(10*time.Minute, seen), goesOn(seen))
		tid := id.Task(r.sure("createTask", in{"goal": "one", "prompt": "do one", "code": "one"})["task_id"].(string))
		r.sure("startTask", in{"task_id": "one"})
		r.await(tid, task.Blocked)
		r.drained(tid)
		return tid
	}
	first, points := 0, 0
	t.Run("clean", func(t *testing.T) {
		inBubble(t, func(_ *testing.T, r *rig) {
			first = r.now().fuse.count() + 15 // past the start, which the story without a wait covers
			run(r)
			points = r.now().fuse.count()
		})
	})
	t.Logf("%d durable writes", points-first+1)
	if points < first+15 {
		t.Fatalf("there are %d writes, which cannot be all of them", points)
	}
	for n := first; n <= points; n++ {
		after := n%2 == 0
		if os.Getenv("LAZY_EVERY_CRASH") == "" && n%3 != 0 {
			continue // a third of them, unless all are asked for
		}
		t.Run(fmt.Sprintf("%d-%t", n, after), func(t *testing.T) {
			req.Covers(t, "P1", "P7", "P9", "SY-038")
			inBubble(t, func(t *testing.T, r *rig) {
				killed, stop := r.killAt(n, after)
				defer stop()
				tid := run(r)
				if !killed.Load() && n < points-3 { // beats and reads may save a write at the end
					t.Error("nothing was killed")
				}
				if got := r.path(tid); got != "backlog working blocked" || r.host.launched() != 2 || r.host.atOnce() != 1 {
					t.Errorf("the task went %s with %d launches, %d at once", got, r.host.launched(), r.host.atOnce())
				}
				if turns := rows[turn.Turn](r, tid, "TRN#"); len(turns) != 2 || turns[1].Commits != 2 {
					t.Errorf("turns %+v", turns)
				}
			})
		})
	}
}
