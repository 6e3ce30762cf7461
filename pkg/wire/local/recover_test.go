package local_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestAKilledRunIsRecordedInterruptedAndResumed(t *testing.T) {
	req.Covers(t, "SY-004", "CR-001", "CR-002", "CR-008", "AA-003")
	inBubble(t, func(t *testing.T, r *rig) {
		began := time.Now()
		r.host.next(crash(40*time.Second, 137, "OOM killed or SIGKILL (exit code 137)"))
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.until("interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
		got := r.lastTurn(tid)
		if got.Side != turn.Crash || got.ExitCode != 137 || got.Failure == nil || got.Failure.Reason != "OOM killed or SIGKILL (exit code 137)" || got.Log == "" || got.Ended.Sub(began) < 40*time.Second {
			t.Errorf("the crash turn is %+v", got)
		}
		log, _ := readRow[map[string]any](r, store.For(tenant).Task(tid).Body(got.Log))
		if log["text"] != "last words\n" {
			t.Errorf("its log is %v", log)
		}
		r.rest(tid, task.Blocked)
		if path := r.path(tid); path != "backlog working interrupted working blocked" {
			t.Errorf("it went %s", path)
		}
		ts := r.turns(tid)
		note := ts[2]
		body, _ := readRow[map[string]any](r, store.For(tenant).Task(tid).Body(note.Body))
		if note.Side != turn.Note || note.Actor.Role != "system" || body["text"] != "Session interrupted and auto-resumed" {
			t.Errorf("the resume is recorded as %+v %v", note, body)
		}
		if got := r.task(tid); got.Interruptions != 0 || got.Resumes != 0 {
			t.Errorf("a finished turn leaves the counts at %d and %d", got.Interruptions, got.Resumes)
		}
	})
}

func TestNothingYoungerThanThirtySecondsIsJudgedDead(t *testing.T) {
	req.Covers(t, "SY-016", "CR-001", "CR-020")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.next(crash(10*time.Second, 1, "boom"))
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		h := rows[task.History](r, tid, "HIS#")
		if age := h[2].At.Sub(h[1].At); h[2].To != task.Interrupted || age < 30*time.Second || age > 40*time.Second {
			t.Errorf("it was interrupted after %s", age)
		}
		if wait := h[3].At.Sub(h[2].At); wait < 5*time.Second || wait > 10*time.Second {
			t.Errorf("the first resume came after %s, want 5 s", wait)
		}
	})
}

func TestTheBreakerStopsResumesUntilAPersonActs(t *testing.T) {
	req.Covers(t, "CR-003", "CR-004", "CR-020", "CR-021", "SY-035")
	inBubble(t, func(t *testing.T, r *rig) {
		dead := crash(40*time.Second, 1, "boom")
		r.host.next(dead, dead, dead)
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.until("three interruptions", func() bool { return r.task(tid).Interruptions == 3 })
		time.Sleep(time.Hour)
		got := r.rest(tid, task.Interrupted)
		if r.host.launched() != 3 || got.Resumes != 2 {
			t.Errorf("%d launches, %d resumes", r.host.launched(), got.Resumes)
		}
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		wantRefusal(t, err, refusal.InterruptedEnding)
		if text := next(err); !strings.Contains(text, "resume") || !strings.Contains(text, "unblock") || !strings.Contains(text, "close") {
			t.Errorf("the refusal advises %q", text)
		}
		r.do("resumeTask", in{"task_id": "one"})
		if got := r.task(tid); got.Interruptions != 0 || got.Resumes != 0 {
			t.Errorf("a person's resume leaves the counts at %d and %d", got.Interruptions, got.Resumes)
		}
		r.rest(tid, task.Blocked)
	})
}

