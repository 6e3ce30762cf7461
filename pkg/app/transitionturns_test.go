package app_test

import (
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// turnRows are the moves into a turn and out of one.
func turnRows() []moveRow {
	return []moveRow{
		{"TR-02", task.Backlog, task.Working, startsFromBacklog},
		{"TR-06", task.Working, task.Blocked, completesWithNothingPending},
		{"TR-07", task.Working, task.Blocked, failsForAPerson},
		{"TR-10", task.Working, task.Conflict, completesWithViolations},
		{"TR-12", task.Working, task.Conflict, parksWithViolations},
		{"TR-16", task.Working, task.Interrupted, runnerIsGone},
		{"TR-17", task.Working, task.Interrupted, watchdogEndsTheTurn},
		{"TR-18", task.Working, task.Interrupted, stopEndsTheTurn},
		{"TR-54", task.Interrupted, task.Working, resumesByItself},
		{"TR-55", task.Interrupted, task.Working, resumesAnInterruption},
		{"TR-56", task.Interrupted, task.Working, answersLate},
	}
}

func startsFromBacklog(w *walk) {
	w.each(func(parent id.Task) id.Task {
		tid := w.fresh(parent)
		if got := w.load(tid); got.HadSession || got.Workspace != nil || got.Epoch != 0 {
			w.t.Errorf("before its start it has %+v", got)
		}
		return tid
	}, task.Start, "startTask", args{})
	tid := w.fresh("")
	in := args{"task_id": string(tid)}
	// Somebody else's start comes between this one's look and its write: the claim is
	// his, and the loser has written nothing.
	w.log.before(meta(tid), func() { do[app.Begun](w.rig, w.builder(), "startTask", in) })
	w.refusedAfter(w.owner(), refusal.TaskBusy, "startTask", in)
	w.moved(tid, task.Start, identity.BuilderRole)
	runs := w.runner.count()
	w.launched(tid)
	if got := w.load(tid); got.Epoch != 1 || !got.Claimed || !got.HadSession || got.Workspace == nil || w.runner.count() != runs+1 {
		w.t.Errorf("after its start: %+v, %d runs", got, w.runner.count()-runs)
	}
	w.refused(w.owner(), refusal.TaskBusy, "startTask", in)
	w.report(tid, turn.Response{})
	w.refused(w.owner(), refusal.StatusNotAllowed, "startTask", in)

	// A held start begins when what held it is over, with nobody asking.
	p := &walk{rig: paused(w.t, 0.99), id: w.id, from: w.from, to: w.to, seen: w.seen}
	parent := p.working("parent", "")
	kid := do[app.Created](p.rig, p.agent(parent), "lazy_create", args{"goal": "kid", "prompt": "p", "agent": "paid"}).TaskID
	if held := do[app.Begun](p.rig, p.agent(parent), "lazy_start", args{"task_id": string(kid)}); !held.Held {
		p.t.Errorf("it was not held: %+v", held)
	}
	p.park(parent)
	p.sweep(time.Hour)
	p.stays(kid, task.Backlog)
	p.sweep(4 * time.Hour)
	p.moved(kid, task.Start, identity.Agent) // whose wish it was
}

func completesWithNothingPending(w *walk) {
	tid := w.running("")
	w.edits(tid, "a.txt")
	w.report(tid, turn.Response{})
	w.moved(tid, task.TurnCompleted, identity.System)
	if got := w.load(tid); got.Claimed || got.Tip == got.Base {
		w.t.Errorf("at rest: %+v", got)
	}
	again := w.running("")
	w.edits(again, "deploy/run.sh")
	w.report(again, turn.Response{})
	w.stays(again, task.Conflict)
}

func failsForAPerson(w *walk) {
	for _, class := range []turn.Class{turn.FatalAuth, turn.FatalConfig, turn.Unreachable} {
		tid := w.running("")
		w.report(tid, turn.Response{Outcome: "error", Failure: &turn.Failure{Class: class, Reason: "no such model"}})
		h := w.moved(tid, task.TurnFailed, identity.System)
		if want := string(class) + ": no such model"; h.Reason != want || w.load(tid).Why != want {
			w.t.Errorf("the record says %q and %q, want %q", h.Reason, w.load(tid).Why, want)
		}
		w.edits(w.unblocked(tid), "a.txt")
		w.report(tid, turn.Response{Outcome: "error", Failure: &turn.Failure{Class: class, Reason: "again"}})
		w.moved(tid, task.TurnFailed, identity.System)
		execs := w.engine.recoveries()
		w.drain(tid)
		w.sweep(3 * time.Hour)
		if n := w.engine.recoveries(); n != execs || w.load(tid).Status != task.Blocked {
			w.t.Errorf("%d recoveries of it were started, it is %s", n-execs, w.load(tid).Status)
		}
	}
	retried := w.running("")
	w.report(retried, turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.Unknown, Reason: "overloaded"}})
	w.stays(retried, task.Interrupted)
}

