package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestAParentsAgentStartsAndAcceptsItsSubtaskIntoItsOwnBranch(t *testing.T) {
	req.Covers(t, "AP-012", "AP-014", "AC-003", "AA-004", "TE-012")
	inBubble(t, func(t *testing.T, r *rig) {
		mainAt := r.git("rev-parse", "main")
		r.host.next(func(s *sup) {
			s.begin()
			s.write("mine", "parent")
			if err := s.commit("mine"); err != nil {
				s.die(1, err.Error())
			}
			if _, err := s.tool("lazy_final", in{}); err != nil {
				t.Error(err)
			}
			declared := s.tip
			s.write("loose", "an edit that stays")
			if _, err := s.tool("lazy_create", in{"goal": "kid", "prompt": "do kid", "code": "kid"}); err != nil {
				t.Error(err)
			}
			if _, err := s.tool("lazy_start", in{"task_id": "kid"}); err != nil {
				t.Error(err)
			}
			kid := taskOf(r, "kid")
			for r.task(kid.ID).Status != task.Blocked {
				s.sleep(time.Second)
			}
			out, err := s.tool("lazy_accept", in{"task_id": "kid"})
			if err != nil {
				t.Errorf("accept: %v", err)
			}
			if code, ok := out["confirmation_code"]; ok {
				if _, err = s.tool("lazy_accept", in{"task_id": "kid", "confirmation_code": code}); err != nil {
					t.Errorf("accept with the code: %v", err)
				}
			}
			for r.task(kid.ID).Status != task.Complete {
				s.sleep(time.Second)
			}
			if got := readIn(t, s.cmd.Tree, "done.txt") + readIn(t, s.cmd.Tree, "loose"); got != "done\nan edit that stays" {
				t.Errorf("the workspace has %q", got)
			}
			// The broker still works from the tip it knew; the plane tells it the new one.
			s.tip = declared
			if err := s.commit("on top"); err != nil {
				t.Errorf("commit on top of the landing: %v", err)
			}
			_, err = s.tool("lazy_accept", in{"task_id": string(s.spec.Task)})
			wantRefusal(t, err, refusal.AcceptSelf)
			s.ok("")
		}, work("done.txt", "done\n"))
		pid := r.create("top")
		r.do("startTask", in{"task_id": "top"})
		p := r.rest(pid, task.Blocked)
		kid := taskOf(r, "kid")
		for _, h := range rows[task.History](r, kid.ID, "HIS#") {
			if h.To != task.Blocked && h.Actor.Role != identity.Agent {
				t.Errorf("%s to %s is recorded as %s", h.From, h.To, h.Actor.Role)
			}
		}
		if head := r.git("rev-parse", "lazy/top"); head != p.Tip || r.file("lazy/top", "done.txt") != "done" || r.file("lazy/top", "loose") == "" {
			t.Errorf("the parent's branch is at %s, recorded %s", head, p.Tip)
		}
		if r.git("rev-parse", "main") != mainAt {
			t.Error("the agent's accept moved main")
		}
		if p.Final == nil || !p.Final.Moved || p.Final.MovedBy == "" {
			t.Errorf("the declaration is %+v", p.Final)
		}
		r.do("acceptTask", in{"task_id": "top"})
		r.rest(pid, task.Complete)
		if r.file("main", "done.txt") != "done" || r.file("main", "mine") != "parent" {
			t.Error("main lacks the work")
		}
	})
}

func taskOf(r *rig, code string) task.Task {
	for _, l := range rowsAt[map[string]any](r, "T#"+tenant+"#PRJ#"+project, "CODE#"+code) {
		for _, v := range l {
			if s, ok := v.(string); ok && len(s) == 36 {
				return r.task(idOf(s))
			}
		}
	}
	r.t.Fatalf("no task has the code %s", code)
	return task.Task{}
}

