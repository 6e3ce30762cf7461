package local_test

import (
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// A definition names a step that the code lacks, for longer than the flow tries it:
// a deploy was taken back. The work is not lost, nobody is asked, and no
// run is launched twice once the definition and the code agree.
func TestATurnWhoseStepIsMissingForAWhileBeginsAnew(t *testing.T) {
	req.Covers(t, "SY-042", "SY-046")
	for _, step := range []string{names.StepPrepare, names.StepLaunch, names.StepDecide} {
		t.Run(step, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tid := r.create("one")
				r.host.next(work("done.txt", "done\n"))
				r.host.breakStep(map[string]error{step: fault.New(fault.Unavailable, "the code that is deployed has no step %s", step)})
				r.do("startTask", in{"task_id": "one"})
				time.Sleep(2 * time.Minute)
				if got := r.task(tid).Status; got.Terminal() || got == task.Blocked {
					t.Errorf("without the step it is %s", got)
				}
				r.host.breakStep(nil)
				r.rest(tid, task.Blocked)
				if n := r.host.launched(); n != 1 || r.host.atOnce() != 1 {
					t.Errorf("%d runs were launched, %d at once", n, r.host.atOnce())
				}
				if r.file("lazy/one", "done.txt") != "done" {
					t.Error("the work is not there")
				}
			})
		})
	}
}