// unblocked gives a resting task another turn, up to its running agent.
func (w *walk) unblocked(tid id.Task) id.Task {
	w.t.Helper()
	do[app.Begun](w.rig, w.owner(), "unblockTask", args{"task_id": string(tid), "feedback": "go on"})
	w.launched(tid)
	return tid
}

func completesWithViolations(w *walk) {
	tid := w.running("")
	w.edits(tid, "deploy/run.sh")
	w.report(tid, turn.Response{})
	w.moved(tid, task.TurnCompleted, identity.System)
	// The next turn leaves the file alone: what is unresolved keeps its label.
	w.edits(w.unblocked(tid), "a.txt")
	w.report(tid, turn.Response{})
	w.moved(tid, task.TurnCompleted, identity.System)
	if got := w.load(tid).Pending(); got != 1 {
		w.t.Errorf("%d violations are pending", got)
	}
	clean := w.running("")
	w.edits(clean, "b.txt")
	w.report(clean, turn.Response{})
	w.stays(clean, task.Blocked)
}

func parksWithViolations(w *walk) {
	fatal := turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.FatalConfig, Reason: "no such model"}}
	for _, file := range []string{"deploy/run.sh", "a.txt"} {
		tid := w.running("")
		w.edits(tid, file)
		w.report(tid, fatal)
		if file == "a.txt" {
			w.stays(tid, task.Blocked)
			continue
		}
		w.moved(tid, task.TurnFailed, identity.System)
		for _, verb := range []string{"askTask", "syncTask"} {
			in := args{"task_id": string(tid)}
			if verb == "askTask" {
				in["question"] = "why?"
			}
			for _, end := range []turn.Response{{}, fatal} {
				do[app.Begun](w.rig, w.owner(), verb, in)
				w.launched(tid)
				w.report(tid, end)
				w.moved(tid, task.Restored, identity.System)
			}
			do[app.Begun](w.rig, w.owner(), verb, in)
			w.launched(tid)
			do[app.Stopped](w.rig, w.owner(), "stopTask", args{"task_id": string(tid)})
			w.report(tid, turn.Response{Outcome: "stopped", Stopped: turn.StopAsked})
			w.moved(tid, task.Restored, identity.System)
		}
	}
}

