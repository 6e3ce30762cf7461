package app_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestWhatATaskIsCanChangeOnlyInBacklog(t *testing.T) {
	req.Covers(t, "OT-005", "SM-021")
	r := newRig(t)
	parent := r.create("parent", "")
	one := r.create("one", "")
	out := do[app.Edited](r, r.owner(), "editTask", args{
		"task_id": "one", "goal": "uno\nfirst", "prompt": "another", "code": "uno", "type": "bug", "parent": "parent",
	})
	if got := strings.Join(out.Changed, " "); got != "goal prompt code type parent" || out.Code != "uno" || out.CutFrom != "lazy/parent" {
		t.Errorf("edited: %+v", out)
	}
	shown := do[app.Shown](r, r.owner(), "showTask", args{"task_id": "uno"})
	if shown.TaskID != one.TaskID || shown.Goal != "uno first" || shown.Prompt != "another" || shown.Type != "bug" ||
		shown.Parent != parent.TaskID || shown.Branch != "lazy/uno" {
		t.Errorf("the record shows %+v", shown)
	}
	r.refused(r.owner(), refusal.NotFound, "showTask", args{"task_id": "one"})
	r.create("one", "") // the old code is free again

	out = do[app.Edited](r, r.owner(), "editTask", args{"task_id": "uno", "parent": ""})
	if out.CutFrom != "main" || r.load(one.TaskID).Parent != "" {
		t.Errorf("moved to the top: %+v", out)
	}
	r.start(one.TaskID)
	for _, field := range []string{"goal", "prompt", "code", "type", "parent"} {
		r.refused(r.owner(), refusal.StatusNotAllowed, "editTask", args{"task_id": "uno", field: "x"})
	}
	do[app.Edited](r, r.owner(), "editTask", args{"task_id": "uno", "model": "opus", "agent": "scripted", "effort": "high"})
	if got := r.load(one.TaskID); got.Model != "opus" || got.Agent != "scripted" || got.Effort != "high" {
		t.Errorf("a running task is %+v", got)
	}
	r.park(one.TaskID)
	r.finish(one.TaskID, task.Complete)
	for _, field := range []string{"goal", "prompt", "code", "type", "parent", "model", "agent"} {
		err := r.refused(r.owner(), refusal.StatusNotAllowed, "editTask", args{"task_id": "uno", field: "x"})
		if err == nil || !strings.Contains(err.Error(), "complete") || !says(err, "cli", "lazy reopen") || !says(err, "mcp", "lazy_reopen") {
			t.Errorf("%s: the refusal does not name the status and the way back: %v", field, err)
		}
	}
}

func TestANewCodeTakesTheWaitingSubtasksAlong(t *testing.T) {
	r := newRig(t)
	top := r.create("top", "")
	kid := r.create("kid", top.TaskID)
	do[app.Edited](r, r.owner(), "editTask", args{"task_id": "top", "code": "summit"})
	if got := r.load(kid.TaskID); got.Target != "lazy/summit" || got.Version != 2 {
		t.Errorf("the subtask aims at %s in version %d", got.Target, got.Version)
	}
	r.start(kid.TaskID)
	before := r.snapshot()
	if _, err := r.try(r.call(r.owner()), "editTask", args{"task_id": "summit", "code": "peak"}); err == nil || !strings.Contains(err.Error(), "kid") {
		t.Errorf("a code under a started subtask answered %v", err)
	}
	r.unchanged(before)
}

func TestATaskCannotMoveBelowItself(t *testing.T) {
	r := newRig(t)
	a := r.create("a", "")
	b := r.create("b", a.TaskID)
	r.create("c", b.TaskID)
	for _, under := range []string{"a", "b", "c"} {
		r.refused(r.owner(), refusal.InvalidArguments, "editTask", args{"task_id": "a", "parent": under})
	}
}