func TestAStoppedWorkTurnIsHeldAndOtherTurnsAreRestored(t *testing.T) {
	req.Covers(t, "HA-028", "SM-009", "AG-029", "CR-021")
	obeys := func(s *sup) {
		s.begin()
		s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)})
	}
	ignores := func(s *sup) { s.begin(); s.sleep(time.Hour) } // and is killed from outside
	for name, script := range map[string]func(*sup){"heeding": obeys, "deaf": ignores} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				if name == "heeding" {
					r.host.bePatient(true)
				}
				r.host.next(script)
				tid := r.create("one")
				r.do("startTask", in{"task_id": "one"})
				r.running(tid)
				r.do("stopTask", in{"task_id": "one"})
				got := r.rest(tid, task.Interrupted)
				h := rows[task.History](r, tid, "HIS#")
				last := h[len(h)-1]
				if !got.Hold || got.Interruptions != 0 || last.Trigger != task.Stop || last.Actor.Email != "ada@example.com" {
					t.Errorf("a stopped task is %+v, by %+v", got, last)
				}
				time.Sleep(time.Hour)
				if r.host.launched() != 1 {
					t.Error("a stopped task was resumed by itself")
				}
				r.do("unblockTask", in{"task_id": "one", "feedback": "go on"})
				r.rest(tid, task.Blocked)
				for _, verb := range []string{"askTask", "syncTask"} {
					args := in{"task_id": "one"}
					if verb == "askTask" {
						args["question"] = "why?"
					}
					r.host.next(script)
					r.do(verb, args)
					r.running(tid)
					r.do("stopTask", in{"task_id": "one"})
					got = r.rest(tid, task.Blocked)
					if got.Interruptions != 0 {
						t.Errorf("after a stopped %s: %+v", verb, got)
					}
				}
			})
		})
	}
}

func TestAStopBeforeTheLaunchStartsNothing(t *testing.T) {
	req.Covers(t, "HA-028", "SY-030")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.now().fuse.hold = "RUN#"
		r.do("startTask", in{"task_id": "one"})
		r.do("stopTask", in{"task_id": "one"})
		got := r.rest(tid, task.Interrupted)
		if r.host.launched() != 0 || !got.Hold {
			t.Errorf("%d launches; %+v", r.host.launched(), got)
		}
	})
}

func TestRejectAndCloseOfAWorkingTaskStopItFirst(t *testing.T) {
	req.Covers(t, "SM-026", "HA-021", "HA-022", "SM-019", "HA-034")
	for _, verb := range []string{"rejectTask", "closeTask"} {
		t.Run(verb, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.host.next(func(s *sup) {
					s.begin()
					s.write("a", "a")
					if err := s.commit("a"); err != nil {
						s.die(1, err.Error())
					}
					s.write("loose", "edit")
					s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)})
				})
				r.host.bePatient(true)
				tid := r.create("one")
				r.do("startTask", in{"task_id": "one"})
				r.until("the edit is there", func() bool { return r.task(tid).Commits == 1 && r.host.run(tid, 1).calls.Load() > 0 })
				tip := r.task(tid).Tip
				time.Sleep(time.Second)
				r.do(verb, in{"task_id": "one", "reason": "not needed"})
				got := r.rest(tid, task.Abandoned)
				if path := r.path(tid); path != "backlog working interrupted abandoned" {
					t.Errorf("it went %s", path)
				}
				h := rows[task.History](r, tid, "HIS#")
				if last := h[len(h)-1]; last.Reason != "not needed" || last.Actor.Email != "ada@example.com" {
					t.Errorf("the last row is %+v", last)
				}
				r.until("it is cleaned up", func() bool { return r.task(tid).Workspace == nil })
				if _, err := r.tryGit("rev-parse", "--verify", "-q", "refs/heads/lazy/one"); err == nil {
					t.Error("its branch is still there")
				}
				said := ""
				for _, c := range rows[map[string]any](r, tid, "CMT#") {
					said += c["text"].(string)
				}
				if !strings.Contains(said, "git apply") {
					t.Errorf("nobody says where the loose edit went: %q", said)
				}
				_ = got
				r.do("reopenTask", in{"task_id": "one"})
				r.rest(tid, task.Blocked)
				r.do("unblockTask", in{"task_id": "one", "feedback": "after all"})
				if now := r.rest(tid, task.Blocked); r.git("merge-base", "--is-ancestor", tip, now.Tip) != "" {
					t.Error("its commits are gone")
				}
			})
		})
	}
}

