package aws_test

import (
	"fmt"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func TestB29TheEndOfAContainerFindsItsRunAndSaysWhy(t *testing.T) {
	req.Covers(t, "B29", "CR-002")
	const task = "c0ffee00-ac96-474b-bcce-b302099a8057"
	by := fargate.TagOf("acme", task, 3)
	for _, c := range []struct {
		detail string
		exit   int
		class  turn.Class
		reason string
	}{
		{`"stopCode":"TaskFailedToStart","stoppedReason":"Timeout waiting for network interface provisioning to complete."`, -1, turn.Network, "the container was never started: its network interface was not ready in time"},
		{`"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited","containers":[{"name":"agent","exitCode":1},{"name":"supervisor","exitCode":137}]`, 137, turn.Unknown, "OOM killed or SIGKILL (exit code 137)"},
		{`"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited","containers":[{"name":"supervisor","exitCode":0}]`, 0, turn.Unknown, "ended normally (exit code 0)"},
		{`"stopCode":"TaskFailedToStart","stoppedReason":"CannotPullContainerError: pull access denied","containers":[{"name":"supervisor","image":"lazy/supervisor@sha256:1"},{"name":"agent","image":"example.com/shop@sha256:2"}]`, -1, turn.FatalConfig, "the image cannot be pulled: the registry refuses access; image example.com/shop@sha256:2"},
		{`"stopCode":"TaskFailedToStart","stoppedReason":"Essential container in task exited","containers":[{"name":"supervisor","image":"lazy/supervisor@sha256:1","reason":"CannotPullContainerError: manifest unknown"},{"name":"agent","image":"example.com/shop@sha256:2"}]`, -1, turn.FatalConfig, "the image cannot be pulled: there is no image of that digest; image lazy/supervisor@sha256:1"},
		{`"stopCode":"SpotInterruption","stoppedReason":"Your Spot Task was interrupted."`, -1, turn.Overload, "the spare capacity it ran on was taken back"},
	} {
		got, ours, err := aws.Container(fmt.Appendf(nil, `{"lastStatus":"STOPPED","startedBy":%q,%s}`, by, c.detail))
		if err != nil || !ours || got.Tenant != "acme" || got.Task != task || got.Epoch != 3 {
			t.Fatalf("%s: %+v, %t, %v", c.detail, got, ours, err)
		}
		if r := got.Report; r.ExitCode != c.exit || r.Class != c.class || r.Reason != c.reason {
			t.Errorf("%s: %d, %s, %s", c.detail, r.ExitCode, r.Class, r.Reason)
		}
	}
	for _, detail := range []string{
		`{"lastStatus":"RUNNING","startedBy":"` + by + `"}`, `{"lastStatus":"STOPPED","startedBy":"ecs-svc/123"}`,
		`{"lastStatus":"STOPPED","startedBy":"a#b/x/1"}`, `{"lastStatus":"STOPPED"}`,
	} {
		if _, ours, err := aws.Container([]byte(detail)); ours || err != nil {
			t.Errorf("%s is taken for ours: %v", detail, err)
		}
	}
	if _, _, err := aws.Container([]byte(`[]`)); err == nil {
		t.Error("what is no task is read")
	}
}