func TestAgentsEditTheirOwnSubtreeAndNeverAParent(t *testing.T) {
	req.Covers(t, "CM-016", "AA-011", "AA-012")
	r := newRig(t)
	up := r.working("up", "")
	self := r.working("self", up)
	kid := r.create("kid", self).TaskID
	grandkid := r.create("grandkid", kid).TaskID
	peer := r.create("peer", up).TaskID
	me := r.agent(self)
	do[app.Edited](r, me, "lazy_edit", args{"task_id": string(self), "model": "m"})
	do[app.Edited](r, me, "lazy_edit", args{"task_id": string(kid), "goal": "clearer"})
	for _, tid := range []string{string(grandkid), string(up), string(peer)} {
		err := r.refused(me, refusal.NotYourSubtree, "lazy_edit", args{"task_id": tid, "model": "m"})
		if err == nil || !strings.Contains(err.Error(), self.Short()) || !says(err, "", "lazy_journal") {
			t.Errorf("the refusal does not name self and the open alternatives: %v", err)
		}
		do[app.Edited](r, r.builder(), "lazy_edit", args{"task_id": tid, "model": "m"})
	}
	for _, parent := range []string{string(self), string(up), ""} {
		r.refused(me, refusal.ParentLocked, "lazy_edit", args{"task_id": string(kid), "parent": parent})
	}
	r.refused(me, refusal.HumanOnly, "lazy_edit", args{"task_id": string(kid), "image": "x"})
	r.again(self)
	r.refused(me, refusal.Fenced, "lazy_edit", args{"task_id": string(kid), "goal": "late"})
}

func TestAReparentBetweenLookAndWriteIsSeen(t *testing.T) {
	req.Covers(t, "CM-035")
	r := newRig(t)
	self := r.working("self", "")
	kid := r.create("kid", self).TaskID
	r.log.before(meta(kid), func() {
		do[app.Edited](r, r.owner(), "editTask", args{"task_id": string(kid), "parent": ""})
	})
	r.refusedAfter(r.agent(self), refusal.NotYourSubtree, "lazy_edit", args{"task_id": string(kid), "goal": "stolen"})
	if got := r.load(kid); got.Goal != "kid" {
		t.Errorf("the write went through: %+v", got)
	}
}

func TestAnOperatorActsForNobody(t *testing.T) {
	req.Covers(t, "HA-033")
	r := newRig(t)
	r.create("a", "")
	for name, in := range map[string]args{
		"createTask": {"goal": "g", "prompt": "p"}, "editTask": {"task_id": "a", "model": "m"},
		"addComment": {"task_id": "a", "message": "m"}, "addJournal": {"task_id": "a", "content": "c"},
		"editComment":   {"task_id": "a", "comment_id": "c1", "message": "m"},
		"resolveRaised": {"raised_resolutions": []args{{"raised_id": "x-r1", "action": "dismiss"}}},
	} {
		r.refused(r.operator(), refusal.OperatorNotAPerson, name, in)
	}
	if got := do[app.Identity](r, r.operator(), "whoAmI", args{}); got.Kind != identity.Operator || got.Email != "" {
		t.Errorf("the operator is %+v", got)
	}
}

func TestTheSecondCopyOfARequestGetsTheFirstsAnswerEvenAfterALostRace(t *testing.T) {
	req.Covers(t, "OT-050")
	r := newRig(t)
	tid := r.create("task", "").TaskID
	c, in := r.call(r.owner()), args{"task_id": "task"}
	var first app.Begun
	r.log.before(meta(tid), func() { first = answer[app.Begun](r, c, "startTask", in) })
	second := answer[app.Begun](r, c, "startTask", in)
	if second.Turn == "" || second.Turn != first.Turn || r.load(tid).Epoch != 1 {
		t.Errorf("the first copy began %s, the second answered %s", first.Turn, second.Turn)
	}
	r.refused(r.owner(), refusal.TaskBusy, "startTask", in)
}

func TestLongTextsOfTwoRacingWritersDoNotGetInEachOthersWay(t *testing.T) {
	req.Covers(t, "RP-025")
	r := newRig(t)
	tid := r.create("task", "").TaskID
	one, two := strings.Repeat("one ", 9000), strings.Repeat("two ", 9000)
	r.log.before(meta(tid), func() { do[app.Edited](r, r.owner(), "editTask", args{"task_id": "task", "prompt": two}) })
	do[app.Edited](r, r.owner(), "editTask", args{"task_id": "task", "prompt": one})
	got := r.load(tid)
	if p, err := r.Body(t.Context(), got, got.Prompt); err != nil || p != one {
		t.Errorf("the last prompt is %.20q, %v", p, err)
	}
	if p, err := r.Body(t.Context(), got, "prompt.2"); err != nil || p != two {
		t.Errorf("the one before is %.20q, %v", p, err)
	}
}
