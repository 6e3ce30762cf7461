package local_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	models "github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// calling is an agent that calls its model every few seconds, as long as its
// gateway may let it: under the permission of an answer of at most 30 s ago. With
// the first call it may not make it ends its turn.
func calling(calls *[]time.Time, readings func() []models.Reading) func(*sup) {
	return func(s *sup) {
		s.begin()
		var until time.Time
		no := ""
		for {
			_ = s.plane(func(ctx context.Context, a *app.App) error {
				sent := time.Now()
				in := turn.BeatIn{Turn: s.cmd.Turn, Epoch: s.cmd.Epoch, State: "running", NoModel: no}
				if readings != nil {
					in.Readings = readings()
				}
				out, err := a.Beat(ctx, s.runner, in)
				if no = out.NoModel; err == nil && !out.ModelUntil.IsZero() {
					until = sent.Add(30 * time.Second)
				}
				return err
			})
			for range 3 {
				if no != "" {
					_ = s.plane(func(ctx context.Context, a *app.App) error {
						_, err := a.Beat(ctx, s.runner, turn.BeatIn{Turn: s.cmd.Turn, Epoch: s.cmd.Epoch, State: "running", NoModel: no})
						return err
					})
					s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopGround, Failure: &turn.Failure{Class: turn.Unknown, Reason: no}})
				}
				if time.Now().Before(until) {
					*calls = append(*calls, time.Now())
				}
				s.sleep(5 * time.Second)
			}
		}
	}
}

func TestAGroundStopEndsARunningTurnAndRecoveryCannotPassIt(t *testing.T) {
	req.Covers(t, "US-023", "SY-044", "P10", "GN-03", "CR-022")
	inBubble(t, func(t *testing.T, r *rig) {
		var calls []time.Time
		r.host.next(calling(&calls, nil))
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		r.running(tid)
		time.Sleep(40 * time.Second)
		r.do("engageGroundStop", in{"reason": "runaway"})
		at := time.Now()
		got := r.rest(tid, task.Interrupted)
		last := calls[len(calls)-1]
		if len(calls) < 5 || last.After(at.Add(30*time.Second)) {
			t.Errorf("%d calls, the last %s after the stop", len(calls), last.Sub(at))
		}
		if !strings.HasPrefix(got.Why, "ground_stop: ") || got.Interruptions != 0 {
			t.Errorf("why %q, %d interruptions", got.Why, got.Interruptions)
		}
		time.Sleep(time.Hour)
		r.do("releaseGroundStop", in{})
		time.Sleep(time.Hour)
		if r.host.launched() != 1 || r.task(tid).Status != task.Interrupted {
			t.Errorf("%d launches, %s", r.host.launched(), r.task(tid).Status)
		}
		r.do("resumeTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
	})
}

func TestACrashUnderThePauseGoesOnByItselfAtTheReset(t *testing.T) {
	req.Covers(t, "US-020", "CR-022", "US-008")
	inBubble(t, func(t *testing.T, r *rig) {
		reset := time.Now().Add(3 * time.Hour).Truncate(time.Second)
		r.configure(func(s *app.Settings) { payable(s); s.UsagePause = 95 })
		r.do("putModelCredential", in{"provider": "claude", "secret": "sk-one"})
		r.host.next(func(s *sup) {
			s.begin()
			s.sleep(time.Minute)
			_ = s.plane(func(ctx context.Context, a *app.App) error {
				_, err := a.Beat(ctx, s.runner, turn.BeatIn{
					Turn: s.cmd.Turn, Epoch: s.cmd.Epoch, State: "running", Readings: []models.Reading{{
						Credential: "claude", At: time.Now(), Headers: map[string]string{
							"anthropic-ratelimit-unified-5h-utilization": "0.97", "anthropic-ratelimit-unified-5h-reset": fmt.Sprint(reset.Unix()),
						},
					}},
				})
				return err
			})
			s.die(137, "OOM killed or SIGKILL (exit code 137)")
		})
		tid := r.create("one", in{"agent": "paid"})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Interrupted)
		time.Sleep(time.Until(reset) - time.Minute)
		if got := r.task(tid); r.host.launched() != 1 || got.Held == nil || got.Resumes != 0 || !got.Held.Until.Equal(reset) {
			t.Fatalf("before the reset: %d launches, held %+v", r.host.launched(), got.Held)
		}
		if next := fmt.Sprint(r.do("explainTask", in{"task_id": "one"})["next"]); !strings.Contains(next, "waits for usage pause until "+reset.UTC().Format(time.RFC3339)) {
			t.Errorf("explained: %s", next)
		}
		r.rest(tid, task.Blocked)
		if late := time.Since(reset); late < 0 || late > 2*time.Minute || r.host.launched() != 2 {
			t.Errorf("resumed %s after the reset, %d launches", late, r.host.launched())
		}
	})
}

func TestASecretLeavesTheStoreInAnAnswerToHelloAndNowhereElse(t *testing.T) {
	req.Covers(t, "P8", "CM-031", "ID-026")
	inBubble(t, func(t *testing.T, r *rig) {
		const canary = "sk-canary-9d2f4b7a1c3e"
		r.configure(payable)
		var given *models.Access
		r.host.next(func(s *sup) {
			_ = s.plane(func(ctx context.Context, a *app.App) error {
				w, err := a.Hello(ctx, turn.Hello{Nonce: s.spec.Nonce, Key: "key-of-" + s.ref, PID: 4711, Started: s.ref, Version: "test"})
				given = w.Model
				return err
			})
			work("a.txt", "a")(s)
		})
		r.do("putModelCredential", in{"provider": "claude", "secret": canary})
		tid := r.create("one", in{"agent": "paid"})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		if given == nil || given.Secret != canary {
			t.Fatalf("the run was given %v", given)
		}
		r.down()
		err := filepath.WalkDir(filepath.Dir(filepath.Dir(r.paths.Dir)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(b), canary) {
				t.Errorf("the secret lies in %s", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
