package app_test

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// confirmed is a call of a tool with a code, as the catalogue hands it on.
func (r *rig) confirmed(who identity.Caller, tool, digest, code string) app.Call {
	c := r.call(who)
	c.Tool, c.Digest, c.Code = tool, digest, code
	return c
}

// code gets a confirmation code for a call.
func (r *rig) code(who identity.Caller, tool, digest string, tid id.Task) string {
	r.t.Helper()
	ask, err := r.Confirmed(r.t.Context(), r.confirmed(who, tool, digest, ""), tenant, tid, func() { r.t.Error("the first call acted") })
	if err != nil || ask == nil || !ask.Required || ask.Secret == "" {
		r.t.Fatalf("the first call answered %+v, %v", ask, err)
	}
	return ask.Secret
}

func TestTheFirstCallChangesNothingAndSaysWhatWouldHappen(t *testing.T) {
	req.Covers(t, "CF-002", "AA-013")
	r := newRig(t)
	tid := r.working("task", "")
	before := r.snapshot()
	ask, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "lazy_close", "d", ""), tenant, tid, func() { t.Error("it acted") })
	if err != nil {
		t.Fatal(err)
	}
	r.unchanged(before)
	g := ask.Guidance
	if g.TaskID != tid || g.Code != "task" || g.Goal != "task" || g.Status != "working" || g.Will == "" || g.Cannot == "" || g.LookAt == "" || g.Expires == "" {
		t.Errorf("guidance: %+v", g)
	}
	if ask, err := r.Confirmed(t.Context(), r.confirmed(r.owner(), "closeTask", "d", ""), tenant, tid, func() {}); ask != nil || err != nil {
		t.Errorf("a person was asked: %+v, %v", ask, err)
	}
}

func TestACodeIsBoundToTheVeryCallItWasIssuedFor(t *testing.T) {
	req.Covers(t, "CF-003", "CF-004")
	r := newRig(t)
	tid, other := r.working("task", ""), r.working("other", "")
	code := r.code(r.builder(), "lazy_close", "d", tid)
	second := r.builder()
	second.Hash = "another-builder"
	for what, try := range map[string]struct {
		c   app.Call
		tid id.Task
	}{
		"an invented code": {r.confirmed(r.builder(), "lazy_close", "d", "AAAABBBBCCCCDDDD"), tid},
		"a truncated code": {r.confirmed(r.builder(), "lazy_close", "d", code[:8]), tid},
		"another task":     {r.confirmed(r.builder(), "lazy_close", "d", code), other},
		"another tool":     {r.confirmed(r.builder(), "lazy_reject", "d", code), tid},
		"another argument": {r.confirmed(r.builder(), "lazy_close", "e", code), tid},
		"another caller":   {r.confirmed(second, "lazy_close", "d", code), tid},
		"a task agent's":   {r.confirmed(r.agent(tid), "lazy_close", "d", code), tid},
	} {
		before := r.snapshot()
		_, err := r.Confirmed(t.Context(), try.c, tenant, try.tid, func() { t.Errorf("%s acted", what) })
		if !refusal.Is(err, refusal.ConfirmationInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		r.unchanged(before)
	}
	ran := 0
	for range 2 {
		_, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "lazy_close", "d", code), tenant, tid, func() { ran++ })
		if ran == 0 || ran == 1 && err != nil && !refusal.Is(err, refusal.ConfirmationInvalid) {
			t.Error(err)
		}
	}
	if ran != 1 {
		t.Errorf("one code acted %d times", ran)
	}
}

func TestACodeExpiresByComparison(t *testing.T) {
	req.Covers(t, "CF-004")
	r := newRig(t)
	tid := r.working("task", "")
	early, late := r.code(r.builder(), "t", "d", tid), r.code(r.builder(), "t", "e", tid)
	r.clock.advance(10*time.Minute - time.Nanosecond)
	if _, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "t", "d", early), tenant, tid, func() {}); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	r.clock.advance(time.Nanosecond) // its row is still there
	if _, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "t", "e", late), tenant, tid, func() {}); !refusal.Is(err, refusal.ConfirmationInvalid) {
		t.Errorf("at its end: %v", err)
	}
}