func runnerIsGone(w *walk) {
	tid := w.running("")
	w.clock.advance(29 * time.Second)
	w.dies(tid)
	if got := w.confirm(tid); got != "wait" {
		w.t.Errorf("a turn of 29 s is found %s", got)
	}
	p := app.Payload{Tenant: tenant, Turn: string(w.load(tid).Turn)}
	if _, err := w.Steps()["crash.v1"](w.t.Context(), p); fault.KindOf(err) != fault.Conflict {
		w.t.Errorf("a turn of 29 s was taken for crashed: %v", err)
	}
	w.stays(tid, task.Working)
	w.clock.advance(time.Second)
	if got := w.confirm(tid); got != "gone" {
		w.t.Errorf("a turn of 30 s is found %s", got)
	}
	w.steps(tid, "crash.v1")
	if h := w.moved(tid, task.RunnerGone, identity.System); h.Reason != "killed" {
		w.t.Errorf("the record says %q", h.Reason)
	}
	// One that left a response has not crashed.
	done := w.running("")
	w.clock.advance(time.Minute)
	w.dies(done)
	who := w.supervisor(done)
	if _, err := w.Report(w.t.Context(), who, turn.Response{Turn: who.Turn, Epoch: who.Epoch, Outcome: "ok"}); err != nil {
		w.t.Fatal(err)
	}
	if got := w.confirm(done); got != "settled" {
		w.t.Errorf("a run with a response is found %s", got)
	}
	w.steps(done, "record.v1", "decide.v1")
	w.stays(done, task.Blocked)
}

func watchdogEndsTheTurn(w *walk) {
	for _, end := range []turn.Response{
		{Outcome: "stopped", Stopped: turn.StopWatchdog},
		{Outcome: "error", Failure: &turn.Failure{Class: turn.Unknown, Reason: "it died 3 times within 10 s", Attempts: 3}},
	} {
		tid := w.running("")
		w.report(tid, end)
		h := w.moved(tid, task.Watchdog, identity.System)
		if !strings.Contains(h.Reason, "watchdog") && !strings.Contains(h.Reason, "3 times") {
			w.t.Errorf("the record says %q", h.Reason)
		}
		if !w.recovered(tid) {
			w.t.Errorf("it was not resumed: %s", w.way(tid))
		}
	}
	aged := w.running("")
	w.report(aged, turn.Response{Outcome: "stopped", Stopped: turn.StopAge})
	w.stays(aged, task.Blocked)
}

func stopEndsTheTurn(w *walk) {
	for _, m := range w.movers() {
		for _, verb := range []string{"stopTask", "rejectTask", "closeTask"} {
			tid := w.running(m.parent)
			in := args{"task_id": string(tid)}
			if verb != "stopTask" {
				in["reason"] = "not this way"
			}
			w.denied(w.agent(tid), verb, in) // it would end the very turn that asks
			w.denied(w.operator(), verb, in)
			w.act(m.who(), verb, in)
			w.at(tid, task.Working) // until the run has ended
			if got := w.beat(tid, turn.BeatIn{State: "running"}).Stop; got != turn.StopAsked {
				w.t.Errorf("the run is told %q", got)
			}
			w.report(tid, turn.Response{Outcome: "stopped", Stopped: turn.StopAsked})
			w.moved(tid, task.Stop, m.role)
			w.drain(tid)
			if verb != "stopTask" {
				if got := w.way(tid); got != "backlog working interrupted abandoned" {
					w.t.Errorf("after %s it went %s", verb, got)
				}
				continue
			}
			execs := w.engine.recoveries()
			w.sweep(3 * time.Hour)
			if w.recovered(tid) || w.engine.recoveries() != execs || w.load(tid).Status != task.Interrupted {
				w.t.Errorf("a stopped task was resumed: %s", w.way(tid))
			}
		}
	}
	tid := w.blocked("")
	w.refused(w.owner(), refusal.StatusNotAllowed, "stopTask", args{"task_id": string(tid)})
	w.stays(tid, task.Blocked)
}

