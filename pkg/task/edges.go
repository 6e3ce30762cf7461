package task

import (
	"slices"

	"github.com/lazyplane/lazyplane/pkg/identity"
)

// Trigger is what asks for a change of status.
type Trigger string

// The triggers of the table.
const (
	Create        Trigger = "create"
	Start         Trigger = "start"
	Reconcile     Trigger = "reconcile"
	Close         Trigger = "close"
	FoundMerged   Trigger = "found_merged"
	TurnCompleted Trigger = "turn_completed"
	TurnFailed    Trigger = "turn_failed"
	GateFailed    Trigger = "gate_failed"
	Restored      Trigger = "restored"
	Relabel       Trigger = "relabel"
	RunnerGone    Trigger = "runner_gone"
	Watchdog      Trigger = "watchdog"
	Stop          Trigger = "stop"
	ForgeMerged   Trigger = "forge_merged"
	GatePassed    Trigger = "gate_passed"
	Unblock       Trigger = "unblock"
	Resume        Trigger = "resume"
	Ask           Trigger = "ask"
	Sync          Trigger = "sync"
	Review        Trigger = "review"
	Deliver       Trigger = "deliver"
	Gate          Trigger = "gate"
	Pair          Trigger = "pair"
	Submit        Trigger = "submit"
	Accept        Trigger = "accept"
	Reject        Trigger = "reject"
	AutoResume    Trigger = "auto_resume"
	Unretargeted  Trigger = "unretargeted"
	LateAnswer    Trigger = "late_answer"
	PairEnded     Trigger = "pair_ended"
	Landed        Trigger = "landed"
	Aborted       Trigger = "aborted"
	Confirmed     Trigger = "confirmed"
	Reopen        Trigger = "reopen"
)

// Edge is one row of the table.
type Edge struct {
	ID    string // row of the specification, for example "TR-22"
	From  Status
	To    Status
	On    []Trigger
	By    []identity.Role
	Guard Guard
	Why   string
}

// Edges returns the complete table of status changes. Every pair it does not
// hold is refused (SM-022).
func Edges() []Edge { return slices.Clone(edges) }

