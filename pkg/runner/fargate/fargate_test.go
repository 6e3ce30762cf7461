package fargate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/runner/runnertest"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// TestOnECS starts one emulator for all: its start takes longer than everything
// else.
func TestOnECS(t *testing.T) {
	e := emulator{moto.Start(t)}
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"TasksOnECSKeepTheContract", e.TasksOnECSKeepTheContract},
		{"B24ALauncherThatDiesAfterRunTaskLeavesItsTaskToTheNext", e.B24ALauncherThatDiesAfterRunTaskLeavesItsTaskToTheNext},
		{"AnOrphanIsFoundByOurTagBeforeAnythingIsStarted", e.AnOrphanIsFoundByOurTagBeforeAnythingIsStarted},
		{"ALaunchThatMayBeUnderWayIsNeitherFoundNorMissing", e.ALaunchThatMayBeUnderWayIsNeitherFoundNorMissing},
		{"B25AnECSThatDoesNotAnswerSaysNothingAboutARun", e.B25AnECSThatDoesNotAnswerSaysNothingAboutARun},
		{"ATaskThatECSForgotIsGoneOnlyUnderAnARNThatWeRecorded", e.ATaskThatECSForgotIsGoneOnlyUnderAnARNThatWeRecorded},
		{"GoneIsStoppedForgottenOrTwiceNotFound", e.GoneIsStoppedForgottenOrTwiceNotFound},
		{"ARunTaskThatAnswers200WithFailuresStartedNothing", e.ARunTaskThatAnswers200WithFailuresStartedNothing},
		{"SpareCapacityFallsBackToWhatIsAlwaysThere", e.SpareCapacityFallsBackToWhatIsAlwaysThere},
		{"TheNonceIsTheOnlySecretInALaunchWhichStaysBelowItsLimit", e.TheNonceIsTheOnlySecretInALaunchWhichStaysBelowItsLimit},
		{"EachImageDigestHasOneDefinitionWithoutRightsOrSecrets", e.EachImageDigestHasOneDefinitionWithoutRightsOrSecrets},
		{"B29TheEndOfATaskSaysWhatHappenedAndWhatKindOfFailureItIs", e.B29TheEndOfATaskSaysWhatHappenedAndWhatKindOfFailureItIs},
		{"ATaskBeyondTheMaximumAgeIsStoppedWhateverItSays", e.ATaskBeyondTheMaximumAgeIsStoppedWhateverItSays},
		{"ErrorsOfECSSayWhatACallerMayDo", e.ErrorsOfECSSayWhatACallerMayDo},
		{"TheBrokerOfAnAcceptIsAContainerOfItsOwn", e.TheBrokerOfAnAcceptIsAContainerOfItsOwn},
	} {
		t.Run(c.name, c.run)
	}
}

func (e emulator) TasksOnECSKeepTheContract(t *testing.T) {
	runnertest.Run(t, func(t *testing.T) runnertest.World { return world{e.rig(t)} })
}

func (e emulator) B24ALauncherThatDiesAfterRunTaskLeavesItsTaskToTheNext(t *testing.T) {
	req.Covers(t, "B24", "OW-11")
	r := e.rig(t)
	// The first launcher's answer is lost, as it is to one that dies.
	r.after = func(action string) bool { return action != "RunTask" }
	if ref, err := r.runner().Launch(t.Context(), spec(1)); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("a launch without an answer: %q, %v", ref, err)
	}
	it, err := r.db.Get(t.Context(), store.For(runnertest.Tenant).Task(runnertest.Task).Launch(1))
	if err != nil || strings.Contains(string(it.Doc), "canary") {
		t.Fatalf("the record of the launch: %s, %v", it.Doc, err)
	}
	r.after = nil
	next := spec(1)
	next.Nonce = "lzn_local_another"
	ref, err := r.runner().Launch(t.Context(), next)
	if err != nil || len(r.tokens) != 1 {
		t.Fatalf("the next launcher: %q, %v; %d tasks", ref, err, len(r.tokens))
	}
	if found, ok, err := r.runner().FindIn(t.Context(), runnertest.Tenant, runnertest.Task, 1); found != ref || !ok || err != nil {
		t.Errorf("found %q, %t, %v; want %q", found, ok, err, ref)
	}
}

