package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// sound fails when the checker finds anything.
func (r *rig) sound() {
	r.t.Helper()
	var last app.Checked
	for range 20 {
		c, err := r.app().CheckDeep(r.t.Context(), app.Call{Who: r.owner})
		if err != nil {
			r.t.Fatal(err)
		}
		if last = c; len(c.Findings) == 0 && c.Ordered == 0 {
			return
		}
		time.Sleep(30 * time.Second)
	}
	r.t.Errorf("the checker finds %+v", last)
}

// ends is what must be the same however events were delivered.
func (r *rig) ends(t id.Task) string {
	r.t.Helper()
	landings := strings.Count(r.git("log", "--format=%B", "main"), "Lazy-Task: ")
	var turns []string
	for _, tr := range r.turns(t) {
		turns = append(turns, fmt.Sprintf("%s/%s/%s", tr.Side, tr.Outcome, tr.Receipt))
	}
	return fmt.Sprintf("%s; %d merges; %v; %d launches", r.path(t), landings, turns, r.host.launched())
}

func TestOutboxRowsInAnyNumberAndOrderLeadToTheSameEnd(t *testing.T) {
	req.Covers(t, "P11", "SY-001", "SY-002", "SY-021", "B27")
	want := ""
	for _, c := range []struct {
		name   string
		times  int
		manual bool
		turn   func([]store.Key)
	}{
		{"once", 1, false, nil},
		{"twice", 2, false, nil},
		{"five times", 5, false, nil},
		{"never, so the sweep does it", 0, false, nil},
		{"by hand, backwards, twice", 2, true, slices.Reverse[[]store.Key]},
		{"by hand, forwards, three times", 3, true, func([]store.Key) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.deliver = c.times
				if c.manual {
					r.deliver = 0
				}
				r.down()
				r.up()
				if c.manual {
					stop := r.byHand(c.times, c.turn)
					defer stop()
				}
				tid := story(r)
				r.drained(tid)
				r.sound()
				got := r.ends(tid)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("it went\n%s\nand with each row delivered once\n%s", got, want)
				}
			})
		})
	}
}

// byHand consumes the outbox rows of all tasks in an order of its own, again and
// again, without ever looking at what is due.
func (r *rig) byHand(times int, order func([]store.Key)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(700 * time.Millisecond):
			}
			p := r.now()
			if p == nil {
				continue
			}
			var keys []store.Key
			_ = store.All(context.Background(), p.db, store.Query{PK: store.For(tenant).Project(project).PK, Prefix: "SHORT#"}, func(it store.Item) bool {
				var ptr struct {
					Task id.Task `json:"task"`
				}
				_ = json.Unmarshal(it.Doc, &ptr)
				_ = store.All(context.Background(), p.db, store.Query{PK: store.For(tenant).Task(ptr.Task).PK}, func(it store.Item) bool {
					switch kind, _, _ := strings.Cut(it.Key.SK, "#"); kind {
					case "OUT", "META", "RUN": // each asks for work, or may have
						keys = append(keys, it.Key)
					}
					return true
				})
				return true
			})
			order(keys)
			for range times {
				for _, k := range keys {
					_ = p.app.Consume(context.Background(), k)
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// What a run tells comes doubled, late and in the wrong order; the task ends as if
// each had come once.
func TestWhatARunTellsMayComeAgainLateAndInAnyOrder(t *testing.T) {
	req.Covers(t, "P11", "CR-018", "SY-036", "SY-046", "SY-049")
	want := ""
	for _, c := range []struct {
		name string
		run  func(s *sup)
	}{
		{"each once", func(s *sup) { s.begin(); s.finish(); s.report1() }},
		{"hello again", func(s *sup) { s.begin(); s.hello(); s.hello(); s.finish(); s.report1() }},
		{"report again", func(s *sup) { s.begin(); s.finish(); s.report1(); s.report1(); s.report1() }},
		{"gone before the report", func(s *sup) { s.begin(); s.finish(); s.post(turn.Response{Outcome: "ok"}); s.tellGone(); s.tellGone() }},
		{"a beat after the report", func(s *sup) { s.begin(); s.finish(); s.report1(); _ = s.beat("running"); s.tellGone() }},
		{"hello after the report", func(s *sup) { s.begin(); s.finish(); s.report1(); s.hello(); s.report1() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.started("one", c.run)
				r.rest(tid, task.Blocked)
				time.Sleep(5 * time.Minute)
				r.do("acceptTask", in{"task_id": "one"})
				r.rest(tid, task.Complete)
				r.drained(tid)
				r.sound()
				got := r.ends(tid)
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("it went\n%s\nand told once\n%s", got, want)
				}
			})
		})
	}
}

