package app

import (
	"context"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// ReadingShown is the newest word of a service about one credential's limits.
type ReadingShown struct {
	Credential string            `json:"credential" jsonschema:"what the credential is called"`
	Provider   string            `json:"provider" jsonschema:"its service"`
	At         time.Time         `json:"at" jsonschema:"when the service said it"`
	Windows    []model.Window    `json:"windows" jsonschema:"the windows of a subscription plan"`
	Overage    string            `json:"overage,omitempty" jsonschema:"whether the service goes on beyond the plan, and charges for it"`
	Headers    map[string]string `json:"headers" jsonschema:"the limits as they were received"`
}

// PausedShown is a credential that starts nothing.
type PausedShown struct {
	Credential string    `json:"credential" jsonschema:"what the credential is called"`
	Window     string    `json:"window" jsonschema:"the window that is used up to the threshold"`
	Percent    float64   `json:"percent" jsonschema:"how much of it is used"`
	Resets     time.Time `json:"resets_at" jsonschema:"when it begins anew"`
}

// ArmedShown is a credential that the pause watches.
type ArmedShown struct {
	Credential string `json:"credential" jsonschema:"what the credential is called"`
	Unread     bool   `json:"no_reading,omitempty" jsonschema:"its service has said nothing about a window yet, so the pause cannot act on it"`
}

// WaitingShown is a task whose launch waits for a window.
type WaitingShown struct {
	TaskID id.Task   `json:"task_id" jsonschema:"full id"`
	Code   string    `json:"code" jsonschema:"its code"`
	Until  time.Time `json:"until,omitzero" jsonschema:"when it is tried again"`
}

// PassShown is a pass that is not used up.
type PassShown struct {
	TaskID id.Task   `json:"task_id" jsonschema:"the task it is for"`
	Code   string    `json:"code" jsonschema:"its code"`
	By     string    `json:"by" jsonschema:"who granted it"`
	At     time.Time `json:"at" jsonschema:"when"`
}

// PauseShown is the state of the usage pause.
type PauseShown struct {
	Threshold float64        `json:"threshold" jsonschema:"percent of a window at which nothing new starts; 0 is off"`
	Paused    []PausedShown  `json:"paused" jsonschema:"credentials that start nothing now"`
	Waiting   []WaitingShown `json:"waiting" jsonschema:"tasks whose launch waits for them"`
	Passes    []PassShown    `json:"passes" jsonschema:"tasks whose next turn is let through, once"`
	Armed     []ArmedShown   `json:"armed" jsonschema:"credentials that are watched"`
}

// UsageLimits answers usageLimits.
type UsageLimits struct {
	Readings []ReadingShown `json:"readings" jsonschema:"per credential the newest reading"`
	Pause    PauseShown     `json:"usage_pause" jsonschema:"the usage pause"`
}

// UsageLimits says how near credentials are to their limits, and what the usage
// pause does about it. People on a laptop and their builder see everything; a
// member of a team their own credentials and the project's; a task agent the one
// its running turn spends, and its own task. No parameter widens that (US-004 to
// US-006, US-021).
func (a *App) UsageLimits(ctx context.Context, c Call) (UsageLimits, error) {
	out := UsageLimits{Readings: []ReadingShown{}, Pause: PauseShown{
		Paused: []PausedShown{}, Waiting: []WaitingShown{}, Passes: []PassShown{}, Armed: []ArmedShown{},
	}}
	set, err := a.Settings(ctx, c.Who.Tenant, c.Who.Project)
	if err != nil {
		return out, err
	}
	out.Pause.Threshold = set.UsagePause
	creds, err := a.visible(ctx, c)
	if err != nil {
		return out, err
	}
	for _, cr := range creds {
		r, ok, err := a.reading(ctx, c.Who.Tenant, label(cr))
		if err != nil {
			return out, err
		}
		windows := r.Windows()
		if ok {
			v := ReadingShown{
				Credential: label(cr), Provider: cr.Provider, At: r.At, Windows: windows, Overage: r.Overage(), Headers: r.Headers,
			}
			if v.Windows == nil {
				v.Windows = []model.Window{}
			}
			out.Readings = append(out.Readings, v)
		}
		if set.UsagePause <= 0 {
			continue
		}
		if len(windows) > 0 || cr.Scheme == model.Subscription {
			out.Pause.Armed = append(out.Pause.Armed, ArmedShown{Credential: label(cr), Unread: len(windows) == 0})
		}
		if w, full := r.Full(set.UsagePause, a.Now()); full {
			out.Pause.Paused = append(out.Pause.Paused, PausedShown{Credential: label(cr), Window: w.Name, Percent: w.Percent, Resets: w.Resets})
		}
	}
	return out, a.waiting(ctx, c, creds, &out.Pause)
}

// visible is the credentials whose readings a caller may see.
func (a *App) visible(ctx context.Context, c Call) ([]secret.Credential, error) {
	if c.Who.Kind == identity.Task {
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, c.Who.Task())
		if err != nil || !ok || !t.Claimed || t.Status != task.Working || c.Who.Epoch != 0 && c.Who.Epoch != t.Epoch {
			return nil, err
		}
		cr, ok, err := a.spends(ctx, t)
		if refusal.Is(err, refusal.AgentUnconfigured) || err == nil && !ok {
			return nil, nil // it cannot be told which one, so none is
		}
		if err != nil {
			return nil, err
		}
		return []secret.Credential{cr}, nil
	}
	all, err := a.vault().List(ctx, c.Who.Tenant)
	if err != nil || a.Local || c.Who.Kind == identity.Operator {
		return all, err
	}
	var out []secret.Credential
	for _, cr := range all {
		if cr.Owner == "" || cr.Owner == secret.Fold(c.Who.Email) {
			out = append(out, cr)
		}
	}
	return out, nil
}

// waiting lists the tasks that wait for a credential the caller may see, and the
// passes granted.
func (a *App) waiting(ctx context.Context, c Call, creds []secret.Credential, out *PauseShown) error {
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return err
	}
	narrow := !a.Local && c.Who.Kind != identity.Operator && c.Who.Kind != identity.Task
	for _, l := range live {
		if c.Who.Kind == identity.Task && l.ID != c.Who.Task() {
			continue
		}
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, l.ID)
		if err != nil {
			return err
		}
		if !ok || narrow && !a.spendsOneOf(t, creds) {
			continue
		}
		if waits(t) && t.Held.Cause == string(refusal.UsagePaused) {
			out.Waiting = append(out.Waiting, WaitingShown{TaskID: t.ID, Code: t.Code, Until: t.Held.Until})
		}
		if c.Who.Kind == identity.Task {
			continue
		}
		p, ok, err := get[Pass](ctx, a.Store, a.passKey(t))
		if err != nil {
			return err
		}
		if ok {
			out.Passes = append(out.Passes, PassShown{TaskID: t.ID, Code: t.Code, By: p.By.String(), At: p.At})
		}
	}
	return nil
}

// spendsOneOf reports whether a task's launches spend one of the credentials.
func (a *App) spendsOneOf(t task.Task, creds []secret.Credential) bool {
	provider := a.provider(t.Agent, t.Model)
	_, ok := chosen(creds, provider, t.Payer)
	return ok
}