func (e emulator) AnOrphanIsFoundByOurTagBeforeAnythingIsStarted(t *testing.T) {
	req.Covers(t, "B24", "SY-043")
	r := e.rig(t)
	r.after = func(action string) bool { return action != "RunTask" }
	_, _ = r.runner().Launch(t.Context(), spec(1))
	r.after = nil
	ref, ok, err := r.runner().FindIn(t.Context(), runnertest.Tenant, runnertest.Task, 1)
	if err != nil || !ok {
		t.Fatalf("found %q, %t, %v", ref, ok, err)
	}
	if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Alive {
		t.Errorf("the orphan: %+v, %v", rep, err)
	}
	if again, err := r.runner().Launch(t.Context(), spec(1)); err != nil || again != ref || len(r.bodies) != 1 {
		t.Errorf("launched again: %q, %v, %d calls of RunTask", again, err, len(r.bodies))
	}
	if by, ok, err := r.runner().Find(t.Context(), runnertest.Task, 1); by != ref || !ok || err != nil {
		t.Errorf("found without its tenant: %q, %t, %v", by, ok, err)
	}
}

func (e emulator) ALaunchThatMayBeUnderWayIsNeitherFoundNorMissing(t *testing.T) {
	req.Covers(t, "SY-043", "P7")
	r := e.rig(t)
	r.answer = func(action string, _ map[string]any) (int, string, bool) {
		return 503, `{"__type":"ServerException"}`, action == "RunTask"
	}
	if _, err := r.runner().Launch(t.Context(), spec(1)); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("launch: %v", err)
	}
	find := func() (bool, error) {
		_, ok, err := r.runner().FindIn(t.Context(), runnertest.Tenant, runnertest.Task, 1)
		return ok, err
	}
	if ok, err := find(); ok || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("at once: %t, %v; ECS may list it a moment later", ok, err)
	}
	r.now = r.now.Add(5*time.Minute - time.Nanosecond)
	for range 3 {
		if ok, err := find(); ok || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("just before five minutes are over: %t, %v", ok, err)
		}
	}
	r.now = r.now.Add(time.Nanosecond)
	if ok, err := find(); ok || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the first look after five minutes: %t, %v", ok, err)
	}
	if ok, err := find(); ok || err != nil {
		t.Errorf("the second: %t, %v", ok, err)
	}
}

// What ECS says proves that a run is gone in three ways, and in no other.
func (e emulator) GoneIsStoppedForgottenOrTwiceNotFound(t *testing.T) {
	req.Covers(t, "OW-07")
	r := e.rig(t)
	sight := func(ref string) runner.Sight {
		t.Helper()
		rep, err := r.runner().Observe(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return rep.Sight
	}
	ref, arn := r.launch(t, 1)
	if got := sight(ref); got != runner.Alive {
		t.Errorf("a task that runs is %v", got)
	}
	r.forgot[arn] = true
	for _, c := range []struct {
		after time.Duration // since the launch
		want  runner.Sight
	}{{0, runner.Unclear}, {5*time.Minute - time.Nanosecond, runner.Unclear}, {5 * time.Minute, runner.Gone}} {
		launched := r.now
		r.now = r.now.Add(c.after)
		if got := sight(ref); got != c.want {
			t.Errorf("MISSING %s after its launch it is %v, want %v", c.after, got, c.want)
		}
		r.now = launched
	}
	if got := sight(strings.Replace(ref, arn, arn[:len(arn)-4]+"ffff", 1)); got != runner.Unclear {
		t.Errorf("an ARN that was never recorded is %v", got)
	}
	ended, arn := r.launch(t, 2)
	r.end(arn, exited(fargate.Supervisor, 0))
	if got := sight(ended); got != runner.Gone {
		t.Errorf("a STOPPED task is %v", got)
	}
	// A launch whose answer was lost has no ARN.
	r.answer = func(action string, _ map[string]any) (int, string, bool) {
		return 503, `{"__type":"ServerException"}`, action == "RunTask"
	}
	if _, err := r.runner().Launch(t.Context(), spec(3)); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("launch: %v", err)
	}
	r.now = r.now.Add(5 * time.Minute)
	look := func(what string, want fault.Kind) {
		t.Helper()
		if _, ok, err := r.runner().FindIn(t.Context(), runnertest.Tenant, runnertest.Task, 3); ok || fault.KindOf(err) != want {
			t.Errorf("%s: %t, %v", what, ok, err)
		}
	}
	look("the first look-up", fault.Unavailable)
	look("the second", "")
	// Launched once more, and its answer lost again, it has its own five minutes.
	if _, err := r.runner().Launch(t.Context(), spec(3)); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("the next launch: %v", err)
	}
	look("at once after the next launch", fault.Unavailable)
	look("and again", fault.Unavailable)
}

