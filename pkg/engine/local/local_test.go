package local_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
)

func defs(text string) map[string][]byte { return map[string][]byte{"m": []byte(text)} }

// step is the text of a Task that calls a step.
func step(name, rest string) string {
	return fmt.Sprintf(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":600,
 "Parameters":{"FunctionName":"f","Payload":{"step":%q}},"ResultPath":null,%s}`, name, rest)
}

// token is the text of a Task that waits for its token.
func token(name, rest string) string {
	return fmt.Sprintf(`{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":7200,
 "Parameters":{"FunctionName":"f","Payload":{"step":%q,"token.$":"$$.Task.Token"}},"ResultPath":null,%s}`, name, rest)
}

// recorder is a step function that succeeds and remembers what it was called with.
type recorder struct {
	mu    sync.Mutex
	calls []string
	then  func(ctx context.Context, payload string) ([]byte, error)
}

func (r *recorder) step(ctx context.Context, payload []byte) ([]byte, error) {
	r.mu.Lock()
	r.calls = append(r.calls, string(payload))
	r.mu.Unlock()
	if r.then != nil {
		return r.then(ctx, string(payload))
	}
	return []byte(`{}`), nil
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

// tokenOf reads the token out of a payload.
func tokenOf(payload string) string {
	_, rest, _ := strings.Cut(payload, `"token":"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

func start(t *testing.T, e engine.Engine, name string) {
	t.Helper()
	if err := e.Start(t.Context(), "m", name, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
}

func TestAnOpenExecutionFinishesOnTheDefinitionItBeganWith(t *testing.T) {
	req.Covers(t, "SY-039")
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := reopen(t, path)
		rec := &recorder{}
		first := open(t, s, defs(`{"StartAt":"T","States":{"T":`+token("t.v1", `"Next":"Old"`)+`,"Old":`+step("old.v1", `"End":true`)+`}}`), rec.step)
		start(t, first, "x-1")
		synctest.Wait()
		first.stop()

		second := open(t, s, defs(`{"StartAt":"T2","States":{"T2":`+token("t.v2", `"Next":"New"`)+`,"New":`+step("new.v1", `"End":true`)+`}}`), rec.step)
		if err := second.Succeed(t.Context(), tokenOf(rec.seen()[0]), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		second.wait(t, "m", "x-1")
		if diff := cmp.Diff([]string{"T", "Old"}, second.visited(t, "m", "x-1")); diff != "" {
			t.Errorf("the open execution (-want +got):\n%s", diff)
		}
		start(t, second, "x-2")
		synctest.Wait()
		if diff := cmp.Diff([]string{"T2"}, second.visited(t, "m", "x-2")); diff != "" {
			t.Errorf("an execution begun after the change (-want +got):\n%s", diff)
		}
	})
}

func TestARunThatOutlivedTheProcessHasTimeToFindItsWayBack(t *testing.T) {
	req.Covers(t, "SY-040")
	for name, back := range map[string]time.Duration{"in time": 110 * time.Second, "too late": 130 * time.Second} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := file(t)
				def := defs(`{"StartAt":"T","States":{"T":` + token("t.v1", `"HeartbeatSeconds":60,"End":true`) + `}}`)
				rec := &recorder{}
				first := open(t, s, def, rec.step)
				start(t, first, "x-1")
				synctest.Wait()
				first.stop()
				<-time.After(10 * time.Minute)

				second := open(t, s, def, rec.step)
				synctest.Wait()
				text := tokenOf(rec.seen()[0])
				<-time.After(back)
				err := second.Beat(t.Context(), text)
				if back > 2*time.Minute {
					if !errors.Is(err, engine.ErrTokenGone) {
						t.Errorf("a beat gives %v", err)
					}
					if x := second.wait(t, "m", "x-1"); x.Error != "States.HeartbeatTimeout" {
						t.Errorf("it ended %s with %q", x.State, x.Error)
					}
					return
				}
				if err != nil {
					t.Fatalf("a beat gives %v", err)
				}
				<-time.After(50 * time.Second)
				if err := second.Succeed(t.Context(), text, []byte(`1`)); err != nil {
					t.Fatal(err)
				}
				if x := second.wait(t, "m", "x-1"); x.State != engine.Succeeded {
					t.Errorf("it ended %s with %q", x.State, x.Error)
				}
				if n := len(rec.seen()); n != 1 {
					t.Errorf("the step was called %d times, though it had returned before the restart", n)
				}
			})
		})
	}
}

