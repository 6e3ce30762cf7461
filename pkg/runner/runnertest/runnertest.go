// Package runnertest is the contract of runner.Runner, which every adapter passes.
package runnertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
)

// Tenant and Task are whose runs the contract launches.
const (
	Tenant = "local"
	Task   = id.Task("3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10")
)

// Runner is what the contract needs of an adapter.
type Runner interface {
	runner.Runner
	runner.Lister
}

// World is a place of execution with nothing in it.
type World interface {
	// Runner returns the runner of one more control plane over the same state.
	Runner() Runner
	// Started counts all runs that were ever started.
	Started() int
	// End has a run end without being asked.
	End(t *testing.T, epoch int64)
}

func spec(epoch int64, nonce string) runner.Spec {
	return runner.Spec{Tenant: Tenant, Project: "p", Task: Task, Turn: "t1", Epoch: epoch, Nonce: nonce}
}

// patience bounds waiting for an end; nothing is measured by it.
const patience = 2 * time.Minute

func gone(t *testing.T, r runner.Runner, ref string) runner.Report {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		rep, err := r.Observe(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Sight == runner.Gone {
			return rep
		}
	}
	t.Fatalf("%s does not end", ref)
	return runner.Report{}
}

// Run holds an adapter to the contract.
func Run(t *testing.T, world func(t *testing.T) World) {
	t.Run("ManyLaunchersOfOneRunStartOneAndNameTheSame", func(t *testing.T) {
		req.Covers(t, "B24", "P1")
		w := world(t)
		refs, errs := make([]string, 8), make([]error, 8)
		var all sync.WaitGroup
		for i := range refs {
			all.Go(func() {
				// Each launcher has drawn a nonce of its own.
				refs[i], errs[i] = w.Runner().Launch(t.Context(), spec(1, fmt.Sprintf("lzn_local_%d", i)))
			})
		}
		all.Wait()
		for i := range refs {
			if errs[i] != nil || refs[i] != refs[0] {
				t.Errorf("launcher %d: %q, %v; want %q", i, refs[i], errs[i], refs[0])
			}
		}
		ref, ok, err := runner.Find(t.Context(), w.Runner(), Tenant, Task, 1)
		if err != nil || !ok || ref != refs[0] {
			t.Errorf("found %q, %t, %v; want %q", ref, ok, err, refs[0])
		}
		if n := w.Started(); n != 1 {
			t.Errorf("%d runs were started", n)
		}
	})
	t.Run("AnotherEpochIsAnotherRun", func(t *testing.T) {
		w := world(t)
		r := w.Runner()
		one, err1 := r.Launch(t.Context(), spec(1, "lzn_local_a"))
		two, err2 := r.Launch(t.Context(), spec(2, "lzn_local_b"))
		if err1 != nil || err2 != nil || one == two || w.Started() != 2 {
			t.Errorf("%q, %q (%v, %v), %d started", one, two, err1, err2, w.Started())
		}
		all, err := w.Runner().List(t.Context())
		want := []runner.Seen{
			{Short: Task.Short(), Epoch: 1, Sight: runner.Alive}, {Short: Task.Short(), Epoch: 2, Sight: runner.Alive},
		}
		slices.SortFunc(all, func(a, b runner.Seen) int { return int(a.Epoch - b.Epoch) })
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("listed %+v (%v), want %+v", all, err, want)
		}
	})
	t.Run("WhatWasNeverLaunchedIsNotFound", func(t *testing.T) {
		r := world(t).Runner()
		if ref, ok, err := runner.Find(t.Context(), r, Tenant, Task, 1); ok || err != nil {
			t.Errorf("found %q, %v", ref, err)
		}
		if all, err := r.List(t.Context()); len(all) > 0 || err != nil {
			t.Errorf("listed %v, %v", all, err)
		}
	})
	t.Run("WhatIsNoReferenceIsRefused", func(t *testing.T) {
		r := world(t).Runner()
		for _, ref := range []string{"", "x", "../../etc", "3f2a9c1e/-1", "arn:aws:ecs:eu-west-1:1:task/c/x", "arn:x local/../1", " local/" + string(Task) + "/1"} {
			if _, err := r.Observe(t.Context(), ref); fault.KindOf(err) != fault.Invalid {
				t.Errorf("observe %q: %v", ref, err)
			}
			if err := r.Stop(t.Context(), ref, "test"); fault.KindOf(err) != fault.Invalid {
				t.Errorf("stop %q: %v", ref, err)
			}
		}
	})
	t.Run("ARunIsAliveUntilItEndsAndThenGoneForEverybody", func(t *testing.T) {
		req.Covers(t, "SY-043")
		w := world(t)
		r := w.Runner()
		ref, err := r.Launch(t.Context(), spec(1, "lzn_local_a"))
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := w.Runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Alive {
			t.Fatalf("a run that goes on: %+v, %v", rep, err)
		}
		w.End(t, 1)
		if rep := gone(t, r, ref); rep.Reason == "" {
			t.Errorf("the end has no reason: %+v", rep)
		}
		if rep, err := w.Runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Gone {
			t.Errorf("seen by another: %+v, %v", rep, err)
		}
		if all, err := r.List(t.Context()); len(all) > 0 || err != nil {
			t.Errorf("listed %v, %v", all, err)
		}
		if again, err := w.Runner().Launch(t.Context(), spec(1, "lzn_local_b")); err != nil || again != ref || w.Started() != 1 {
			t.Errorf("launched again: %q, %v, %d started; an ended run is not begun anew", again, err, w.Started())
		}
	})
	t.Run("StoppingEndsARunAndStoppingWhatIsGoneIsASuccess", func(t *testing.T) {
		w := world(t)
		r := w.Runner()
		ref, err := r.Launch(t.Context(), spec(1, "lzn_local_a"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Runner().Stop(t.Context(), ref, "test"); err != nil {
				t.Fatal(err)
			}
			gone(t, r, ref)
		}
	})
}