func (s *sup) finish() {
	s.write("done.txt", "done\n")
	if err := s.commit("work"); err != nil {
		s.die(1, err.Error())
	}
}

func (s *sup) report1() { s.post(turn.Response{Outcome: "ok", Text: "did it"}) }

func (s *sup) tellGone() {
	_ = s.plane(func(ctx context.Context, a *app.App) error {
		return a.RunnerGone(ctx, s.spec.Tenant, s.spec.Task, s.spec.Epoch, runner.Report{Sight: runner.Gone, ExitCode: 0, Reason: "told early"})
	})
}

// 64 callers with every verb at once leave one story that the table allows.
func TestManyCallersWithMixedVerbsLeaveOneStory(t *testing.T) {
	req.Covers(t, "P1", "P2", "P6", "SY-012", "SY-014")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", work("done.txt", "done\n"))
		verbs := []struct {
			name string
			args in
		}{
			{"unblockTask", in{"feedback": "go on"}},
			{"resumeTask", in{}},
			{"askTask", in{"question": "why?"}},
			{"acceptTask", in{}},
			{"rejectTask", in{"reason": "no"}},
			{"closeTask", in{"reason": "no"}},
			{"addComment", in{"message": "note"}},
			{"stopTask", in{}},
		}
		won, lost := r.race(64, func(i int) error {
			v := verbs[i%len(verbs)]
			args := in{"task_id": "one"}
			maps.Copy(args, v.args)
			_, err := r.try(r.owner, v.name, args)
			return err
		})
		if won == 0 || won+len(lost) != 64 {
			t.Errorf("%d won, %d lost", won, len(lost))
		}
		r.until("nobody holds it", func() bool { return !r.task(tid).Claimed })
		time.Sleep(10 * time.Minute)
		r.drained(tid)
		r.sound()
		if r.host.atOnce() != 1 {
			t.Errorf("%d runs at once", r.host.atOnce())
		}
	})
}

// The engine knows the executions of a turn by name, whatever repeats their start.
func TestAStartThatIsRepeatedIsTheSameExecution(t *testing.T) {
	req.Covers(t, "SY-045", "P11")
	inBubble(t, func(t *testing.T, r *rig) {
		tid := r.started("one", work("done.txt", "done\n"))
		tr := r.turns(tid)[0]
		name := string(tr.ID) + "-1"
		for range 3 {
			err := r.now().engine.Start(t.Context(), "turn", name, []byte(`{"v":1,"tenant":"local","turn":"`+string(tr.ID)+`","n":1}`))
			if err != nil && !errors.Is(err, engine.ErrNameUsed) {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		r.sound()
		if r.host.launched() != 1 {
			t.Errorf("%d launches", r.host.launched())
		}
	})
}

// A subtask's clean-up that comes after its parent was merged finds the branch it
// was merged into gone.
func TestASubtaskIsCleanedUpAfterItsParentsBranchIsGone(t *testing.T) {
	req.Covers(t, "AP-023", "SY-021", "P4", "P9")
	inBubble(t, func(t *testing.T, r *rig) {
		top := r.started("top", work("top.txt", "top\n"))
		kid := r.create("kid", in{"parent": "top"})
		r.host.next(work("kid.txt", "kid\n"))
		r.do("startTask", in{"task_id": "kid"})
		was := r.rest(kid, task.Blocked)
		r.do("acceptTask", in{"task_id": "kid"})
		r.rest(kid, task.Complete)
		r.drained(kid)
		r.do("acceptTask", in{"task_id": "top"})
		r.rest(top, task.Complete)
		r.drained(top)
		if _, err := r.tryGit("rev-parse", "--verify", "-q", "refs/heads/lazy/top"); err == nil {
			t.Fatal("the parent's branch is still there")
		}
		p := store.For(tenant).Task(kid)
		rewrite(r, p.Meta(), func(k *task.Task) { k.Workspace = was.Workspace })
		k := p.Outbox("again")
		w := store.Write{Act: store.Put, Item: store.Item{
			Key: k, Attr: store.Attr{store.AttrType: "job", "schema": int64(1)},
			Doc:   encode(t, app.Job{Kind: app.Clean, Tenant: tenant, Project: project, Task: kid, Text: "accept"}),
			Index: map[store.Index]store.Slot{store.Due: store.DueAt(k, time.Now())},
		}}
		r.spoil(w)
		r.drained(kid)
		if r.task(kid).Workspace != nil {
			t.Error("its workspace is still recorded")
		}
		r.sound()
	})
}