func (e emulator) B25AnECSThatDoesNotAnswerSaysNothingAboutARun(t *testing.T) {
	req.Covers(t, "B25", "SY-043", "P7")
	r := e.rig(t)
	ref, arn := r.launch(t, 1)
	r.now = r.now.Add(2 * time.Hour)
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"server error":   {500, `{"__type":"ServerException"}`},
		"throttled":      {400, `{"__type":"ThrottlingException"}`},
		"another reason": {200, fmt.Sprintf(`{"tasks":[],"failures":[{"arn":%q,"reason":"ACCESS"}]}`, arn)},
	} {
		r.answer = func(action string, _ map[string]any) (int, string, bool) {
			return c.status, c.body, action == "DescribeTasks"
		}
		if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Unclear {
			t.Errorf("%s: %+v, %v; want unclear", name, rep, err)
		}
	}
	r.answer = nil
	r.after = func(string) bool { return false }
	if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Unclear {
		t.Errorf("no connection: %+v, %v", rep, err)
	}
}

func (e emulator) ATaskThatECSForgotIsGoneOnlyUnderAnARNThatWeRecorded(t *testing.T) {
	req.Covers(t, "SY-043")
	r := e.rig(t)
	ref, arn := r.launch(t, 1)
	r.forgot[arn] = true
	if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Unclear {
		t.Errorf("a moment after the launch: %+v, %v", rep, err)
	}
	r.now = r.now.Add(2 * time.Hour)
	if rep, err := r.runner().Observe(t.Context(), ref); err != nil || rep.Sight != runner.Gone || rep.Reason == "" {
		t.Errorf("two hours later: %+v, %v", rep, err)
	}
	other := strings.Replace(ref, arn, arn[:len(arn)-4]+"ffff", 1)
	if rep, err := r.runner().Observe(t.Context(), other); err != nil || rep.Sight != runner.Unclear {
		t.Errorf("an ARN that we never recorded: %+v, %v", rep, err)
	}
}

func (e emulator) ARunTaskThatAnswers200WithFailuresStartedNothing(t *testing.T) {
	for reason, want := range map[string]fault.Kind{
		"Capacity is unavailable at this time. Please try again later or in a different availability zone": fault.Unavailable,
		"RESOURCE:ENI": fault.Unavailable,
		"You've reached the limit on the number of vCPUs you can run concurrently": fault.Limited,
		"INACTIVE": fault.Unavailable,
		"":         fault.Unavailable,
	} {
		r := e.rig(t)
		r.answer = func(action string, _ map[string]any) (int, string, bool) {
			return 200, fmt.Sprintf(`{"tasks":[],"failures":[{"reason":%q}]}`, reason), action == "RunTask"
		}
		if ref, err := r.runner().Launch(t.Context(), spec(1)); fault.KindOf(err) != want || ref != "" {
			t.Errorf("%q: %q, %v; want a fault of kind %s", reason, ref, err, want)
		}
		r.answer = nil
		r.launch(t, 1) // it was not a launch: the next one is
	}
}

