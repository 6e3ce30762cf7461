package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestWordsAreDeliveredUntilATurnThatSawThemEndsNormally(t *testing.T) {
	req.Covers(t, "P3", "CR-010", "CR-012", "CR-013", "CR-005")
	inBubble(t, func(t *testing.T, r *rig) {
		dead := crash(40*time.Second, 1, "boom")
		r.host.next(dead) // the initial prompt
		tid := r.create("one", in{"prompt": "the very first words"})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		if p := r.promptOf(tid, 2); !strings.Contains(p, "the very first words") || !strings.Contains(p, "auto-resumed") || !strings.Contains(p, "erify the files") {
			t.Errorf("after a crash the prompt is %q", p)
		}
		if g, ok := r.host.heard(tid, 2); !ok || g.cmd.Session != "" {
			t.Errorf("a session %q that no report named", g.cmd.Session)
		}
		r.host.next(dead) // feedback
		r.do("unblockTask", in{"task_id": "one", "feedback": "use BLUE\nplease"})
		r.rest(tid, task.Blocked)
		if p := r.promptOf(tid, 4); !strings.Contains(p, "use BLUE\nplease") || strings.Contains(p, "the very first words") {
			t.Errorf("after a crash the prompt is %q", p)
		}
		if g, _ := r.host.heard(tid, 4); g.cmd.Session != "session-of-"+string(tid) {
			t.Errorf("the conversation is not continued: %q", g.cmd.Session)
		}
		// It was delivered: another crash does not bring it back.
		r.host.next(dead)
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		for epoch := int64(5); epoch <= 6; epoch++ {
			if p := r.promptOf(tid, epoch); strings.Contains(p, "BLUE") {
				t.Errorf("delivered words come again: %q", p)
			}
		}
		r.host.next(dead) // a question
		r.do("askTask", in{"task_id": "one", "question": "why so SLOW?"})
		r.until("it runs", func() bool { return r.task(tid).Epoch == 7 })
		r.rest(tid, task.Blocked)
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		if p := r.promptOf(tid, 8); !strings.Contains(p, "why so SLOW?") {
			t.Errorf("the question is lost: %q", p)
		}
	})
}

func TestOfSeveralUnansweredPiecesTheNewestIsQuoted(t *testing.T) {
	req.Covers(t, "CR-011", "CR-010", "CR-004")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		stopped := func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: s.goOn(time.Hour)}) }
		r.host.bePatient(true)
		for _, words := range []string{"FIRST piece", "SECOND piece"} {
			r.host.next(stopped)
			r.do("unblockTask", in{"task_id": "one", "feedback": words})
			r.running(tid)
			r.do("stopTask", in{"task_id": "one"})
			r.rest(tid, task.Interrupted)
		}
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		p := r.promptOf(tid, 4)
		if !strings.Contains(p, "SECOND piece") || strings.Contains(p, "FIRST piece") || !strings.Contains(p, "1 earlier") {
			t.Errorf("the prompt is %q", p)
		}
		for _, x := range r.turns(tid) {
			if x.Side == turn.Input && x.Verb == "unblock" && x.Receipt != "delivered" {
				t.Errorf("turn %d is %q", x.Seq, x.Receipt)
			}
		}
	})
}

func TestACommentTravelsWithWorkTurnsOnly(t *testing.T) {
	req.Covers(t, "CR-014", "CR-013", "P3", "B41", "AN-005")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.do("addComment", in{"task_id": "one", "message": "mind the GAP"})
		time.Sleep(time.Hour)
		if r.host.launched() != 1 {
			t.Fatal("a comment started a turn")
		}
		idle := func(s *sup) { s.begin(); s.ok("") }
		r.host.next(idle, idle)
		r.do("askTask", in{"task_id": "one", "question": "why?"})
		r.rest(tid, task.Blocked)
		r.do("syncTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		for epoch := int64(2); epoch <= 3; epoch++ {
			if strings.Contains(r.promptOf(tid, epoch), "GAP") {
				t.Errorf("run %d carried the comment", epoch)
			}
		}
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		if err == nil {
			t.Error("an accept left a comment unread")
		}
		r.host.next(crash(40*time.Second, 1, "boom"))
		r.do("unblockTask", in{"task_id": "one", "feedback": "go"})
		// One that arrives while the turn runs is kept for the next.
		r.running(tid)
		r.do("addComment", in{"task_id": "one", "message": "and the STEP"})
		r.rest(tid, task.Blocked)
		if p := r.promptOf(tid, 4); !strings.Contains(p, "GAP") || strings.Contains(p, "STEP") {
			t.Errorf("the first prompt is %q", p)
		}
		if p := r.promptOf(tid, 5); !strings.Contains(p, "GAP") || !strings.Contains(p, "STEP") {
			t.Errorf("the prompt after the crash is %q", p)
		}
		if got := r.task(tid); got.Queued != 0 {
			t.Errorf("%d are still queued", got.Queued)
		}
		r.host.next(idle)
		r.do("unblockTask", in{"task_id": "one", "feedback": "more"})
		r.rest(tid, task.Blocked)
		if p := r.promptOf(tid, 6); strings.Contains(p, "GAP") || strings.Contains(p, "STEP") {
			t.Errorf("delivered comments come again: %q", p)
		}
	})
}

