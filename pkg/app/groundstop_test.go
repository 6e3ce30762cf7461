package app_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// note is a ground stop by a file.
type note struct {
	reason string
	at     time.Time
	there  bool
	err    error
}

func (n *note) Engaged() (string, time.Time, bool, error) { return n.reason, n.at, n.there, n.err }
func (n *note) Clear() error                              { *n = note{}; return nil }

func TestAFileStopsAProjectOfALaptop(t *testing.T) {
	req.Covers(t, "GN-01", "GN-07")
	r := newRig(t)
	n := &note{reason: "at night", at: r.clock.Now(), there: true}
	r.StopFile = n
	tid := r.create("one", "").TaskID
	r.refused(r.owner(), refusal.GroundStop, "startTask", args{"task_id": string(tid)})
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	if n.there {
		t.Error("the release left the file")
	}
	n.err = errors.New("no such luck")
	r.refused(r.owner(), refusal.GroundStop, "startTask", args{"task_id": string(tid)})
	do[app.GateState](r, r.owner(), "releaseGroundStop", args{})
	do[app.Begun](r, r.owner(), "startTask", args{"task_id": string(tid)})
}

func TestACutOffEndsRunningTurnsAtOnce(t *testing.T) {
	req.Covers(t, "GN-03", "GN-08")
	r := newRig(t)
	running := []id.Task{r.working("one", ""), r.working("two", "")}
	rest := r.working("rest", "")
	r.park(rest)
	r.refused(r.builder(), refusal.HumanOnly, "lazy_ground_stop", args{"reason": "x", "cut_off": true})
	do[app.GateState](r, r.owner(), "engageGroundStop", args{"reason": "x"})
	for _, tid := range running {
		if run := read[turn.Run](r, store.For(tenant).Task(tid).Run(1)); run.Stop != "" {
			t.Error("without a cut-off a run was told to end")
		}
	}
	do[app.GateState](r, r.owner(), "engageGroundStop", args{"reason": "x", "cut_off": true})
	for _, tid := range running {
		if out := r.beat(tid, turn.BeatIn{State: "running"}); out.Stop != turn.StopAsked {
			t.Errorf("a run is told %q", out.Stop)
		}
		r.report(tid, turn.Response{Outcome: "stopped", Stopped: turn.StopAsked})
		if got := r.load(tid); got.Status != task.Interrupted || !got.Hold || got.Interruptions != 0 {
			t.Errorf("after it: %s, held %v, %d interruptions", got.Status, got.Hold, got.Interruptions)
		}
	}
	// What people say is stored all the same.
	do[app.Commented](r, r.owner(), "addComment", args{"task_id": "rest", "message": "later"})
	do[app.Created](r, r.owner(), "createTask", args{"goal": "later", "prompt": "p"})
	r.refused(r.owner(), refusal.GroundStop, "mintBuilderToken", args{"label": "builder-abcdefgh12"})
}
