// Package sfn runs executions on AWS Step Functions. It adds nothing to the
// service but this product's names and errors.
package sfn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// maxError and maxCause are the service's limits on what a failure may say.
const (
	maxError = 256
	maxCause = 32768
)

// Engine is the adapter.
type Engine struct {
	api      *sfn.Client
	machines map[string]string
}

var _ engine.Engine = (*Engine)(nil)

// New returns an adapter for the state machines whose ARNs are given by name.
func New(api *sfn.Client, machines map[string]string) (*Engine, error) {
	for name, arn := range machines {
		if parts := strings.Split(arn, ":"); len(parts) != 7 || parts[2] != "states" || parts[5] != "stateMachine" {
			return nil, fmt.Errorf("state machine of flow %s: %q is not the ARN of one", name, arn)
		}
	}
	return &Engine{api: api, machines: machines}, nil
}

func (e *Engine) machine(name string) (string, error) {
	arn, ok := e.machines[name]
	if !ok {
		return "", fault.New(fault.Invalid, "there is no flow called %q", name)
	}
	return arn, nil
}

// ExecutionARN returns the ARN of an execution, by which its history is found.
func (e *Engine) ExecutionARN(machine, name string) (string, error) {
	arn, err := e.machine(machine)
	if err != nil {
		return "", err
	}
	return strings.Replace(arn, ":stateMachine:", ":execution:", 1) + ":" + name, nil
}

// Start begins an execution; the service itself makes a repeated start the same
// execution (SY-045).
func (e *Engine) Start(ctx context.Context, machine, name string, input []byte) error {
	arn, err := e.machine(machine)
	if err != nil {
		return err
	}
	_, err = e.api.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: aws.String(arn),
		Name:            aws.String(name),
		Input:           aws.String(string(input)),
	})
	return explain(err, "start execution %s of %s", name, machine)
}

// Describe reports where an execution stands.
func (e *Engine) Describe(ctx context.Context, machine, name string) (engine.Execution, error) {
	arn, err := e.ExecutionARN(machine, name)
	if err != nil {
		return engine.Execution{}, err
	}
	out, err := e.api.DescribeExecution(ctx, &sfn.DescribeExecutionInput{ExecutionArn: aws.String(arn)})
	if err != nil {
		return engine.Execution{}, explain(err, "describe execution %s of %s", name, machine)
	}
	state := engine.State(out.Status)
	if out.Status == types.ExecutionStatusPendingRedrive {
		state = engine.Running
	}
	return engine.Execution{
		Machine: machine,
		Name:    name,
		State:   state,
		Input:   []byte(aws.ToString(out.Input)),
		Output:  []byte(aws.ToString(out.Output)),
		Error:   aws.ToString(out.Error),
		Cause:   aws.ToString(out.Cause),
		Started: aws.ToTime(out.StartDate),
		Stopped: aws.ToTime(out.StopDate),
	}, nil
}

// Stop ends a running execution. It looks first, because what the service does
// to a closed one is not documented.
func (e *Engine) Stop(ctx context.Context, machine, name, cause string) error {
	x, err := e.Describe(ctx, machine, name)
	if err != nil || x.State != engine.Running {
		return err
	}
	arn, err := e.ExecutionARN(machine, name)
	if err != nil {
		return err
	}
	_, err = e.api.StopExecution(ctx, &sfn.StopExecutionInput{
		ExecutionArn: aws.String(arn),
		Cause:        aws.String(cut(cause, maxCause)),
	})
	return explain(err, "stop execution %s of %s", name, machine)
}

// Succeed answers a task token with a result.
func (e *Engine) Succeed(ctx context.Context, token string, output []byte) error {
	_, err := e.api.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{
		TaskToken: aws.String(token),
		Output:    aws.String(string(output)),
	})
	return explain(err, "answer a task token")
}

// Fail answers a task token with an error.
func (e *Engine) Fail(ctx context.Context, token, errorName, cause string) error {
	_, err := e.api.SendTaskFailure(ctx, &sfn.SendTaskFailureInput{
		TaskToken: aws.String(token),
		Error:     aws.String(cut(errorName, maxError)),
		Cause:     aws.String(cut(cause, maxCause)),
	})
	return explain(err, "fail a task token")
}

// Beat keeps a task token's heartbeat alive.
func (e *Engine) Beat(ctx context.Context, token string) error {
	_, err := e.api.SendTaskHeartbeat(ctx, &sfn.SendTaskHeartbeatInput{TaskToken: aws.String(token)})
	return explain(err, "beat a task token")
}

// cut shortens s to n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// explain maps the service's errors: to the port's sentinels, to unavailable for
// what the same call may overcome later, and to invalid for what it never will.
func explain(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf(format, args...)
	var (
		used    *types.ExecutionAlreadyExists
		none    *types.ExecutionDoesNotExist
		noTask  *types.TaskDoesNotExist
		late    *types.TaskTimedOut
		noToken *types.InvalidToken
		input   *types.InvalidExecutionInput
		output  *types.InvalidOutput
		name    *types.InvalidName
		full    *types.ExecutionLimitExceeded
	)
	if e := fault.Deployment(err, "the flow engine, or one of its flows,"); e != nil {
		return e
	}
	switch {
	case errors.As(err, &used):
		return fmt.Errorf("%s: %w (%w)", what, engine.ErrNameUsed, err)
	case errors.As(err, &none):
		return fmt.Errorf("%s: %w (%w)", what, engine.ErrNoExecution, err)
	case errors.As(err, &noTask), errors.As(err, &late), errors.As(err, &noToken):
		return fmt.Errorf("%s: %w (%w)", what, engine.ErrTokenGone, err)
	case errors.As(err, &input), errors.As(err, &output), errors.As(err, &name):
		return fault.Wrap(fault.Invalid, err, "the flow engine refuses this input")
	case errors.As(err, &full), passing(err):
		return fault.Wrap(fault.Unavailable, err, "the flow engine does not answer at the moment")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// passing reports whether the SDK itself would have tried again: throttling, a
// broken connection, a server error.
func passing(err error) bool {
	for _, r := range retry.DefaultRetryables {
		if r.IsErrorRetryable(err) == aws.TrueTernary {
			return true
		}
	}
	for _, c := range retry.DefaultThrottles {
		if c.IsErrorThrottle(err) == aws.TrueTernary {
			return true
		}
	}
	return false
}
