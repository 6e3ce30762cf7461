package local_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestNoTurnRevertsAProtectedFileOrDecidesItAndAnApprovalStays(t *testing.T) {
	req.Covers(t, "PF-004", "PF-007")
	inBubble(t, func(t *testing.T, r *rig) {
		const mine = "echo two\n"
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("deploy/run.sh", mine)
			if err := s.commit("deploy"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		idle := func(s *sup) { s.begin(); s.ok("") }
		look := func(after string, status task.Status, approved bool) {
			t.Helper()
			got := r.rest(tid, status)
			if vs := got.Violations; len(vs) != 1 || vs[0].Path != "deploy/run.sh" || vs[0].Approved != approved {
				t.Errorf("after %s: %+v", after, vs)
			}
			if s := r.file("lazy/one", "deploy/run.sh"); s+"\n" != mine && s != mine {
				t.Errorf("after %s the file is %q", after, s)
			}
		}
		turns := func(status task.Status, approved bool) {
			t.Helper()
			for _, c := range []struct {
				verb string
				args in
			}{
				{"resumeTask", in{}}, {"unblockTask", in{"feedback": "look again"}}, {"askTask", in{"question": "why?"}}, {"syncTask", in{}},
			} {
				if c.verb == "syncTask" {
					r.write("news", r.git("rev-parse", "main")+"\n")
					r.commitAll("news")
				}
				c.args["task_id"] = "one"
				r.host.next(idle)
				r.do(c.verb, c.args)
				look(c.verb, status, approved)
			}
		}
		look("its first turn", task.Conflict, false)
		turns(task.Conflict, false)
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		wantRefusal(t, err, refusal.ProtectedPending)

		// An accept that approves it and then cannot land keeps the approval.
		at := r.git("rev-parse", "main")
		r.host.watch(func(step string) {
			if step == names.StepPlan {
				r.host.watch(nil)
				r.write("deploy/run.sh", "echo person\n")
				r.commitAll("meanwhile")
			}
		})
		out := r.do("acceptTask", in{"task_id": "one", "approved_files": []string{"deploy/run.sh"}})
		r.follow(out["operation_id"])
		look("a failed accept", task.Conflict, true)
		r.git("reset", "-q", "--hard", at)
		turns(task.Blocked, true)
		r.do("acceptTask", in{"task_id": "one", "approved_files": []string{"deploy/run.sh"}}) // once more
		if got := r.rest(tid, task.Complete); !got.Violations[0].Approved || r.file("main", "deploy/run.sh") == "echo one" {
			t.Errorf("accepted: %+v", got.Violations)
		}
	})
}
