package app

import (
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// verdict says what comes next, and what a person can do about it. Every status
// has an answer.
func (x *explainer) verdict() {
	name := x.t.Code
	if name == "" {
		name = x.t.ID.Short()
	}
	say := func(next string, do ...string) {
		x.out.Next = next
		for _, d := range do {
			x.out.Do = append(x.out.Do, strings.ReplaceAll(d, "TASK", name))
		}
	}
	switch t := x.t; t.Status {
	case task.Backlog:
		if waits(t) {
			say("It starts by itself: it waits for "+waitText(t)+".", "lazy start TASK")
			return
		}
		say("Nothing, until somebody starts it.", "lazy start TASK")
	case task.Working:
		x.working(say)
	case task.Interrupted:
		x.interrupted(say)
	case task.Blocked:
		say("Nothing: it waits for a person.", "lazy show TASK", "lazy accept TASK", `lazy unblock TASK -m "…"`)
	case task.Conflict:
		say("Nothing: it changed protected files, and a person decides.", "lazy diff TASK", "lazy accept TASK --approve-file FILE", `lazy unblock TASK -m "…"`)
	case task.Submitted:
		say("Nothing: it awaits review.", "lazy accept TASK", `lazy unblock TASK -m "…"`)
	case task.Merging:
		if acceptGivenUp(t) {
			say("Nothing: its accept failed too often and waits for a person.", "lazy accept TASK", "lazy close TASK")
			return
		}
		say(fmt.Sprintf("The accept goes on; if its flow ends it is resumed, at most %d times.", names.AcceptResumes), "lazy accept TASK")
	case task.Pairing:
		say("It comes to rest a minute after the pairing client was last there.")
	case task.Zombie:
		say("It becomes complete by itself: its work is in its target.")
	case task.Complete, task.Abandoned:
		if t.Workspace != nil && t.Workspace.Kept != "" {
			say("Nothing: its workspace holds edits that no patch can hold, and was kept.", "lazy show TASK", "lazy reopen TASK")
			return
		}
		if t.Workspace != nil {
			say("It is cleaned up: that is tried again, with growing pauses, until it succeeds.", "lazy doctor --deep")
			return
		}
		say("Nothing: it is over.", "lazy reopen TASK")
	default:
		say("Nothing is known about this status.", "lazy doctor --deep")
	}
}

func (x *explainer) working(say func(string, ...string)) {
	switch {
	case x.run.Stop != "":
		say("It was asked to stop; its supervisor is asked to end, then killed, and the turn is settled once it is gone.", "lazy show TASK")
	case x.t.Wait != nil && x.t.Wait.Aged:
		say(fmt.Sprintf("The service asked for a longer wait than a turn may last: it comes to rest at %s.", stamp(x.t.Wait.Until)),
			`lazy unblock TASK -m "…"`, "lazy stop TASK")
	case x.t.Wait != nil:
		say(fmt.Sprintf("The agent is run again at %s, in the same turn.", stamp(x.t.Wait.Until)),
			"lazy stop TASK", `lazy unblock TASK -m "…"`, "lazy resume TASK")
	case x.rep.Sight == runner.Gone && x.run.State == RunReported:
		say("Its report is here and is settled within seconds.", "lazy show TASK")
	case x.rep.Sight == runner.Gone:
		say(fmt.Sprintf("Its process is gone: it is interrupted once the turn is %s old, and goes on by itself.", names.DeadTurnGrace), "lazy show TASK", "lazy stop TASK")
	case x.run.Hello.IsZero():
		say("Its run is being prepared and launched.", "lazy watch TASK", "lazy stop TASK")
	case len(x.run.Waiting) > 0:
		say(fmt.Sprintf("Its agent waits for %s.", joined(x.run.Waiting)), "lazy list", "lazy stop TASK")
	case x.run.Retry != "":
		say("The agent is tried again by itself.", "lazy stop TASK")
	default:
		say(fmt.Sprintf("The agent works. Without a finished step for %s it is ended and started once more; the turn ends after %s at the latest.",
			names.Watchdog, names.TurnAge), "lazy watch TASK", "lazy stop TASK")
	}
}

func (x *explainer) interrupted(say func(string, ...string)) {
	t := x.t
	switch {
	case t.Then != nil:
		say("It ends as was asked, as soon as its run is gone.")
	case t.Hold:
		say("Nothing: somebody stopped it, and it is held.", "lazy resume TASK", `lazy unblock TASK -m "…"`, "lazy close TASK")
	case len(t.MidMerge) > 0:
		say("Nothing: it is not resumed into a conflict nobody saw.", "lazy diff TASK", `lazy unblock TASK -m "…"`)
	case waits(t):
		say("It goes on by itself: it waits for "+waitText(t)+".", "lazy resume TASK", "lazy close TASK")
	case t.Interruptions >= names.Breaker:
		say(fmt.Sprintf("Nothing: %d turns in a row were cut off, so the breaker is open.", t.Interruptions), "lazy show TASK", "lazy resume TASK")
	case t.Launches >= names.Breaker:
		say(fmt.Sprintf("Nothing: %d launches in a row never started, so the breaker is open. Correct the cause first.", t.Launches), "lazy show TASK", "lazy resume TASK")
	case t.Resumes >= names.AutoResumes:
		say(fmt.Sprintf("Nothing: it was resumed %d times in a row.", t.Resumes), "lazy show TASK", "lazy resume TASK")
	default:
		d := names.ResumeDelays()
		say(fmt.Sprintf("It goes on by itself %s after the interruption, within a minute of its next look.", d[min(t.Resumes, len(d)-1)]), "lazy resume TASK")
	}
}
