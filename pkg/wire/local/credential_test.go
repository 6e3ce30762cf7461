package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/statemachines"
)

// purse collects the credentials that runs were given.
type purse struct {
	mu   sync.Mutex
	runs []turn.Welcome // guarded by mu
	sups []*sup         // guarded by mu
}

// run is a script whose hello keeps the credentials' texts.
func (p *purse) run(then func(*sup)) func(*sup) {
	return func(s *sup) {
		var w turn.Welcome
		err := s.plane(func(ctx context.Context, a *app.App) (err error) {
			w, err = a.Hello(ctx, turn.Hello{Nonce: s.spec.Nonce, Key: "key-of-" + s.ref, PID: 4711, Started: s.ref, Version: "test"})
			return err
		})
		if err != nil {
			s.die(1, err.Error())
		}
		p.mu.Lock()
		p.runs, p.sups = append(p.runs, w), append(p.sups, s)
		p.mu.Unlock()
		then(s) // its hello again, under the same key, gets the same
	}
}

func (p *purse) all() []turn.Welcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]turn.Welcome(nil), p.runs...)
}

// together asks right after each transaction that ends a task what its tokens are
// worth.
type together struct {
	store.Store
	mu  sync.Mutex
	ask func() error // guarded by mu, as is end
	end []error
}

func (s *together) Transact(ctx context.Context, ws ...store.Write) error {
	ends := false
	for _, w := range ws {
		var row struct {
			Status task.Status
		}
		_ = json.Unmarshal(w.Item.Doc, &row) // other rows have none
		ends = ends || w.Item.Str(store.AttrType) == "task" && row.Status.Terminal()
	}
	err := s.Store.Transact(ctx, ws...)
	if ends && err == nil {
		s.mu.Lock()
		if s.ask != nil {
			s.end = append(s.end, s.ask())
		}
		s.mu.Unlock()
	}
	return err
}

func TestATasksTokenIsOneForAllItsTurnsAndEndsWithIt(t *testing.T) {
	req.Covers(t, "CM-006", "ID-008", "ID-009", "ID-005")
	for verb, how := range map[string]string{"acceptTask": "accepted", "rejectTask": "rejected", "closeTask": "closed"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.down()
				seen := &together{}
				r.wrap = func(s store.Store) store.Store { seen.Store = s; return seen }
				r.up()
				p := &purse{}
				tid := r.started("one", p.run(work("a.txt", "a\n")))
				for n := range 2 {
					if n == 1 {
						r.down() // a restarted plane hands out the same
						r.up()
					}
					r.host.next(p.run(work("a.txt", "more\n"+strings.Repeat("x", n+1)+"\n")))
					r.do("unblockTask", in{"task_id": "one", "feedback": "go on"})
					r.rest(tid, task.Blocked)
				}
				runs := p.all()
				if len(runs) != 3 {
					t.Fatalf("%d runs were welcomed", len(runs))
				}
				distinct := map[string]bool{}
				for _, w := range runs {
					if w.TaskToken != runs[0].TaskToken {
						t.Error("a later turn got another token of the task")
					}
					distinct[w.RunnerToken] = true
				}
				if len(distinct) != 3 {
					t.Errorf("three runs had %d tokens of their own", len(distinct))
				}
				if _, err := r.app().Authenticate(t.Context(), runs[0].TaskToken, "mcp"); err != nil {
					t.Errorf("the token of a resting task: %v", err)
				}

				plane := r.app()
				seen.mu.Lock()
				seen.ask = func() error {
					_, own := plane.Authenticate(t.Context(), runs[0].TaskToken, "mcp")
					_, run := plane.Authenticate(t.Context(), runs[2].RunnerToken, "runner")
					if !refusal.Is(own, refusal.SessionEnded) || !refusal.Is(run, refusal.SessionEnded) {
						return fmt.Errorf("the task's: %w; the run's: %w", own, run)
					}
					return nil
				}
				seen.mu.Unlock()
				args := in{"task_id": "one"}
				if verb != "acceptTask" {
					args["reason"] = "not wanted"
				}
				r.do(verb, args)
				r.until("it is finished", func() bool { return r.task(tid).Status.Terminal() })
				seen.mu.Lock()
				if len(seen.end) == 0 || seen.end[0] != nil {
					t.Errorf("right after the transactions that ended the task its tokens were good: %v", seen.end)
				}
				seen.mu.Unlock()
				gone := func(what string, err error) {
					t.Helper()
					if !refusal.Is(err, refusal.SessionEnded) || !strings.Contains(fault.Of(err).Public, how) || fault.HTTP(err) != 401 {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err := r.app().Authenticate(t.Context(), runs[0].TaskToken, "mcp")
				gone("the task's token", err)
				_, err = r.app().Authenticate(t.Context(), runs[2].RunnerToken, "runner")
				gone("the last runner's token", err)
				for n, s := range p.sups {
					ctx, claim := t.Context(), s.runner
					_, err := r.app().Beat(ctx, claim, turn.BeatIn{Turn: claim.Turn, Epoch: claim.Epoch, State: "running"})
					gone("a beat", err)
					_, err = r.app().Report(ctx, claim, turn.Response{Turn: claim.Turn, Epoch: claim.Epoch, Outcome: "ok"})
					gone("a report", err)
					_, err = r.app().Git(ctx, claim, turn.GitIn{Op: "merge_abort"})
					gone("an operation of git", err)
					if claim.Epoch != int64(n+1) {
						t.Errorf("run %d has epoch %d", n+1, claim.Epoch)
					}
				}
			})
		})
	}
}