func (e emulator) SpareCapacityFallsBackToWhatIsAlwaysThere(t *testing.T) {
	r := e.rig(t)
	r.c.Spot = true
	var asked []string
	r.answer = func(action string, in map[string]any) (int, string, bool) {
		if action != "RunTask" {
			return 0, "", false
		}
		p := in["capacityProviderStrategy"].([]any)[0].(map[string]any)["capacityProvider"].(string)
		asked = append(asked, p+" "+in["clientToken"].(string))
		return 200, `{"tasks":[],"failures":[{"reason":"Capacity is unavailable at this time."}]}`, p == "FARGATE_SPOT"
	}
	ref, _ := r.launch(t, 1)
	if len(asked) != 2 || !strings.HasPrefix(asked[0], "FARGATE_SPOT ") || !strings.HasPrefix(asked[1], "FARGATE ") ||
		strings.Fields(asked[0])[1] == strings.Fields(asked[1])[1] {
		t.Errorf("asked %q", asked)
	}
	if again, _ := r.launch(t, 1); again != ref || len(asked) != 2 {
		t.Errorf("launched again: %q, %d calls", again, len(asked))
	}
	// An unknown outcome is no lack of capacity: the same request is repeated.
	r.answer = func(action string, _ map[string]any) (int, string, bool) { return 500, `{}`, action == "RunTask" }
	asked = nil
	if _, err := r.runner().Launch(t.Context(), spec(2)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("an unknown outcome: %v", err)
	}
	it, err := r.db.Get(t.Context(), store.For(runnertest.Tenant).Task(runnertest.Task).Launch(2))
	if err != nil || !strings.Contains(string(it.Doc), `"capacity":"FARGATE_SPOT","try":0`) {
		t.Errorf("the record says %s (%v)", it.Doc, err)
	}
}

func (e emulator) TheNonceIsTheOnlySecretInALaunchWhichStaysBelowItsLimit(t *testing.T) {
	req.Covers(t, "AG-025")
	r := e.rig(t)
	r.launch(t, 1)
	var in ecs.RunTaskInput
	if err := json.Unmarshal([]byte(r.bodies[0]), &in); err != nil {
		t.Fatal(err)
	}
	over, err := json.Marshal(in.Overrides)
	if err != nil || len(over) > fargate.MaxOverrides {
		t.Errorf("%d bytes of overrides (%v)", len(over), err)
	}
	env := in.Overrides.ContainerOverrides[0].Environment
	if len(in.Overrides.ContainerOverrides) != 1 || aws.ToString(in.Overrides.ContainerOverrides[0].Name) != fargate.Supervisor || len(env) != 1 {
		t.Fatalf("the overrides are %s", over)
	}
	var start map[string]any
	if err := json.Unmarshal([]byte(aws.ToString(env[0].Value)), &start); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sorted(start)); got != "[epoch nonce project target task_id tenant turn_id]" {
		t.Errorf("a launch hands over %s", got)
	}
	if strings.Count(r.bodies[0], "canary") != 1 || in.EnableExecuteCommand || aws.ToString(in.StartedBy) != fargate.TagOf(runnertest.Tenant, runnertest.Task, 1) {
		t.Errorf("the request is %s", r.bodies[0])
	}
	long := spec(2)
	long.Nonce = strings.Repeat("n", fargate.MaxOverrides)
	if _, err := r.runner().Launch(t.Context(), long); fault.KindOf(err) != fault.TooLarge || len(r.bodies) != 1 {
		t.Errorf("too large a launch: %v, %d calls", err, len(r.bodies))
	}
}

func (e emulator) EachImageDigestHasOneDefinitionWithoutRightsOrSecrets(t *testing.T) {
	req.Covers(t, "AG-022", "AG-026", "P8")
	r := e.rig(t)
	r.launch(t, 1)
	r.launch(t, 2)
	if n := r.count("RegisterTaskDefinition"); n != 1 {
		t.Errorf("one image was registered %d times", n)
	}
	other := strings.Replace(image, "sha256:1", "sha256:3", 1)
	r.c.Image = func(context.Context, runner.Spec) (string, error) { return other, nil }
	r.launch(t, 3)
	if n := r.count("RegisterTaskDefinition"); n != 2 {
		t.Errorf("two images were registered %d times", n)
	}
	for _, bad := range []string{"project:latest", "project", "project@sha256:12", strings.ToUpper(image)} {
		r.c.Image = func(context.Context, runner.Spec) (string, error) { return bad, nil }
		if _, err := r.runner().Launch(t.Context(), spec(4)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	list, err := r.api.ListTaskDefinitions(t.Context(), &ecs.ListTaskDefinitionsInput{})
	if err != nil || len(list.TaskDefinitionArns) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, arn := range list.TaskDefinitionArns {
		out, err := r.api.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: &arn})
		if err != nil {
			t.Fatal(err)
		}
		check(t, out.TaskDefinition)
	}
}