func TestWordsSurviveALaunchThatFails(t *testing.T) {
	req.Covers(t, "HA-031", "P3", "B29", "CR-002")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.host.setRefuse("Timeout waiting for network interface provisioning")
		r.do("unblockTask", in{"task_id": "one", "feedback": "use BLUE"})
		r.until("interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
		got := r.task(tid)
		if got.Interruptions != 0 {
			t.Errorf("a launch that failed counts as %d interruptions", got.Interruptions)
		}
		r.host.setRefuse("")
		r.rest(tid, task.Blocked)
		last := r.task(tid).Epoch
		if p := r.promptOf(tid, last); !strings.Contains(p, "use BLUE") {
			t.Errorf("the words are lost: %q", p)
		}
	})
}

func TestACleanWorkspaceIsMergedBeforeAnAutomaticResumeAndADirtyOneIsNot(t *testing.T) {
	req.Covers(t, "CR-006", "CR-007", "SN-004")
	for _, dirty := range []bool{false, true} {
		name := map[bool]string{false: "clean", true: "dirty"}[dirty]
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.host.next(func(s *sup) {
					s.begin()
					s.write("a", "a")
					if err := s.commit("a"); err != nil {
						s.die(1, err.Error())
					}
					if dirty {
						s.write("LEFTOVER", "half")
					}
					s.goOn(40 * time.Second)
					s.die(1, "boom")
				}, func(s *sup) {
					s.begin()
					if dirty {
						if s.cmd.Merge != nil || !strings.Contains(s.cmd.Prompt, "LEFTOVER") {
							t.Errorf("merge %v, prompt %q", s.cmd.Merge, s.cmd.Prompt)
						}
					} else if s.cmd.Merge == nil || readIn(t, s.cmd.Tree, "upstream") != "x" {
						t.Errorf("the target was not merged in: %+v", s.cmd.Merge)
					}
					s.ok("")
				})
				tid := r.create("one")
				r.do("startTask", in{"task_id": "one"})
				r.until("committed", func() bool { return r.task(tid).Commits == 1 })
				r.write("upstream", "x")
				at := r.commitAll("upstream")
				got := r.rest(tid, task.Blocked)
				if r.git("rev-parse", "main") != at {
					t.Error("the target moved")
				}
				if !dirty && got.Base != at {
					t.Errorf("the task's change begins at %s, want %s", got.Base, at)
				}
			})
		})
	}
}

func TestASyncMergesTheTargetAndRestoresTheStatus(t *testing.T) {
	req.Covers(t, "SY-032", "SN-004", "SN-005", "SN-008", "HA-026")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.write("upstream", "x")
		r.write("deploy/run.sh", "echo upstream\n") // protected, and not this task's doing
		at := r.commitAll("upstream")
		r.host.next(func(s *sup) { s.begin(); s.ok("") })
		out := r.do("syncTask", in{"task_id": "one"})
		p := r.follow(out["operation_id"])
		got := r.rest(tid, task.Blocked)
		if p.Error != nil || !strings.Contains(string(p.Result), "Merged main @ "+at[:7]) {
			t.Errorf("it ended %v %s", p.Error, p.Result)
		}
		if last := r.lastTurn(tid); last.Kind != turn.Sync || last.Text != "Merged main @ "+at[:7] {
			t.Errorf("the turn is %+v", last)
		}
		if r.git("rev-parse", "main") != at || got.Base != at || r.file("lazy/one", "upstream") != "x" || len(got.Violations) != 0 {
			t.Errorf("after the sync: %+v", got)
		}
		r.host.next(func(s *sup) { s.begin(); s.ok("") })
		out = r.do("syncTask", in{"task_id": "one"})
		p = r.follow(out["operation_id"])
		text := ""
		for _, ph := range p.Phases {
			text += ph.Name + " " + ph.State + "; "
		}
		if !strings.Contains(text, "already up to date") || r.task(tid).Tip != got.Tip {
			t.Errorf("a sync with nothing to merge: %s", text)
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if n := strings.Count(r.git("log", "-1", "--format=%B", "main"), "- "); n != 1 {
			t.Errorf("the merge names %d commits, want the task's own one", n)
		}
	})
}

