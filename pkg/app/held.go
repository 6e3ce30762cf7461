package app

import (
	"context"
	"errors"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// gated reports whether a launch was refused by something that may lift, so that
// an automatic one keeps its place instead of being given up (US-020, CR-022).
func gated(err error) bool {
	for _, c := range []refusal.Code{
		refusal.GroundStop, refusal.Draining, refusal.UsagePaused, refusal.UsageUnreadable, refusal.BudgetSpent, refusal.AgentUnconfigured,
	} {
		if refusal.Is(err, c) {
			return true
		}
	}
	return false
}

// heldFor is what a task waits with, from the refusal that holds it. What it says
// names no credential: every agent of the project may read it (US-004).
func heldFor(verb string, by identity.Actor, err error) *task.Held {
	h := &task.Held{Verb: verb, By: by, Cause: fault.Code(err), Until: resetsAt(err)}
	switch refusal.Code(h.Cause) {
	case refusal.UsagePaused:
		h.Text = "usage pause"
	case refusal.UsageUnreadable:
		h.Text = "usage readings that can be read"
	case refusal.AgentUnconfigured:
		h.Text = "a credential for its agent"
	case refusal.GroundStop:
		h.Text = "the ground stop"
	case refusal.Draining:
		h.Text = "the drain"
	default:
		h.Text = h.Cause
	}
	return h
}

// holdResume keeps an automatic resume that may not start waiting: it counts
// nothing and keeps its place (CR-022, US-020).
func (a *App) holdResume(ctx context.Context, t task.Task, o Op, why error) error {
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		h := heldFor("auto_resume", identity.SystemActor(), why)
		if !mayResume(t, o) || t.Held != nil && *t.Held == *h {
			return change{}, errSettled
		}
		t.Held = h
		return change{task: t}, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// holdStart keeps the start of a subtask that its agent asked for, to be done when
// the usage window begins anew (US-017).
func (a *App) holdStart(ctx context.Context, c Call, t task.Task, b Begin, why error) (Begun, error) {
	var out Begun
	_, err := a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		if t.Status != task.Backlog {
			return change{}, refusal.Of(refusal.StatusNotAllowed, b.Verb, t.Status.Words(), "backlog")
		}
		h := heldFor("start", c.Actor(), why)
		h.Agent, h.Model, h.Effort = b.Agent, b.Model, b.Effort
		ch := change{task: t}
		ch.task.Held = h
		if b.payer != nil {
			ch.task.Payer = *b.payer
		}
		out = Begun{
			Task: t.ID, Code: t.Code, Status: string(t.Status), Held: true, Resets: h.Until,
			Note: "It starts by itself then. End your turn; you are told in a following prompt.",
		}
		ch.result = out
		return ch, nil
	})
	return out, err
}

// startHeld starts a held subtask, or holds it on.
func (a *App) startHeld(ctx context.Context, t task.Task) error {
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return err
	}
	opID := a.IDs.New()
	_, err = a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		h := t.Held
		if h == nil || h.Verb != "start" || t.Status != task.Backlog || h.Until.After(a.Now()) {
			return change{}, errSettled
		}
		ch, err := a.claim(ctx, t, set, h.By, opID, "", Begin{
			Verb: "start", On: task.Start, Kind: turn.Work, Agent: h.Agent, Model: h.Model, Effort: h.Effort,
		})
		switch {
		case err == nil:
			if t.Parent != "" {
				ch.jobs = append(ch.jobs, Job{
					Kind: Notify, Text: "[Subtask started] " + t.Name() + " was held by the usage pause and runs now", Turn: string(t.Parent),
				})
			}
			return ch, nil
		case gated(err):
			next := heldFor("start", h.By, err)
			next.Agent, next.Model, next.Effort = h.Agent, h.Model, h.Effort
			if *next == *h {
				return change{}, errSettled
			}
			t.Held = next
			return change{task: t}, nil
		case fault.KindOf(err) == fault.Unavailable || fault.KindOf(err) == fault.Internal:
			return change{}, err
		}
		// It cannot be started any more: the wish is dropped, and its parent is told.
		t.Held = nil
		drop := change{task: t}
		if t.Parent != "" {
			drop.jobs = []Job{{
				Kind: Notify, Turn: string(t.Parent),
				Text: "[Subtask not started] " + t.Name() + ": " + cut(text.Line(fault.Of(err).Public), 300),
			}}
		}
		return drop, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

// waits reports whether a task's held launch is still to come.
func waits(t task.Task) bool {
	if t.Held == nil || t.Claimed {
		return false
	}
	switch t.Held.Verb {
	case "start":
		return t.Status == task.Backlog
	case "auto_resume":
		return t.Status == task.Interrupted && t.Then == nil && resumable(t)
	}
	return false
}

// waitText says what a held launch waits for, "" for none.
func waitText(t task.Task) string {
	if !waits(t) {
		return ""
	}
	if t.Held.Until.IsZero() {
		return t.Held.Text
	}
	return t.Held.Text + " until " + stamp(t.Held.Until)
}