func TestALateAnswerIsSettledByWayOfWorking(t *testing.T) {
	req.Covers(t, "SY-005", "CR-017", "CR-018", "CR-019", "SY-049")
	inBubble(t, func(t *testing.T, r *rig) {
		r.configure(func(s *app.Settings) { s.Protected = nil })
		tid := r.create("one")
		back := make(chan struct{})
		r.host.next(func(s *sup) {
			s.begin()
			s.write("a", "a")
			if err := s.commit("a"); err != nil {
				s.die(1, err.Error())
			}
			s.hide() // the machine's watcher holds it dead, and it lives
			<-back
			s.post(turn.Response{Outcome: "ok", Text: "late but here"})
		})
		r.do("startTask", in{"task_id": "one"})
		r.until("interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
		r.force(tid, func(t *task.Task) { t.Hold = true }) // nobody resumes it meanwhile
		close(back)
		got := r.rest(tid, task.Blocked)
		if path := r.path(tid); path != "backlog working interrupted working blocked" || got.Epoch != 1 {
			t.Errorf("it went %s, epoch %d", path, got.Epoch)
		}
		r.until("the answer is recorded", func() bool { return len(r.turns(tid)) == 3 })
		ts := r.turns(tid)
		if ts[1].Side != turn.Crash || ts[2].Side != turn.Answer || ts[2].Summary != "late but here" {
			t.Errorf("turns are %+v", ts[1:])
		}
		// The same report again, and one more for the run, change nothing.
		before := r.snapshotOf(tid)
		old, _ := r.host.heard(tid, 1)
		for _, text := range []string{"late but here", "another answer"} {
			ack, err := r.app().Report(t.Context(), old.runner, turn.Response{Turn: old.cmd.Turn, Epoch: 1, Outcome: "ok", Text: text})
			if err != nil || !ack.Stored {
				t.Errorf("a repeated report: %+v %v", ack, err)
			}
		}
		time.Sleep(time.Minute)
		if after := r.snapshotOf(tid); after != before {
			t.Error("a repeated report changed something")
		}
	})
}

func TestASupersededRunChangesNothingAndIsKeptAsHistory(t *testing.T) {
	req.Covers(t, "SY-015", "P7", "B22", "CR-018", "SM-024")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		var old *sup
		back := make(chan struct{})
		r.host.next(func(s *sup) {
			old = s
			s.begin()
			s.hide()
			<-back
			err := s.beat("running")
			wantRefusal(t, err, refusal.Fenced)
			s.write("a", "from the old run")
			wantRefusal(t, s.commit("old"), refusal.Fenced)
			s.post(turn.Response{Outcome: "ok", Text: "I am the old run"})
		}, func(s *sup) { s.begin(); s.goOn(10 * time.Minute); s.ok("I am the new run") })
		r.do("startTask", in{"task_id": "one"})
		r.until("the next run works", func() bool { _, ok := r.host.heard(tid, 2); return ok })
		tip := r.task(tid).Tip
		close(back)
		<-old.gone
		if !old.ack.Stored || !old.ack.History {
			t.Errorf("the old run's report was answered %+v %v", old.ack, old.refuse)
		}
		got := r.task(tid)
		if got.Status != task.Working || got.Epoch != 2 || got.Tip != tip {
			t.Errorf("the old run changed the task: %+v", got)
		}
		r.rest(tid, task.Blocked)
		r.until("history is kept", func() bool {
			for _, x := range r.turns(tid) {
				if x.Outcome == "history" && x.Summary == "I am the old run" {
					return true
				}
			}
			return false
		})
		if r.lastTurn(tid).Summary != "I am the new run" {
			t.Errorf("the last turn is %+v", r.lastTurn(tid))
		}
	})
}