func check(t *testing.T, d *types.TaskDefinition) {
	t.Helper()
	if aws.ToString(d.TaskRoleArn) != "" || aws.ToString(d.ExecutionRoleArn) == "" || d.PidMode != "" || d.IpcMode != "" {
		t.Errorf("rights or namespaces: %+v", d)
	}
	writable := map[string]map[string]bool{}
	for _, c := range d.ContainerDefinitions {
		name := aws.ToString(c.Name)
		if !aws.ToBool(c.ReadonlyRootFilesystem) || aws.ToBool(c.Privileged) || len(c.Secrets) > 0 || len(c.Environment) > 0 {
			t.Errorf("%s: writable root, privilege, or something in its environment", name)
		}
		if c.LinuxParameters == nil || c.LinuxParameters.Capabilities == nil || len(c.LinuxParameters.Capabilities.Add) > 0 || len(c.LinuxParameters.Capabilities.Drop) < 9 {
			t.Errorf("%s: its capabilities are not listed", name)
		}
		if name != fargate.Helper && aws.ToInt32(c.StopTimeout) != 120 {
			t.Errorf("%s has %d s to end", name, aws.ToInt32(c.StopTimeout))
		}
		writable[name] = map[string]bool{}
		for _, m := range c.MountPoints {
			writable[name][aws.ToString(m.ContainerPath)] = !aws.ToBool(m.ReadOnly)
		}
	}
	if rw, ok := writable[fargate.Agent][names.HostedBin]; rw || !ok {
		t.Error("the agent's container can write the helper, or does not have it")
	}
	if _, ok := writable[fargate.Agent][names.HostedPrivate]; ok {
		t.Error("the agent's container has the supervisor's own directory")
	}
}

func (e emulator) B29TheEndOfATaskSaysWhatHappenedAndWhatKindOfFailureItIs(t *testing.T) {
	req.Covers(t, "B29", "CR-002", "RC-23")
	r := e.rig(t)
	ref, arn := r.launch(t, 1)
	start := func(reason string) map[string]any {
		return map[string]any{"stopCode": "TaskFailedToStart", "stoppedReason": reason}
	}
	for name, c := range map[string]struct {
		how   map[string]any
		code  int
		class turn.Class
		text  string
	}{
		"network interface": {start("Timeout waiting for network interface provisioning to complete."), -1, turn.Network, "never started"},
		"memory": {map[string]any{
			"stopCode": "EssentialContainerExited", "stoppedReason": "OutOfMemoryError: Container killed due to memory usage",
			"containers": []any{map[string]any{"name": "agent", "exitCode": 137, "reason": "OutOfMemoryError: Container killed due to memory usage"}},
		}, 137, turn.Unknown, "OOM killed or SIGKILL (exit code 137)"},
		"killed":        {exited(fargate.Supervisor, 137), 137, turn.Unknown, "OOM killed or SIGKILL (exit code 137)"},
		"normal":        {exited(fargate.Supervisor, 0), 0, turn.Unknown, "ended normally (exit code 0)"},
		"terminated":    {exited(fargate.Supervisor, 143), 143, turn.Unknown, "SIGTERM"},
		"spot":          {map[string]any{"stopCode": "SpotInterruption", "stoppedReason": "Your Spot Task was interrupted."}, -1, turn.Overload, "taken back"},
		"spot, no code": {map[string]any{"stoppedReason": "Your Spot Task was interrupted."}, -1, turn.Overload, "taken back"},
		"retirement":    {map[string]any{"stopCode": "TerminationNotice", "stoppedReason": "x"}, -1, turn.Network, "taken away"},
		"no image":      {start("CannotPullContainerError: failed to resolve ref: project@sha256:1: not found"), -1, turn.FatalConfig, "not found"},
		"no login":      {start("CannotPullContainerError: pull access denied for project, repository does not exist or may require 'docker login'"), -1, turn.FatalConfig, "refuses access"},
		"registry":      {start("CannotPullContainerError: dial tcp: i/o timeout"), -1, turn.Network, "timeout"},
		"rate limit":    {start("CannotPullContainerError: toomanyrequests: You have reached your pull rate limit"), -1, turn.Overload, "limits requests"},
		"processor":     {start("CannotPullContainerError: image Manifest does not contain descriptor matching platform 'linux/amd64'"), -1, turn.FatalConfig, "processor"},
		"init":          {start("ResourceInitializationError: failed to configure ENI"), -1, turn.Network, "ENI"},
		"no logs":       {start("ResourceInitializationError: AccessDeniedException: not authorized to perform logs:CreateLogStream"), -1, turn.FatalConfig, "not authorized"},
		"stopped":       {map[string]any{"stopCode": "UserInitiated", "stoppedReason": "recovery"}, -1, turn.Unknown, "stopped: recovery"},
		"capacity":      {start("Capacity is unavailable at this time."), -1, turn.Overload, "no capacity"},
		"nothing said":  {map[string]any{}, -1, turn.Unknown, "without an exit code"},
	} {
		r.end(arn, c.how)
		rep, err := r.runner().Observe(t.Context(), ref)
		if err != nil || rep.Sight != runner.Gone || rep.ExitCode != c.code || rep.Class != c.class || !strings.Contains(rep.Reason, c.text) {
			t.Errorf("%s: %+v, %v; want code %d, class %s, %q", name, rep, err, c.code, c.class, c.text)
		}
	}
}