func TestNobodyElseAcceptsUnderARunningParent(t *testing.T) {
	req.Covers(t, "AP-011", "AP-012", "P6", "AP-003")
	inBubble(t, func(t *testing.T, r *rig) {
		pid := r.started("top")
		kid := r.create("kid", in{"parent": "top"})
		r.host.next(edit("kid.txt", "kid"))
		r.do("startTask", in{"task_id": "kid"})
		r.rest(kid, task.Blocked)
		for _, s := range []task.Status{task.Working, task.Interrupted, task.Pairing, task.Merging} {
			r.force(pid, func(t *task.Task) { t.Status = s })
			before := r.snapshotOf(kid)
			for _, who := range []identity.Caller{r.owner, r.bench} {
				_, err := r.try(who, "acceptTask", in{"task_id": "kid"})
				if who.Kind == identity.Builder {
					_, err = r.try(who, "lazy_accept", in{"task_id": "kid"})
				}
				wantRefusal(t, err, refusal.ParentActive)
			}
			if r.snapshotOf(kid) != before {
				t.Errorf("a refused accept under a %s parent wrote", s)
			}
		}
		r.force(pid, func(t *task.Task) { t.Status = task.Blocked })
		r.do("acceptTask", in{"task_id": "kid"})
		r.rest(kid, task.Complete)
		p := r.task(pid)
		if head := r.git("rev-parse", "lazy/top"); head != p.Tip || r.file("lazy/top", "kid.txt") != "kid" {
			t.Errorf("the parent's branch is at %s, recorded %s", head, p.Tip)
		}
		r.host.next(func(s *sup) {
			s.begin()
			if st, err := s.untrusted().Status(s.ctx); err != nil || len(st.Dirty) > 0 {
				t.Errorf("the parent's next run finds %+v, %v", st, err)
			}
			s.ok("")
		})
		r.do("unblockTask", in{"task_id": "top", "feedback": "go on"})
		r.rest(pid, task.Blocked)
	})
}

func TestALandingThatMeetsTheParentsEditsIsRefusedByName(t *testing.T) {
	req.Covers(t, "AP-013", "UW-001")
	inBubble(t, func(t *testing.T, r *rig) {
		r.started("top", func(s *sup) {
			s.begin()
			s.write("mine", "x")
			if err := s.commit("mine"); err != nil {
				s.die(1, err.Error())
			}
			s.write("src/a.txt", "one\nparent\nthree\n")
			s.ok("")
		})
		kid := r.create("kid", in{"parent": "top"})
		r.host.next(edit("src/a.txt", "one\nkid\nthree\n"))
		r.do("startTask", in{"task_id": "kid"})
		r.rest(kid, task.Blocked)
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "kid"})
		wantRefusal(t, err, refusal.TargetOverlap)
		if err == nil || !strings.Contains(err.Error(), "src/a.txt") {
			t.Errorf("the refusal is %v", err)
		}
	})
}

func TestASubtaskMayRunBeforeItsParent(t *testing.T) {
	req.Covers(t, "SY-009", "OT-003", "CR-013", "AP-005")
	inBubble(t, func(t *testing.T, r *rig) {
		pid := r.create("top", in{"prompt": "what TOP is for"})
		kid := r.create("kid", in{"parent": "top"})
		r.host.next(edit("kid.txt", "kid"))
		r.do("startTask", in{"task_id": "kid"})
		r.rest(kid, task.Blocked)
		if got := r.task(pid); got.Status != task.Backlog || r.git("rev-parse", "lazy/top") != r.git("rev-parse", "main") {
			t.Errorf("the parent is %s", got.Status)
		}
		r.do("acceptTask", in{"task_id": "kid"})
		r.rest(kid, task.Complete)
		got := r.rest(pid, task.Blocked)
		if path := r.path(pid); path != "backlog blocked" || r.file("lazy/top", "kid.txt") != "kid" || got.Tip != r.git("rev-parse", "lazy/top") {
			t.Errorf("the parent went %s, tip %s", path, got.Tip)
		}
		r.do("unblockTask", in{"task_id": "top", "feedback": "now you"})
		r.rest(pid, task.Blocked)
		if p := r.promptOf(pid, 1); !strings.Contains(p, "what TOP is for") || !strings.Contains(p, "now you") {
			t.Errorf("its first prompt is %q", p)
		}
		r.do("acceptTask", in{"task_id": "top"})
		r.rest(pid, task.Complete)
		if r.file("main", "kid.txt") != "kid" {
			t.Error("main lacks the work")
		}
	})
}

