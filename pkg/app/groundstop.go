package app

import (
	"context"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// The scopes of a ground stop and of a drain.
const (
	ScopeProject = "project"
	ScopeTenant  = "tenant"
)

// Flag is a ground stop or a drain in force.
type Flag struct {
	Scope  string         `json:"scope" jsonschema:"project or tenant"`
	Reason string         `json:"reason" jsonschema:"why"`
	By     identity.Actor `json:"by" jsonschema:"who engaged it"`
	ByText string         `json:"by_text,omitempty" jsonschema:"the same as one label"`
	At     time.Time      `json:"at" jsonschema:"since when"`
}

// gateRow is the row of both flags of one scope. It is never a condition of a
// claim, or parallel starts would conflict (SY-010); its generation goes into the
// turn.
type gateRow struct {
	Generation int64 `json:"generation"`
	Stop       *Flag `json:"ground_stop,omitempty"`
	Drain      *Flag `json:"drain,omitempty"`
}

// StopFile is a ground stop that is engaged by a file alone: no token, port or
// network is needed for it (GN-01).
type StopFile interface {
	// Engaged reads it; ok is false when there is none. What cannot be read is an
	// error, and counts as engaged.
	Engaged() (reason string, at time.Time, ok bool, err error)
	// Clear removes it.
	Clear() error
}

// gates is what is in force for a project, its tenant's flags included.
type gates struct {
	generation  int64
	stop, drain *Flag
}

func gateKey(tenant, project, scope string) store.Key {
	if scope == ScopeTenant {
		return store.For(tenant).Gates()
	}
	return store.For(tenant).Project(project).Key("GATES")
}

// gatesOf reads the flags consistently. One that cannot be read counts as engaged
// (GN-07).
func (a *App) gatesOf(ctx context.Context, tenant, project string) (gates, error) {
	var g gates
	if a.StopFile != nil {
		reason, at, ok, err := a.StopFile.Engaged()
		switch {
		case err != nil:
			g.stop = unreadable(ScopeProject, a.Now())
		case ok:
			g.stop = &Flag{Scope: ScopeProject, Reason: cut(text.Line(reason), 500), By: identity.Actor{Role: identity.Human}, At: at}
		}
	}
	for _, scope := range []string{ScopeTenant, ScopeProject} {
		it, err := a.Store.Get(ctx, gateKey(tenant, project, scope))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return g, err
		}
		row, err := decode[gateRow](it)
		if err != nil {
			g.stop = unreadable(scope, a.Now())
			continue
		}
		g.generation += row.Generation
		if row.Stop != nil {
			g.stop = row.Stop
		}
		if row.Drain != nil {
			g.drain = row.Drain
		}
	}
	return g, nil
}

func unreadable(scope string, now time.Time) *Flag {
	return &Flag{Scope: scope, Reason: "its record cannot be read", By: identity.SystemActor(), At: now}
}

// refuse is the refusal of a launch by the flags, nil when they let it pass. No
// pass exists, for nobody (US-022).
func (g gates) refuse() error {
	switch {
	case g.stop != nil:
		return refusal.Of(refusal.GroundStop, "this "+g.stop.Scope, g.stop.Reason, g.stop.By.String(), stamp(g.stop.At))
	case g.drain != nil:
		return refusal.Of(refusal.Draining, "This "+g.drain.Scope)
	}
	return nil
}

// words says what no model may be called for.
func (g gates) words() string {
	if g.stop == nil {
		return ""
	}
	return "a ground stop is in force (" + g.stop.Reason + ")"
}

// RunAck is a running turn under a ground stop.
type RunAck struct {
	TaskID       id.Task `json:"task_id" jsonschema:"full id"`
	Code         string  `json:"code" jsonschema:"its code"`
	Acknowledged bool    `json:"acknowledged" jsonschema:"its supervisor has heard of the ground stop: it starts no model call any more"`
}

// GateState answers groundStopStatus: which flags are in force, and what a ground
// stop has reached (US-023, GN-03).
type GateState struct {
	Stop    *Flag    `json:"ground_stop" jsonschema:"the ground stop in force: no turn starts and no model is called; null when there is none"`
	Drain   *Flag    `json:"drain" jsonschema:"the drain in force: no turn starts, running ones finish; null when there is none"`
	Running []RunAck `json:"running" jsonschema:"turns that run"`
}