func (e emulator) ATaskBeyondTheMaximumAgeIsStoppedWhateverItSays(t *testing.T) {
	req.Covers(t, "SY-047")
	r := e.rig(t)
	_, old := r.launch(t, 1)
	_, fresh := r.launch(t, 2)
	foreign, err := r.api.RunTask(t.Context(), &ecs.RunTaskInput{
		Cluster: aws.String("lazy"), TaskDefinition: aws.String("none"), StartedBy: aws.String("somebody"), ClientToken: aws.String("x"),
	})
	if err == nil && len(foreign.Tasks) > 0 {
		r.created[aws.ToString(foreign.Tasks[0].TaskArn)] = 0
	}
	r.created[old] = float64(r.now.Add(-7 * time.Hour).Unix())
	r.created[fresh] = float64(r.now.Add(-5 * time.Hour).Unix())
	refs, err := r.runner().StopOverdue(t.Context())
	if err != nil || len(refs) != 1 || !strings.HasPrefix(refs[0], old+" ") {
		t.Errorf("stopped %q, %v; want %s alone", refs, err, old)
	}
	if rep, err := r.runner().Observe(t.Context(), refs[0]); err != nil || rep.Sight != runner.Gone {
		t.Errorf("the old one: %+v, %v", rep, err)
	}
}

func (e emulator) ErrorsOfECSSayWhatACallerMayDo(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   fault.Kind
	}{
		"ClusterNotFoundException":  {400, fault.Unavailable},
		"InvalidParameterException": {400, fault.Internal},
		"AccessDeniedException":     {400, fault.Unavailable},
		"ExpiredTokenException":     {400, fault.Unavailable},
		"LimitExceededException":    {400, fault.Limited},
		"ThrottlingException":       {400, fault.Unavailable},
		"ServerException":           {500, fault.Unavailable},
	} {
		r := e.rig(t)
		r.answer = func(action string, _ map[string]any) (int, string, bool) {
			return c.status, fmt.Sprintf(`{"__type":%q,"message":"secret-detail"}`, code), action == "RunTask"
		}
		_, err := r.runner().Launch(t.Context(), spec(1))
		if fault.KindOf(err) != c.want || strings.Contains(fault.Of(err).Public, "secret-detail") {
			t.Errorf("%s: %v, want a fault of kind %s", code, err, c.want)
		}
	}
	r := e.rig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.runner().Launch(ctx, spec(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled launch: %v", err)
	}
}

func TestATagIsTakenApartExactly(t *testing.T) {
	tag := fargate.TagOf("acme", runnertest.Task, 12)
	if tenant, task, epoch, ok := fargate.ParseTag(tag); !ok || tenant != "acme" || task != runnertest.Task || epoch != 12 {
		t.Errorf("%q: %q %q %d %t", tag, tenant, task, epoch, ok)
	}
	for _, bad := range []string{"", "ecs-svc/123", "acme/x/1", tag + "/1", tag + "x", strings.Replace(tag, "/12", "/012", 1), "/" + string(runnertest.Task) + "/1"} {
		if _, _, _, ok := fargate.ParseTag(bad); ok {
			t.Errorf("%q is taken for a tag", bad)
		}
	}
}
