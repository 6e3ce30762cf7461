package app_test

import (
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// mergeRows are the moves into the merge phase and out of it.
func mergeRows() []moveRow {
	return []moveRow{
		{"TR-31", task.Blocked, task.Merging, acceptsBlocked},
		{"TR-41", task.Conflict, task.Merging, acceptsConflict},
		{"TR-48", task.Submitted, task.Merging, acceptsSubmitted},
		{"TR-64", task.Merging, task.Complete, landed},
		{"TR-66", task.Merging, task.Conflict, abortsToConflict},
		{"TR-67", task.Merging, task.Submitted, abortsToSubmitted},
	}
}

// endRows are the moves into the two terminal statuses and out of them.
func endRows() []moveRow {
	return []moveRow{
		{"TR-04", task.Backlog, task.Abandoned, closesBacklog},
		{"TR-32", task.Blocked, task.Abandoned, func(w *walk) { w.gives(w.blocked) }},
		{"TR-34", task.Blocked, task.Zombie, func(w *walk) { w.foundMerged(w.blocked) }},
		{"TR-42", task.Conflict, task.Abandoned, func(w *walk) { w.gives(w.conflict) }},
		{"TR-43", task.Conflict, task.Zombie, func(w *walk) { w.foundMerged(w.conflict) }},
		{"TR-53", task.Submitted, task.Zombie, func(w *walk) { w.foundMerged(w.submitted) }},
		{"TR-59", task.Interrupted, task.Abandoned, func(w *walk) { w.gives(w.unresumed) }},
		{"TR-60", task.Interrupted, task.Zombie, func(w *walk) { w.foundMerged(w.unresumed) }},
		{"TR-69", task.Zombie, task.Complete, confirmsZombie},
		{"TR-70", task.Complete, task.Blocked, reopensComplete},
		{"TR-71", task.Complete, task.Backlog, reopensCompleteWithoutSession},
		{"TR-72", task.Abandoned, task.Backlog, reopensAbandoned},
		{"TR-73", task.Abandoned, task.Blocked, reopensAbandonedWork},
	}
}

func acceptsBlocked(w *walk) {
	var last id.Task
	w.each(func(parent id.Task) id.Task {
		last = w.blocked(parent)
		return last
	}, task.Accept, "acceptTask", args{"reason": "it is good"})
	if got := w.load(last); got.Prior != task.Blocked || !got.Claimed || got.Epoch != 2 || got.Accept == nil {
		w.t.Errorf("in its merge phase it has %+v", got)
	}
	no := w.running("")
	in := args{"task_id": string(no)}
	w.refused(w.owner(), refusal.TaskBusy, "acceptTask", in)
	w.edits(no, "a.txt")
	item := w.raised(no, "Which one?", true)
	w.report(no, turn.Response{})
	w.refused(w.owner(), refusal.RaisedUnresolved, "acceptTask", in)
	do[app.Resolutions](w.rig, w.owner(), "resolveRaised", resolutions(resolve(item, "dismiss")))
	do[app.Commented](w.rig, w.owner(), "addComment", args{"task_id": string(no), "message": "one more thing"})
	w.refused(w.builder(), refusal.QueuedComments, "acceptTask", in)
	w.refused(w.owner(), refusal.QueuedComments, "acceptTask", in)
	w.repo.dirty[string(no)] = []string{"left.txt"}
	w.refused(w.owner(), refusal.Uncommitted, "acceptTask", in)
	w.repo.unmerged[string(no)] = []string{"a.txt"}
	w.refused(w.owner(), refusal.UnresolvedMerge, "acceptTask", in)
	w.repo.overlap["main"] = []string{"a.txt"}
	delete(w.repo.dirty, string(no))
	delete(w.repo.unmerged, string(no))
	w.refused(w.owner(), refusal.TargetOverlap, "acceptTask", args{"task_id": string(no), "allow_queued_comments": true})
	delete(w.repo.overlap, "main")
	idle := w.running("")
	w.report(idle, turn.Response{})
	w.denied(w.owner(), "acceptTask", args{"task_id": string(idle)}) // nothing to merge
	parent := w.blocked("")
	kid := w.blocked(parent)
	w.unblocked(parent)
	w.refused(w.owner(), refusal.ParentActive, "acceptTask", args{"task_id": string(kid)})
	w.stays(no, task.Blocked)
}

func acceptsConflict(w *walk) {
	for _, a := range w.movers() {
		tid := w.conflict(a.parent)
		one, two := "deploy/"+tid.Short()+"-a", "deploy/"+tid.Short()+"-b"
		for _, approved := range [][]string{nil, {one}, {two, "README"}} {
			in := args{"task_id": string(tid), "approved_files": approved}
			if approved == nil {
				delete(in, "approved_files")
			}
			err := w.refused(a.who(), refusal.ProtectedPending, "acceptTask", in)
			for _, f := range []string{one, two} {
				if says := slices.Contains(listed(err), f); says == slices.Contains(approved, f) {
					w.t.Errorf("with %v approved the refusal names %v", approved, listed(err))
				}
			}
		}
		w.act(a.who(), "acceptTask", args{"task_id": string(tid), "approved_files": []string{one, two}})
		w.moved(tid, task.Accept, a.role)
		if got := w.load(tid); got.Prior != task.Conflict || got.Pending() != 0 {
			w.t.Errorf("prior %s, %d pending", got.Prior, got.Pending())
		}
	}
}

// listed is the paths a refusal names.
func listed(err error) []string {
	paths, _ := fault.Of(err).Details["paths"].([]string)
	return paths
}

func acceptsSubmitted(w *walk) {
	var last id.Task
	w.each(func(parent id.Task) id.Task {
		last = w.submitted(parent)
		return last
	}, task.Accept, "acceptTask", args{})
	tid := w.submitted("")
	tip := w.load(tid).Tip
	w.act(w.owner(), "acceptTask", args{"task_id": string(tid)})
	w.moved(tid, task.Accept, identity.Human)
	if got := w.load(tid); got.Prior != task.Submitted || got.Accept.Tip != tip {
		w.t.Errorf("it merges %s, prior %s; what was reviewed is %s", got.Accept.Tip, got.Prior, tip)
	}
	w.merges(tid)
	file := tid.Short() + ".txt"
	if head := w.repo.head("main"); w.repo.commits[head].files[file] != w.repo.commits[tip].files[file] {
		w.t.Errorf("main has %q of the reviewed branch", w.repo.commits[head].files[file])
	}
}

func landed(w *walk) {
	for _, a := range w.movers() {
		tid := w.blocked(a.parent)
		w.act(a.who(), "acceptTask", args{"task_id": string(tid)})
		if err := w.acceptStep(tid, "complete.v1", nil); err == nil {
			w.t.Error("it was completed before anything landed")
		}
		w.stays(tid, task.Merging)
		w.merges(tid)
		w.moved(tid, task.Landed, a.role)
		got := w.load(tid)
		if on, err := w.repo.Contains(w.t.Context(), got.Target, got.Merge); err != nil || !on || got.Merge == "" {
			w.t.Errorf("%s is on %s: %t, %v", got.Merge, got.Target, on, err)
		}
		w.merges(tid) // told again
		if err := w.acceptStep(tid, "abort.v1", fault.New(fault.Conflict, "late")); err != nil {
			w.t.Error(err)
		}
		w.at(tid, task.Complete)
	}
	// One that died behind its merge is found merged: by the flow the sweep begins.
	tid := w.blocked("")
	w.act(w.owner(), "acceptTask", args{"task_id": string(tid)})
	for _, step := range []string{"describe.v1", "intent.v1", "land.v1"} {
		if err := w.acceptStep(tid, step, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	head, acc := w.repo.head("main"), w.load(tid).Accept
	if err := w.engine.Start(w.t.Context(), "accept", acc.Operation+"-1", nil); err != nil {
		w.t.Fatal(err)
	}
	if err := w.engine.Stop(w.t.Context(), "accept", acc.Operation+"-1", "killed"); err != nil {
		w.t.Fatal(err)
	}
	w.sweep(time.Hour)
	if n := w.load(tid).Accept.N; n != acc.N+1 {
		w.t.Errorf("it is at execution %d, and was at %d", n, acc.N)
	}
	w.merges(tid)
	w.moved(tid, task.Landed, identity.Human)
	if now := w.repo.head("main"); now != head {
		w.t.Errorf("it was merged a second time: main went from %s to %s", head, now)
	}
}

// clash moves the target of a task so that its work cannot be merged any more.
func (w *walk) clash(tid id.Task, file string) {
	w.repo.mu.Lock()
	head := w.repo.branches["main"]
	w.repo.mu.Unlock()
	next := w.repo.commit(head, "meanwhile", map[string]string{file: "theirs " + tid.Short() + "\n"})
	w.repo.mu.Lock()
	defer w.repo.mu.Unlock()
	w.repo.branches["main"] = next
}

func abortsToConflict(w *walk) {
	for _, a := range []struct {
		role identity.Role
		who  identity.Caller
	}{{identity.Human, w.owner()}, {identity.BuilderRole, w.builder()}} {
		tid := w.conflict("")
		one, two := "deploy/"+tid.Short()+"-a", "deploy/"+tid.Short()+"-b"
		w.act(a.who, "acceptTask", args{"task_id": string(tid), "approved_files": []string{one, two}})
		w.clash(tid, one)
		w.merges(tid)
		w.moved(tid, task.Aborted, a.role)
		// The last approval was this accept's own: the prior status comes back all the
		// same, and the approvals stay given.
		if got := w.load(tid); got.Claimed || got.Pending() != 0 || len(got.Violations) != 2 {
			w.t.Errorf("after the abort: %+v", got)
		}
	}
	// A violation that turns up in the merge phase overrides a prior blocked.
	tid := w.blocked("")
	w.act(w.owner(), "acceptTask", args{"task_id": string(tid)})
	if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) { t.Violations = []task.Violation{{Path: "deploy/x"}} }); err != nil {
		w.t.Fatal(err)
	}
	w.clash(tid, tid.Short()+".txt")
	w.merges(tid)
	w.moved(tid, task.Aborted, identity.Human)
	plain := w.blocked("")
	w.act(w.owner(), "acceptTask", args{"task_id": string(plain)})
	w.clash(plain, plain.Short()+".txt")
	w.merges(plain)
	w.stays(plain, task.Blocked)
}

func abortsToSubmitted(w *walk) {
	for _, a := range []struct {
		role identity.Role
		who  identity.Caller
	}{{identity.Human, w.owner()}, {identity.BuilderRole, w.builder()}} {
		tid := w.submitted("")
		w.act(a.who, "acceptTask", args{"task_id": string(tid)})
		w.clash(tid, tid.Short()+".txt")
		w.merges(tid)
		w.moved(tid, task.Aborted, a.role)
		if w.load(tid).Claimed {
			w.t.Error("the accept still holds it")
		}
	}
	plain := w.blocked("")
	w.act(w.owner(), "acceptTask", args{"task_id": string(plain)})
	w.clash(plain, plain.Short()+".txt")
	w.merges(plain)
	w.stays(plain, task.Blocked)
}

func closesBacklog(w *walk) {
	w.each(w.fresh, task.Close, "closeTask", args{"reason": "not needed"})
	if n := w.runner.count(); n != 0 {
		w.t.Errorf("%d runs were launched", n)
	}
	tid := w.fresh("")
	w.denied(w.owner(), "closeTask", args{"task_id": string(tid)})
	w.denied(w.owner(), "rejectTask", args{"task_id": string(tid), "reason": "there is nothing to reject"})
	w.stays(tid, task.Backlog)
}

// unresumed is an interrupted task that is not resumed by itself.
func (w *walk) unresumed(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.interrupted(parent)
	if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) { t.Hold = true }); err != nil {
		w.t.Fatal(err)
	}
	return tid
}

