package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// started makes a task, runs one turn of it and returns it at rest.
func (r *rig) started(code string, script ...func(*sup)) id.Task {
	r.t.Helper()
	tid := r.create(code)
	r.host.next(script...)
	r.do("startTask", in{"task_id": code})
	r.until("the turn is over", func() bool { t := r.task(tid); return !t.Claimed && t.Epoch > 0 })
	return tid
}

func (r *rig) turns(t id.Task) []turn.Turn { return rows[turn.Turn](r, t, "TRN#") }

func (r *rig) lastTurn(t id.Task) turn.Turn {
	ts := r.turns(t)
	return ts[len(ts)-1]
}

// promptOf is what the run of an epoch was told.
func (r *rig) promptOf(t id.Task, epoch int64) string {
	r.t.Helper()
	g, ok := r.host.heard(t, epoch)
	if !ok {
		r.t.Fatalf("run %d never said hello", epoch)
	}
	return g.cmd.Prompt
}

func wantRefusal(t *testing.T, err error, code refusal.Code) {
	t.Helper()
	if !refusal.Is(err, code) {
		t.Errorf("got %v, want the refusal %s", err, code)
	}
}

func TestATaskGoesFromBacklogToComplete(t *testing.T) {
	req.Covers(t, "HA-001", "HA-020", "SM-002", "SM-004", "SM-027")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.create("one")
		if got := r.task(tid); got.Status != task.Backlog || got.HadSession || got.Session != "" || got.Epoch != 0 || got.Workspace != nil {
			t.Errorf("a backlog task has %+v", got)
		}
		out := r.do("startTask", in{"task_id": "one"})
		if out["status"] != "working" || out["turn_id"] == "" || out["turn_id"] != out["operation_id"] {
			t.Errorf("start answered %v", out)
		}
		got := r.rest(tid, task.Blocked)
		if got.Tip == got.Base || got.Session == "" || !got.Workspace.Ready {
			t.Errorf("at rest it has %+v", got)
		}
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if path := r.path(tid); path != "backlog working blocked merging complete" {
			t.Errorf("it went %s", path)
		}
	})
}

func TestEveryChangeOfStatusHasOneRowWithItsActor(t *testing.T) {
	req.Covers(t, "SM-023", "AC-001", "AC-006", "AC-002")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		got := rows[task.History](r, tid, "HIS#")
		want := []struct {
			from, to task.Status
			role     identity.Role
		}{{"", "backlog", identity.Human}, {"backlog", "working", identity.Human}, {"working", "blocked", identity.System}}
		if len(got) != len(want) {
			t.Fatalf("%d rows, want %d", len(got), len(want))
		}
		for i, h := range got {
			if h.From != want[i].from || h.To != want[i].to || h.Actor.Role != want[i].role || h.At.IsZero() || h.Trigger == "" {
				t.Errorf("row %d is %+v", i, h)
			}
		}
		if got[1].Actor.Email != "ada@example.com" || got[1].Turn != string(r.task(tid).Turn) {
			t.Errorf("the start is recorded as %+v", got[1])
		}
		ts := r.turns(tid)
		if ts[0].Actor == nil || ts[0].Actor.Role != identity.Human || ts[1].Actor != nil || ts[1].Answers != ts[0].ID {
			t.Errorf("turns are by %v and %v", ts[0].Actor, ts[1].Actor)
		}
	})
}

func TestEndingsFollowFromWhatTheTurnDid(t *testing.T) {
	req.Covers(t, "TE-001", "TE-002", "TE-006", "TE-007", "TE-008")
	raise := func(s *sup) {
		s.begin()
		if _, err := s.tool("lazy_raise", in{"title": "which colour?", "content": "red or blue", "blocking": true}); err != nil {
			s.die(1, err.Error())
		}
		s.ok("I am declared_done.") // its words change nothing
	}
	silent := func(s *sup) { s.begin(); s.ok("I am declared_done.") }
	aged := func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopAge}) }
	watched := func(s *sup) { s.begin(); s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopWatchdog}) }
	for _, c := range []struct {
		name   string
		script func(*sup)
		ending turn.Ending
		status task.Status
	}{
		{"declared", work("a", "a"), turn.DeclaredDone, task.Blocked},
		{"raised", raise, turn.NeedsInput, task.Blocked},
		{"silent", silent, turn.Neither, task.Blocked},
		{"aged", aged, turn.Neither, task.Blocked},
		{"watched", watched, turn.Neither, task.Interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one", c.script)
				if got := r.task(tid); got.Status != c.status {
					t.Errorf("it rests as %s, want %s", got.Status, c.status)
				}
				if got := r.lastTurn(tid); got.Ending != c.ending || got.Side != turn.Answer {
					t.Errorf("the turn is %s with ending %q, want %q", got.Side, got.Ending, c.ending)
				}
			})
		})
	}
}

