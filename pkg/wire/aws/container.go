package aws

import (
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
)

// Container reads the detail of an ECS task's change, whose end is worded as the
// runner words it when it looks for itself.
func Container(detail []byte) (feed.Ending, bool, error) {
	var d struct {
		Status     string             `json:"lastStatus"`
		StartedBy  string             `json:"startedBy"`
		StopCode   types.TaskStopCode `json:"stopCode"`
		Reason     *string            `json:"stoppedReason"`
		Containers []struct {
			Name   *string `json:"name"`
			Image  *string `json:"image"`
			Exit   *int32  `json:"exitCode"`
			Reason *string `json:"reason"`
		} `json:"containers"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return feed.Ending{}, false, err
	}
	tenant, task, epoch, ours := fargate.ParseTag(d.StartedBy)
	if !ours || d.Status != "STOPPED" {
		return feed.Ending{}, false, nil
	}
	t := types.Task{StopCode: d.StopCode, StoppedReason: d.Reason}
	for _, c := range d.Containers {
		t.Containers = append(t.Containers, types.Container{Name: c.Name, Image: c.Image, ExitCode: c.Exit, Reason: c.Reason})
	}
	return feed.Ending{Tenant: tenant, Task: task, Epoch: epoch, Report: fargate.Ended(t)}, true, nil
}