func resumesByItself(w *walk) {
	tid := w.interrupted("")
	if !w.recovered(tid) {
		w.t.Fatalf("it was not resumed: %s", w.way(tid))
	}
	w.moved(tid, task.AutoResume, identity.System)
	w.steps(tid, "resume.v1") // a second delivery of the step
	if got := w.load(tid); got.Epoch != 2 || got.Resumes != 1 {
		w.t.Errorf("resumed twice it has epoch %d and %d resumes", got.Epoch, got.Resumes)
	}
	// The breaker: it stays down for a person.
	w.launched(tid)
	w.crashes(tid)
	if !w.recovered(tid) {
		w.t.Fatalf("it was not resumed a second time: %s", w.way(tid))
	}
	w.moved(tid, task.AutoResume, identity.System)
	w.launched(tid)
	w.crashes(tid)
	if w.recovered(tid) {
		w.t.Errorf("it was resumed a third time: %s", w.way(tid))
	}
	for _, kept := range []struct {
		what string
		edit func(*task.Task)
	}{
		{"held", func(t *task.Task) { t.Hold = true }},
		{"given up", func(t *task.Task) { t.Interruptions = 3 }},
		{"in a merge", func(t *task.Task) { t.MidMerge = []string{"a.txt"} }},
		{"never started", func(t *task.Task) { t.Launches = 3 }},
	} {
		tid := w.interrupted("")
		if err := w.EditTaskRow(w.t.Context(), tenant, tid, kept.edit); err != nil {
			w.t.Fatal(err)
		}
		w.steps(tid, "resume.v1")
		if got := w.load(tid); got.Status != task.Interrupted || got.Epoch != 1 {
			w.t.Errorf("one that is %s became %s", kept.what, got.Status)
		}
	}
}

func resumesAnInterruption(w *walk) {
	tripped := func(parent id.Task) id.Task {
		tid := w.interrupted(parent)
		if err := w.EditTaskRow(w.t.Context(), tenant, tid, func(t *task.Task) { t.Interruptions, t.Resumes, t.Hold = 3, 2, true }); err != nil {
			w.t.Fatal(err)
		}
		return tid
	}
	var last id.Task
	ready := func(parent id.Task) id.Task { last = tripped(parent); return last }
	for _, verb := range []struct {
		on   task.Trigger
		name string
		in   args
	}{{task.Resume, "resumeTask", args{}}, {task.Unblock, "unblockTask", args{"feedback": "mind the disk"}}} {
		w.each(ready, verb.on, verb.name, verb.in)
		if got := w.load(last); got.Interruptions+got.Resumes != 0 || got.Hold {
			w.t.Errorf("after a %s the breaker stands at %d and %d, hold %t", verb.on, got.Interruptions, got.Resumes, got.Hold)
		}
	}
	w.refused(w.owner(), refusal.FeedbackRequired, "unblockTask", args{"task_id": string(tripped("")), "feedback": " \n"})
}

func answersLate(w *walk) {
	for _, late := range []struct {
		file string
		rest task.Status
	}{{"a.txt", task.Blocked}, {"deploy/run.sh", task.Conflict}} {
		tid := w.running("")
		who := w.supervisor(tid)
		w.edits(tid, late.file)
		w.crashes(tid)
		ack, err := w.Report(w.t.Context(), who, turn.Response{Turn: who.Turn, Epoch: who.Epoch, Outcome: "ok", Text: "done after all"})
		if err != nil || ack.History {
			w.t.Fatalf("a late answer: %+v, %v", ack, err)
		}
		w.drain(tid)
		w.moved(tid, task.LateAnswer, identity.System)
		w.at(tid, late.rest)
		w.drain(tid)
		w.at(tid, late.rest)
	}
	// Of a run that its task has gone on from it is history.
	tid := w.running("")
	who := w.supervisor(tid)
	w.crashes(tid)
	do[app.Begun](w.rig, w.owner(), "resumeTask", args{"task_id": string(tid)})
	if ack, err := w.Report(w.t.Context(), who, turn.Response{Turn: who.Turn, Epoch: who.Epoch, Outcome: "ok"}); err != nil || !ack.History {
		w.t.Errorf("an answer of a succeeded run: %+v, %v", ack, err)
	}
	w.drain(tid)
	w.stays(tid, task.Working)
}
