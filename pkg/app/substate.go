package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The states of a run item.
const (
	RunClaimed   = "claimed"
	RunPrepared  = "prepared"
	RunLaunching = "launching"
	RunLaunched  = "launched"
	RunRunning   = "running"
	RunReported  = "reported"
	RunStopping  = "stopping"
	RunGone      = "gone"
)

// Substate says who is active in a working task, or nothing (OB-019). It is the
// one formatter behind every listing, page and tool.
func Substate(l Live, run *turn.Run, now time.Time) string {
	s, _ := substate(l, run, now)
	return s
}

// substate also says whether the agent is the active one, which is when its
// progress line is shown (OB-036).
func substate(l Live, run *turn.Run, now time.Time) (s string, agent bool) {
	if l.Waits != "" {
		return "waiting on " + l.Waits, false
	}
	if l.Status != task.Working || run == nil || turn.Kind(l.Kind) == turn.Gate {
		return "", false
	}
	switch {
	case !run.Next.IsZero():
		return "harness:retrying: " + run.Retry, false
	case run.State == RunLaunching, run.State == RunLaunched:
		return "launching", false
	case run.State == RunGone:
		return "not-alive", false
	case run.State == RunClaimed, run.State == RunPrepared, run.State == RunReported:
		return "", false
	case run.Retry != "":
		return "harness:retrying: " + run.Retry, false
	case run.Phase != "":
		return "harness:" + run.Phase, false
	case !run.Beat.IsZero() && now.Sub(run.Beat) > names.BeatTimeout:
		return "", false // liveness unknown: a missed beat is looked into, not believed
	case len(run.Waiting) > 0 && now.Before(run.WaitUntil):
		return waitingOn(run.Waiting, now.Sub(run.WaitSince)), true
	case run.Running.IsZero():
		return "", false
	}
	switch turn.Kind(l.Kind) {
	case turn.Ask:
		return "agent:answering", true
	case turn.Review:
		return "agent:reviewing", true
	default:
		return "agent", true
	}
}

// waitingOn names at most two of the tasks an agent waits for (OB-030).
func waitingOn(labels []string, since time.Duration) string {
	shown, rest := labels, 0
	if len(shown) > names.NamedWaits {
		shown, rest = labels[:names.NamedWaits], len(labels)-names.NamedWaits
	}
	s := "waiting on " + strings.Join(shown, ", ")
	if rest > 0 {
		s += fmt.Sprintf(" +%d", rest)
	}
	return s + " (" + max(since, 0).Truncate(time.Second).String() + ")"
}

func progressOf(l Live, run *turn.Run, now time.Time) string {
	if _, agent := substate(l, run, now); agent {
		return run.Progress
	}
	return ""
}

// WithStatus is the status as people read it: its words, and in parentheses the
// substate with the agent's progress line where the agent is active.
func WithStatus(l Live, run *turn.Run, now time.Time) string {
	s, agent := substate(l, run, now)
	if s == "" {
		return l.Status.Words()
	}
	if agent && run.Progress != "" {
		s += ": " + run.Progress
	}
	return l.Status.Words() + "(" + s + ")"
}

// MergeState qualifies the status of a workspace left in the middle of a merge
// (OB-041, OT-013); "" when it is not.
func MergeState(unmerged []string) string {
	if len(unmerged) == 0 {
		return ""
	}
	var files []string
	for _, f := range unmerged {
		if f != "" {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return "unresolved merge — see the task's record for the files"
	}
	return "unresolved merge — " + strings.Join(files, ", ")
}

// FinalText is the declaration as it is shown beside the status (TE-012, TE-014).
func FinalText(d *task.Declaration) string {
	switch {
	case d == nil:
		return "not declared"
	case d.Moved:
		return fmt.Sprintf("declared final at %s; head has since moved (%s)", short(d.SHA), d.MovedBy)
	}
	return "declared final at " + short(d.SHA)
}
