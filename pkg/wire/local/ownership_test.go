package local_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// A supervisor cut off from its plane misses its beats. That makes the plane look,
// and nothing else: it is alive, so it keeps its place however long it is silent.
func TestASilentRunKeepsItsEpochUntilItIsProvenGone(t *testing.T) {
	req.Covers(t, "OW-06")
	inBubble(t, func(t *testing.T, r *rig) {
		var quiet *sup
		r.host.next(func(s *sup) {
			quiet = s
			s.begin()
			s.stubborn.Store(true)
			s.sleep(20 * time.Minute)
			if err := s.beat("running"); err != nil {
				t.Errorf("its first beat after the silence: %v", err)
			}
			s.ok("back again")
		})
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		var confirmed atomic.Int64
		r.host.watch(func(step string) {
			if step == names.StepConfirm {
				confirmed.Add(1)
			}
		})
		version := r.task(tid).Version
		time.Sleep(18 * time.Minute)
		got := r.task(tid)
		if confirmed.Load() == 0 {
			t.Error("nobody looked at the silent run")
		}
		if got.Epoch != 1 || !got.Claimed || got.Status != task.Working || got.Version != version || r.host.launched() != 1 || quiet.isGone() {
			t.Errorf("silence alone made of it epoch %d, claimed %t, %s, version %d of %d, %d launches", got.Epoch, got.Claimed, got.Status, got.Version, version, r.host.launched())
		}
		_, err := r.try(r.owner, "unblockTask", in{"task_id": "one", "feedback": "somebody else's turn"})
		wantRefusal(t, err, refusal.TaskBusy)
		r.rest(tid, task.Blocked)
		if path := r.path(tid); path != "backlog working blocked" || r.lastTurn(tid).Summary != "back again" || r.host.launched() != 1 {
			t.Errorf("it went %s in %d launches, its last turn is %+v", path, r.host.launched(), r.lastTurn(tid))
		}
	})
}

// A run that a plane finds at its start has 120 s to come back. One that does goes on
// as if nothing had been; one that does not is stopped, and replaced once it is gone.
func TestARunHas120SecondsToComeBackToARestartedPlane(t *testing.T) {
	req.Covers(t, "OW-09", "OW-10")
	for _, c := range []struct {
		name string
		away time.Duration // from the restart on
	}{{"in time", 110 * time.Second}, {"never", 24 * time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				const before, down = 40 * time.Second, 50 * time.Second
				var first *sup
				r.host.next(func(s *sup) {
					first = s
					s.begin()
					s.sleep(before + down + c.away)
					s.goOn(5 * time.Minute)
					s.ok("came back")
				})
				tid := r.create("one")
				r.do("startTask", in{"task_id": "one"})
				r.running(tid)
				time.Sleep(before)
				r.down()
				time.Sleep(down)
				r.up()
				back := time.Now()
				got := r.rest(tid, task.Blocked)
				if c.name == "in time" {
					if path := r.path(tid); path != "backlog working blocked" || got.Epoch != 1 || r.host.launched() != 1 || len(r.turns(tid)) != 2 {
						t.Errorf("it went %s to epoch %d in %d launches and %d turns", path, got.Epoch, r.host.launched(), len(r.turns(tid)))
					}
					return
				}
				if path := r.path(tid); path != "backlog working interrupted working blocked" || got.Epoch != 2 || r.host.atOnce() != 1 || r.host.launched() != 2 {
					t.Errorf("it went %s to epoch %d in %d launches, %d at once", path, got.Epoch, r.host.launched(), r.host.atOnce())
				}
				if !first.isGone() || first.reason != "stopped from outside: recovery" {
					t.Errorf("the silent run ended as %q", first.reason)
				}
				h := rows[task.History](r, tid, "HIS#")
				if d := h[2].At.Sub(back); h[2].Trigger != task.RunnerGone || d < 120*time.Second || d > 150*time.Second {
					t.Errorf("it was interrupted on %s %s after the restart", h[2].Trigger, d)
				}
				if crash := r.turns(tid)[1]; crash.Side != turn.Crash || !strings.Contains(crash.Failure.Reason, "stopped from outside") {
					t.Errorf("the crash is recorded as %+v", crash)
				}
			})
		})
	}
}

// What runs when a drain begins ends in its own time: a turn however long it takes,
// and an accept, even one whose flow dies under the drain.
func TestADrainLetsTurnsAndAcceptsFinish(t *testing.T) {
	req.Covers(t, "DR-03", "DR-12")
	inBubble(t, func(t *testing.T, r *rig) {
		slow := r.create("slow")
		r.host.next(func(s *sup) {
			s.begin()
			if why := s.goOn(45 * time.Minute); why != "" {
				t.Errorf("a drain ended the turn: %s", why)
			}
			s.ok("at last")
		}, edit("a.txt", "a\n"), edit("b.txt", "b\n"))
		r.do("startTask", in{"task_id": "slow"})
		r.running(slow)
		merging, dying := r.started("merging"), r.started("dying")
		landing := make(chan struct{}, 8)
		r.host.watch(func(step string) {
			if step == names.StepLand {
				landing <- struct{}{}
				time.Sleep(time.Minute)
			}
		})
		r.do("acceptTask", in{"task_id": "merging"})
		<-landing
		r.do("acceptTask", in{"task_id": "dying"})
		r.do("setDrain", in{"on": true})
		if err := r.now().engine.Stop(t.Context(), "accept", r.task(dying).Accept.Operation+"-1", "killed"); err != nil {
			t.Fatal(err)
		}
		_, err := r.try(r.owner, "startTask", in{"task_id": string(r.create("later"))})
		wantRefusal(t, err, refusal.Draining)
		r.rest(merging, task.Complete)
		if got := r.rest(dying, task.Complete); got.Accept.N < 2 {
			t.Errorf("the accept that died is at its execution %d", got.Accept.N)
		}
		r.host.watch(nil)
		r.rest(slow, task.Blocked)
		if got := r.lastTurn(slow); got.Outcome != "ok" || got.Ended.Sub(got.Began) < 45*time.Minute || r.path(slow) != "backlog working blocked" {
			t.Errorf("the long turn ended as %s after %s: %s", got.Outcome, got.Ended.Sub(got.Began), r.path(slow))
		}
		_, err = r.try(r.owner, "startTask", in{"task_id": "later"})
		wantRefusal(t, err, refusal.Draining)
	})
}
