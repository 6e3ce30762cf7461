package aws

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// Event is a function that is handed events.
type Event func(ctx context.Context, in json.RawMessage) (any, error)

// Events serves h, with a trace and an answer to whoever asks why it failed.
func (p *Plane) Events(h Event) Event {
	return func(ctx context.Context, in json.RawMessage) (any, error) {
		out, err := p.Trace.Batch(ctx, func(ctx context.Context) (any, error) {
			Invoked(ctx)
			out, err := h(ctx, in)
			if err != nil {
				p.Log.ErrorContext(ctx, "an event could not be served", "error", err)
			}
			return out, err
		})
		if err != nil {
			name, text := step.Failure(err)
			return nil, messages.InvokeResponse_Error{Type: name, Message: text}
		}
		return out, nil
	}
}

// Whole reports what this function's deployment lacks, nil when it lacks nothing.
func (p *Plane) Whole() error { return p.wrong }

// Invoked has every line of an invocation that is no HTTP request name it: by the
// id that the service has for it.
func Invoked(ctx context.Context) {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		telemetry.Note(ctx, telemetry.KeyRequest, lc.AwsRequestID)
	}
}

// about has every further line of a step name the task.
func about(ctx context.Context, t task.Task) {
	telemetry.Note(ctx, telemetry.KeyProject, t.Project, telemetry.KeyTask, t.ID.Short())
}