func TestADeclarationNamesTheHeadAndChangesNothing(t *testing.T) {
	req.Covers(t, "TE-003", "TE-004", "TE-009")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("a", "a")
			if err := s.commit("a"); err != nil {
				s.die(1, err.Error())
			}
			at := s.tip
			before := r.task(s.spec.Task)
			if _, err := s.tool("lazy_final", in{"note": "ready"}); err != nil {
				s.die(1, err.Error())
			}
			after := r.task(s.spec.Task)
			if after.Final == nil || after.Final.SHA != at || after.Final.Note != "ready" || after.Status != before.Status || after.Tip != before.Tip || !after.Claimed {
				t.Errorf("after the declaration it is %+v", after)
			}
			if _, err := s.tool("lazy_raise", in{"title": "hm", "content": "hm?", "blocking": true}); err != nil {
				t.Error(err)
			}
			_, err := s.tool("lazy_final", in{})
			wantRefusal(t, err, refusal.FinalBlocked)
			s.ok("")
		})
		if got := r.lastTurn(tid); got.Ending != turn.NeedsInput {
			t.Errorf("ending %q", got.Ending)
		}
	})
}

func TestOnlyALaterWorkTurnThatCommitsTakesADeclarationBack(t *testing.T) {
	req.Covers(t, "TE-013", "SN-008", "AA-002")
	idle := func(s *sup) { s.begin(); s.ok("") }
	change := func(s *sup) {
		s.begin()
		s.write("more", "more")
		if err := s.commit("more"); err != nil {
			s.die(1, err.Error())
		}
		s.ok("")
	}
	for _, c := range []struct {
		name   string
		script func(*sup)
		verb   string
		args   in
		kept   bool
	}{
		{"a work turn without commits", idle, "unblockTask", in{"feedback": "look again"}, true},
		{"a resume without commits", idle, "resumeTask", in{}, true},
		{"a question", idle, "askTask", in{"question": "why?"}, true},
		{"a sync with nothing to merge", idle, "syncTask", in{}, true},
		{"a sync that merges", idle, "syncTask", in{"upstream": true}, true},
		{"a work turn with commits", change, "unblockTask", in{"feedback": "more"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one")
				sha := r.task(tid).Final.SHA
				if c.args["upstream"] != nil {
					delete(c.args, "upstream")
					r.write("elsewhere", "x")
					r.commitAll("elsewhere")
				}
				c.args["task_id"] = "one"
				r.host.next(c.script)
				r.do(c.verb, c.args)
				got := r.rest(tid, task.Blocked)
				if (got.Final != nil) != c.kept {
					t.Errorf("the declaration is %+v, want kept %t", got.Final, c.kept)
				}
				if c.kept && got.Final != nil && got.Final.SHA != sha {
					t.Errorf("it moved to %s", got.Final.SHA)
				}
				if c.kept && got.Final != nil && got.Final.Moved != (got.Tip != sha) {
					t.Errorf("moved is %t with tip %s", got.Final.Moved, got.Tip)
				}
			})
		})
	}
}

func TestADeclarationIsTheTasksOwnAgentsAlone(t *testing.T) {
	req.Covers(t, "TE-015")
	inBubble(t, func(t *testing.T, r *rig) {
		r.started("one")
		_, err := r.try(r.bench, "lazy_final", in{})
		wantRefusal(t, err, refusal.AgentOnly)
		_, err = r.try(r.bench, "lazy_final", in{"task_id": "one"})
		if err == nil {
			t.Error("a builder declared a task final")
		}
	})
}