var edges = []Edge{
	{"TR-01", None, Backlog, []Trigger{Create}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "create, link, clone, redo"},
	{"TR-02", Backlog, Working, []Trigger{Start}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, "", "lazy start"},
	{"TR-03", Backlog, Blocked, []Trigger{Reconcile}, []identity.Role{identity.System}, GuardHasCommits, "reconcile"},
	{"TR-04", Backlog, Abandoned, []Trigger{Close}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy close"},
	{"TR-05", Backlog, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-06", Working, Blocked, []Trigger{TurnCompleted}, []identity.Role{identity.System}, GuardNothingPending, "turn completed (park)"},
	{"TR-07", Working, Blocked, []Trigger{TurnFailed}, []identity.Role{identity.System}, GuardNothingPending, "turn failed in a class retry cannot fix (park)"},
	{"TR-08", Working, Blocked, []Trigger{GateFailed}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardPriorBlocked, "acceptance gate failed"},
	{"TR-09", Working, Blocked, []Trigger{Restored}, []identity.Role{identity.System, identity.Human, identity.BuilderRole, identity.Agent}, GuardRestoresBlocked, "ask, sync or review ended, failed unretried or was stopped"},
	{"TR-10", Working, Conflict, []Trigger{TurnCompleted}, []identity.Role{identity.System}, GuardSomePending, "turn completed with new or unresolved violations"},
	{"TR-11", Working, Conflict, []Trigger{GateFailed}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardUndoesToConflict, "acceptance gate failed"},
	{"TR-12", Working, Conflict, []Trigger{TurnFailed, Restored, Relabel}, []identity.Role{identity.System}, GuardSomePending, "any other park or restore"},
	{"TR-13", Working, Submitted, []Trigger{Restored}, []identity.Role{identity.System}, GuardRestoresSubmitted, "sync or review turn ended or was stopped; auto-delivery turn ended"},
	{"TR-14", Working, Submitted, []Trigger{Restored}, []identity.Role{identity.System}, GuardRestoresSubmitted, "sync failed, class not retried; review failed"},
	{"TR-15", Working, Submitted, []Trigger{GateFailed}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardPriorSubmitted, "acceptance gate failed"},
	{"TR-16", Working, Interrupted, []Trigger{RunnerGone}, []identity.Role{identity.System}, GuardOldEnough, "runner or process gone without a response"},
	{"TR-17", Working, Interrupted, []Trigger{Watchdog}, []identity.Role{identity.System}, "", "watchdog ended the turn; crash loop"},
	{"TR-18", Working, Interrupted, []Trigger{Stop}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy stop; stop step of reject/close"},
	{"TR-19", Working, Merging, []Trigger{ForgeMerged}, []identity.Role{identity.System}, "", "forge reports the PR/MR merged"},
	{"TR-20", Working, Merging, []Trigger{GatePassed}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardHoldsEpoch, "acceptance gate passed"},
	{"TR-21", Working, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-22", Blocked, Working, []Trigger{Unblock}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasInput, "lazy unblock"},
	{"TR-23", Blocked, Working, []Trigger{Resume}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy resume"},
	{"TR-24", Blocked, Working, []Trigger{Ask}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy ask"},
	{"TR-25", Blocked, Working, []Trigger{Sync, Review}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, "", "lazy sync, lazy review"},
	{"TR-26", Blocked, Working, []Trigger{Deliver}, []identity.Role{identity.System}, "", "auto-delivery of forge or CI text"},
	{"TR-27", Blocked, Working, []Trigger{Gate}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "accept starts its opt-in gate"},
	{"TR-28", Blocked, Conflict, []Trigger{Relabel}, []identity.Role{identity.System, identity.Human}, GuardSomePending, "any park that re-checks"},
	{"TR-29", Blocked, Pairing, []Trigger{Pair}, []identity.Role{identity.Human}, "", "lazy pair"},
	{"TR-30", Blocked, Submitted, []Trigger{Submit}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy submit"},
	{"TR-31", Blocked, Merging, []Trigger{Accept}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardNothingPending, "lazy accept"},
	{"TR-32", Blocked, Abandoned, []Trigger{Reject, Close}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy reject; lazy close"},
	{"TR-33", Blocked, Backlog, []Trigger{Reconcile}, []identity.Role{identity.System}, GuardNoSession, "reconcile"},
	{"TR-34", Blocked, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-35", Conflict, Working, []Trigger{Unblock, Resume}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasInput, "lazy unblock, lazy resume"},
	{"TR-36", Conflict, Working, []Trigger{AutoResume, Deliver}, []identity.Role{identity.System}, "", "auto-resume, auto-delivery"},
	{"TR-37", Conflict, Working, []Trigger{Ask, Sync, Review, Gate}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, "", "lazy ask, lazy sync, lazy review; accept gate"},
	{"TR-38", Conflict, Blocked, []Trigger{Relabel}, []identity.Role{identity.System, identity.Human}, GuardNothingPending, "any park that re-checks"},
	{"TR-39", Conflict, Pairing, []Trigger{Pair}, []identity.Role{identity.Human}, "", "lazy pair"},
	{"TR-40", Conflict, Submitted, []Trigger{Submit}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy submit"},
	{"TR-41", Conflict, Merging, []Trigger{Accept}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardNothingPending, "lazy accept"},
	{"TR-42", Conflict, Abandoned, []Trigger{Reject, Close}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy reject; lazy close"},
	{"TR-43", Conflict, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-44", Submitted, Working, []Trigger{Unblock}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasInput, "lazy unblock"},
	{"TR-45", Submitted, Working, []Trigger{Sync, Review}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, "", "lazy sync, lazy review"},
	{"TR-46", Submitted, Working, []Trigger{Deliver}, []identity.Role{identity.System}, "", "auto-delivery of PR comments or CI output"},
	{"TR-47", Submitted, Working, []Trigger{Gate}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "accept starts its opt-in gate"},
	{"TR-48", Submitted, Merging, []Trigger{Accept}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardNothingPending, "lazy accept"},
	{"TR-49", Submitted, Merging, []Trigger{ForgeMerged}, []identity.Role{identity.System}, "", "forge reports the PR/MR merged"},
	{"TR-50", Submitted, Pairing, []Trigger{Pair}, []identity.Role{identity.Human}, "", "lazy pair"},
	{"TR-51", Submitted, Abandoned, []Trigger{Reject, Close}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy reject; lazy close"},
	{"TR-52", Submitted, Blocked, []Trigger{Unretargeted}, []identity.Role{identity.System}, "", "re-parent could not retarget the PR/MR"},
	{"TR-53", Submitted, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-54", Interrupted, Working, []Trigger{AutoResume}, []identity.Role{identity.System}, GuardMayResume, "auto-resume"},
	{"TR-55", Interrupted, Working, []Trigger{Resume, Unblock}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasInput, "lazy resume; lazy unblock"},
	{"TR-56", Interrupted, Working, []Trigger{LateAnswer}, []identity.Role{identity.System}, "", "the agent's answer arrived late"},
	{"TR-57", Interrupted, Pairing, []Trigger{Pair}, []identity.Role{identity.Human}, "", "lazy pair"},
	{"TR-58", Interrupted, Merging, []Trigger{ForgeMerged}, []identity.Role{identity.System}, "", "forge reports the PR/MR merged"},
	{"TR-59", Interrupted, Abandoned, []Trigger{Reject, Close}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, "", "lazy reject; lazy close"},
	{"TR-60", Interrupted, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-61", Pairing, Blocked, []Trigger{PairEnded}, []identity.Role{identity.Human, identity.System}, GuardNothingPending, "session exits; or pairing process found gone"},
	{"TR-62", Pairing, Conflict, []Trigger{PairEnded}, []identity.Role{identity.Human, identity.System}, GuardSomePending, "same two triggers"},
	{"TR-63", Pairing, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-64", Merging, Complete, []Trigger{Landed}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, "", "checks pass and merge succeeds; or merge found completed"},
	{"TR-65", Merging, Blocked, []Trigger{Aborted}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardPriorBlocked, "checks fail; PR/MR closed on the forge"},
	{"TR-66", Merging, Conflict, []Trigger{Aborted}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardUndoesToConflict, "merge phase aborted"},
	{"TR-67", Merging, Submitted, []Trigger{Aborted}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent, identity.System}, GuardPriorSubmitted, "merge phase aborted"},
	{"TR-68", Merging, Zombie, []Trigger{FoundMerged}, []identity.Role{identity.System}, "", "branch found merged"},
	{"TR-69", Zombie, Complete, []Trigger{Confirmed}, []identity.Role{identity.System}, "", "branch confirmed merged"},
	{"TR-70", Complete, Blocked, []Trigger{Reopen}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasSession, "lazy reopen --reason …"},
	{"TR-71", Complete, Backlog, []Trigger{Reopen}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardNoSession, "lazy reopen --reason …"},
	{"TR-72", Abandoned, Backlog, []Trigger{Reopen}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardNoWork, "lazy reopen"},
	{"TR-73", Abandoned, Blocked, []Trigger{Reopen}, []identity.Role{identity.Human, identity.BuilderRole, identity.Agent}, GuardHasWork, "lazy reopen"},
}