// GroundStopStatus says which flags are in force and what runs.
func (a *App) GroundStopStatus(ctx context.Context, c Call) (GateState, error) {
	out := GateState{Running: []RunAck{}}
	g, err := a.gatesOf(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return out, err
	}
	out.Stop, out.Drain = shownFlag(g.stop), shownFlag(g.drain)
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return out, err
	}
	for _, l := range live {
		if l.Status != task.Working {
			continue
		}
		r, ok, err := a.seenRun(ctx, task.Task{Tenant: c.Who.Tenant, ID: l.ID, Status: l.Status, Epoch: l.Epoch, Claimed: true}, l.Epoch)
		if err != nil {
			return out, err
		}
		if ok && r.Ended.IsZero() {
			out.Running = append(out.Running, RunAck{TaskID: l.ID, Code: l.Code, Acknowledged: g.stop != nil && r.StopSeen.After(g.stop.At)})
		}
	}
	return out, nil
}

func shownFlag(f *Flag) *Flag {
	if f == nil {
		return nil
	}
	v := *f
	v.ByText = v.By.String()
	return &v
}

// EngageGroundStop keeps every turn from starting and every running one from
// calling its model again (GN-01). People and the builder may; it is idempotent,
// and the first reason stays.
//
// cutOff ends running turns at once instead of at their next call.
func (a *App) EngageGroundStop(ctx context.Context, c Call, scope, reason string, cutOff bool) (GateState, error) {
	out, err := a.setGate(ctx, c, scope, func(row *gateRow) bool {
		if row.Stop != nil {
			return false
		}
		row.Stop = &Flag{Reason: cut(text.Line(reason), 500), By: c.Actor()}
		return true
	})
	if err != nil || !cutOff {
		return out, err
	}
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return out, err
	}
	each := c
	each.Key, each.Rule = "", Rule{Agent: Any}
	for _, l := range live {
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, l.ID)
		if err != nil {
			return out, err
		}
		if !ok || t.Status != task.Working || !t.Claimed {
			continue
		}
		// One that ends in this very moment needs no stop.
		if _, err := a.askStop(ctx, each, t, t.Then); err != nil && !refusal.Is(err, refusal.StatusNotAllowed) {
			return out, err
		}
	}
	return out, nil
}

// ReleaseGroundStop is a person's alone (GN-06). What a stop has interrupted is
// not started again by it (GN-04).
func (a *App) ReleaseGroundStop(ctx context.Context, c Call, scope string) (GateState, error) {
	if a.StopFile != nil && scope != ScopeTenant {
		if err := a.StopFile.Clear(); err != nil {
			return GateState{}, err
		}
	}
	return a.setGate(ctx, c, scope, func(row *gateRow) bool {
		was := row.Stop != nil
		row.Stop = nil
		return was
	})
}

// SetDrain keeps turns from starting while running ones finish, or calls that off
// (DR-13).
func (a *App) SetDrain(ctx context.Context, c Call, scope, reason string, on bool) (GateState, error) {
	return a.setGate(ctx, c, scope, func(row *gateRow) bool {
		if on == (row.Drain != nil) {
			return false
		}
		row.Drain = nil
		if on {
			row.Drain = &Flag{Reason: cut(text.Line(reason), 500), By: c.Actor()}
		}
		return true
	})
}

// setGate changes the flags of one scope in one write that moves their generation.
func (a *App) setGate(ctx context.Context, c Call, scope string, edit func(*gateRow) bool) (GateState, error) {
	if scope == "" {
		scope = ScopeProject
	}
	k := gateKey(c.Who.Tenant, c.Who.Project, scope)
	for n := 0; ; n++ {
		it, err := a.Store.Get(ctx, k)
		cond := store.Absent()
		var row gateRow
		switch {
		case err == nil:
			if row, err = decode[gateRow](it); err != nil {
				row = gateRow{Stop: unreadable(scope, a.Now())} // as it counts, until somebody decides
			}
			row.Generation = it.Int("generation")
			cond = store.FieldIs("generation", row.Generation)
		case !errors.Is(err, store.ErrNotFound):
			return GateState{}, err
		}
		if !edit(&row) {
			return a.GroundStopStatus(ctx, c)
		}
		row.Generation++
		for _, f := range []*Flag{row.Stop, row.Drain} {
			if f != nil && f.At.IsZero() {
				f.Scope, f.At = scope, a.Now()
			}
		}
		w := put(k, "gates", row, cond)
		w.Item.Attr["generation"] = row.Generation
		err = a.Store.Transact(ctx, w)
		if _, lost := errors.AsType[*store.ConflictError](err); lost && n < tries {
			continue
		}
		if err != nil {
			return GateState{}, err
		}
		return a.GroundStopStatus(ctx, c)
	}
}
