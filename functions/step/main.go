// Command step is the Lambda function behind every Task state of the flows. The
// payload names the step and its version.
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main("step")
	run := step.Handler(p.App)
	do := p.Trace.Step(step.Logged(step.Answered(func(ctx context.Context, payload []byte) ([]byte, error) {
		aws.Invoked(ctx)
		if err := p.Open(ctx); err != nil {
			return nil, err
		}
		return run(ctx, payload)
	}), p.Log, p.Base().Now))
	lambda.Start(func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) {
		out, err := do(ctx, payload)
		if err != nil {
			// A definition sees the type; people read the message in the cause.
			name, text := step.Failure(err)
			return nil, messages.InvokeResponse_Error{Type: name, Message: text}
		}
		return out, nil
	})
}
