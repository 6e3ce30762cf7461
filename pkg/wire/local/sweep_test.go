package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// life is a task with a crash, an unblock, a stop and an accept in it.
func life(r *rig) id.Task {
	r.host.next(crash(40*time.Second, 137, "OOM killed or SIGKILL (exit code 137)"), work("done.txt", "done\n"), edit("more.txt", "more"),
		func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)}) })
	r.host.bePatient(true)
	tid := r.create("one")
	r.do("startTask", in{"task_id": "one"})
	r.rest(tid, task.Blocked)
	r.do("unblockTask", in{"task_id": "one", "feedback": "more"})
	r.rest(tid, task.Blocked)
	r.do("resumeTask", in{"task_id": "one"})
	r.running(tid)
	r.do("stopTask", in{"task_id": "one"})
	r.rest(tid, task.Interrupted)
	r.do("unblockTask", in{"task_id": "one", "feedback": "and end"})
	r.rest(tid, task.Blocked)
	r.do("acceptTask", in{"task_id": "one"})
	r.rest(tid, task.Complete)
	r.until("cleaned up", func() bool { return r.task(tid).Workspace == nil })
	r.drained(tid)
	return tid
}

const lifeGoes = "backlog working interrupted working blocked working blocked working interrupted working blocked merging complete"

func TestEventsLostOrRepeatedChangeOnlyWhen(t *testing.T) {
	req.Covers(t, "P11", "SY-001", "SY-003", "SY-002", "SM-024")
	for name, set := range map[string]func(*rig){
		"every event delivered once":     func(*rig) {},
		"every outbox row twice":         func(r *rig) { r.deliver = 2 },
		"every event lost":               func(r *rig) { r.deliver = 0; r.host.beDeaf(true) },
		"outbox rows late and backwards": func(r *rig) { r.backwards = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.down()
				set(r)
				r.up()
				tid := life(r)
				if path := r.path(tid); path != lifeGoes {
					t.Errorf("it went %s", path)
				}
				if got := r.task(tid); r.file("main", "more.txt") != "more" || got.Epoch != 6 || r.host.atOnce() != 1 || r.host.launched() != 5 {
					t.Errorf("epoch %d, %d launches, %d at once", got.Epoch, r.host.launched(), r.host.atOnce())
				}
				if n := len(r.turns(tid)); n != 10 {
					t.Errorf("%d turns", n)
				}
			})
		})
	}
}

func TestTheSameEventTwiceChangesNothing(t *testing.T) {
	req.Covers(t, "SM-024", "SY-002", "SY-046", "SY-036", "B26")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(crash(40*time.Second, 137, "OOM"), func(s *sup) { s.begin(); s.goOn(10 * time.Minute); s.ok("") })
		r.do("startTask", in{"task_id": "one"})
		r.until("the second run works", func() bool { return r.host.run(tid, 2) != nil })
		r.running(tid)
		before := r.task(tid)
		for range 3 { // the end of the first run is told again, late
			if err := r.app().RunnerGone(t.Context(), tenant, tid, 1, runner.Report{Sight: runner.Gone, ExitCode: 137, Reason: "OOM"}); err != nil {
				t.Error(err)
			}
			if _, err := r.app().Sweep(t.Context(), 100); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		after := r.task(tid)
		if after.Version != before.Version || after.Interruptions != 1 || after.Status != task.Working {
			t.Errorf("a stale event changed %+v to %+v", before, after)
		}
		r.rest(tid, task.Blocked)
		if n := len(r.turns(tid)); n != 4 || r.host.launched() != 2 {
			t.Errorf("%d turns, %d launches", n, r.host.launched())
		}
	})
}

func TestAReportThatWasSettledIsNotALateAnswer(t *testing.T) {
	req.Covers(t, "SM-024", "P11", "SY-005")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.bePatient(true)
		r.host.next(func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)}) })
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		r.do("stopTask", in{"task_id": "one"})
		r.rest(tid, task.Interrupted)
		r.drained(tid)
		before, path := r.snapshotOf(tid), r.path(tid)
		if err := r.app().Consume(t.Context(), store.For(tenant).Task(tid).Run(1)); err != nil {
			t.Fatal(err)
		}
		if r.path(tid) != path || r.snapshotOf(tid) != before {
			t.Errorf("a report consumed again took the task %s", r.path(tid))
		}
	})
}