func TestSubtasksOutliveTheirParentsBranch(t *testing.T) {
	req.Covers(t, "B10", "SM-031")
	inBubble(t, func(t *testing.T, r *rig) {
		pid := r.started("top")
		kid := r.create("kid", in{"parent": "top"})
		r.host.next(edit("kid.txt", "kid"))
		r.do("startTask", in{"task_id": "kid"})
		r.rest(kid, task.Blocked)
		r.do("acceptTask", in{"task_id": "top"})
		r.rest(pid, task.Complete)
		r.until("the branch is gone", func() bool { return r.git("branch", "--list", "lazy/top") == "" })
		got := r.task(kid)
		if got.Target != "main" || got.Parent != "" {
			t.Errorf("the subtask aims at %s under %q", got.Target, got.Parent)
		}
		r.do("acceptTask", in{"task_id": "kid"})
		r.rest(kid, task.Complete)
		if r.file("main", "kid.txt") != "kid" || r.file("main", "done.txt") != "done" {
			t.Error("main lacks the work")
		}
	})
}

func TestStoppingAParentLeavesItsSubtasksReportsAsRecordsOnly(t *testing.T) {
	req.Covers(t, "B48", "PT-006", "PT-004")
	inBubble(t, func(t *testing.T, r *rig) {
		pid := r.started("top")
		for _, code := range []string{"kid1", "kid2"} {
			r.create(code, in{"parent": "top"})
			r.host.next(func(s *sup) { s.begin(); s.sleep(time.Minute); s.ok("") })
			r.do("startTask", in{"task_id": code})
		}
		r.host.next(func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)}) })
		r.do("unblockTask", in{"task_id": "top", "feedback": "go on"})
		r.running(pid)
		r.do("stopTask", in{"task_id": "top"})
		r.rest(pid, task.Interrupted)
		n := r.host.launched()
		for _, code := range []string{"kid1", "kid2"} {
			r.rest(taskOf(r, code).ID, task.Blocked)
		}
		r.down()
		r.up()
		time.Sleep(2 * time.Hour)
		if got := r.task(pid); got.Status != task.Interrupted || !got.Hold || r.host.launched() != n {
			t.Errorf("the parent is %s, %d launches after %d", got.Status, r.host.launched(), n)
		}
	})
}

func TestACommitOfTheParentAndALandingIntoItNeverUndoEachOther(t *testing.T) {
	req.Covers(t, "AP-018", "UW-013", "SY-015", "AP-010")
	for _, at := range []string{"prepared", "recorded"} {
		for _, step := range []string{names.StepPlan, names.StepLand, names.StepComplete} {
			t.Run(at+" "+step, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					pid := r.started("top")
					kid := r.create("kid", in{"parent": "top"})
					r.host.next(edit("kid.txt", "kid"))
					r.do("startTask", in{"task_id": "kid"})
					r.rest(kid, task.Blocked)
					reached, goOn := make(chan struct{}), make(chan struct{})
					var p *sup
					r.host.next(func(s *sup) {
						p = s
						s.begin()
						s.write("later", "parent")
						once := false
						err := s.commit("later", func(step string) {
							if step == at && !once {
								once = true
								close(reached)
								<-goOn
							}
						})
						if err != nil && fault.Code(err) != "" {
							t.Errorf("the parent's commit: %v", err)
						}
						s.ok("")
					})
					r.do("unblockTask", in{"task_id": "top", "feedback": "go on"})
					<-reached
					// The accept flow reaches its step while the parent's commit hangs
					// between its own; the commit goes on right then.
					r.host.watch(func(name string) {
						if name == step {
							r.host.watch(nil)
							close(goOn)
							time.Sleep(time.Second)
						}
					})
					out, err := p.tool("lazy_accept", in{"task_id": "kid"})
					if err == nil && out["confirmation_code"] != nil {
						_, err = p.tool("lazy_accept", in{"task_id": "kid", "confirmation_code": out["confirmation_code"]})
					}
					if err != nil {
						t.Fatal(err)
					}
					r.rest(kid, task.Complete)
					got := r.rest(pid, task.Blocked)
					if head := r.git("rev-parse", "lazy/top"); head != got.Tip {
						t.Errorf("the branch is at %s, recorded %s", head, got.Tip)
					}
					r.host.next(func(s *sup) {
						s.begin()
						if st, err := s.untrusted().Status(s.ctx); err != nil || len(st.Dirty) > 0 {
							t.Errorf("the parent's next run finds %+v, %v", st, err)
						}
						s.ok("")
					})
					r.do("unblockTask", in{"task_id": "top", "feedback": "look"})
					r.rest(pid, task.Blocked)
					for name, want := range map[string]string{"kid.txt": "kid", "later": "parent", "done.txt": "done"} {
						if r.file("lazy/top", name) != want {
							t.Errorf("%s is %q", name, r.file("lazy/top", name))
						}
					}
				})
			})
		}
	}
}