func TestACodeDiesWhenTheTargetMoves(t *testing.T) {
	req.Covers(t, "CF-005")
	r := newRig(t)
	tid := r.working("task", "")
	code := r.code(r.builder(), "t", "d", tid)
	was := r.load(tid).Tip
	r.commit(tid, "feedfacefeedface")
	_, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "t", "d", code), tenant, tid, func() { t.Error("it acted") })
	if !refusal.Is(err, refusal.ConfirmationInvalid) || !strings.Contains(err.Error(), was[:8]) || !strings.Contains(err.Error(), "feedface") {
		t.Errorf("a moved head answered %v", err)
	}
	code = r.code(r.builder(), "t", "d", tid)
	r.park(tid)
	_, err = r.Confirmed(t.Context(), r.confirmed(r.builder(), "t", "d", code), tenant, tid, func() { t.Error("it acted") })
	if !refusal.Is(err, refusal.ConfirmationInvalid) || !strings.Contains(err.Error(), "working") || !strings.Contains(err.Error(), "blocked") {
		t.Errorf("a moved status answered %v", err)
	}
}

func TestOneCodeActsOnceHoweverOftenItIsSent(t *testing.T) {
	req.Covers(t, "CF-010")
	r := newRig(t)
	tid := r.working("task", "")
	for _, sameKey := range []bool{false, true} {
		code := r.code(r.builder(), "t", "d", tid)
		shared := r.confirmed(r.builder(), "t", "d", code)
		var ran, replayed, invalid atomic.Int32
		var wg sync.WaitGroup
		for range 12 {
			c := shared
			if !sameKey {
				c = r.confirmed(r.builder(), "t", "d", code)
			}
			wg.Go(func() {
				_, err := r.Confirmed(t.Context(), c, tenant, tid, func() { ran.Add(1) })
				var again *app.Replayed
				switch {
				case err == nil:
				case asReplayed(err, &again):
					replayed.Add(1)
				case refusal.Is(err, refusal.ConfirmationInvalid):
					invalid.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 || sameKey && replayed.Load() != 11 || !sameKey && invalid.Load() != 11 {
			t.Errorf("same key %t: %d acted, %d got the first answer, %d were refused", sameKey, ran.Load(), replayed.Load(), invalid.Load())
		}
	}
}

func TestARefusedCallerNeverReceivesACode(t *testing.T) {
	req.Covers(t, "CF-008")
	r := newRig(t)
	self := r.working("self", "")
	grandkid := r.create("grandkid", r.create("kid", self).TaskID)
	for _, tool := range []string{"lazy_close", "lazy_reject"} {
		err := r.refused(r.agent(self), refusal.NotYourSubtree, tool, args{"task_id": string(grandkid.TaskID), "reason": "r"})
		if _, has := fault.Of(err).Details["confirmation_code"]; has {
			t.Error("the refusal carries a code")
		}
		r.refused(r.agent(self), refusal.SelfTerminating, tool, args{"task_id": "self", "reason": "r"})
	}
	done := r.working("done", "")
	r.park(done)
	r.finish(done, task.Complete)
	r.refused(r.builder(), refusal.StatusNotAllowed, "lazy_close", args{"task_id": "done", "reason": "r"})
	for _, k := range r.log.all() {
		if strings.HasPrefix(k.SK, "CNF#") {
			t.Errorf("a code was issued: %s", k)
		}
	}
}

func TestAnAgentEndsItsChildrensTurnsAndNeverItsOwn(t *testing.T) {
	req.Covers(t, "CM-036")
	r := newRig(t)
	self := r.working("self", "")
	kid := r.working("kid", self)
	for _, tool := range []string{"lazy_stop", "lazy_reject", "lazy_close"} {
		in := args{"task_id": string(self)}
		if tool != "lazy_stop" {
			in["reason"] = "r"
		}
		r.refused(r.agent(self), refusal.SelfTerminating, tool, in)
		in["task_id"] = string(kid)
		out, err := r.try(r.call(r.agent(self)), tool, in)
		if err != nil {
			t.Errorf("%s on a child: %v", tool, err)
		}
		if raw, merr := json.Marshal(out); merr != nil || tool != "lazy_stop" && !strings.Contains(string(raw), "confirmation_code") {
			t.Errorf("%s on a child answered %s", tool, raw)
		}
	}
	if r.load(kid).Hold != true || r.load(self).Hold {
		t.Error("the stop reached the wrong one")
	}
}

func TestCodesAreNeitherStoredNorLogged(t *testing.T) {
	req.Covers(t, "CF-013")
	r := newRig(t)
	tid := r.working("task", "")
	code := r.code(r.builder(), "lazy_close", "d", tid)
	if _, err := r.Confirmed(t.Context(), r.confirmed(r.builder(), "lazy_close", "d", code), tenant, tid, func() {}); err != nil {
		t.Fatal(err)
	}
	for _, k := range r.log.all() {
		it, err := r.lag.Get(t.Context(), k)
		if strings.Contains(k.String(), code) || err == nil && strings.Contains(string(it.Doc), code) {
			t.Errorf("the code lies in %s", k)
		}
	}
	if strings.Contains(r.logged.String(), code) {
		t.Error("the code was logged")
	}
}
