package local_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestAnImageThatNeverStartsIsGivenUpByNameAndCountsAgainstNoAgent(t *testing.T) {
	req.Covers(t, "CR-021")
	inBubble(t, func(t *testing.T, r *rig) {
		const why = "the image cannot be pulled: the registry refuses access; image example.com/shop@sha256:1234"
		dead := func(s *sup) { s.die(-1, why) }
		r.host.next(dead, dead, dead)
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.until("three launches", func() bool { return r.task(tid).Launches == 3 })
		time.Sleep(time.Hour)
		got := r.rest(tid, task.Interrupted)
		if r.host.launched() != 3 || got.Interruptions != 0 {
			t.Errorf("%d launches, %d interruptions", r.host.launched(), got.Interruptions)
		}
		if !strings.Contains(got.Why, "3 launches in a row never started") || !strings.Contains(got.Why, why) {
			t.Errorf("it rests because of %q", got.Why)
		}
		h := rows[task.History](r, tid, "HIS#")
		if last := h[len(h)-1]; last.Reason != got.Why {
			t.Errorf("its history says %q", last.Reason)
		}
		out := r.do("explainTask", in{"task_id": "one"})
		if said := fmt.Sprint(out); !strings.Contains(said, "3 of 3 launches in a row never started") || !strings.Contains(said, "Correct the cause first") {
			t.Errorf("doctor says %s", said)
		}
		r.do("resumeTask", in{"task_id": "one"})
		if got := r.task(tid); got.Launches != 0 {
			t.Errorf("a person's resume leaves the count at %d", got.Launches)
		}
		r.rest(tid, task.Blocked)
	})
}