// gives proves that a resting task is rejected, and closed, by everybody who may.
func (w *walk) gives(ready func(parent id.Task) id.Task) {
	w.t.Helper()
	var last id.Task
	made := func(parent id.Task) id.Task { last = ready(parent); return last }
	w.each(made, task.Reject, "rejectTask", args{"reason": "not this way"})
	w.each(made, task.Close, "closeTask", args{"reason": "not needed any more"})
	w.drain(last)
	if got := w.load(last); got.Claimed || got.Workspace != nil || !slices.Contains(w.repo.removed, string(last)) {
		w.t.Errorf("after its end it has %+v", got)
	}
	tid := ready("")
	for _, verb := range []string{"rejectTask", "closeTask"} {
		w.denied(w.owner(), verb, args{"task_id": string(tid)})
		w.denied(w.owner(), verb, args{"task_id": string(tid), "reason": " "})
	}
	w.stays(tid, w.from)
}

// foundMerged proves that the system alone, on finding the work in its target, leads
// a task on by way of zombie.
func (w *walk) foundMerged(ready func(parent id.Task) id.Task) {
	w.t.Helper()
	tid, other := ready(""), ready("")
	w.sweep(time.Hour)
	w.at(tid, w.from)
	w.repo.absorb(tid)
	w.sweep(time.Hour)
	w.moved(tid, task.FoundMerged, identity.System)
	w.at(tid, task.Complete)
	w.stays(other, w.from)
	if got := w.load(tid); got.Merge != w.repo.head("main") {
		w.t.Errorf("its merge is %s", got.Merge)
	}
}

