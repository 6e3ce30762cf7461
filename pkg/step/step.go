// Package step is the edge between state machine definitions and use cases: one
// function for every Task state, in which the payload's step name with its version
// selects the step (SY-042).
package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// version is the newest form of a payload that is understood; its fields are only
// ever added to.
const version = 1

// stepName is how steps are called: what they do, and their version.
var stepName = pattern.New(`^[a-z]+\.v[1-9][0-9]{0,3}$`)

// Handler returns the function behind all Task states. Bodies and secrets are not
// in the payload. A step or payload version that is not known here is one of a
// later deployment, whose definition is in force before its code or after it was
// taken back: that passes, so it is tried again, and recovery begins the turn anew
// under the definition in force by then. Only what no version can mean is refused
// for good.
func Handler(a *app.App) engine.Step {
	steps := a.Steps()
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		var p app.Payload
		if err := json.Unmarshal(payload, &p); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "a step's payload is not readable")
		}
		switch {
		case p.V < 1:
			return nil, fault.New(fault.Invalid, "%d is no version of a step's payload", p.V)
		case p.V > version:
			return nil, fault.New(fault.Unavailable, "step payload version %d is not known to the code that is deployed", p.V)
		}
		ctx = telemetry.Within(ctx)
		telemetry.Note(ctx, telemetry.KeyTenant, p.Tenant, telemetry.KeyTurn, p.Turn, telemetry.KeyTrace, telemetry.TraceID(id.Turn(p.Turn).Trace()))
		f, ok := steps[p.Step]
		switch {
		case ok:
		case stepName.MatchString(p.Step):
			return nil, fault.New(fault.Unavailable, "the code that is deployed has no step %s", p.Step)
		default:
			return nil, fault.New(fault.Invalid, "%.60q does not name a step", p.Step)
		}
		out, err := f(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", p.Step, err)
		}
		return json.Marshal(out)
	}
}
