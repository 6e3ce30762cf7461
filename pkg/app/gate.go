package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// admission is what a launch was admitted with.
type admission struct {
	generation int64         // of the ground stop and drain
	passed     bool          // the usage pause would have stopped it
	writes     []store.Write // what it uses up
}

// admit checks what may keep a turn from being launched, whoever launches it: a
// ground stop, a drain, a credential that is not stored, the usage pause. Each is
// a consistent read made right before the claim, never a condition of it, so that
// parallel starts of different tasks do not conflict (SY-010, US-008, US-022). t
// has the agent and model that are to run.
func (a *App) admit(ctx context.Context, t task.Task, set Settings, by identity.Actor, past bool) (admission, error) {
	var in admission
	g, err := a.gatesOf(ctx, t.Tenant, t.Project)
	if err != nil {
		return in, err
	}
	if err := g.refuse(); err != nil {
		return in, err
	}
	in.generation = g.generation
	if used := model.Total(t.Spent); set.TokenBudget > 0 && used >= set.TokenBudget {
		return in, refusal.Of(refusal.BudgetSpent, t.Name(), used, set.TokenBudget)
	}
	cr, spends, err := a.spends(ctx, t)
	if err != nil || !spends {
		return in, err
	}
	until, err := a.paused(ctx, t.Tenant, set, cr)
	if err != nil || until.IsZero() {
		return in, err
	}
	ws, pass, err := a.passes(ctx, t)
	if err != nil {
		return in, err
	}
	if !pass && !past {
		return in, pausedRefusal(cr, until, by.Role)
	}
	in.passed, in.writes = true, ws
	return in, nil
}

// closed says why the system would not launch a turn of t at this moment, nil when
// it would. It uses nothing up.
func (a *App) closed(ctx context.Context, t task.Task) (gate, err error) {
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return nil, err
	}
	_, err = a.admit(ctx, t, set, identity.SystemActor(), false)
	if gated(err) {
		return err, nil
	}
	return nil, err
}

// underGate records an interruption that came while something keeps turns from
// starting: with that cause, and counted by nothing (CR-022). What a ground stop
// leaves behind is not started by its release, so it is held for a person (GN-04).
// was is the task before the interruption was counted.
func (a *App) underGate(ctx context.Context, was task.Task, n *task.Task, reason *string) error {
	why, err := a.closed(ctx, was)
	if err != nil || why == nil {
		return err
	}
	h := heldFor("", identity.SystemActor(), why)
	switch refusal.Code(h.Cause) {
	case refusal.GroundStop:
		n.Hold = true
		*reason = "ground_stop: " + *reason
	case refusal.UsagePaused, refusal.UsageUnreadable:
		*reason = string(refusal.UsagePaused) + ": " + *reason
	default:
		return nil
	}
	n.Interruptions, n.Why = was.Interruptions, cut(*reason, 500)
	*reason = n.Why
	return nil
}

// spends is the credential that a turn of t spends; ok is false when its agent
// needs none. A needed one that is not stored refuses the turn (FC-012, CM-033).
func (a *App) spends(ctx context.Context, t task.Task) (cr secret.Credential, ok bool, err error) {
	provider := a.provider(t.Agent, t.Model)
	if provider == "" {
		return cr, false, nil
	}
	all, err := a.vault().List(ctx, t.Tenant)
	if err != nil {
		return cr, false, err
	}
	if cr, ok = chosen(all, provider, t.Payer); !ok {
		return cr, false, unconfigured(t, provider)
	}
	return cr, true, nil
}

func (a *App) provider(agent, model string) string {
	if a.Provider == nil {
		return ""
	}
	return a.Provider(agent, model)
}

// unconfigured refuses a launch and names what to type.
func unconfigured(t task.Task, provider string) error {
	e := refusal.Of(refusal.AgentUnconfigured, t.Agent, t.Name()).WithDetail("provider", provider)
	e.Next = []fault.Next{
		{For: "person", Text: "Store it: `lazy auth add " + provider + "`"},
		{For: "mcp", Text: "A person has to store it."},
	}
	return e
}

// access is what a run is given to reach its model: for this run only, handed out
// with the answer to its hello and kept nowhere (CM-031).
func (a *App) access(ctx context.Context, t task.Task) (*model.Access, error) {
	cr, ok, err := a.spends(ctx, t)
	if err != nil || !ok {
		return nil, err
	}
	p, ok := model.Find(cr.Provider)
	if !ok || a.Seal == nil {
		return nil, fault.New(fault.Unavailable, "the credential %s cannot be used by this control plane", label(cr))
	}
	plain, err := a.Seal.Open(ctx, t.Tenant, cr.Purpose(), cr.Sealed)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the credential %s cannot be opened", label(cr)).
			WithNext("Store its secret again: `lazy auth rotate " + cr.Name + "`")
	}
	return &model.Access{
		Provider: p.Name, Wire: p.Wire, Upstream: cr.Upstream, Scheme: cr.Scheme, Credential: label(cr), Secret: string(plain),
	}, nil
}

// Unconfigured names the agents of a project whose service has no credential that
// the project or its one person stored, with that service (FC-012).
func (a *App) Unconfigured(ctx context.Context, tenant, project, model string) (map[string]string, error) {
	set, err := a.Settings(ctx, tenant, project)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for id, ag := range set.Agents {
		if ag.Offered && id != set.DefaultAgent {
			continue // nobody has asked for it
		}
		t := task.Task{Tenant: tenant, Project: project, Agent: id, Model: model}
		if _, _, err := a.spends(ctx, t); refusal.Is(err, refusal.AgentUnconfigured) {
			out[id] = a.provider(id, model)
		} else if err != nil {
			return nil, err
		}
	}
	return out, nil
}