func confirmsZombie(w *walk) {
	tid := w.blocked("")
	w.repo.absorb(tid)
	w.sweep(time.Hour)
	w.moved(tid, task.Confirmed, identity.System)
	if got := w.way(tid); got != "backlog working blocked zombie complete" {
		w.t.Errorf("it went %s", got)
	}
	// One that was left there goes on only once its work is in its target.
	left := w.blocked("")
	if err := w.EditTaskRow(w.t.Context(), tenant, left, func(t *task.Task) { t.Status = task.Zombie }); err != nil {
		w.t.Fatal(err)
	}
	for _, verb := range []string{"resumeTask", "acceptTask", "stopTask"} {
		w.refused(w.owner(), refusal.StatusNotAllowed, verb, args{"task_id": string(left)})
	}
	w.denied(w.owner(), "closeTask", args{"task_id": string(left), "reason": "x"})
	w.sweep(time.Hour)
	w.stays(left, task.Zombie)
	w.repo.absorb(left)
	w.sweep(time.Hour)
	w.moved(left, task.Confirmed, identity.System)
}

// completed is a task that was accepted and cleaned up.
func (w *walk) completed(tid id.Task) id.Task {
	w.t.Helper()
	w.act(w.owner(), "acceptTask", args{"task_id": string(tid)})
	w.merges(tid)
	w.at(tid, task.Complete)
	return tid
}

