package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func meta(tid id.Task) store.Key { return store.For(tenant).Task(tid).Meta() }

// says reports whether a refusal advises a surface with a text.
func says(err error, surface, text string) bool {
	for _, n := range fault.Of(err).Next {
		if n.For == surface && strings.Contains(n.Text, text) {
			return true
		}
	}
	return false
}

// quiet runs f and fails when it started, signalled or asked for anything.
func (r *rig) quiet(tid id.Task, f func()) {
	r.t.Helper()
	status, epoch := r.load(tid).Status, r.load(tid).Epoch
	jobs := len(rows[app.Job](r, tid, "OUT#"))
	execs, runs := r.engine.started(), r.runner.count()
	f()
	got := r.load(tid)
	if got.Status != status || got.Epoch != epoch || len(rows[app.Job](r, tid, "OUT#")) != jobs || r.engine.started() != execs || r.runner.count() != runs {
		r.t.Errorf("something reacted: %s epoch %d with %d jobs became %s epoch %d with %d",
			status, epoch, jobs, got.Status, got.Epoch, len(rows[app.Job](r, tid, "OUT#")))
	}
}

func TestACommentIsQueuedAndStartsNothing(t *testing.T) {
	req.Covers(t, "AN-006", "AN-012", "CR-014")
	r := newRig(t)
	tid := r.working("task", "")
	r.park(tid)
	r.quiet(tid, func() {
		out := do[app.Commented](r, r.owner(), "addComment", args{"task_id": "task", "message": "mind the \x00 tests"})
		if out.CommentID != "c1" || !strings.Contains(out.Delivery, "next work prompt") {
			t.Errorf("commented: %+v", out)
		}
	})
	got := rows[raise.Comment](r, tid, "CMT#")
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, `mind the \u0000 tests`) || got[0].Actor.Name != "Ada" || !got[0].Shown.IsZero() {
		t.Errorf("stored: %+v", got)
	}
	if n := r.load(tid); n.Comments != 1 || n.Queued != 1 {
		t.Errorf("counters: %d comments, %d queued", n.Comments, n.Queued)
	}
	r.finish(tid, task.Abandoned)
	r.refused(r.owner(), refusal.StatusNotAllowed, "addComment", args{"task_id": "task", "message": "late"})
	r.refused(r.owner(), refusal.InvalidArguments, "addComment", args{"task_id": "task", "message": "  "})
}

func TestAgentsCommentOnDirectSubtasksOnly(t *testing.T) {
	req.Covers(t, "AN-001", "AN-002", "AN-004")
	r := newRig(t)
	up := r.working("up", "")
	self := r.working("self", up)
	kid := r.create("kid", self).TaskID
	grandkid := r.create("grandkid", kid).TaskID
	me := r.agent(self)
	do[app.Commented](r, me, "lazy_comment", args{"task_id": string(kid), "message": "m"})
	if got := rows[raise.Comment](r, kid, "CMT#"); len(got) != 1 || got[0].Actor.Role != identity.Agent {
		t.Errorf("stored: %+v", got)
	}
	for _, tid := range []id.Task{up, grandkid, r.create("peer", up).TaskID} {
		r.refused(me, refusal.AnnotateChildrenOnly, "lazy_comment", args{"task_id": string(tid), "message": "m"})
	}
	err := r.refused(me, refusal.AnnotateSelfComment, "lazy_comment", args{"task_id": string(self), "message": "m"})
	all := err.Error() + fmt.Sprint(fault.Of(err).Next)
	if !strings.Contains(all, "lazy_journal") || !strings.Contains(all, "lazy_raise") {
		t.Errorf("the refusal does not name both alternatives: %s", all)
	}
}