func TestAReportWhoseEventsAreLostIsSettledBySweep(t *testing.T) {
	req.Covers(t, "B21", "SY-003", "SY-049", "B27")
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		r.deliver, r.sweeps = 0, false
		r.host.beDeaf(true)
		r.up()
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		time.Sleep(time.Hour)
		if got := r.task(tid); got.Status != task.Working || r.host.launched() != 0 {
			t.Fatalf("without events and sweeps it is %s", got.Status)
		}
		for range 20 {
			if _, err := r.app().Sweep(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		r.rest(tid, task.Blocked)
		if r.lastTurn(tid).Ending != turn.DeclaredDone {
			t.Errorf("the turn is %+v", r.lastTurn(tid))
		}
	})
}

func TestARunThatOutlivesThePlaneIsAdoptedAndASilentOneRecovered(t *testing.T) {
	req.Covers(t, "SY-040", "SY-043", "AG-020", "SY-045", "CR-017")
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{false: "beating", true: "silent"}[silent], func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.create("one")
				r.host.next(func(s *sup) {
					s.begin()
					if silent {
						s.sleep(24 * time.Hour)
					}
					s.goOn(10 * time.Minute)
					s.ok("")
				})
				r.do("startTask", in{"task_id": "one"})
				r.running(tid)
				time.Sleep(40 * time.Second)
				r.down()
				time.Sleep(50 * time.Second)
				r.up()
				back := time.Now()
				r.rest(tid, task.Blocked)
				h := rows[task.History](r, tid, "HIS#")
				if !silent {
					if path := r.path(tid); path != "backlog working blocked" || r.host.launched() != 1 {
						t.Errorf("it went %s in %d launches", path, r.host.launched())
					}
					return
				}
				if path := r.path(tid); path != "backlog working interrupted working blocked" || r.host.atOnce() != 1 {
					t.Errorf("it went %s, %d at once", path, r.host.atOnce())
				}
				if d := h[2].At.Sub(back); d < 60*time.Second || d > 10*time.Minute {
					t.Errorf("the silent run was given up %s after the restart", d)
				}
			})
		})
	}
}

func TestARunWhoseExecutionDiedGoesOnUnderTheNext(t *testing.T) {
	req.Covers(t, "SY-045", "SY-040", "P7")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(func(s *sup) { s.begin(); s.goOn(20 * time.Minute); s.ok("") })
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		op := string(r.task(tid).Turn)
		if err := r.now().engine.Stop(t.Context(), "turn", op+"-1", "somebody stopped it"); err != nil {
			t.Fatal(err)
		}
		r.rest(tid, task.Blocked)
		if got := r.turns(tid)[0]; got.N != 2 || r.host.launched() != 1 {
			t.Errorf("execution %d, %d launches", got.N, r.host.launched())
		}
		if path := r.path(tid); path != "backlog working blocked" {
			t.Errorf("it went %s", path)
		}
	})
}

func TestARecoveryThatDiedIsTakenUpBySweep(t *testing.T) {
	req.Covers(t, "SY-001", "SY-031")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(crash(40*time.Second, 1, "boom"))
		r.do("startTask", in{"task_id": "one"})
		r.until("interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
		op := string(r.task(tid).Turn)
		for n := range 3 {
			_ = r.now().engine.Stop(t.Context(), "recovery", fmt.Sprintf("rec-%s-%d", op, n), "somebody stopped it")
		}
		r.rest(tid, task.Blocked)
	})
}

func TestABranchMergedElsewhereCompletesItsTask(t *testing.T) {
	req.Covers(t, "SY-007", "SM-018", "B11", "B12", "SM-035")
	for _, how := range []string{"merge", "squash"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.host.next(func(s *sup) { s.begin(); s.ok("no commits") })
				fresh := r.create("fresh")
				r.do("startTask", in{"task_id": "fresh"})
				r.rest(fresh, task.Blocked)
				tid := r.started("one", edit("x", "x"))
				if how == "merge" {
					r.git("merge", "-q", "--no-ff", "-m", "by hand", "lazy/one")
				} else {
					r.git("merge", "-q", "--squash", "lazy/one")
					r.git("commit", "-q", "-m", "by hand")
				}
				got := r.rest(tid, task.Complete)
				if path := r.path(tid); path != "backlog working blocked zombie complete" {
					t.Errorf("it went %s", path)
				}
				for _, h := range rows[task.History](r, tid, "HIS#")[3:] {
					if h.Actor.Role != "system" {
						t.Errorf("%s by %s", h.To, h.Actor)
					}
				}
				if got.Merge != r.git("rev-parse", "main") {
					t.Errorf("the merge is %s", got.Merge)
				}
				r.until("cleaned up", func() bool { return r.task(tid).Workspace == nil })
				time.Sleep(2 * time.Hour)
				if got := r.task(fresh); got.Status != task.Blocked || got.Workspace == nil || r.git("branch", "--list", "lazy/fresh") == "" {
					t.Errorf("a branch without commits is %s", got.Status)
				}
			})
		})
	}
}