func TestFatalFailuresParkAndEachDeathLeavesARecord(t *testing.T) {
	req.Covers(t, "FC-006", "FC-007", "FC-024", "SM-009", "AA-003")
	inBubble(t, func(t *testing.T, r *rig) {
		fatal := func(s *sup) {
			s.begin()
			s.settle(turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.FatalAuth, Reason: "Invalid API key"}})
		}
		tid := r.started("one", fatal)
		got := r.rest(tid, task.Blocked)
		if !strings.Contains(got.Why, "fatal_auth") || !strings.Contains(got.Why, "Invalid API key") {
			t.Errorf("it rests because %q", got.Why)
		}
		r.host.next(fatal)
		r.do("unblockTask", in{"task_id": "one", "feedback": "try again"})
		r.rest(tid, task.Blocked)
		failed := 0
		for _, x := range r.turns(tid) {
			if x.Failure != nil && x.Failure.Class == turn.FatalAuth {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("%d failed turns are recorded, want 2", failed)
		}
		time.Sleep(time.Hour)
		if r.host.launched() != 2 {
			t.Errorf("%d launches", r.host.launched())
		}
		r.host.next(func(s *sup) {
			s.begin()
			s.settle(turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.Unknown, Reason: "three times within 10 s", Attempts: 3}})
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "once more"})
		r.until("resumed", func() bool { return r.host.launched() == 4 })
		if path := r.path(tid); !strings.Contains(path, "interrupted working") {
			t.Errorf("it went %s", path)
		}
	})
}

func TestAnUnreachableRunIsWaitedForAndNeverReplaced(t *testing.T) {
	req.Covers(t, "SY-043", "P7", "B25", "SY-031", "SY-017")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		var quiet *sup
		r.host.next(func(s *sup) {
			quiet = s
			s.begin()
			s.write("precious", "edit")
			s.stubborn.Store(true)
			s.sleep(24 * time.Hour)
		}, work("done.txt", "done\n"))
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		r.host.setBlind(true)
		time.Sleep(6 * time.Minute)
		if r.host.launched() != 1 || r.task(tid).Status != task.Working {
			t.Fatalf("an unreachable run was replaced: %d launches, %s", r.host.launched(), r.task(tid).Status)
		}
		r.host.setBlind(false)
		time.Sleep(time.Minute)
		if r.host.launched() != 1 {
			t.Fatal("a run that would not end was replaced")
		}
		quiet.end("the machine is back")
		r.rest(tid, task.Blocked)
		if r.host.atOnce() != 1 || r.host.launched() != 2 {
			t.Errorf("%d at once, %d launches", r.host.atOnce(), r.host.launched())
		}
		if r.file("lazy/one", "precious") != "edit" {
			t.Error("the edits of the dead run are gone")
		}
	})
}

func TestALaunchWhoseAnswerIsLostIsFoundAgain(t *testing.T) {
	req.Covers(t, "B24", "SY-030", "SY-038")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.loseNext(2)
		tid := r.started("one")
		if r.task(tid).Status != task.Blocked || r.host.launched() != 1 {
			t.Errorf("it is %s after %d launches", r.task(tid).Status, r.host.launched())
		}
	})
}

func TestAStartNonceWorksOnce(t *testing.T) {
	req.Covers(t, "AG-025", "SY-035")
	inBubble(t, func(t *testing.T, r *rig) {
		nonce := ""
		tid := r.started("one", func(s *sup) {
			nonce = s.spec.Nonce
			s.begin()
			first := s.runner.Hash
			if !s.hello() || s.runner.Hash != first {
				t.Errorf("the same hello again: %v", s.refuse)
			}
			for _, key := range []string{"", "another"} {
				err := s.plane(func(ctx context.Context, a *app.App) error {
					_, err := a.Hello(ctx, turn.Hello{Nonce: nonce, Key: key})
					return err
				})
				wantRefusal(t, err, refusal.Unauthenticated)
			}
			s.ok("")
		})
		r.rest(tid, task.Blocked)
		if _, err := r.app().Hello(t.Context(), turn.Hello{Nonce: nonce, Key: "key-of-" + refOf(tid, 1)}); err == nil {
			t.Error("a nonce works after its turn")
		}
	})
}

// running waits until the agent of the task's present run works.
func (r *rig) running(tid id.Task) {
	r.t.Helper()
	r.until("the agent runs", func() bool {
		run, ok := readRow[turn.Run](r, store.For(tenant).Task(tid).Run(r.task(tid).Epoch))
		return ok && !run.Running.IsZero()
	})
}
