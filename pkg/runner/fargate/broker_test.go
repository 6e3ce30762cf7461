package fargate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
)

// A broker has one container, of our image, on capacity that nobody takes back; a
// second launch is the first, and its end is told by its own exit code.
func (e emulator) TheBrokerOfAnAcceptIsAContainerOfItsOwn(t *testing.T) {
	r := e.rig(t)
	r.c.Spot = true
	r.c.Image = func(context.Context, runner.Spec) (string, error) {
		return "", fault.New(fault.Invalid, "a broker asks for no image of a project")
	}
	var registered map[string]any
	r.answer = func(action string, in map[string]any) (int, string, bool) {
		if action == "RegisterTaskDefinition" {
			registered = in
		}
		return 0, "", false
	}
	s := spec(7)
	s.Broker = true
	ref, err := r.runner().Launch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.runner().Launch(t.Context(), s); err != nil || again != ref || len(r.tokens) != 1 {
		t.Errorf("launched again it is %q, %v; %d tasks", again, err, len(r.tokens))
	}
	all, _ := registered["containerDefinitions"].([]any)
	if len(all) != 1 || registered["taskRoleArn"] != nil {
		t.Fatalf("it is defined as %v", registered)
	}
	c := all[0].(map[string]any)
	if c["name"] != fargate.Broker || c["image"] != supervisor || fmt.Sprint(c["command"]) != "[broker --hosted --protocol-dir /lazy/private/run]" {
		t.Errorf("its container is %v", c)
	}
	if body := r.bodies[0]; !strings.Contains(body, `"capacityProvider":"FARGATE"`) || !strings.Contains(body, `"name":"broker"`) || strings.Count(body, "lzn_local_canary") != 1 {
		t.Errorf("it is started by %s", body)
	}
	arn, _, _ := strings.Cut(ref, " ")
	r.end(arn, exited(fargate.Broker, 3))
	if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Gone || rep.ExitCode != 3 {
		t.Errorf("its end is %+v, %v", rep, err)
	}
}
