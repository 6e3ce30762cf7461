package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// B13: a merge request that failed is told by its branch and its head, so the next
// one of the same branch is not taken for handled.
func TestAnAcceptThatWasAbortedIsNoAnswerToTheNext(t *testing.T) {
	req.Covers(t, "B13", "AP-016", "AP-022")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("src/a.txt", "one\nagent\nthree\n"))
		before, moved := r.git("rev-parse", "main"), false
		r.host.watch(func(step string) {
			if step == names.StepPlan && !moved {
				moved = true
				r.write("src/a.txt", "one\nperson\nthree\n")
				r.commitAll("meanwhile")
			}
		})
		first := r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		r.git("reset", "-q", "--hard", before)
		r.host.next(edit("src/a.txt", "one\nbetter\nthree\n"))
		r.do("unblockTask", in{"task_id": "one", "feedback": "better, please"})
		got := r.rest(tid, task.Blocked)
		second := r.do("acceptTask", in{"task_id": "one"})
		if first["operation_id"] == second["operation_id"] || second["resumed"] == true {
			t.Errorf("the second accept was answered %v after %v", second, first)
		}
		r.rest(tid, task.Complete)
		if r.file("main", "src/a.txt") != "one\nbetter\nthree" || r.task(tid).Accept.Tip != got.Tip {
			t.Errorf("main has %q", r.file("main", "src/a.txt"))
		}
		if n := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: "); n != 1 {
			t.Errorf("%d merges", n)
		}
	})
}

// B14: a task is complete once its target contains the merge, and nothing of it is
// removed before.
func TestNothingIsCalledMergedBeforeTheTargetHasIt(t *testing.T) {
	req.Covers(t, "B14", "AP-023", "SM-031")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		var mu sync.Mutex
		var seen []string
		r.host.watch(func(step string) {
			got := r.task(tid)
			mu.Lock()
			defer mu.Unlock()
			branch := r.git("branch", "--list", "lazy/one") != ""
			seen = append(seen, fmt.Sprintf("%s: %s, landed %t, kept %t", step, got.Status, r.file("main", "done.txt") != "", branch && got.Workspace != nil))
		})
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		r.until("cleaned up", func() bool { return r.task(tid).Workspace == nil })
		want := []string{
			"describe.v1: merging, landed false, kept true", "intent.v2: merging, landed false, kept true",
			"land.v1: merging, landed false, kept true", "complete.v1: merging, landed true, kept true",
			"cleanup.v1: complete, landed true, kept true",
		}
		mu.Lock()
		defer mu.Unlock()
		if strings.Join(seen, "\n") != strings.Join(want, "\n") {
			t.Errorf("it went\n%s", strings.Join(seen, "\n"))
		}
	})
}

// B15: a commit was made and the branch cannot be moved, so the work is not where
// an accept would look for it; the process that made it is gone. No branch is
// merged without it, nothing is removed, and it is there as soon as it can be.
func TestWorkWhoseBranchCannotBeMovedIsKeptUntilItCan(t *testing.T) {
	req.Covers(t, "B15", "UW-013", "P9")
	inBubble(t, func(t *testing.T, r *rig) {
		lock := filepath.Join(r.dir, ".git", "refs", "heads", "lazy", "one.lock")
		r.host.next(func(s *sup) {
			s.begin()
			s.write("a", "precious")
			_ = s.commit("a", func(step string) {
				if step == "recorded" {
					if err := os.WriteFile(lock, nil, 0o600); err != nil {
						t.Error(err)
					}
					s.die(137, "killed")
				}
			})
		}, func(s *sup) { s.begin(); s.ok("") })
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		time.Sleep(30 * time.Minute)
		got := r.task(tid)
		if got.Status != task.Interrupted && got.Status != task.Working || got.Tip == got.Base || got.Workspace == nil {
			t.Errorf("with its branch locked it is %+v", got)
		}
		if _, err := r.try(r.owner, "acceptTask", in{"task_id": "one"}); err == nil {
			t.Error("it was accepted")
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if got := r.task(tid); got.Status == task.Interrupted {
			_, _ = r.try(r.owner, "resumeTask", in{"task_id": "one"}) // an automatic resume may be first
		}
		r.rest(tid, task.Blocked)
		if r.file("lazy/one", "a") != "precious" {
			t.Error("the work is gone")
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if r.file("main", "a") != "precious" {
			t.Error("it was merged without the work")
		}
	})
}

// B18: whether it can be merged is unknown, again and again: that is neither yes nor
// no. It is asked a bounded number of times, then said, and a person can ask anew.
func TestATargetThatCannotBeJudgedIsAskedABoundedNumberOfTimes(t *testing.T) {
	req.Covers(t, "B18", "AP-019", "SM-017")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		var mu sync.Mutex
		asked := 0
		r.host.watch(func(step string) {
			if step == names.StepLand {
				mu.Lock()
				asked++
				mu.Unlock()
			}
		})
		times := func() int { mu.Lock(); defer mu.Unlock(); return asked }
		r.host.breakStep(map[string]error{names.StepLand: fault.New(fault.Unavailable, "whether it can be merged is not known yet")})
		began := time.Now()
		r.do("acceptTask", in{"task_id": "one"})
		r.until("it was given up", func() bool { return r.task(tid).Accept.GaveUp })
		n, took := times(), time.Since(began)
		time.Sleep(6 * time.Hour)
		got := r.task(tid)
		if n != times() || n > 24 || took < time.Minute {
			t.Errorf("asked %d times in %s and %d times after", n, took, times()-n)
		}
		if got.Status != task.Merging || !strings.Contains(got.Accept.Failure, "not known yet") || r.file("main", "done.txt") != "" {
			t.Errorf("it is %s: %q", got.Status, got.Accept.Failure)
		}
		r.host.breakStep(nil)
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
	})
}