func TestAReopenedTaskGetsANewToken(t *testing.T) {
	req.Covers(t, "CM-006", "ID-004")
	inBubble(t, func(t *testing.T, r *rig) {
		p := &purse{}
		tid := r.started("one", p.run(work("a.txt", "a\n")))
		other := r.started("two", p.run(work("b.txt", "b\n")))
		r.do("closeTask", in{"task_id": "one", "reason": "later"})
		r.until("it is cleaned up", func() bool { return r.task(tid).Workspace == nil })
		r.do("reopenTask", in{"task_id": "one"})
		r.host.next(p.run(work("c.txt", "c\n")))
		r.do("unblockTask", in{"task_id": "one", "feedback": "now"})
		r.rest(tid, task.Blocked)
		runs := p.all()
		if len(runs) != 3 || runs[0].TaskToken == runs[2].TaskToken || runs[0].TaskToken == runs[1].TaskToken {
			t.Fatalf("%d runs; a reopened task and another one have the tokens of before", len(runs))
		}
		if _, err := r.app().Authenticate(t.Context(), runs[0].TaskToken, "mcp"); !refusal.Is(err, refusal.SessionEnded) {
			t.Errorf("the withdrawn token after reopening: %v", err)
		}
		// Each is bound to one identity, and to no other.
		for n, want := range map[int]id.Task{1: other, 2: tid} {
			who, err := r.app().Authenticate(t.Context(), runs[n].TaskToken, "mcp")
			if err != nil || who.Task() != want || who.Kind != identity.Task || who.Tenant != tenant || who.Project != project {
				t.Errorf("the token of run %d stands for %+v (%v)", n, who, err)
			}
		}
		one, err := r.app().MintBuilder(t.Context(), tenant, project, "one", "", "")
		if err != nil {
			t.Fatal(err)
		}
		two, err := r.app().MintBuilder(t.Context(), tenant, project, "two", "", "")
		if err != nil || one == two {
			t.Errorf("two builder sessions share a token (%v)", err)
		}
	})
}