func TestAStepCutOffByTheEndOfTheProcessIsCalledAgainWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := file(t)
		def := defs(`{"StartAt":"T","States":{"T":` + token("t.v1", `"End":true`) + `}}`)
		rec := &recorder{then: func(ctx context.Context, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		first := open(t, s, def, rec.step)
		start(t, first, "x-1")
		synctest.Wait()
		first.stop()

		rec.then = nil
		second := open(t, s, def, rec.step)
		synctest.Wait()
		calls := rec.seen()
		if len(calls) != 2 || calls[0] != calls[1] {
			t.Fatalf("calls were %v", calls)
		}
		if err := second.Succeed(t.Context(), tokenOf(calls[0]), []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		if x := second.wait(t, "m", "x-1"); x.State != engine.Succeeded {
			t.Errorf("it ended %s: %s", x.State, x.Error)
		}
	})
}

func TestAnAnswerIsDurableEvenWhenNothingRunsYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := file(t)
		def := defs(`{"StartAt":"T","States":{"T":` + token("t.v1", `"Next":"A"`) + `,"A":` + step("a.v1", `"End":true`) + `}}`)
		rec := &recorder{}
		first := open(t, s, def, rec.step)
		start(t, first, "x-1")
		synctest.Wait()
		first.stop()

		idle, err := local.New(local.Options{
			Store: s, Tenant: "t1", Machines: load(t, def), Step: rec.step, Now: time.Now, NewToken: uuid.NewString,
		})
		if err != nil {
			t.Fatal(err)
		}
		text := tokenOf(rec.seen()[0])
		if err := idle.Succeed(t.Context(), text, []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		if err := idle.Succeed(t.Context(), text, []byte(`1`)); !errors.Is(err, engine.ErrTokenGone) {
			t.Errorf("the second answer gives %v", err)
		}
		second := open(t, s, def, rec.step)
		if x := second.wait(t, "m", "x-1"); x.State != engine.Succeeded {
			t.Errorf("it ended %s: %s", x.State, x.Error)
		}
	})
}

func TestAnEngineThatWasOvertakenChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := file(t)
		def := defs(`{"StartAt":"T","States":{"T":` + token("t.v1", `"Catch":[{"ErrorEquals":["States.ALL"],"Next":"B"}],"Next":"A"`) +
			`,"A":` + step("a.v1", `"End":true`) + `,"B":` + step("b.v1", `"End":true`) + `}}`)
		rec := &recorder{}
		r := open(t, s, def, rec.step)
		start(t, r, "x-1")
		synctest.Wait()
		other, err := local.New(local.Options{
			Store: s, Tenant: "t1", Machines: load(t, def), Step: rec.step, Now: time.Now, NewToken: uuid.NewString,
		})
		if err != nil {
			t.Fatal(err)
		}
		text := tokenOf(rec.seen()[0])
		if err := other.Succeed(t.Context(), text, []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		// The first engine still believes that the token is open.
		if err := r.Fail(t.Context(), text, "Lazy.late", ""); err == nil {
			t.Error("an answer to an answered token is taken")
		}
		r.wait(t, "m", "x-1")
		if diff := cmp.Diff([]string{"T", "A"}, r.visited(t, "m", "x-1")); diff != "" {
			t.Errorf("states visited (-want +got):\n%s", diff)
		}
	})
}

func TestATokenWithAnotherSecretIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		r := open(t, file(t), defs(`{"StartAt":"T","States":{"T":`+token("t.v1", `"End":true`)+`}}`), rec.step)
		start(t, r, "x-1")
		synctest.Wait()
		good := tokenOf(rec.seen()[0])
		for _, text := range []string{
			"", "lft1.", good[:len(good)-1], good + "0", "lft1.bSN4LTE.", "lft1.bSN4LTI.secret", "lft1.!.x", "lft1.bSM.x",
		} {
			if err := r.Succeed(t.Context(), text, []byte(`1`)); !errors.Is(err, engine.ErrTokenGone) {
				t.Errorf("%q gives %v", text, err)
			}
		}
		if err := r.Succeed(t.Context(), good, []byte(`1`)); err != nil {
			t.Error(err)
		}
		r.wait(t, "m", "x-1")
	})
}

func TestExecutionsDoNotWaitForEachOtherAndStepsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, executions = 4, 60
		var now, most atomic.Int32
		rec := &recorder{then: func(context.Context, string) ([]byte, error) {
			for n := now.Add(1); ; {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			<-time.After(time.Second)
			now.Add(-1)
			return []byte(`{}`), nil
		}}
		r := open(t, file(t), defs(`{"StartAt":"A","States":{"A":`+step("a.v1", `"Next":"W"`)+
			`,"W":{"Type":"Wait","Seconds":60,"Next":"B"},"B":`+step("b.v1", `"End":true`)+`}}`), rec.step,
			func(o *local.Options) { o.Workers = workers })
		for i := range executions {
			start(t, r, fmt.Sprintf("x-%d", i))
		}
		for i := range executions {
			if x := r.wait(t, "m", fmt.Sprintf("x-%d", i)); x.State != engine.Succeeded {
				t.Errorf("%s ended %s: %s", x.Name, x.State, x.Error)
			}
		}
		if got := most.Load(); got != workers {
			t.Errorf("%d steps ran at once, want %d", got, workers)
		}
	})
}

// shaky is a store that fails every nth transaction, half of them after it was
// carried out, so that the caller cannot know.
type shaky struct {
	store.Store
	n atomic.Int64
}

var errShaky = errors.New("the disk is away")

func (s *shaky) Transact(ctx context.Context, ws ...store.Write) error {
	n := s.n.Add(1)
	if n%3 == 1 {
		return errShaky
	}
	err := s.Store.Transact(ctx, ws...)
	if n%3 == 2 && err == nil {
		return errShaky
	}
	return err
}