func TestASyncsConflictIsResolvedByTheAgent(t *testing.T) {
	req.Covers(t, "GT-012", "SY-032", "SM-013")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("src/a.txt", "one\nagent\nthree\n"))
		r.write("src/a.txt", "one\nperson\nthree\n")
		at := r.commitAll("meanwhile")
		r.host.next(func(s *sup) {
			s.begin()
			if !strings.Contains(s.cmd.Prompt, "Resolve each one") || !strings.Contains(s.cmd.Prompt, "lazy_commit") {
				t.Errorf("the prompt is %q", s.cmd.Prompt)
			}
			s.write("src/a.txt", "one\nboth\nthree\n")
			if _, err := gitIn(s.cmd, "add", "src/a.txt"); err != nil {
				s.die(1, err.Error())
			}
			if err := s.commit("merge main"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		r.do("syncTask", in{"task_id": "one"})
		got := r.rest(tid, task.Blocked)
		if got.Base != at || len(got.MidMerge) != 0 {
			t.Errorf("after the sync: %+v", got)
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
	})
}

func TestHandOffEntriesAreKeptOnce(t *testing.T) {
	req.Covers(t, "HF-002", "HF-004", "HF-006", "HF-007", "TE-006")
	inBubble(t, func(t *testing.T, r *rig) {
		hand := []turn.Handoff{
			{Kind: "journal", Content: "I remember"},
			{Kind: "raised", Content: "which one?\nA or B", Blocking: true},
			{Kind: "followup", Content: "tidy up", Blocking: true},
			{Kind: "nonsense", Content: "x"},
			{Kind: "raised", Content: "said already"},
		}
		tid := r.started("one", func(s *sup) {
			s.begin()
			if _, err := s.tool("lazy_raise", in{"title": "said already", "content": "said already", "blocking": false}); err != nil {
				t.Error(err)
			}
			s.settle(turn.Response{Outcome: "ok", Handoff: hand})
		})
		if got := r.lastTurn(tid); got.Ending != turn.NeedsInput {
			t.Errorf("ending %q", got.Ending)
		}
		check := func() {
			t.Helper()
			items := rows[map[string]any](r, tid, "RSD#")
			if len(items) != 3 || len(rows[map[string]any](r, tid, "JRN#")) != 1 || r.task(tid).Blocking != 1 {
				t.Errorf("kept %v, %v, %d blocking", items, rows[map[string]any](r, tid, "JRN#"), r.task(tid).Blocking)
			}
		}
		check()
		r.host.next(func(s *sup) {
			s.begin()
			s.settle(turn.Response{Outcome: "ok", Handoff: []turn.Handoff{{Kind: "journal", Content: "from a question"}}})
		})
		r.do("askTask", in{"task_id": "one", "question": "why?"})
		r.rest(tid, task.Blocked)
		check()
	})
}

func TestBeatsLieApartFromTheTaskAndAreStoredSparingly(t *testing.T) {
	req.Covers(t, "SY-017", "SY-048")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		r.host.next(func(s *sup) { s.begin(); s.goOn(2 * time.Hour); s.ok("") })
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		time.Sleep(time.Minute)
		version, meta, all := r.task(tid).Version, 0, 0
		r.now().fuse.setHook(func(_ int, ws []store.Write) (bool, bool) {
			for _, w := range ws {
				if strings.HasPrefix(w.Item.Key.SK, "RUN#") {
					all++
				} else if w.Item.Key == store.For(tenant).Task(tid).Meta() {
					meta++
				}
			}
			return false, false
		})
		time.Sleep(time.Hour)
		r.now().fuse.setHook(nil)
		if all < 100 || all+meta > 130 {
			t.Errorf("%d beats were stored in an hour and %d touches made, want a beat every 30 s and 130 in all", all, meta)
		}
		if r.task(tid).Version != version {
			t.Errorf("beats moved the task from version %d to %d", version, r.task(tid).Version)
		}
		t.Logf("a running hour costs %d stored beats and %d touches of the due row", all, meta)
		r.rest(tid, task.Blocked)
	})
}
