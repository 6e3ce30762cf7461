package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// edit is an agent that changes one file and ends without a word.
func edit(name, text string) func(*sup) {
	return func(s *sup) {
		s.begin()
		s.write(name, text)
		if err := s.commit("change " + name); err != nil {
			s.die(1, err.Error())
		}
		s.ok("")
	}
}

// follow waits for the end of an operation as its caller does.
func (r *rig) follow(op any) app.Progress {
	r.t.Helper()
	cursor := ""
	for end := time.Now().Add(time.Hour); ; {
		p, err := r.app().Await(r.t.Context(), app.Call{Who: r.owner, Hold: time.Minute}, op.(string), cursor)
		if err != nil {
			r.t.Fatal(err)
		}
		if p.Done {
			return p
		}
		cursor = p.Cursor
		if time.Now().After(end) {
			r.t.Fatalf("operation %v never ends: %+v", op, p)
		}
	}
}

func TestAcceptLandsOneSquashedCommitAndCleansUp(t *testing.T) {
	req.Covers(t, "AP-005", "AP-006", "SM-031", "OB-042", "TE-011")
	inBubble(t, func(t *testing.T, r *rig) {
		before := r.git("rev-parse", "main")
		tid := r.started("one", func(s *sup) {
			s.begin()
			for _, name := range []string{"a", "b"} {
				s.write(name, name)
				if err := s.commit(name); err != nil {
					s.die(1, err.Error())
				}
			}
			s.ok("") // it declares nothing: that is no condition
		})
		out := r.do("acceptTask", in{"task_id": "one", "reason": "it is good"})
		if out["status"] != "merging" || out["target"] != "main" {
			t.Errorf("accept answered %v", out)
		}
		p := r.follow(out["operation_id"])
		got := r.rest(tid, task.Complete)
		if p.Error != nil || !strings.Contains(string(p.Result), got.Merge) {
			t.Errorf("it ended %v %s", p.Error, p.Result)
		}
		head := r.git("rev-parse", "main")
		if head != got.Merge || r.git("rev-parse", "main^") != before || r.file("main", "a") != "a" || r.file("main", "b") != "b" {
			t.Errorf("main is at %s, the merge is %s", head, got.Merge)
		}
		if body := r.git("log", "-1", "--format=%B", "main"); !strings.Contains(body, "it is good") || !strings.Contains(body, "Lazy-Task: "+string(tid)) {
			t.Errorf("the commit says %q", body)
		}
		if b, err := os.ReadFile(filepath.Join(r.dir, "a")); err != nil || string(b) != "a" {
			t.Errorf("the checkout has %q, %v", b, err)
		}
		if st := r.git("status", "--porcelain"); st != "" {
			t.Errorf("the checkout is dirty: %s", st)
		}
		if got.Workspace != nil || r.git("branch", "--list", "lazy/*") != "" {
			t.Errorf("left over: %+v %s", got.Workspace, r.git("branch", "--list", "lazy/*"))
		}
	})
}

func TestEditsInTheCheckoutAreKeptOrNamed(t *testing.T) {
	req.Covers(t, "AP-013", "AP-003", "P6", "UW-001", "P12")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("src/a.txt", "one\nTWO\nthree\n"))
		r.write("src/a.txt", "mine\n")
		before := r.snapshot()
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		wantRefusal(t, err, refusal.TargetOverlap)
		if !strings.Contains(err.Error(), "src/a.txt") || r.snapshot() != before {
			t.Errorf("the overlap is refused as %v", err)
		}
		r.git("checkout", "-q", "src/a.txt")
		r.write("README.md", "shop, my words\n")
		r.write("notes", "mine")
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		b, _ := os.ReadFile(filepath.Join(r.dir, "README.md"))
		if string(b) != "shop, my words\n" || r.git("status", "--porcelain") != " M README.md\n?? notes" || r.file("main", "src/a.txt") != "one\nTWO\nthree" {
			t.Errorf("the person's edits: %q, status %q", b, r.git("status", "--porcelain"))
		}
	})
}