func TestUncommittedEditsSurviveAndAreNeverCommittedForTheAgent(t *testing.T) {
	req.Covers(t, "UW-001", "UW-003", "UW-004", "UW-006", "P6")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("a", "a")
			if err := s.commit("a"); err != nil {
				s.die(1, err.Error())
			}
			s.write("scratch", "half")
			s.ok("")
		})
		got := r.lastTurn(tid)
		if got.Uncommitted.Total != 1 || got.Uncommitted.Paths[0] != "scratch" {
			t.Errorf("the turn left %+v", got.Uncommitted)
		}
		before := r.snapshot()
		_, err := r.try(r.owner, "acceptTask", in{"task_id": "one"})
		wantRefusal(t, err, refusal.Uncommitted)
		if !strings.Contains(err.Error(), "scratch") {
			t.Errorf("the refusal is %v", err)
		}
		if r.snapshot() != before {
			t.Error("a refused accept wrote")
		}
		r.host.next(func(s *sup) {
			s.begin()
			if err := s.commit("the rest"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "commit it"})
		r.rest(tid, task.Blocked)
		r.do("acceptTask", in{"task_id": "one"})
		r.rest(tid, task.Complete)
		if r.file("main", "scratch") != "half" {
			t.Error("the edit did not survive until it was committed")
		}
	})
}

func TestACommitIsFinishedFromItsRowAfterAnyCrash(t *testing.T) {
	req.Covers(t, "UW-013", "SY-015")
	for _, at := range []string{"prepared", "recorded", "moved"} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.host.next(func(s *sup) {
					s.begin()
					s.write("a", "a")
					_ = s.commit("a", func(step string) {
						if step == at {
							s.die(137, "killed")
						}
					})
				}, func(s *sup) {
					s.begin()
					st, err := s.untrusted().Status(s.ctx)
					if err != nil {
						t.Error(err)
					}
					if at == "prepared" {
						if len(st.Dirty) != 1 {
							t.Errorf("the edit is gone: %+v", st)
						}
						if err := s.commit("a again"); err != nil {
							t.Error(err)
						}
					} else if len(st.Dirty) != 0 || st.Drifted != "" {
						t.Errorf("the finished commit reads as edits: %+v", st)
					}
					s.ok("")
				})
				tid := r.create("one")
				r.do("startTask", in{"task_id": "one"})
				got := r.rest(tid, task.Blocked)
				if head := r.git("rev-parse", "lazy/one"); head != got.Tip {
					t.Errorf("the branch is at %s, the row says %s", head, got.Tip)
				}
				if n := len(rows[map[string]any](r, tid, "COM#")); n != 1 || r.file("lazy/one", "a") != "a" {
					t.Errorf("%d commit rows", n)
				}
			})
		})
	}
}

func TestAQuestionPutsTheStatusFoundBack(t *testing.T) {
	req.Covers(t, "HA-009", "HA-012", "SM-013", "SM-025", "SM-003")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", func(s *sup) {
			s.begin()
			s.write("deploy/run.sh", "echo two\n")
			if err := s.commit("deploy"); err != nil {
				s.die(1, err.Error())
			}
			s.ok("")
		})
		r.rest(tid, task.Conflict)
		seen := task.None
		ask := func(end turn.Response) func(*sup) {
			return func(s *sup) {
				s.begin()
				seen = r.task(tid).Status
				if !s.cmd.ReadOnly || s.cmd.Kind != turn.Ask || !strings.Contains(s.cmd.Prompt, "why two?") {
					t.Errorf("the command is %+v", s.cmd)
				}
				_, err := s.tool("lazy_raise", in{"title": "x", "content": "x", "blocking": true})
				wantRefusal(t, err, refusal.ReadOnlyTurn)
				s.settle(end)
			}
		}
		for _, end := range []turn.Response{
			{Outcome: "ok", Text: "because"},
			{Outcome: "error", Failure: &turn.Failure{Class: turn.FatalAuth, Reason: "no key"}},
		} {
			r.host.next(ask(end))
			out := r.do("askTask", in{"task_id": "one", "question": "why two?"})
			q := r.turns(tid)
			if last := q[len(q)-1]; last.Verb != "ask" || last.Body == "" || string(last.ID) != out["turn_id"] {
				t.Errorf("the question was not stored first: %+v", last)
			}
			got := r.rest(tid, task.Conflict)
			if seen != task.Working || got.Pending() != 1 {
				t.Errorf("it was %s meanwhile, %d pending", seen, got.Pending())
			}
		}
	})
}