func TestStrandedStatusesComeBackIntoLine(t *testing.T) {
	req.Covers(t, "SY-009", "SM-009")
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.create("a"), r.create("b")
		r.force(a, func(t *task.Task) { t.Status = task.Blocked })
		r.force(b, func(t *task.Task) { t.Commits = 1 })
		for _, tid := range []id.Task{a, b} {
			r.due(tid)
		}
		r.rest(a, task.Backlog)
		r.rest(b, task.Blocked)
	})
}

// due makes the sweep look at a task at once.
func (r *rig) due(tid id.Task) {
	r.t.Helper()
	k := store.For(tenant).Task(tid).Meta()
	err := r.now().db.Transact(r.t.Context(), store.Write{
		Act: store.Update, Item: store.Item{Key: k, Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, time.Now())}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestRowsNobodyCanServeDoNotStandInTheWay(t *testing.T) {
	req.Covers(t, "B28", "SY-021", "SY-001")
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		r.sweeps, r.deliver = false, 0
		r.up()
		tid := r.create("one")
		part := store.For(tenant).Task(tid) // rows of one partition are swept in one line
		for i := range 60 {
			k := part.Key(fmt.Sprintf("OUT#bad%03d", i))
			if err := r.now().db.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{
				Key: k, Attr: store.Attr{store.AttrType: []string{"job", "unknown"}[i%2], "schema": int64(1)}, Doc: []byte(`{"kind":`),
				Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, time.Now().Add(-time.Hour))},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		r.do("startTask", in{"task_id": "one"})
		for range 60 {
			if _, err := r.app().Sweep(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		r.rest(tid, task.Blocked)
	})
}

func TestTheMaximumAgeParksAndIsNotResumed(t *testing.T) {
	req.Covers(t, "SY-047", "TE-007")
	inBubble(t, func(t *testing.T, r *rig) {
		r.configure(func(s *app.Settings) { s.TurnAge = 2 * time.Hour })
		tid := r.started("one", func(s *sup) {
			s.begin()
			if d := time.Until(s.cmd.Deadline); d < 119*time.Minute || d > 2*time.Hour {
				t.Errorf("the deadline is in %s", d)
			}
			s.goOn(time.Until(s.cmd.Deadline))
			s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopAge})
		})
		got := r.rest(tid, task.Blocked)
		if !strings.Contains(got.Why, "maximum age") || r.lastTurn(tid).Ending != turn.Neither {
			t.Errorf("it rests because %q, %q", got.Why, r.lastTurn(tid).Ending)
		}
		time.Sleep(time.Hour)
		if r.host.launched() != 1 {
			t.Error("it was resumed")
		}
	})
}

func TestFollowingATurnTellsWhenItsAgentRuns(t *testing.T) {
	req.Covers(t, "OT-048", "OB-013", "OB-018", "OB-011")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(func(s *sup) {
			if !s.hello() {
				s.die(1, "refused")
			}
			s.sleep(time.Minute)
			_ = s.beat("running")
			s.goOn(time.Minute)
			s.ok("")
		})
		out := r.do("startTask", in{"task_id": "one"})
		op := out["operation_id"].(string)
		began := time.Now()
		seen := ""
		var p app.Progress
		for cursor := ""; !p.Done; cursor = p.Cursor {
			var err error
			if p, err = r.app().Await(t.Context(), app.Call{Who: r.owner, Hold: 10 * time.Second}, op, cursor); err != nil {
				t.Fatal(err)
			}
			seen = ""
			for _, ph := range p.Phases {
				seen += ph.Name + ": " + ph.State + ", "
			}
		}
		if d := time.Since(began); d < time.Minute || d > 75*time.Second || p.Error != nil {
			t.Errorf("it ended after %s with %v", d, p.Error)
		}
		if seen != "create session: done, prepare workspace: done, publish branch: skipped, launch runner: done, deliver prompt: done, " {
			t.Errorf("the phases were %s", seen)
		}
		r.rest(tid, task.Blocked)
	})
}