func TestAMergeConflictAbortsTheAcceptAndSaysToSync(t *testing.T) {
	req.Covers(t, "AP-022", "AP-003", "SM-030", "AP-016")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("src/a.txt", "one\nagent\nthree\n"))
		// The target moves after the pre-flight has passed and before the flow
		// computes the landing.
		moved := false
		r.host.watch(func(step string) {
			if step == names.StepPlan && !moved {
				moved = true
				r.write("src/a.txt", "one\nperson\nthree\n")
				r.commitAll("meanwhile")
			}
		})
		out := r.do("acceptTask", in{"task_id": "one"})
		p := r.follow(out["operation_id"])
		got := r.rest(tid, task.Blocked)
		if p.Error == nil || !strings.Contains(p.Error.Public, "src/a.txt") || !strings.Contains(strings.ToLower(p.Error.Public+nextOf(p.Error)), "sync") {
			t.Errorf("it ended %v", p.Error)
		}
		if path := r.path(tid); path != "backlog working blocked merging blocked" {
			t.Errorf("it went %s", path)
		}
		said := rows[map[string]any](r, tid, "CMT#")
		if len(said) != 1 || !strings.Contains(said[0]["text"].(string), "src/a.txt") || said[0]["system"] != true || got.Queued != 0 {
			t.Errorf("the record says %v", said)
		}
		// In the pre-flight the same is a refusal that writes nothing.
		before := r.snapshot()
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		if fault.KindOf(err) != fault.Conflict || !strings.Contains(next(err), "Sync") || r.snapshot() != before {
			t.Errorf("the second accept: %v", err)
		}
	})
}

func nextOf(e *fault.Error) string { return next(e) }

func TestAcceptGatesOnEveryPendingViolation(t *testing.T) {
	req.Covers(t, "SM-006", "SM-007", "SM-025", "SM-005", "AA-001")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("deploy/run.sh", "echo two\n")
			s.write("deploy/more.sh", "echo more\n")
			if err := s.commit("deploy"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		r.rest(tid, task.Conflict)
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one", "approved_files": []string{"deploy/run.sh"}})
		wantRefusal(t, err, refusal.ProtectedPending)
		if !strings.Contains(err.Error(), "deploy/more.sh") || strings.Contains(err.Error(), "deploy/run.sh") {
			t.Errorf("the refusal names %v", err)
		}
		r.host.next(func(s *sup) {
			s.begin()
			if got := readIn(t, s.cmd.Tree, "deploy/run.sh"); got != "echo two\n" {
				t.Errorf("the violated file was reverted to %q", got)
			}
			s.ok("")
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "why?"})
		if got := r.rest(tid, task.Conflict); got.Pending() != 2 {
			t.Errorf("%d pending", got.Pending())
		}
		// An accept that approves the last one and then cannot land puts conflict
		// itself back, and the approvals stay.
		all := []string{"deploy/run.sh", "deploy/more.sh"}
		r.host.watch(func(step string) {
			if step == names.StepPlan {
				r.host.watch(nil)
				r.write("deploy/run.sh", "echo person\n")
				r.commitAll("meanwhile")
			}
		})
		out := r.do("acceptTask", in{"task_id": "one", "approved_files": all})
		r.follow(out["operation_id"])
		got := r.rest(tid, task.Conflict)
		if got.Pending() != 0 {
			t.Errorf("%d approvals were lost", got.Pending())
		}
		r.git("reset", "-q", "--hard", "HEAD^")
		r.do("acceptTask", in{"task_id": "one", "approved_files": all}) // naming them again is fine
		r.rest(tid, task.Complete)
	})
}

func readIn(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestAcceptDemandsADecisionOnEveryBlockingItem(t *testing.T) {
	req.Covers(t, "AP-001", "B44", "AP-003")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("a", "a")
			if err := s.commit("a"); err != nil {
				s.die(1, err.Error())
			}
			for _, title := range []string{"first", "second"} {
				if _, err := s.tool("lazy_raise", in{"title": title, "content": title, "blocking": true}); err != nil {
					s.die(1, err.Error())
				}
			}
			s.ok("")
		})
		r.down()
		r.up()
		items := rows[map[string]any](r, tid, "RSD#")
		one := in{"raised_id": items[0]["id"], "action": "dismiss"}
		two := in{"raised_id": items[1]["id"], "action": "respond", "response": "blue"}
		before := r.snapshot()
		for _, rs := range [][]in{nil, {one}} {
			_, err := r.try(r.owner, "acceptTask", in{"task_id": "one", "raised_resolutions": append([]in{}, rs...)})
			wantRefusal(t, err, refusal.RaisedUnresolved)
		}
		if r.snapshot() != before {
			t.Error("a refused accept decided an item")
		}
		r.do("acceptTask", in{"task_id": "one", "raised_resolutions": []in{one, two}})
		r.rest(tid, task.Complete)
	})
}

