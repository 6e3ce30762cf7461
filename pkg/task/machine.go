package task

import (
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Guard names a condition an edge adds to status, trigger and actor.
type Guard string

// The guards.
const (
	GuardHasCommits        Guard = "the branch has commits"
	GuardNothingPending    Guard = "no violation is pending"
	GuardSomePending       Guard = "violations are pending"
	GuardPriorBlocked      Guard = "the prior status was blocked, nothing pending"
	GuardPriorSubmitted    Guard = "the prior status was submitted, nothing pending"
	GuardRestoresBlocked   Guard = "restore gives blocked"
	GuardRestoresSubmitted Guard = "restore gives submitted"
	GuardUndoesToConflict  Guard = "the prior status was conflict, or violations are pending"
	GuardOldEnough         Guard = "the turn is at least 30 s old"
	GuardHoldsEpoch        Guard = "the same accept holds the epoch"
	GuardHasInput          Guard = "an unblock carries feedback"
	GuardNoSession         Guard = "the task has no session"
	GuardHasSession        Guard = "the task had a session"
	GuardNoWork            Guard = "no agent work exists"
	GuardHasWork           Guard = "agent work exists"
	GuardMayResume         Guard = "the breaker allows it and no hold is set"
)

// Facts is what guards look at. The caller reads it in the transaction's own
// consistent reads.
type Facts struct {
	Pending    int    // protected-file violations not yet approved
	Prior      Status // recorded when the turn or accept claimed the task
	Session    bool   // the task has, or had, an agent session
	Commits    bool   // the task's branch has commits of its own
	TurnAge    time.Duration
	HoldsEpoch bool
	Input      bool // feedback was stored with this move
	Held       bool // a stop hold, the breaker or a pause forbids automatic resumes
}

func (g Guard) holds(f Facts, on Trigger) bool {
	switch g {
	case "":
		return true
	case GuardHasCommits, GuardHasWork:
		return f.Commits
	case GuardNoWork:
		return !f.Commits
	case GuardNothingPending:
		return f.Pending == 0
	case GuardSomePending:
		return f.Pending > 0
	case GuardPriorBlocked:
		return Undo(f.Prior, f.Pending) == Blocked
	case GuardPriorSubmitted:
		return Undo(f.Prior, f.Pending) == Submitted
	case GuardUndoesToConflict:
		return Undo(f.Prior, f.Pending) == Conflict
	case GuardRestoresBlocked:
		return Restore(f.Prior, f.Pending) == Blocked
	case GuardRestoresSubmitted:
		return Restore(f.Prior, f.Pending) == Submitted
	case GuardOldEnough:
		return f.TurnAge >= names.DeadTurnGrace
	case GuardHoldsEpoch:
		return f.HoldsEpoch
	case GuardHasInput:
		return on != Unblock || f.Input
	case GuardNoSession:
		return !f.Session
	case GuardHasSession:
		return f.Session
	case GuardMayResume:
		return !f.Held
	}
	return false
}

// Move is a request to change a status.
type Move struct {
	From  Status
	To    Status
	On    Trigger
	By    identity.Role
	Facts Facts
}

// Allowed returns the row of the table that permits m, or a refusal that names
// both statuses and what the trigger does apply to.
func Allowed(m Move) (Edge, error) {
	var near *Edge
	for _, e := range edges {
		if e.From != m.From || e.To != m.To || !slices.Contains(e.On, m.On) || !slices.Contains(e.By, m.By) {
			continue
		}
		if e.Guard.holds(m.Facts, m.On) {
			return e, nil
		}
		near = &e
	}
	if near != nil {
		return Edge{}, fault.New(fault.Conflict, "a task does not go from %s to %s unless %s", m.From, m.To, near.Guard)
	}
	err := refusal.Of(refusal.StatusNotAllowed, m.On, m.From.Words(), list(From(m.On, m.By)))
	return Edge{}, err.WithDetail("from", string(m.From)).WithDetail("to", string(m.To))
}

// From lists the statuses in which a trigger applies for a role.
func From(on Trigger, by identity.Role) []Status {
	var out []Status
	for _, e := range edges {
		if slices.Contains(e.On, on) && slices.Contains(e.By, by) && !slices.Contains(out, e.From) {
			out = append(out, e.From)
		}
	}
	return out
}

func list(ss []Status) string {
	words := make([]string, len(ss))
	for i, s := range ss {
		words[i] = s.Words()
	}
	return strings.Join(words, ", ")
}

// History is the row every change of status leaves (SM-023).
type History struct {
	ID      string         `json:"id"`
	From    Status         `json:"from"`
	To      Status         `json:"to"`
	Trigger Trigger        `json:"trigger"`
	Edge    string         `json:"edge"`
	Actor   identity.Actor `json:"by"`
	Turn    string         `json:"turn_id,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Version int64          `json:"version"`
	At      time.Time      `json:"at"`
}

// Change is a move together with what its history row says.
type Change struct {
	To     Status
	On     Trigger
	Actor  identity.Actor
	Facts  Facts
	Reason string
	Turn   string
	ID     string // of the history row
	At     time.Time
}

// Apply is the one function that changes a status: it checks the table and
// returns the changed task with its history row. The given task is not modified.
func Apply(t Task, c Change) (Task, History, error) {
	c.Facts.Pending = t.Pending()
	if c.Facts.Prior == None {
		c.Facts.Prior = t.Prior
	}
	c.Facts.Session = t.HadSession
	e, err := Allowed(Move{From: t.Status, To: c.To, On: c.On, By: c.Actor.Role, Facts: c.Facts})
	if err != nil {
		return t, History{}, err
	}
	h := History{
		ID: c.ID, From: t.Status, To: c.To, Trigger: c.On, Edge: e.ID, Actor: c.Actor,
		Turn: c.Turn, Reason: c.Reason, Version: t.Version + 1, At: c.At,
	}
	t.Status, t.Version, t.Updated = c.To, t.Version+1, c.At
	t.Last = Act{Actor: c.Actor, Did: string(c.On), At: c.At}
	return t, h, nil
}
