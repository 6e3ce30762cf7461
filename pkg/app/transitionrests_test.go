package app_test

import (
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// restRows are the moves of a task at rest that a person's words or the sweep make.
func restRows() []moveRow {
	return []moveRow{
		{"TR-03", task.Backlog, task.Blocked, backlogHasCommits},
		{"TR-22", task.Blocked, task.Working, unblocks},
		{"TR-23", task.Blocked, task.Working, resumesFromBlocked},
		{"TR-24", task.Blocked, task.Working, asks},
		{"TR-33", task.Blocked, task.Backlog, blockedHasNoSession},
		{"TR-35", task.Conflict, task.Working, goesOnFromConflict},
		{"TR-44", task.Submitted, task.Working, unblocksSubmitted},
	}
}

// backlogWithCommits is what an import leaves: a branch with work, never started.
func (w *walk) backlogWithCommits(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.fresh(parent)
	base := w.repo.branchFrom("lazy/"+w.load(tid).Name(), "main")
	tip := w.repo.commit(base, "imported", map[string]string{tid.Short(): "x\n"})
	if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) {
		t.Branch, t.Base, t.Tip, t.Commits = "lazy/"+t.Name(), base, tip, 1
	}); err != nil {
		w.t.Fatal(err)
	}
	return tid
}

func backlogHasCommits(w *walk) {
	tid, empty := w.backlogWithCommits(""), w.fresh("")
	w.sweep(0)
	w.sweep(0)
	w.moved(tid, task.Reconcile, identity.System)
	if got := w.load(tid); got.HadSession || got.Epoch != 0 {
		w.t.Errorf("it has run: %+v", got)
	}
	w.sweep(0)
	w.at(tid, task.Blocked)
	w.stays(empty, task.Backlog)
}

func blockedHasNoSession(w *walk) {
	tid, ran := w.fresh(""), w.blocked("")
	if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) { t.Status = task.Blocked }); err != nil {
		w.t.Fatal(err)
	}
	w.sweep(0)
	w.sweep(0)
	w.moved(tid, task.Reconcile, identity.System)
	w.at(tid, task.Backlog)
	w.stays(ran, task.Blocked)
}

// words is what the last turn of a task was given to say.
func (w *walk) words(tid id.Task) string {
	w.t.Helper()
	ts := rows[turn.Turn](w.rig, tid, "TRN#")
	last := ts[len(ts)-1]
	if last.Body == "" {
		return ""
	}
	said, err := w.Body(w.t.Context(), w.load(tid), last.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return said
}

func unblocks(w *walk) {
	var last id.Task
	w.each(func(parent id.Task) id.Task {
		last = w.blocked(parent)
		return last
	}, task.Unblock, "unblockTask", args{"feedback": "use the other file"})
	if got := w.words(last); got != "use the other file" {
		w.t.Errorf("its turn says %q", got)
	}
	// The words are durable with the move, or neither is: a store that fails keeps both out.
	tid := w.blocked("")
	in := args{"task_id": string(tid), "feedback": " \n\t"}
	w.refused(w.owner(), refusal.FeedbackRequired, "unblockTask", in)
	w.refused(w.owner(), refusal.FeedbackRequired, "unblockTask", args{"task_id": string(tid)})
	before := w.snapshot()
	w.log.failWith(fault.New(fault.Unavailable, "disk full"))
	if _, err := w.try(w.call(w.owner()), "unblockTask", args{"task_id": string(tid), "feedback": "lost"}); err == nil {
		w.t.Error("an unblock that was not stored was answered")
	}
	w.log.failWith(nil)
	w.unchanged(before)
	w.stays(tid, task.Blocked)
}

func resumesFromBlocked(w *walk) {
	var last id.Task
	w.each(func(parent id.Task) id.Task {
		last = w.blocked(parent)
		return last
	}, task.Resume, "resumeTask", args{})
	if got := w.words(last); got != "" {
		w.t.Errorf("its turn says %q", got)
	}
	w.refused(w.owner(), refusal.InvalidArguments, "resumeTask", args{"task_id": string(w.blocked("")), "feedback": "x"})
	w.refused(w.owner(), refusal.StatusNotAllowed, "resumeTask", args{"task_id": string(w.fresh(""))})
}

func asks(w *walk) {
	var asked []id.Task
	w.each(func(parent id.Task) id.Task {
		tid := w.blocked(parent)
		asked = append(asked, tid)
		return tid
	}, task.Ask, "askTask", args{"question": "why that file?"})
	for _, tid := range asked {
		was := w.load(tid).Tip
		w.launched(tid)
		w.report(tid, turn.Response{Text: "because"})
		if got := w.load(tid); got.Status != task.Blocked || got.Tip != was {
			w.t.Errorf("after the question it is %s at %s", got.Status, got.Tip)
		}
	}
	// Without a session there is nobody to ask.
	never := w.backlogWithCommits("")
	w.sweep(0)
	w.sweep(0)
	w.at(never, task.Blocked)
	w.denied(w.owner(), "askTask", args{"task_id": string(never), "question": "why?"})
	w.stays(never, task.Blocked)
}

func goesOnFromConflict(w *walk) {
	var last id.Task
	ready := func(parent id.Task) id.Task {
		last = w.conflict(parent)
		return last
	}
	w.each(ready, task.Unblock, "unblockTask", args{"feedback": "go on"})
	if got := w.load(last).Pending(); got != 2 {
		w.t.Errorf("%d violations are pending after an unblock", got)
	}
	w.each(ready, task.Resume, "resumeTask", args{})
	if got := w.load(last).Pending(); got != 2 {
		w.t.Errorf("%d violations are pending after a resume", got)
	}
	w.refused(w.owner(), refusal.FeedbackRequired, "unblockTask", args{"task_id": string(ready("")), "feedback": ""})
}

func unblocksSubmitted(w *walk) {
	var sent []id.Task
	w.each(func(parent id.Task) id.Task {
		tid := w.submitted(parent)
		sent = append(sent, tid)
		return tid
	}, task.Unblock, "unblockTask", args{"feedback": "the reviewer asks for tests"})
	for _, tid := range sent {
		w.launched(tid)
		w.report(tid, turn.Response{})
		w.at(tid, task.Blocked) // it is work again, and not restored
	}
	tid := w.submitted("")
	w.refused(w.owner(), refusal.FeedbackRequired, "unblockTask", args{"task_id": string(tid), "feedback": " "})
	w.refused(w.owner(), refusal.StatusNotAllowed, "resumeTask", args{"task_id": string(tid)})
	w.stays(tid, task.Submitted)
}