// reopens proves that a finished task is taken up again by everybody who may.
func (w *walk) reopens(ready func(parent id.Task) id.Task) id.Task {
	w.t.Helper()
	var last id.Task
	w.each(func(parent id.Task) id.Task {
		last = ready(parent)
		return last
	}, task.Reopen, "reopenTask", args{"reason": "one thing is missing"})
	return last
}

func (w *walk) acceptedBy(tid, parent id.Task) id.Task {
	w.t.Helper()
	if parent == "" {
		return w.completed(tid)
	}
	w.act(w.agent(parent), "acceptTask", args{"task_id": string(tid)})
	w.merges(tid)
	w.at(tid, task.Complete)
	return tid
}

func reopensComplete(w *walk) {
	last := w.reopens(func(parent id.Task) id.Task { return w.acceptedBy(w.blocked(parent), parent) })
	if got := w.load(last); got.Session != "" || got.Merge != "" || got.Tip != "" || got.Commits != 0 {
		w.t.Errorf("reopened it has %+v", got)
	}
	tid := w.completed(w.blocked(""))
	w.refused(w.owner(), refusal.InvalidArguments, "reopenTask", args{"task_id": string(tid)})
	w.refused(w.owner(), refusal.InvalidArguments, "reopenTask", args{"task_id": string(tid), "reason": " \n"})
	w.stays(tid, task.Complete)
}

// neverRan is a task whose branch came from elsewhere, at rest.
func (w *walk) neverRan(parent id.Task) id.Task {
	w.t.Helper()
	tid := w.backlogWithCommits(parent)
	w.sweep(0)
	w.sweep(0)
	w.at(tid, task.Blocked)
	return tid
}

func reopensCompleteWithoutSession(w *walk) {
	last := w.reopens(func(parent id.Task) id.Task { return w.acceptedBy(w.neverRan(parent), parent) })
	if got := w.load(last); got.HadSession || got.Merge != "" {
		w.t.Errorf("reopened it has %+v", got)
	}
	tid := w.completed(w.neverRan(""))
	w.refused(w.owner(), refusal.InvalidArguments, "reopenTask", args{"task_id": string(tid)})
	ran := w.completed(w.blocked(""))
	w.act(w.owner(), "reopenTask", args{"task_id": string(ran), "reason": "r"})
	w.stays(ran, task.Blocked)
}

// ended is a task that was closed and cleaned up.
func (w *walk) ended(tid id.Task) id.Task {
	w.t.Helper()
	w.act(w.owner(), "closeTask", args{"task_id": string(tid), "reason": "not now"})
	w.drain(tid)
	w.at(tid, task.Abandoned)
	return tid
}

func reopensAbandoned(w *walk) {
	w.reopens(func(parent id.Task) id.Task { return w.ended(w.fresh(parent)) })
	idle := w.running("")
	w.report(idle, turn.Response{})
	w.ended(idle)
	w.act(w.owner(), "reopenTask", args{"task_id": string(idle)}) // it ran, and left no work
	w.moved(idle, task.Reopen, identity.Human)
	worked := w.ended(w.blocked(""))
	w.act(w.owner(), "reopenTask", args{"task_id": string(worked)})
	w.stays(worked, task.Blocked)
}

func reopensAbandonedWork(w *walk) {
	last := w.reopens(func(parent id.Task) id.Task { return w.ended(w.blocked(parent)) })
	if got := w.load(last); got.Tip == got.Base || got.Commits != 1 {
		w.t.Errorf("reopened it has %+v", got)
	}
	w.refused(w.owner(), refusal.StatusNotAllowed, "reopenTask", args{"task_id": string(last), "reason": "r"})
}
