package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// A run that dies when its first token is answered and its second is not there yet
// has nobody who would beat it: the flow must hear at once, not when a minute of
// silence is over.
func TestARunThatDiesBetweenItsTwoTokensIsNoticedAtOnce(t *testing.T) {
	req.Covers(t, "SY-036", "SY-046", "SY-016", "CR-017")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.watch(func(step string) {
			if step == names.StepRun {
				time.Sleep(5 * time.Second)
			}
		})
		r.host.next(func(s *sup) {
			s.hello()
			s.die(137, "OOM killed or SIGKILL (exit code 137)")
		})
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		h := rows[task.History](r, tid, "HIS#")
		if age := h[2].At.Sub(h[1].At); h[2].To != task.Interrupted || age > names.DeadTurnGrace+5*time.Second {
			t.Errorf("it was %s after %s", h[2].To, age)
		}
		if r.host.launched() != 2 || r.host.atOnce() != 1 {
			t.Errorf("%d launches, %d at once", r.host.launched(), r.host.atOnce())
		}
	})
}

// The end of a run is told of one that lives: it is adopted, and goes on.
func TestARunThatWasToldGoneAndLivesIsAdopted(t *testing.T) {
	req.Covers(t, "SY-040", "SY-043", "P7")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.next(func(s *sup) {
			s.begin()
			s.tellGone()
			s.goOn(10 * time.Minute)
			s.finish()
			s.ok("done after all")
		})
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		if path := r.path(tid); path != "backlog working blocked" || r.host.launched() != 1 {
			t.Errorf("it went %s with %d launches", path, r.host.launched())
		}
		r.drained(tid)
		r.sound()
		if n := r.turns(tid)[0].N; n > 3 {
			t.Errorf("%d executions for one false alarm", n)
		}
	})
}

// A plane that was away when a run died, and whose row is not due for long, finds
// it as soon as it is back.
func TestAPlaneThatComesBackLooksAtOnce(t *testing.T) {
	req.Covers(t, "SY-040", "SY-003", "CR-017")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.next(func(s *sup) { s.begin(); s.goOn(24 * time.Hour) })
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		time.Sleep(time.Hour)
		r.down()
		r.host.run(tid, 1).end("while nobody looked")
		<-r.host.run(tid, 1).gone
		r.sweeps = false // only the look at the start
		r.up()
		if err := r.app().LookAround(t.Context(), tenant, project); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r.until("interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("it was found after %s", d)
		}
	})
}

// A question whose run dies has failed: what it found comes back, nobody goes on
// with it as work, and the words are not lost.
func TestAQuestionWhoseRunDiesHasFailed(t *testing.T) {
	req.Covers(t, "SY-019", "SY-020", "SM-003", "CR-013")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.host.next(crash(40*time.Second, 137, "OOM killed or SIGKILL (exit code 137)"))
		r.do("askTask", in{"task_id": "one", "question": "why is it so?"})
		r.until("the question runs", func() bool { return r.task(tid).Status == task.Working })
		got := r.rest(tid, task.Blocked)
		if path := r.path(tid); path != "backlog working blocked working blocked" {
			t.Errorf("it went %s", path)
		}
		last := r.lastTurn(tid)
		if last.Side != turn.Crash || last.Failure == nil || last.ExitCode != 137 || got.Why == "" {
			t.Errorf("the failed question is recorded as %+v, and the task rests because %q", last, got.Why)
		}
		time.Sleep(time.Hour)
		if r.host.launched() != 2 || got.Hold {
			t.Errorf("%d launches", r.host.launched())
		}
		said := ""
		r.host.next(func(s *sup) { s.begin(); said = s.cmd.Prompt; s.ok("") })
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		if !strings.Contains(said, "why is it so?") {
			t.Errorf("the question is not in the next prompt:\n%s", said)
		}
		r.sound()
	})
}