func TestAPersonEditsTheirOwnCommentUntilItWasShown(t *testing.T) {
	req.Covers(t, "AN-007", "AN-008", "AN-010")
	r := newRig(t)
	tid := r.create("task", "").TaskID
	edit := func(n string) args { return args{"task_id": "task", "comment_id": n, "message": "better"} }
	do[app.Commented](r, r.owner(), "addComment", args{"task_id": "task", "message": strings.Repeat("long ", 400)})
	do[app.Commented](r, r.builder(), "lazy_comment", args{"task_id": "task", "message": "by a builder"})
	old := rows[raise.Comment](r, tid, "CMT#")[0]
	do[app.Commented](r, r.owner(), "editComment", edit("c1"))
	got := rows[raise.Comment](r, tid, "CMT#")[0]
	if got.Text != "better" || got.Version != 2 || got.Seq != 1 {
		t.Errorf("edited: %+v", got)
	}
	if body, err := r.Body(t.Context(), r.load(tid), old.Body); err != nil || !strings.HasPrefix(body, "long long") {
		t.Errorf("the old body was rewritten: %q, %v", body, err)
	}
	err := r.refused(r.member(), refusal.CommentNotAuthor, "editComment", edit("1"))
	if err == nil || !strings.Contains(err.Error(), "Ada <ada@example.com>") {
		t.Errorf("the refusal does not name the author: %v", err)
	}
	r.refused(r.owner(), refusal.CommentNotAuthor, "editComment", edit("c2"))
	r.refused(r.owner(), refusal.NotFound, "editComment", edit("c9"))
	r.refused(r.owner(), refusal.NotFound, "editComment", edit("../x"))

	// The edit loses against the dispatch that comes between its look and its write.
	k := store.For(tenant).Task(tid).Comment(1)
	r.log.before(k, func() {
		if err := r.Shown(t.Context(), tenant, tid, 1); err != nil {
			t.Error(err)
		}
	})
	r.refusedAfter(r.owner(), refusal.CommentDelivered, "editComment", edit("c1"))
	err = r.refused(r.owner(), refusal.CommentDelivered, "editComment", edit("c1"))
	if err == nil || !strings.Contains(err.Error(), "2026-03-02T12:00:00Z") {
		t.Errorf("the refusal does not say when: %v", err)
	}
}

func TestTheJournalTakesNotesOnAnyTaskAndNothingReacts(t *testing.T) {
	req.Covers(t, "JR-001", "JR-002", "JR-009")
	r := newRig(t)
	up := r.working("up", "")
	self := r.working("self", up)
	done := r.working("done", "")
	r.park(done)
	r.finish(done, task.Complete)
	parked := r.working("parked", "")
	r.park(parked)
	me := r.agent(self)
	for _, tid := range []id.Task{up, done, parked} {
		r.quiet(tid, func() {
			out := do[app.Journaled](r, me, "lazy_journal", args{"task_id": string(tid), "content": "seen"})
			if out.TaskID != tid || out.Index != 1 {
				t.Errorf("%+v", out)
			}
			do[app.Journaled](r, r.owner(), "addJournal", args{"task_id": string(tid), "content": "by a person"})
		})
	}
	if out := do[app.Journaled](r, me, "lazy_journal", args{"content": "own"}); out.TaskID != self {
		t.Errorf("without a task it went to %s", out.TaskID)
	}
	r.refused(r.builder(), refusal.InvalidArguments, "lazy_journal", args{"content": "nowhere"})
	r.again(self)
	r.refused(me, refusal.Fenced, "lazy_journal", args{"task_id": string(done), "content": "late"})
}

func TestAHundredAppendsGetConsecutiveIndexes(t *testing.T) {
	req.Covers(t, "JR-006")
	r := newRig(t)
	tid := r.create("task", "").TaskID
	var wg sync.WaitGroup
	for i := range 100 {
		c := r.call(r.owner())
		wg.Go(func() {
			raw, _ := json.Marshal(args{"task_id": "task", "content": fmt.Sprint("note ", i)})
			if _, err := r.op("addJournal").Call(t.Context(), r.App, c, raw); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := rows[raise.Entry](r, tid, "JRN#")
	if len(got) != 100 {
		t.Fatalf("%d entries", len(got))
	}
	said := map[string]bool{}
	for i, e := range got {
		if e.Index != int64(i+1) {
			t.Errorf("entry %d has index %d", i, e.Index)
		}
		said[e.Text] = true
	}
	if len(said) != 100 {
		t.Errorf("%d different notes", len(said))
	}
}

func TestTheOffsetOfTheJournalNoticeReadsExactlyTheNewEntries(t *testing.T) {
	req.Covers(t, "JR-005", "JR-008")
	r := newRig(t)
	tid := r.create("task", "").TaskID
	self := r.working("reader", "")
	for i := range 7 {
		r.clock.advance(1e9)
		do[app.Journaled](r, r.owner(), "addJournal", args{"task_id": "task", "content": fmt.Sprint("note ", i+1)})
	}
	// Two of seven are new: the notice names offset total-2.
	got := do[app.Shown](r, r.agent(self), "lazy_show", args{"task_id": string(tid), "sections": []string{"journal"}, "offset": 7 - 2})
	if got.Journal == nil || len(got.Journal.Items) != 2 || got.Journal.Total != 7 || got.Journal.More {
		t.Fatalf("journal: %+v", got.Journal)
	}
	for i, e := range got.Journal.Items {
		if e.Text != fmt.Sprint("note ", i+6) || e.Index != int64(i+6) || e.ByText != "Ada <ada@example.com>" || e.At.IsZero() {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if got.Turns != nil || got.Comments != nil || got.Prompt != "" {
		t.Error("other sections came along")
	}
}
