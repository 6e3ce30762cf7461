package app_test

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// The row of a commit stands for the idempotency row of its call.
func TestACommitRepeatedUnderItsKeyGetsItsFirstAnswerWhateverCameSince(t *testing.T) {
	req.Covers(t, "OT-050")
	r := newRig(t)
	tid := r.working("task", "")
	base := r.load(tid).Tip
	commit := func(key, message string, ev identity.Commit) (any, error) {
		who := r.agent(tid)
		who.Commit = &ev
		c := r.call(who)
		c.Key = key
		return r.try(c, "lazy_commit", args{"message": message})
	}
	one := identity.Commit{Parent: base, Commit: "aaaa1111", Tree: "t1", Drifted: "dddd"}
	first, err := commit("k1", "one", one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commit("k2", "two", identity.Commit{Parent: "aaaa1111", Commit: "bbbb2222", Tree: "t2"}); err != nil {
		t.Fatal(err)
	}
	before := r.snapshot()
	again, err := commit("k1", "one", one)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(first)
	if got, _ := json.Marshal(again); string(got) != string(want) {
		t.Errorf("answered %s, at first %s", got, want)
	}
	if _, err := commit("k1", "another", identity.Commit{Parent: "bbbb2222", Commit: "cccc", Tree: "t"}); !refusal.Is(err, refusal.KeyReused) {
		t.Errorf("another commit under the key answered %v", err)
	}
	// Under a key of its own a commit that is recorded already is no second one.
	if out, err := commit("k3", "one", one); err != nil || out.(app.Committed).Commit != "aaaa1111" {
		t.Errorf("told again it answered %+v, %v", out, err)
	}
	r.unchanged(before)
}

// A call that begins an operation is answered from the operation's own row when it
// is repeated, also once the operation is over and the verb would be allowed anew.
func TestABeginningRepeatedUnderItsKeyBeginsNothing(t *testing.T) {
	req.Covers(t, "OT-050")
	r := newRig(t)
	tid := r.working("task", "")
	r.park(tid)
	c := r.call(r.owner())
	first, err := r.try(c, "resumeTask", args{"task_id": "task"})
	if err != nil {
		t.Fatal(err)
	}
	r.park(tid)
	before := r.snapshot()
	again, err := r.try(c, "resumeTask", args{"task_id": "task"})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(first)
	if got, _ := json.Marshal(again); string(got) != string(want) {
		t.Errorf("answered %s, at first %s", got, want)
	}
	for name, in := range map[string]args{
		"resumeTask": {"task_id": string(tid)}, "createTask": {"goal": "g", "prompt": "p"}, "addComment": {"task_id": "task", "message": "x"},
	} {
		if _, err := r.try(c, name, in); !refusal.Is(err, refusal.KeyReused) {
			t.Errorf("%s under the key answered %v", name, err)
		}
	}
	r.unchanged(before)
	// A day later the key is free again, and the operation of old is not disturbed.
	r.clock.advance(25 * time.Hour)
	later, err := r.try(c, "resumeTask", args{"task_id": "task"})
	if err != nil || later.(app.Begun).Operation == first.(app.Begun).Operation {
		t.Errorf("a day later: %+v, %v", later, err)
	}
}

func TestATaskMadeTwiceUnderOneKeyIsMadeOnce(t *testing.T) {
	req.Covers(t, "OT-050", "OT-001")
	r := newRig(t)
	c := r.call(r.owner())
	in := args{"goal": "do it", "prompt": "as I say"}
	var wg sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		wg.Go(func() {
			out, err := r.try(c, "createTask", in)
			if err != nil {
				answers[i] = err.Error()
				return
			}
			b, _ := json.Marshal(out)
			answers[i] = string(b)
		})
	}
	wg.Wait()
	for _, s := range answers {
		if s != answers[0] {
			t.Errorf("answered %s and %s", answers[0], s)
		}
	}
	var made app.Created
	if err := json.Unmarshal([]byte(answers[0]), &made); err != nil {
		t.Fatal(err)
	}
	if n := len(do[app.Listing](r, r.owner(), "listTasks", args{}).Tasks); n != 1 {
		t.Errorf("%d tasks were made", n)
	}
	if show := do[app.Shown](r, r.owner(), "showTask", args{"task_id": string(made.TaskID)}); show.Prompt != "as I say" {
		t.Errorf("its prompt is %q", show.Prompt)
	}
	if _, err := r.try(c, "createTask", args{"goal": "do it", "prompt": "otherwise"}); !refusal.Is(err, refusal.KeyReused) {
		t.Errorf("another one under the key answered %v", err)
	}
	if _, err := r.try(c, "closeTask", args{"task_id": made.Code, "reason": "r"}); !refusal.Is(err, refusal.KeyReused) {
		t.Errorf("another verb under the key answered %v", err)
	}
	r.clock.advance(25 * time.Hour)
	second := do[app.Created](r, r.owner(), "createTask", in)
	out, err := r.try(c, "createTask", in)
	if err != nil {
		t.Fatal(err)
	}
	if third := out.(app.Created); third.TaskID == made.TaskID || third.TaskID == second.TaskID {
		t.Errorf("a day later it answered %+v", third)
	}
}
