package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// ScopeIn names what a ground stop is about.
type ScopeIn struct {
	Scope string `json:"scope,omitempty" jsonschema:"project, or tenant for all of a team's projects; the project when left out"`
}

// EngageIn is the input of engageGroundStop.
type EngageIn struct {
	Scope  string `json:"scope,omitempty" jsonschema:"project, or tenant for all of a team's projects; the project when left out"`
	Reason string `json:"reason" jsonschema:"why; every refusal it causes says so"`
	CutOff bool   `json:"cut_off,omitempty" jsonschema:"end running turns at once, not at their next model call"`
}

// DrainIn is the input of setDrain.
type DrainIn struct {
	Scope  string `json:"scope,omitempty" jsonschema:"project, or tenant for all of a team's projects; the project when left out"`
	On     bool   `json:"on" jsonschema:"whether turns are kept from starting"`
	Reason string `json:"reason,omitempty" jsonschema:"why"`
}

// gateOps keep turns from starting, for everyone alike and with no pass.
func gateOps() []Op {
	scopes := oneOf("scope", app.ScopeProject, app.ScopeTenant)
	return []Op{
		Define(Op{
			Name: "engageGroundStop", Tool: "lazy_ground_stop", People: people(), Builder: true,
			Refuse: refusal.BuilderOnly, Why: "It stops the whole project; say in your report or with lazy_raise why it should stop.",
			Doc: "Stop the project at once: no turn starts, and every running one ends at its next model call. Only a person releases it.",
			// A tool reaches the project it works in and no further.
			Omit:    map[identity.Kind][]string{identity.Builder: {"scope", "cut_off"}},
			Instead: map[string]refusal.Code{"scope": refusal.HumanOnly, "cut_off": refusal.HumanOnly},
			Refuses: []refusal.Code{refusal.BuilderOnly, refusal.HumanOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, in EngageIn) (app.GateState, error) {
			return a.EngageGroundStop(ctx, c, in.Scope, in.Reason, in.CutOff)
		}, scopes, lengths(1, 500, "reason")),
		Define(Op{
			Name: "releaseGroundStop", People: people(),
			Doc: "Release a ground stop: turns may start and models may be called again. What it interrupted stays as it is until somebody resumes it.",
		}, func(ctx context.Context, a *app.App, c app.Call, in ScopeIn) (app.GateState, error) {
			return a.ReleaseGroundStop(ctx, c, in.Scope)
		}, scopes),
		Define(Op{
			Name: "groundStopStatus", Effect: Read, People: readers(),
			Doc: "Say whether a ground stop or a drain is in force, and per running turn whether it has heard of the stop.",
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.GateState, error) {
			return a.GroundStopStatus(ctx, c)
		}),
		Define(Op{
			Name: "setDrain", People: readers(),
			Doc: "Keep turns from starting while running ones finish, or call that off.",
		}, func(ctx context.Context, a *app.App, c app.Call, in DrainIn) (app.GateState, error) {
			return a.SetDrain(ctx, c, in.Scope, in.Reason, in.On)
		}, scopes, lengths(0, 500, "reason")),
	}
}