func TestASubmittedTaskTakesNoResumeAndNoQuestion(t *testing.T) {
	req.Covers(t, "SM-028", "SM-011", "SM-012", "HA-004", "SM-005")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one")
		r.force(tid, func(t *task.Task) { t.Status = task.Submitted })
		for _, verb := range []string{"resumeTask", "askTask"} {
			args := in{"task_id": "one"}
			if verb == "askTask" {
				args["question"] = "why?"
			}
			_, err := r.try(r.owner, verb, args)
			wantRefusal(t, err, refusal.StatusNotAllowed)
			if text := next(err); !strings.Contains(text, "interrupted, blocked, conflict") || !strings.Contains(text, "unblock") {
				t.Errorf("%s advises %q", verb, text)
			}
		}
		_, err := r.try(r.owner, "unblockTask", in{"task_id": "one", "feedback": " \n "})
		wantRefusal(t, err, refusal.FeedbackRequired)
		for _, end := range []turn.Response{
			{Outcome: "ok"}, {Outcome: "error", Failure: &turn.Failure{Class: turn.FatalConfig, Reason: "no such model"}},
		} {
			r.host.next(func(s *sup) { s.begin(); s.settle(end) })
			r.do("syncTask", in{"task_id": "one"})
			r.rest(tid, task.Submitted)
		}
		r.host.next(func(s *sup) {
			s.begin()
			s.sleep(40 * time.Second)
			s.die(137, "OOM killed or SIGKILL (exit code 137)")
		}, func(s *sup) { s.begin(); s.goOn(time.Hour) })
		r.do("syncTask", in{"task_id": "one"})
		r.until("a killed sync is interrupted", func() bool { return r.task(tid).Status == task.Interrupted })
	})
}

func TestEachVerbTakesATaskFromWhereItRests(t *testing.T) {
	req.Covers(t, "HA-003", "HA-005", "HA-023", "SM-019")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", edit("deploy/run.sh", "echo two\n"))
		r.rest(tid, task.Conflict)
		idle := func(s *sup) { s.begin(); s.ok("") }
		for _, s := range []task.Status{task.Blocked, task.Conflict, task.Interrupted, task.Submitted} {
			r.force(tid, func(t *task.Task) { t.Status, t.Hold = s, true })
			r.host.next(idle)
			r.do("unblockTask", in{"task_id": "one", "feedback": "words"})
			if got := r.rest(tid, task.Conflict); got.Hold || got.Pending() != 1 {
				t.Errorf("after an unblock of a %s task: %+v", s, got)
			}
			if g, ok := r.host.heard(tid, r.task(tid).Epoch); !ok || g.cmd.Merge != nil {
				t.Error("an unblock merged upstream, or never ran")
			}
			if s == task.Submitted {
				continue
			}
			r.force(tid, func(t *task.Task) { t.Status = s })
			r.host.next(idle)
			r.do("resumeTask", in{"task_id": "one"})
			r.rest(tid, task.Conflict)
		}
		// Reopening: complete with a session, abandoned with and without work.
		r.do("acceptTask", in{"task_id": "one", "approved_files": []string{"deploy/run.sh"}})
		r.rest(tid, task.Complete)
		_, err := r.try(r.owner, "reopenTask", in{"task_id": "one"})
		wantRefusal(t, err, refusal.InvalidArguments)
		r.do("reopenTask", in{"task_id": "one", "reason": "more"})
		if got := r.rest(tid, task.Blocked); got.Session != "" || got.Tip != "" {
			t.Errorf("reopened it is %+v", got)
		}
		r.host.next(edit("more", "more"))
		r.do("unblockTask", in{"task_id": "one", "feedback": "again"})
		if got := r.rest(tid, task.Blocked); got.Base != r.git("rev-parse", "main") {
			t.Errorf("it begins anew at %s", got.Base)
		}
		r.do("closeTask", in{"task_id": "one", "reason": "no"})
		r.rest(tid, task.Abandoned)
		r.do("reopenTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		none := r.create("none")
		r.do("closeTask", in{"task_id": "none", "reason": "no"})
		r.rest(none, task.Abandoned)
		r.do("reopenTask", in{"task_id": "none"})
		r.rest(none, task.Backlog)
	})
}

func next(err error) string {
	var b strings.Builder
	for _, n := range fault.Of(err).Next {
		b.WriteString(n.Text + " ")
	}
	return b.String()
}

// force puts a task into a state that needs parts this rig does not have.
func (r *rig) force(tid id.Task, change func(*task.Task)) {
	r.t.Helper()
	k := store.For(tenant).Task(tid).Meta()
	it, err := r.now().db.Get(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	got := r.task(tid)
	change(&got)
	it.Doc = encode(r.t, got)
	it.Attr[store.AttrStatus] = string(got.Status)
	if err := r.now().db.Transact(r.t.Context(), store.Write{Act: store.Put, Item: it}); err != nil {
		r.t.Fatal(err)
	}
}