func TestATransitionWithAnUnknownOutcomeIsReadBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e engine.Engine
		rec := &recorder{then: func(ctx context.Context, payload string) ([]byte, error) {
			for text := tokenOf(payload); text != ""; {
				err := e.Succeed(ctx, text, []byte(`1`))
				if err == nil || errors.Is(err, engine.ErrTokenGone) {
					break
				}
			}
			return []byte(`{}`), nil
		}}
		r := open(t, &shaky{Store: file(t)}, defs(`{"StartAt":"A","States":{"A":`+step("a.v1", `"Next":"T"`)+
			`,"T":`+token("t.v1", `"Next":"B"`)+`,"B":`+step("b.v1", `"Next":"W"`)+`,"W":{"Type":"Wait","Seconds":5,"Next":"C"},"C":`+step("c.v1", `"End":true`)+`}}`), rec.step)
		e = r.Engine
		for i := range 12 {
			name := fmt.Sprintf("x-%d", i)
			for {
				err := r.Start(t.Context(), "m", name, []byte(`{}`))
				if err == nil || errors.Is(err, engine.ErrNameUsed) {
					break
				}
				if !errors.Is(err, errShaky) {
					t.Fatal(err)
				}
			}
		}
		for i := range 12 {
			name := fmt.Sprintf("x-%d", i)
			if x := r.wait(t, "m", name); x.State != engine.Succeeded {
				t.Fatalf("%s ended %s: %s", name, x.State, x.Error)
			}
			if diff := cmp.Diff([]string{"A", "T", "B", "W", "C"}, r.visited(t, "m", name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestWhatDoesNotFitEndsTheExecutionAndNotTheEngine(t *testing.T) {
	big := `"` + strings.Repeat("x", asl.MaxData) + `"`
	for name, c := range map[string]struct{ def, out, want string }{
		"a result above the limit": {
			`{"StartAt":"A","States":{"A":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","Parameters":{"FunctionName":"f","Payload":{"step":"a.v1"}},
 "Catch":[{"ErrorEquals":["States.ALL"],"Next":"S"}],"Next":"S"},"S":{"Type":"Succeed"}}}`, big, asl.ErrTooLarge,
		},
		"choices without end": {
			`{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"Variable":"$.x","IsPresent":true,"Next":"S"}],"Default":"P"},"P":{"Type":"Pass","Next":"C"},"S":{"Type":"Succeed"}}}`,
			``, asl.ErrRuntime,
		},
		"a result that is not JSON": {
			`{"StartAt":"A","States":{"A":` + step("a.v1", `"End":true`) + `}}`, `{"x":`, "Lazy.internal",
		},
		"a choice without its variable": {
			`{"StartAt":"C","States":{"C":{"Type":"Choice","Choices":[{"Variable":"$.x","StringEquals":"y","Next":"S"}],"Default":"S"},"S":{"Type":"Succeed"}}}`,
			``, asl.ErrRuntime,
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &recorder{then: func(context.Context, string) ([]byte, error) { return []byte(c.out), nil }}
				r := open(t, file(t), defs(c.def), rec.step)
				start(t, r, "x-1")
				if x := r.wait(t, "m", "x-1"); x.State != engine.Failed || x.Error != c.want {
					t.Errorf("it ended %s with %q, want %q", x.State, x.Error, c.want)
				}
			})
		})
	}
}

func TestAStoppedExecutionTellsItsStepAndIgnoresWhatItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{})
		rec := &recorder{then: func(ctx context.Context, _ string) ([]byte, error) {
			<-ctx.Done()
			close(told)
			return []byte(`{}`), nil
		}}
		r := open(t, file(t), defs(`{"StartAt":"A","States":{"A":`+step("a.v1", `"Next":"B"`)+`,"B":`+step("b.v1", `"End":true`)+`}}`), rec.step)
		start(t, r, "x-1")
		synctest.Wait()
		if err := r.Stop(t.Context(), "m", "x-1", "no longer wanted"); err != nil {
			t.Fatal(err)
		}
		<-told
		synctest.Wait()
		x := r.wait(t, "m", "x-1")
		if x.State != engine.Aborted || x.Cause != "no longer wanted" {
			t.Errorf("it ended %s because %q", x.State, x.Cause)
		}
		if n := len(rec.seen()); n != 1 {
			t.Errorf("%d steps were called", n)
		}
	})
}

func TestWhatCannotBeStartedIsRefusedAndLeavesNothing(t *testing.T) {
	s := file(t)
	rec := &recorder{}
	r := open(t, s, defs(`{"StartAt":"A","States":{"A":`+step("a.v1", `"End":true`)+`}}`), rec.step)
	for what, err := range map[string]error{
		"an unknown flow":  r.Start(t.Context(), "other", "x-1", []byte(`{}`)),
		"a name with #":    r.Start(t.Context(), "m", "x#1", []byte(`{}`)),
		"no name":          r.Start(t.Context(), "m", "", []byte(`{}`)),
		"a long name":      r.Start(t.Context(), "m", strings.Repeat("x", 81), []byte(`{}`)),
		"input of no JSON": r.Start(t.Context(), "m", "x-1", []byte(`{`)),
		"a large input":    r.Start(t.Context(), "m", "x-1", []byte(`"`+strings.Repeat("x", 64<<10)+`"`)),
	} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s gives %v", what, err)
		}
	}
	p, err := s.Query(t.Context(), store.Query{PK: store.For("t1").Flow().PK})
	if err != nil || len(p.Items) != 0 {
		t.Errorf("the store holds %v (%v)", p.Items, err)
	}
}
