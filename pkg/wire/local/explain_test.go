package local_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// For every place a task can be stuck in, the explanation names what is known,
// what comes next, and something to type.
func TestWhereverATaskRestsItSaysWhyAndWhatToType(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(r *rig)
		facts []string
		next  string
		do    string
	}{
		{"backlog", func(r *rig) { r.create("one") }, nil, "until somebody starts", "lazy start one"},
		{"working", func(r *rig) {
			r.host.next(func(s *sup) { s.begin(); s.goOn(time.Hour) })
			r.running(r.startOne())
		}, []string{"process: alive", "flow: turn runs", "run: run 1 is running"}, "agent works", "lazy watch one"},
		{"its process is gone and nobody heard", func(r *rig) {
			r.host.beDeaf(true)
			r.host.next(func(s *sup) { s.begin(); s.die(137, "OOM killed or SIGKILL (exit code 137)") })
			tid := r.startOne()
			r.until("it died", func() bool { s := r.host.run(tid, 1); return s != nil && s.isGone() })
		}, []string{"process: gone: OOM killed"}, "interrupted once the turn is 30s old", "lazy show one"},
		{"the breaker is open", func(r *rig) {
			dead := crash(40*time.Second, 1, "boom")
			r.host.next(dead, dead, dead)
			tid := r.startOne()
			r.until("three interruptions", func() bool { return r.task(tid).Interruptions == 3 })
		}, []string{"breaker: 3 of 3 interruptions", "because: boom"}, "breaker is open", "lazy resume one"},
		{"stopped", func(r *rig) {
			r.host.next(func(s *sup) { s.begin(); s.goOn(time.Hour) })
			tid := r.startOne()
			r.running(tid)
			r.do("stopTask", in{"task_id": "one"})
			r.rest(tid, task.Interrupted)
		}, []string{"breaker: somebody stopped it"}, "held", "lazy resume one"},
		{"blocked", func(r *rig) { r.started("one") }, nil, "waits for a person", "lazy accept one"},
		{"an accept was given up", func(r *rig) {
			tid := r.started("one")
			r.host.breakStep(map[string]error{names.StepLand: errors.New("the step died")})
			r.do("acceptTask", in{"task_id": "one"})
			r.until("given up", func() bool { return r.task(tid).Accept.GaveUp })
		}, []string{"accept: last recorded step \"intended\", resumed 3 of 3"}, "failed too often", "lazy accept one"},
		{"a clean-up fails", func(r *rig) {
			tid := r.started("one")
			before := r.git("rev-parse", "main")
			r.host.watch(func(step string) {
				if step == names.StepCleanUp {
					r.git("reset", "-q", "--hard", before)
				}
			})
			r.do("acceptTask", in{"task_id": "one"})
			r.rest(tid, task.Complete)
			time.Sleep(time.Minute)
		}, []string{"order: clean up: main no longer contains"}, "cleaned up", "lazy doctor --deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				c.setup(r)
				before := r.snapshot()
				x, err := r.app().Explain(t.Context(), app.Call{Who: r.owner}, "one")
				if err != nil {
					t.Fatal(err)
				}
				if r.snapshot() != before && c.name == "blocked" {
					t.Error("looking changed something")
				}
				var all strings.Builder
				for _, f := range x.Facts {
					all.WriteString(f.About + ": " + f.Says + "\n")
				}
				for _, want := range c.facts {
					if !strings.Contains(all.String(), want) {
						t.Errorf("nothing says %q in\n%s", want, all.String())
					}
				}
				if !strings.Contains(x.Next, c.next) || !strings.Contains(strings.Join(x.Do, "\n"), c.do) {
					t.Errorf("next %q, type %q", x.Next, x.Do)
				}
			})
		})
	}
}

// startOne makes and starts the task "one".
func (r *rig) startOne() id.Task {
	r.t.Helper()
	tid := r.create("one")
	r.do("startTask", in{"task_id": "one"})
	return tid
}
