package fargate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// cause is a row of the table from what ECS says of an end to what it means. The
// first row whose text occurs decides.
type cause struct {
	text  string // in the stopped reason, lower case
	class turn.Class
	words string // for people; "" is ECS's own text
}

// causes are the ends that are not the word of a process. What a person has to
// set right is fatal; the platform's own troubles pass.
func causes() []cause {
	return []cause{
		{"timeout waiting for network interface", turn.Network, "the container was never started: its network interface was not ready in time"},
		{"toomanyrequests", turn.Overload, "the image could not be pulled: the registry limits requests"},
		{"no basic auth credentials", turn.FatalConfig, "the image cannot be pulled: the registry asks for a login"},
		{"pull access denied", turn.FatalConfig, "the image cannot be pulled: the registry refuses access"},
		{"not authorized", turn.FatalConfig, ""},
		{"accessdenied", turn.FatalConfig, ""},
		{"manifest unknown", turn.FatalConfig, "the image cannot be pulled: there is no image of that digest"},
		{"image manifest does not contain descriptor", turn.FatalConfig, "the image is not made for this processor"},
		{"not found", turn.FatalConfig, ""},
		{"cannotpullcontainer", turn.Network, ""},
		{"resourceinitializationerror", turn.Network, ""},
		{"exec format error", turn.FatalConfig, "the image is not made for this processor"},
		{"no such file or directory", turn.FatalConfig, ""},
		{"cannotstartcontainererror", turn.FatalConfig, ""},
		{"cannotcreatevolume", turn.FatalConfig, ""},
		{"capacity is unavailable", turn.Overload, "there is no capacity at the moment"},
		{"spot task was interrupted", turn.Overload, "the spare capacity it ran on was taken back"},
		{"infrastructure maintenance", turn.Network, "the machine it ran on is being retired"},
		{"underlying infrastructure", turn.Network, "the machine it ran on failed"},
		{"internalerror", turn.Network, "the platform failed"},
	}
}

// Ended says how a stopped task ended, in the words that a local end has (CR-002).
func Ended(t types.Task) runner.Report {
	rep := runner.Report{Sight: runner.Gone, ExitCode: -1, Class: turn.Unknown}
	said := aws.ToString(t.StoppedReason)
	for _, c := range t.Containers {
		text := aws.ToString(c.Reason)
		if strings.Contains(text, "OutOfMemory") {
			rep.ExitCode, rep.Reason = 137, runner.Reason(137)
			if name := aws.ToString(c.Name); name != "" {
				rep.Reason += ", in the " + name + "'s container"
			}
			return rep
		}
		if text != "" && !strings.Contains(said, text) {
			said = strings.TrimPrefix(said+": "+text, ": ")
		}
		if name := aws.ToString(c.Name); (name == Supervisor || name == Broker) && c.ExitCode != nil {
			rep.ExitCode = int(*c.ExitCode)
		}
	}
	switch t.StopCode {
	case types.TaskStopCodeSpotInterruption:
		rep.Class, rep.Reason = turn.Overload, "the spare capacity it ran on was taken back"
		return rep
	case types.TaskStopCodeUserInitiated:
		rep.Reason = "stopped: " + cmp.Or(said, "by a call to ECS")
		return rep
	case types.TaskStopCodeTerminationNotice, types.TaskStopCodeInfrastructureHealth:
		rep.Class, rep.Reason = turn.Network, "the machine it ran on was taken away"
		return rep
	case types.TaskStopCodeEssentialContainerExited:
		if rep.ExitCode >= 0 {
			rep.Reason = runner.Reason(rep.ExitCode)
			return rep
		}
	case types.TaskStopCodeTaskFailedToStart, types.TaskStopCodeServiceSchedulerInitiated:
	}
	lower := strings.ToLower(said)
	for _, c := range causes() {
		if strings.Contains(lower, c.text) {
			rep.Class, rep.Reason = c.class, cmp.Or(c.words, said)
			if image := culprit(t, lower); image != "" && !strings.Contains(rep.Reason, image) {
				rep.Reason += "; image " + image
			}
			return rep
		}
	}
	switch {
	case rep.ExitCode >= 0:
		rep.Reason = runner.Reason(rep.ExitCode)
	case said != "":
		rep.Reason = said
	default:
		rep.Reason = runner.Reason(-1)
	}
	return rep
}

// culprit is the image that a start failed for, "" where no image is to blame: that
// of the container that has a reason, else the agent's, which the project chose.
func culprit(t types.Task, said string) string {
	if !strings.Contains(said, "pull") && !strings.Contains(said, "start") && !strings.Contains(said, "exec") && !strings.Contains(said, "create") {
		return ""
	}
	image := ""
	for _, c := range t.Containers {
		of := aws.ToString(c.Image)
		if aws.ToString(c.Reason) != "" {
			return of
		}
		if aws.ToString(c.Name) == Agent {
			image = of
		}
	}
	return image
}

// capacityError says that ECS started nothing because it has no room.
type capacityError struct{ reason string }

func (e *capacityError) Error() string { return "no capacity: " + e.reason }

// failed turns the failures of a RunTask that answered 200 into an error.
func failed(fs []types.Failure) error {
	if len(fs) == 0 {
		return fault.New(fault.Unavailable, "ECS started nothing and does not say why")
	}
	reason := strings.TrimSpace(aws.ToString(fs[0].Reason) + " " + aws.ToString(fs[0].Detail))
	lower := strings.ToLower(reason)
	switch {
	case strings.Contains(lower, "capacity"), strings.HasPrefix(lower, "resource:"):
		return fault.Wrap(fault.Unavailable, &capacityError{reason}, "there is no capacity to start the run at the moment")
	case strings.Contains(lower, "limit"):
		return fault.Wrap(fault.Limited, errors.New(reason), "the account's limit of running Fargate tasks is reached").
			WithNext("Raise the quota, or wait until a run ends.")
	}
	return fault.Wrap(fault.Unavailable, errors.New(reason), "ECS started nothing: %s", reason)
}

// refused says what a caller may do about an error of ECS.
func refused(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if _, cut := errors.AsType[*smithy.DeserializationError](err); cut {
		return fault.Wrap(fault.Unavailable, err, "ECS does not answer whole")
	}
	if e := fault.Deployment(err, "the cluster of runs, or its task definitions,"); e != nil {
		return e
	}
	code, status := "", 0
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code = e.ErrorCode()
	}
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = e.HTTPStatusCode()
	}
	switch {
	case code == "InvalidParameterException", code == "BlockedException",
		code == "UnsupportedFeatureException", code == "PlatformUnknownException", code == "PlatformTaskDefinitionIncompatibilityException":
		return fault.Wrap(fault.Internal, err, "ECS refuses the control plane (%s)", code).
			WithNext("Check the deployment with `lazy doctor --aws`.")
	case code == "LimitExceededException":
		return fault.Wrap(fault.Limited, err, "a limit of ECS is reached").WithNext("Raise the quota, or wait until a run ends.")
	case code == "ThrottlingException", status >= http.StatusInternalServerError, status == 0:
		return fault.Wrap(fault.Unavailable, err, "ECS does not answer")
	case code == "ClientException" && strings.Contains(strings.ToLower(err.Error()), "capacity"):
		return fault.Wrap(fault.Unavailable, &capacityError{code}, "there is no capacity to start the run at the moment")
	}
	return fmt.Errorf("call ECS: %w", err)
}

// missing reports whether ECS does not know what it was asked about.
func missing(err error) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && (strings.Contains(e.ErrorMessage(), "was not found") || strings.Contains(e.ErrorMessage(), "not be found"))
}