func TestAMidMergeWorkspaceIsToldApartFromADirtyOne(t *testing.T) {
	req.Covers(t, "UW-007", "AP-020", "GT-012", "SN-012")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("src/a.txt", "one\nagent\nthree\n"))
		r.write("src/a.txt", "one\nperson\nthree\n")
		r.commitAll("meanwhile")
		r.host.next(func(s *sup) { s.begin(); s.ok("I leave it") }) // conflicted, and nobody resolves
		out := r.do("syncTask", in{"task_id": "one"})
		if p := r.follow(out["operation_id"]); p.Error == nil || !strings.Contains(p.Error.Public, "src/a.txt") {
			t.Errorf("a sync that left a merge open ended %v %s", p.Error, p.Result)
		}
		got := r.rest(tid, task.Blocked)
		if len(got.MidMerge) != 1 || got.Merging == "" {
			t.Fatalf("the merge is not noted: %+v", got)
		}
		before := r.snapshot()
		for _, verb := range []string{"acceptTask", "rejectTask"} {
			args := in{"task_id": "one"}
			if verb == "rejectTask" {
				args["reason"] = "no"
			}
			_, err := r.try(r.owner, verb, args)
			wantRefusal(t, err, refusal.UnresolvedMerge)
			if !strings.Contains(err.Error(), "unresolved merge") || !strings.Contains(next(err), "Sync") || strings.Contains(strings.ToLower(next(err)), "stash") {
				t.Errorf("%s: %v, next %q", verb, err, next(err))
			}
		}
		if r.snapshot() != before {
			t.Error("a refusal wrote")
		}
		// The next work turn gets the conflict, resolves it, and its commit concludes
		// the merge.
		r.host.next(func(s *sup) {
			s.resume()
			if !strings.Contains(s.cmd.Prompt, "Unresolved merge") || !strings.Contains(s.cmd.Prompt, "src/a.txt") {
				t.Errorf("the prompt says %q", s.cmd.Prompt)
			}
			s.write("src/a.txt", "one\nboth\nthree\n")
			if _, err := gitIn(s.cmd, "add", "src/a.txt"); err != nil {
				s.die(1, err.Error())
			}
			if err := s.commit("resolve"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "resolve it"})
		got = r.rest(tid, task.Blocked)
		if len(got.MidMerge) != 0 || got.Merging != "" || got.Base != r.git("rev-parse", "main") {
			t.Errorf("after the resolution: %+v (%s)", got, got.Why)
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if r.file("main", "src/a.txt") != "one\nboth\nthree" {
			t.Errorf("main has %q", r.file("main", "src/a.txt"))
		}
	})
}

func TestConcurrentAcceptsMergeOnce(t *testing.T) {
	req.Covers(t, "AP-010", "P4", "AP-017")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		ops := make(chan string, 16)
		won, lost := r.race(16, func(int) error {
			out, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
			if err == nil {
				ops <- out["operation_id"].(string)
			}
			return err
		})
		if won != 16 {
			t.Errorf("%d followed: %v", won, lost)
		}
		close(ops)
		first := ""
		for op := range ops {
			if first == "" {
				first = op
			}
			if op != first {
				t.Errorf("two accepts: %s and %s", first, op)
			}
		}
		r.rest(tid, task.Complete)
		if n := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); n != 1 {
			t.Errorf("%d landings", n)
		}
		out := r.do("acceptTask", in{"task_id": "one"})
		if out["status"] != "complete" || out["resumed"] != true || out["merge_sha"] != r.task(tid).Merge {
			t.Errorf("an accept of an accepted task answered %v", out)
		}
	})
}

func TestACallerWhoLeavesCancelsNothing(t *testing.T) {
	req.Covers(t, "AP-017", "RP-006", "OT-048", "OT-025")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		out := r.do("acceptTask", in{"task_id": "one"})
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := r.app().Await(gone, app.Call{Who: r.owner}, out["operation_id"].(string), ""); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who left got %v", err)
		}
		_, err := r.app().Await(t.Context(), app.Call{Who: r.bench}, out["operation_id"].(string), "")
		wantRefusal(t, err, refusal.NotFound)
		p := r.follow(out["operation_id"])
		r.rest(tid, task.Complete)
		if p.Error != nil {
			t.Errorf("it ended %v", p.Error)
		}
		// The same answer for a day, also when the task was taken up again.
		r.do("reopenTask", in{"task_id": "one", "reason": "more to do"})
		if again := r.follow(out["operation_id"]); again.Error != nil || !strings.Contains(string(again.Result), `"complete"`) {
			t.Errorf("later it answers %v %s", again.Error, again.Result)
		}
		time.Sleep(25 * time.Hour)
		_, err = r.app().Await(t.Context(), app.Call{Who: r.owner}, out["operation_id"].(string), "")
		wantRefusal(t, err, refusal.NotFound)
	})
}