// B19: a submodule that cannot be filled does not keep the task from starting, and
// its first turn says so.
func TestATaskStartsWithoutASubmoduleAndSaysSo(t *testing.T) {
	req.Covers(t, "B19")
	inBubble(t, func(t *testing.T, r *rig) {
		r.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = https://example.invalid/lib\n")
		r.git("add", ".gitmodules")
		r.git("update-index", "--add", "--cacheinfo", "160000,"+r.git("rev-parse", "HEAD")+",lib")
		r.git("commit", "-q", "-m", "a submodule")
		tid := r.started("one")
		first := r.turns(tid)[0]
		said, _ := readRow[map[string]any](r, store.For(tenant).Task(tid).Body(first.Setup))
		if text, _ := said["text"].(string); !strings.Contains(text, "lib: it was never initialised") {
			t.Errorf("the first turn says %v", said)
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if got := r.git("ls-tree", "main", "lib"); !strings.HasPrefix(got, "160000") {
			t.Errorf("the pin is %q", got)
		}
	})
}

// B41: words come in the same instant a turn ends. Either somebody is told that
// they did not arrive, or they are in a prompt.
func TestWordsThatComeAsATurnEndsAreToldOrDelivered(t *testing.T) {
	req.Covers(t, "B41", "P3", "SY-012", "CR-014")
	for _, at := range []string{names.StepRun, names.StepRecord, names.StepDecide} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				idle := func(s *sup) { s.begin(); s.ok("") }
				tid := r.started("one")
				r.host.next(idle, idle, idle)
				var all sync.WaitGroup
				var mu sync.Mutex
				var words []string
				once := false
				r.host.watch(func(step string) {
					mu.Lock()
					again := step != at || once
					once = once || step == at
					mu.Unlock()
					if again {
						return
					}
					for i := range 8 {
						all.Go(func() {
							w := fmt.Sprintf("word-%d-here", i)
							var err error
							if i%2 == 0 {
								_, err = r.try(r.owner, "addComment", in{"task_id": "one", "message": w})
							} else {
								_, err = r.try(r.owner, "unblockTask", in{"task_id": "one", "feedback": w})
							}
							if err == nil {
								mu.Lock()
								words = append(words, w)
								mu.Unlock()
							} else if !refusal.Is(err, refusal.TaskBusy) {
								t.Errorf("%s: %v", w, err)
							}
						})
					}
				})
				r.do("unblockTask", in{"task_id": "one", "feedback": "go"})
				r.until("all are answered", func() bool { mu.Lock(); defer mu.Unlock(); return once })
				all.Wait()
				r.until("it rests", func() bool { return !r.task(tid).Claimed })
				r.host.watch(nil)
				r.host.next(idle)
				r.do("unblockTask", in{"task_id": "one", "feedback": "and now"})
				r.rest(tid, task.Blocked)
				told := ""
				for epoch := int64(1); epoch <= r.task(tid).Epoch; epoch++ {
					told += r.promptOf(tid, epoch)
				}
				for _, w := range words {
					if !strings.Contains(told, w) {
						t.Errorf("%s was acknowledged and never told", w)
					}
				}
				if len(words) < 4 || r.task(tid).Queued != 0 {
					t.Errorf("%d were acknowledged, %d are queued", len(words), r.task(tid).Queued)
				}
			})
		})
	}
}

// B42: a call is answered when its turn is durable, however long the launch takes;
// the same call again is the same turn.
func TestACallIsAnsweredBeforeItsRunIsThere(t *testing.T) {
	req.Covers(t, "B42", "SY-010", "RP-027")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.host.watch(func(step string) {
			if step == names.StepLaunch {
				time.Sleep(2 * time.Minute)
			}
		})
		began := time.Now()
		var turns [2]any
		for i := range turns {
			out, err := r.tryKey(r.owner, "unblockTask", in{"task_id": "one", "feedback": "go on"}, "same")
			if err != nil {
				t.Fatal(err)
			}
			turns[i] = out["turn_id"]
		}
		if d := time.Since(began); d > time.Second || turns[0] != turns[1] {
			t.Errorf("answered after %s with %v", d, turns)
		}
		r.rest(tid, task.Blocked)
		if r.host.launched() != 2 || len(r.turns(tid)) != 4 {
			t.Errorf("%d launches, %d turns", r.host.launched(), len(r.turns(tid)))
		}
	})
}

// A plane without the credential an agent needs refuses that agent's turns and
// says what to do; agents that need none run.
func TestAnAgentWithoutItsCredentialIsRefusedAndOthersRun(t *testing.T) {
	req.Covers(t, "FC-012", "P6")
	inBubble(t, func(t *testing.T, r *rig) {
		r.configure(payable)
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		r.create("two", in{"agent": "paid"})
		before := r.snapshot()
		_, err := r.try(r.owner, "startTask", in{"task_id": "two"})
		wantRefusal(t, err, refusal.AgentUnconfigured)
		if !strings.Contains(next(err), "lazy auth add claude") || r.snapshot() != before {
			t.Errorf("refused with %v, next %q", err, next(err))
		}
		r.do("putModelCredential", in{"provider": "claude", "secret": "sk-one"})
		r.do("startTask", in{"task_id": "two"})
		r.rest(taskOf(r, "two").ID, task.Blocked)
	})
}