// A member accepts what an agent's builder had made: authority, not ownership.
func TestAMemberAcceptsWhatNobodyOfTheTeamMade(t *testing.T) {
	req.Covers(t, "CM-046")
	inBubble(t, func(t *testing.T, r *rig) {
		if _, err := r.try(r.bench, "lazy_create", in{"goal": "made by a builder", "prompt": "p", "code": "built"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.try(r.bench, "lazy_start", in{"task_id": "built"}); err != nil {
			t.Fatal(err)
		}
		var tid id.Task
		r.until("its turn is over", func() bool {
			out := r.do("showTask", in{"task_id": "built"})
			tid = id.Task(out["task_id"].(string))
			return r.task(tid).Status == task.Blocked
		})
		member := identity.Caller{Kind: identity.User, Tenant: tenant, Project: project, Email: "bo@example.com", Name: "Bo", Hash: "member"}
		if _, err := r.try(member, "acceptTask", in{"task_id": "built"}); err != nil {
			t.Fatal(err)
		}
		if got := r.rest(tid, task.Complete); got.Accept == nil || got.Accept.Actor.Email != "bo@example.com" {
			t.Errorf("accepted by %+v", got.Accept)
		}
	})
}

func TestANonceStartsOneRunOnceAndInTime(t *testing.T) {
	req.Covers(t, "CM-047", "AG-025")
	inBubble(t, func(t *testing.T, r *rig) {
		var early, again, late error
		hello := func(s *sup, nonce, key string) (err error) {
			_, err = s.h.r.app().Hello(s.ctx, turn.Hello{Nonce: nonce, Key: key, PID: 1, Started: "x", Version: "test"})
			return err
		}
		var first string
		var tried atomic.Bool
		r.host.next(func(s *sup) {
			first = s.spec.Nonce
			early = hello(s, first, "mine")
			again = hello(s, first, "another's")
			s.die(1, "enough")
		}, func(s *sup) {
			again = joinErr(again, hello(s, first, "mine")) // of a turn that is over
			s.sleep(10*time.Minute + time.Second)
			late = hello(s, s.spec.Nonce, "mine")
			tried.Store(true)
			s.die(1, "enough")
		})
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.until("all claims are answered", tried.Load)
		if early != nil {
			t.Errorf("the first claim: %v", early)
		}
		for what, err := range map[string]error{"a second claim": again, "a claim after ten minutes": late} {
			if fault.KindOf(err) != fault.Unauthenticated && !refusal.Is(err, refusal.Fenced) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := r.host.launched(); n < 2 {
			t.Errorf("%d launches of %s", n, tid)
		}
	})
}

// flowHeartbeat is how long the turn flow waits for a run's next beat.
func flowHeartbeat(t *testing.T) time.Duration {
	t.Helper()
	src, err := statemachines.Source(names.MachineTurn)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		States map[string]struct{ HeartbeatSeconds int64 }
	}
	if err := json.Unmarshal(src, &m); err != nil || m.States["Run"].HeartbeatSeconds == 0 {
		t.Fatalf("the flow of a turn waits for no beat: %v", err)
	}
	return time.Duration(m.States["Run"].HeartbeatSeconds) * time.Second
}

func joinErr(a, b error) error {
	if a == nil {
		return nil // the one that should have been refused was not
	}
	return b
}

func TestASupersededRunChangesNothingAndNoCallIsHeld(t *testing.T) {
	req.Covers(t, "CM-047", "CR-015", "OW-05")
	beaten := func(r *rig, tid id.Task, epoch int64) turn.Run {
		run, ok := readRow[turn.Run](r, store.For(tenant).Task(tid).Run(epoch))
		if !ok {
			t.Fatalf("run %d has no row", epoch)
		}
		return run
	}
	inBubble(t, func(t *testing.T, r *rig) {
		var old *sup
		tid := r.started("one", func(s *sup) { old = s; work("a.txt", "a\n")(s) })
		r.host.next(func(s *sup) {
			s.begin()
			// It beats into its own row, well within the time that its flow leaves it.
			for range 5 {
				s.goOn(time.Minute)
				if age := time.Since(beaten(r, tid, 2).Beat); age >= flowHeartbeat(t) {
					t.Errorf("the last beat in its row is %s old", age)
				}
			}
			row, gone := r.task(tid), beaten(r, tid, 1)
			ctx, was := s.ctx, old.runner
			calls := map[string]func() error{
				"beat": func() error {
					_, err := r.app().Beat(ctx, was, turn.BeatIn{Turn: was.Turn, Epoch: was.Epoch, State: "running"})
					return err
				},
				"merge": func() error {
					_, err := r.app().Git(ctx, was, turn.GitIn{Op: "merge", Target: row.Base})
					return err
				},
				"merge_commit": func() error {
					_, err := r.app().Git(ctx, was, turn.GitIn{Op: "merge_commit", Parent: row.Tip, Commit: row.Base, Target: row.Base})
					return err
				},
				"token": func() error {
					_, err := r.app().Token(ctx, was, turn.TokenIn{Turn: was.Turn, Epoch: was.Epoch})
					return err
				},
				"merge_abort": func() error { _, err := r.app().Git(ctx, was, turn.GitIn{Op: "merge_abort"}); return err },
				"reset_head":  func() error { _, err := r.app().Git(ctx, was, turn.GitIn{Op: "reset_head"}); return err },
				"a tool of its agent": func() error {
					_, err := callOp(ctx, r.ops, r.app(), old.agent, "lazy_journal", in{"content": "late"}, "late-key")
					return err
				},
			}
			for name, call := range calls {
				began := time.Now()
				if err := call(); !refusal.Is(err, refusal.Fenced) {
					t.Errorf("%s of a run that was succeeded: %v", name, err)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("%s was held for %s", name, took)
				}
			}
			ack, err := r.app().Report(ctx, was, turn.Response{Turn: was.Turn, Epoch: was.Epoch, Outcome: "error", Text: "late"})
			if err != nil || !ack.History {
				t.Errorf("its late report: %+v, %v", ack, err)
			}
			if left := beaten(r, tid, 1); !left.Beat.Equal(gone.Beat) || left.Version != gone.Version {
				t.Errorf("its row went from %+v to %+v", gone, left)
			}
			now := r.task(tid)
			if now.Version != row.Version || now.Status != row.Status || now.Tip != row.Tip || now.Epoch != row.Epoch {
				t.Errorf("the task changed from %+v to %+v", row, now)
			}
			s.ok("done")
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "go on"})
		r.rest(tid, task.Blocked)
	})
}