func TestADeadAcceptIsResumedAndGuardedMeanwhile(t *testing.T) {
	req.Covers(t, "SM-017", "SM-032", "AP-018", "SM-016", "SY-033")
	for _, step := range []string{names.StepDescribe, names.StepPlan, names.StepLand, names.StepComplete} {
		t.Run(step, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one")
				r.host.breakStep(map[string]error{step: errors.New("the step died")})
				r.do("acceptTask", in{"task_id": "one"})
				r.until("the accept is dead", func() bool { a := r.task(tid).Accept; return a != nil && a.Failure != "" })
				for verb, args := range map[string]in{
					"rejectTask": {"reason": "no"}, "closeTask": {"reason": "no"}, "unblockTask": {"feedback": "no"}, "resumeTask": {},
				} {
					args["task_id"] = "one"
					before := r.snapshotOf(tid)
					_, err := r.try(r.owner, verb, args)
					wantRefusal(t, err, refusal.AcceptPending)
					if !strings.Contains(next(err), "accept again") || r.snapshotOf(tid) != before {
						t.Errorf("%s: %v", verb, err)
					}
				}
				r.host.breakStep(nil)
				out := r.do("acceptTask", in{"task_id": "one"})
				if out["resumed"] != true {
					t.Errorf("accept answered %v", out)
				}
				r.rest(tid, task.Complete)
				if n := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); n != 1 {
					t.Errorf("%d landings", n)
				}
			})
		})
	}
}

func TestAnAcceptIsResumedThreeTimesAndThenGivenUp(t *testing.T) {
	req.Covers(t, "AP-019", "SM-030", "SM-033", "SM-034")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.host.breakStep(map[string]error{names.StepLand: errors.New("the step died")})
		r.do("acceptTask", in{"task_id": "one"})
		r.until("it is resumed for the last time", func() bool { a := r.task(tid).Accept; return a.Resumes == 3 && a.Failure != "" })
		// That execution may still merge: nothing may undo it.
		_, err := r.try(r.owner, "closeTask", in{"task_id": "one", "reason": "enough"})
		wantRefusal(t, err, refusal.AcceptPending)
		time.Sleep(time.Hour)
		got := r.task(tid)
		if got.Accept.N != 4 || got.Status != task.Merging {
			t.Errorf("%d executions, %s", got.Accept.N, got.Status)
		}
		if n := len(rows[map[string]any](r, tid, "CMT#")); n != 1 {
			t.Errorf("%d system messages", n)
		}
		r.host.breakStep(nil)
		r.do("closeTask", in{"task_id": "one", "reason": "enough"})
		if path := r.path(tid); path != "backlog working blocked merging blocked abandoned" {
			t.Errorf("it went %s", path)
		}
	})
}

// An accept whose merge landed and which then failed for good may not be undone:
// accepting again finishes it.
func TestAGivenUpAcceptThatHasLandedIsOnlyFinished(t *testing.T) {
	req.Covers(t, "SM-033", "SM-032", "P4")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.host.breakStep(map[string]error{names.StepComplete: errors.New("the step died")})
		r.do("acceptTask", in{"task_id": "one"})
		r.until("it was resumed as often as it may be", func() bool { return r.task(tid).Accept.GaveUp })
		if r.file("main", "done.txt") != "done" {
			t.Fatal("nothing landed")
		}
		before := r.snapshotOf(tid)
		for verb, args := range map[string]in{
			"closeTask": {"reason": "enough"}, "rejectTask": {"reason": "no"}, "unblockTask": {"feedback": "go on"},
		} {
			args["task_id"] = "one"
			_, err := r.try(r.owner, verb, args)
			wantRefusal(t, err, refusal.AcceptPending)
			if !strings.Contains(next(err), "accept again") {
				t.Errorf("%s advises %q", verb, next(err))
			}
		}
		if r.snapshotOf(tid) != before {
			t.Error("a refusal wrote something")
		}
		r.host.breakStep(nil)
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if n := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); n != 1 {
			t.Errorf("%d merges", n)
		}
	})
}

func TestNothingIsDeletedBeforeTheLandingIsProven(t *testing.T) {
	req.Covers(t, "AP-023", "P4", "SM-031", "AP-006", "SY-021")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		before := r.git("rev-parse", "main")
		r.host.watch(func(step string) {
			if step == names.StepCleanUp {
				r.host.watch(nil)
				r.git("reset", "-q", "--hard", before) // somebody takes the target back
			}
		})
		out := r.do("acceptTask", in{"task_id": "one"})
		p := r.follow(out["operation_id"])
		got := r.rest(tid, task.Complete)
		if p.Error == nil || !strings.Contains(p.Error.Public, "clean up") || got.Workspace == nil || r.git("branch", "--list", "lazy/one") == "" {
			t.Errorf("unproven, yet %v %+v", p.Error, got.Workspace)
		}
		time.Sleep(time.Hour)
		if got := r.task(tid); got.Status != task.Complete || got.Workspace == nil {
			t.Errorf("after an hour it is %s, %v", got.Status, got.Workspace)
		}
		r.git("reset", "-q", "--hard", got.Merge)
		r.until("cleaned up", func() bool { return r.task(tid).Workspace == nil })
		if r.git("branch", "--list", "lazy/one") != "" {
			t.Error("the branch is still there")
		}
	})
}
