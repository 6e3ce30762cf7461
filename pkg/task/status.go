// Package task is the centre of the product: the eleven statuses of a task, the
// one table of edges between them, and the functions that label a task coming to
// rest. The table decides moves, draws the documentation and is walked by
// property tests (SM-001 to SM-040).
package task

// Status is where a task is. It is stored and served as this text (SM-001).
type Status string

// The eleven statuses. None is the state before creation.
const (
	None        Status = ""
	Backlog     Status = "backlog"
	Working     Status = "working"
	Blocked     Status = "blocked"
	Conflict    Status = "conflict"
	Submitted   Status = "submitted"
	Pairing     Status = "pairing"
	Interrupted Status = "interrupted"
	Merging     Status = "merging"
	Zombie      Status = "zombie"
	Complete    Status = "complete"
	Abandoned   Status = "abandoned"
)

// Statuses lists the eleven in the order of the specification.
func Statuses() []Status {
	return []Status{
		Backlog, Working, Blocked, Conflict, Submitted, Pairing,
		Interrupted, Merging, Zombie, Complete, Abandoned,
	}
}

// ParseStatus returns the status spelled s.
func ParseStatus(s string) (Status, bool) {
	for _, st := range Statuses() {
		if string(st) == s {
			return st, true
		}
	}
	return None, false
}

// Words is the status as people read it: the bare word "conflict" would be taken
// for a merge conflict.
func (s Status) Words() string {
	if s == Conflict {
		return "conflict (protected files)"
	}
	return string(s)
}

// Terminal reports whether the task is over: its core fields are frozen. It
// follows from the table: only reopen leads out.
func (s Status) Terminal() bool { return s == Complete || s == Abandoned }

// Waiting reports whether a person's review or decision is next (SM-020).
func (s Status) Waiting() bool { return s == Blocked || s == Conflict || s == Submitted }

// Active reports whether the task has a live worktree nobody may merge into.
func (s Status) Active() bool {
	return s == Working || s == Interrupted || s == Pairing || s == Merging
}

// Rest is the label function: the status of a task coming to rest with pending
// protected-file violations (SM-008, SM-009).
func Rest(pending int) Status {
	if pending > 0 {
		return Conflict
	}
	return Blocked
}

// Restore is where a sync, review or ask puts a task back (SM-025): violations
// win, then a submitted prior, else blocked.
func Restore(prior Status, pending int) Status {
	if pending == 0 && prior == Submitted {
		return Submitted
	}
	return Rest(pending)
}

// Undo is where an aborted merge phase or a failed gate puts a task back: the
// recorded prior status itself, unless violations are still pending (SM-025).
func Undo(prior Status, pending int) Status {
	if pending > 0 {
		return Conflict
	}
	return prior
}
