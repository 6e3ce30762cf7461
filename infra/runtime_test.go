package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
)

func seconds(v any) time.Duration {
	f, _ := v.(float64)
	return time.Duration(f * float64(time.Second))
}

func functionOf(t *testing.T, got template, surface string) resource {
	t.Helper()
	for _, f := range got.of("AWS::Lambda::Function") {
		if strings.HasPrefix(text(f.at("Description")), "lazyplane "+surface+":") {
			return f
		}
	}
	t.Fatalf("no function is %s", surface)
	return resource{}
}

func TestEverySurfaceIsAFunctionOfItsOwn(t *testing.T) {
	got := deployed(t)
	if n := len(got.of("AWS::Lambda::Function")); n != len(names.Surfaces()) {
		t.Errorf("%d functions for %d surfaces", n, len(names.Surfaces()))
	}
	for _, s := range names.Surfaces() {
		f := functionOf(t, got, s)
		if text(f.at("Runtime")) != "provided.al2023" || text(f.at("Handler")) != "bootstrap" || !slices.Equal(texts(f.at("Architectures")), []string{"arm64"}) {
			t.Errorf("%s runs as %v %v on %v", s, f.at("Runtime"), f.at("Handler"), f.at("Architectures"))
		}
		logs := strings.Trim(text(f.at("LoggingConfig", "LogGroup")), "<>")
		if got.Resources[logs].at("RetentionInDays") == nil {
			t.Errorf("the log of %s is kept for ever", s)
		}
	}
}

func TestAHeldRequestAnswersBeforeItsFunctionEndsAndThatBeforeTheAPI(t *testing.T) {
	got := deployed(t)
	holds := map[string]time.Duration{names.SurfaceRPC: names.HopHosted, names.SurfaceMCP: names.HopMCPDirect, names.SurfaceRunner: names.HopHosted}
	for s, hop := range holds {
		if f := seconds(functionOf(t, got, s).at("Timeout")); f < hop+3*time.Second || f > hop+10*time.Second {
			t.Errorf("%s holds for %s and is ended after %s", s, hop, f)
		}
	}
	methods := got.of("AWS::ApiGateway::Method")
	if len(methods) < 7 {
		t.Fatalf("%d methods", len(methods))
	}
	for _, m := range methods {
		in := m.at("Integration")
		if text(at(in, "Type")) != "AWS_PROXY" || text(at(in, "ResponseTransferMode")) != "STREAM" {
			t.Errorf("%s answers by %v %v", m.ID, at(in, "Type"), at(in, "ResponseTransferMode"))
		}
		uri := text(at(in, "Uri"))
		if !strings.Contains(uri, "response-streaming-invocations") {
			t.Errorf("%s does not stream: %s", m.ID, uri)
		}
		waits := time.Duration(at(in, "TimeoutInMillis").(float64)) * time.Millisecond
		for s := range holds {
			if strings.Contains(uri, "<"+title(s)+"FunctionLive") {
				if f := seconds(functionOf(t, got, s).at("Timeout")); waits <= f {
					t.Errorf("%s waits %s for a function of %s", m.ID, waits, f)
				}
			}
		}
	}
	origin := got.only(t, "AWS::CloudFront::Distribution").at("DistributionConfig", "Origins", 0, "CustomOriginConfig", "OriginReadTimeout")
	if gap := seconds(origin); gap < 2*names.Heartbeat || gap > time.Minute {
		t.Errorf("the front gives up after %s without a byte", gap)
	}
}

// plan is what matters here of a flow's definition.
type plan struct {
	States map[string]struct {
		Type           string
		Resource       string
		TimeoutSeconds int
	}
}

func TestAStepMayRunAsLongAsItsStateWaits(t *testing.T) {
	got := deployed(t)
	may := seconds(functionOf(t, got, names.SurfaceStep).at("Timeout"))
	for _, m := range names.Machines() {
		raw, err := os.ReadFile(filepath.Join("..", "statemachines", m+".asl.json"))
		if err != nil {
			t.Fatal(err)
		}
		var p plan
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		for name, s := range p.States {
			if s.Type == "Task" && !strings.HasSuffix(s.Resource, ".waitForTaskToken") && time.Duration(s.TimeoutSeconds)*time.Second > may {
				t.Errorf("state %s of %s waits %d s for a function that is ended after %s", name, m, s.TimeoutSeconds, may)
			}
		}
	}
}

func TestTheDefinitionsAreTheFilesAndTheirDataIsNotLogged(t *testing.T) {
	got := deployed(t)
	all := got.of("AWS::StepFunctions::StateMachine")
	if len(all) != len(names.Machines()) {
		t.Fatalf("%d state machines", len(all))
	}
	for _, m := range all {
		name := strings.TrimPrefix(text(m.at("StateMachineName")), preset().prefix()+"-")
		raw, err := os.ReadFile(filepath.Join("..", "statemachines", name+".asl.json"))
		if err != nil {
			t.Fatal(err)
		}
		if text(m.at("DefinitionString")) != string(raw) {
			t.Errorf("%s is not the file", name)
		}
		if m.at("LoggingConfiguration", "IncludeExecutionData") != false || m.at("LoggingConfiguration", "Level") != "ALL" {
			t.Errorf("%s logs %v", name, m.at("LoggingConfiguration"))
		}
	}
}

func TestWaitersCannotStarveTheOnesThatWork(t *testing.T) {
	reserved := func(got template, s string) any { return functionOf(t, got, s).at("ReservedConcurrentExecutions") }
	got := deployed(t)
	sum := 0.0
	for _, s := range []string{names.SurfaceStep, names.SurfaceEvents, names.SurfaceRunner} {
		n, _ := reserved(got, s).(float64)
		if n < 10 {
			t.Errorf("%s has %v reserved", s, n)
		}
		sum += n
	}
	if sum > 300 {
		t.Errorf("%v are reserved, which leaves the account too few", sum)
	}
	for _, s := range []string{names.SurfaceRPC, names.SurfaceMCP} {
		if reserved(got, s) != nil {
			t.Errorf("%s, which holds waiters, has %v reserved", s, reserved(got, s))
		}
	}
	for _, s := range names.Surfaces() {
		if reserved(deployedOtherwise(t), s) != nil {
			t.Errorf("%s reserves although it was told not to", s)
		}
	}
}

func TestAFunctionIsToldNamesAndAddressesOnly(t *testing.T) {
	known := regexp.MustCompile(`^v1$|^[0-9]+$|^example.com/[a-z]+@sha256:[ab]+$|^(<[A-Za-z0-9.:]+>,?)+$|^arn:<AWS::Partition>:states:[^ ]+$|^(prod|lazyplane-prod)$|^https://<[A-Za-z0-9.]+>$`)
	for _, s := range names.Surfaces() {
		vars := functionOf(t, deployed(t), s).at("Environment", "Variables").(map[string]any)
		for k, v := range vars {
			if k == names.EnvEdge {
				if !sameEdge(t, v) {
					t.Errorf("%s is told %s as the distribution's proof, which that does not send", s, text(v))
				}
				continue
			}
			if !known.MatchString(text(v)) {
				t.Errorf("%s is told %s=%s", s, k, text(v))
			}
		}
	}
}

// sameEdge compares what a function is told with what the distribution sends: a
// part of the stack's id, in place of anything of that name that a viewer sent.
func sameEdge(t *testing.T, told any) bool {
	t.Helper()
	d := deployed(t).only(t, "AWS::CloudFront::Distribution")
	h := d.at("DistributionConfig", "Origins", 0, "OriginCustomHeaders", 0)
	sent, _ := h.(map[string]any)
	return sent["HeaderName"] == names.HeaderEdge && text(sent["HeaderValue"]) == text(told) && strings.Contains(text(told), `{"Ref":"AWS::StackId"}`)
}

// What the stack tells a function is what its program asks for.
func TestEveryFunctionIsToldAllThatItAsksFor(t *testing.T) {
	for _, s := range names.Surfaces() {
		vars := functionOf(t, deployed(t), s).at("Environment", "Variables").(map[string]any)
		c, err := config.LoadHosted(func(name string) string {
			if name == "AWS_REGION" {
				return "us-east-1"
			}
			return text(vars[name])
		})
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		runs := s == names.SurfaceStep || s == names.SurfaceEvents
		if tells := s == names.SurfacePublish; (c.Bus != "") != tells || tells && c.Parked == "" {
			t.Errorf("%s is told the bus %q", s, c.Bus)
		}
		if (c.Fargate != nil) != runs || runs && (c.URL == "" || c.Parked == "" || len(c.Fargate.Subnets) != 2) {
			t.Errorf("%s is told %+v", s, c)
		}
	}
}

func TestOneBadRecordNeitherBlocksNorRepeatsItsNeighbours(t *testing.T) {
	got := deployed(t)
	maps := got.of("AWS::Lambda::EventSourceMapping")
	if len(maps) != 3 {
		t.Fatalf("%d feeds", len(maps))
	}
	for _, m := range maps {
		if !slices.Contains(texts(m.at("FunctionResponseTypes")), "ReportBatchItemFailures") {
			t.Errorf("%s repeats whole batches", m.ID)
		}
	}
	stream, changes := feedOf(t, got, "OutboxFeed"), feedOf(t, got, "ChangesFeed")
	for _, f := range []resource{stream, changes} {
		if f.at("BisectBatchOnFunctionError") != true || f.at("DestinationConfig", "OnFailure", "Destination") == nil {
			t.Errorf("a poison record holds %s up", f.ID)
		}
	}
	// Whoever tells others can hold up nobody, and has its own place for what it
	// cannot tell (B08).
	for _, apart := range []func(resource) string{
		func(f resource) string { return text(f.at("FunctionName")) },
		func(f resource) string { return text(f.at("DestinationConfig", "OnFailure", "Destination")) },
		func(f resource) string { return text(f.at("FilterCriteria", "Filters", 0, "Pattern")) },
	} {
		if a, b := apart(stream), apart(changes); a == b || a == "" || b == "" {
			t.Errorf("both consumers of the stream have %q", a)
		}
	}
	if f := text(changes.at("FilterCriteria", "Filters", 0, "Pattern")); !strings.Contains(f, store.For("a").Task("b").History(1).SK[:4]) || !strings.Contains(f, names.HistoryPrefix) {
		t.Errorf("history rows are called otherwise than %s", f)
	}
	if stream.at("BisectBatchOnFunctionError") != true || stream.at("DestinationConfig", "OnFailure", "Destination") == nil || stream.at("MaximumRetryAttempts") == nil {
		t.Errorf("a poison record holds the stream up: %v", stream.Properties)
	}
	want := []string{
		`{"eventName":["INSERT"],"dynamodb":{"Keys":{"sk":{"S":[{"prefix":"OUT#"}]}}}}`,
		`{"eventName":["INSERT","MODIFY"],"dynamodb":{"NewImage":{"follow":{"BOOL":[true]}}}}`,
	}
	for i, w := range want {
		if got := text(stream.at("FilterCriteria", "Filters", i, "Pattern")); got != w {
			t.Errorf("the stream sends %s, want %s", got, w)
		}
	}
	if !store.IsOutbox(store.Key{PK: "T#a#TSK#b", SK: names.OutboxPrefix + "1"}) || store.AttrFollow != names.TableFollow {
		t.Error("the store marks the rows that ask for work otherwise")
	}
	for _, q := range got.of("AWS::SQS::Queue") {
		if q.at("SqsManagedSseEnabled") != true {
			t.Errorf("%s is not encrypted", q.ID)
		}
		if strings.HasPrefix(q.ID, "Events") {
			if q.at("RedrivePolicy", "deadLetterTargetArn") == nil {
				t.Errorf("%s tries for ever", q.ID)
			}
			if v, f := seconds(q.at("VisibilityTimeout")), seconds(functionOf(t, got, names.SurfaceEvents).at("Timeout")); v < 6*f {
				t.Errorf("a message comes back after %s while a function of %s may have it", v, f)
			}
		}
	}
	if n := len(got.of("AWS::Events::Rule")); n != 3 {
		t.Errorf("%d rules", n)
	}
}

func feedOf(t *testing.T, got template, id string) resource {
	t.Helper()
	for _, m := range got.of("AWS::Lambda::EventSourceMapping") {
		if strings.HasPrefix(m.ID, id) {
			return m
		}
	}
	t.Fatalf("no feed is %s", id)
	return resource{}
}

func TestTheAPIIsThrottledAndWordsItsOwnErrorsLikeTheProduct(t *testing.T) {
	got := deployed(t)
	s := got.only(t, "AWS::ApiGateway::Stage").at("MethodSettings", 0)
	if at(s, "ThrottlingRateLimit") == nil || at(s, "ThrottlingBurstLimit") == nil || at(s, "DataTraceEnabled") != false {
		t.Errorf("the stage has %v", s)
	}
	for _, r := range got.of("AWS::ApiGateway::GatewayResponse") {
		var e struct {
			Error struct{ Code, Message string } `json:"error"`
		}
		if err := json.Unmarshal([]byte(text(r.at("ResponseTemplates", "application/json"))), &e); err != nil || e.Error.Code == "" || e.Error.Message == "" {
			t.Errorf("%s says %v: %v", r.ID, r.at("ResponseTemplates"), err)
		}
	}
	for _, word := range []string{"authorization", "header", "path\":\"$context.path", "querystring", "body"} {
		if strings.Contains(strings.ToLower(accessLog), word) {
			t.Errorf("the access log has the %s", word)
		}
	}
	if text(got.only(t, "AWS::ApiGateway::RestApi").at("EndpointConfiguration", "Types", 0)) != "REGIONAL" {
		t.Error("the API is not Regional")
	}
}

func TestDiscoveryHasTheRootOfAHost(t *testing.T) {
	d := deployed(t).only(t, "AWS::CloudFront::Distribution")
	if p := text(d.at("DistributionConfig", "Origins", 0, "OriginPath")); p != "/prod" {
		t.Errorf("the origin's path is %q", p)
	}
	b := d.at("DistributionConfig", "DefaultCacheBehavior")
	if text(at(b, "ViewerProtocolPolicy")) != "https-only" || at(b, "Compress") != false || len(texts(at(b, "AllowedMethods"))) != 7 {
		t.Errorf("the front does %v", b)
	}
	code := text(deployed(t).only(t, "AWS::CloudFront::Function").at("FunctionCode"))
	if !strings.Contains(code, strings.ToLower(names.HeaderHost)) {
		t.Errorf("the origin is not told the host: %s", code)
	}
}

func TestAgentsReachHTTPSAndNamesAndNobodyReachesThem(t *testing.T) {
	got := deployed(t)
	for _, kind := range []string{"AWS::EC2::NatGateway", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::EIP"} {
		if n := len(got.of(kind)); n > 0 {
			t.Errorf("%d of %s", n, kind)
		}
	}
	g := got.only(t, "AWS::EC2::SecurityGroup")
	if g.at("SecurityGroupIngress") != nil {
		t.Errorf("something comes in: %v", g.at("SecurityGroupIngress"))
	}
	var out []string
	for _, r := range g.at("SecurityGroupEgress").([]any) {
		out = append(out, text(at(r, "IpProtocol"))+" "+text(at(r, "FromPort"))+" "+text(at(r, "CidrIp")))
	}
	slices.Sort(out)
	vpc := "<" + got.only(t, "AWS::EC2::VPC").ID + ".CidrBlock>"
	if want := []string{"tcp 443 0.0.0.0/0", "tcp 53 " + vpc, "udp 53 " + vpc}; !slices.Equal(out, want) {
		t.Errorf("what goes out is %q, want %q", out, want)
	}
	for _, e := range got.of("AWS::EC2::VPCEndpoint") {
		if text(e.at("VpcEndpointType")) != "Gateway" {
			t.Errorf("%s is paid for by the hour", e.ID)
		}
		if e.at("PolicyDocument") == nil {
			t.Errorf("%s reaches everybody's", e.ID)
		}
	}
}

// ID-024 wants every launch path looked at; this is the one on Fargate.
func TestTheAgentsContainerHasNoRoleNoSecretAndNoStateOfTheSupervisor(t *testing.T) {
	req.Covers(t, "ID-024")
	d := deployed(t).named(t, "AWS::ECS::TaskDefinition", "Run")
	if d.at("TaskRoleArn") != nil {
		t.Errorf("what runs in it has the role %v", d.at("TaskRoleArn"))
	}
	if d.at("PidMode") != nil || d.at("IpcMode") != nil {
		t.Error("the containers share processes or memory")
	}
	containers := map[string]any{}
	for _, c := range d.at("ContainerDefinitions").([]any) {
		name := text(at(c, "Name"))
		containers[name] = c
		if at(c, "ReadonlyRootFilesystem") != true || at(c, "Privileged") == true || at(c, "LinuxParameters", "Capabilities", "Add") != nil {
			t.Errorf("%s is not closed: %v", name, c)
		}
		// Of the fourteen there are by default the helper, which starts the agent as
		// another user and hands it files, keeps five; the agent inherits none.
		keeps := map[string]int{containerAgent: 5, containerHelper: 0}
		most, ok := keeps[name]
		if !ok {
			most = 3 // the supervisor lays files out for the agent
		}
		if n := len(texts(at(c, "LinuxParameters", "Capabilities", "Drop"))); n < 14-most {
			t.Errorf("%s drops only %d capabilities", name, n)
		}
		if at(c, "Environment") != nil || at(c, "Secrets") != nil || at(c, "EnvironmentFiles") != nil {
			t.Errorf("%s is told something", name)
		}
		if name != containerHelper && at(c, "StopTimeout") != float64(stopSeconds) {
			t.Errorf("%s has %v s to end", name, at(c, "StopTimeout"))
		}
	}
	if len(containers) != 3 {
		t.Fatalf("containers %v", containers)
	}
	var mounts []string
	for _, m := range at(containers[containerAgent], "MountPoints").([]any) {
		how := "rw"
		if at(m, "ReadOnly") == true {
			how = "ro"
		}
		mounts = append(mounts, text(at(m, "SourceVolume"))+" "+how)
	}
	slices.Sort(mounts)
	if want := []string{"helper ro", "home rw", "run rw", "tmp rw", "work rw"}; !slices.Equal(mounts, want) {
		t.Errorf("the agent sees %q, want %q", mounts, want)
	}
	// It begins once its first process is there to begin with.
	if text(at(containers[containerAgent], "DependsOn", 0, "Condition")) != "SUCCESS" {
		t.Errorf("the agent's container begins on %v", at(containers[containerAgent], "DependsOn"))
	}
}

// The broker of an accept has git and the control plane, and nothing of a project.
func TestTheBrokersContainerHasNoRoleAndNoAgentBesideIt(t *testing.T) {
	d := deployed(t).named(t, "AWS::ECS::TaskDefinition", "Broker")
	if d.at("TaskRoleArn") != nil || text(d.at("ExecutionRoleArn")) == "" {
		t.Errorf("it has the role %v, and is started under %v", d.at("TaskRoleArn"), d.at("ExecutionRoleArn"))
	}
	all := d.at("ContainerDefinitions").([]any)
	if len(all) != 1 {
		t.Fatalf("beside it are %v", all)
	}
	c := all[0]
	if text(at(c, "Name")) != containerBroker || at(c, "ReadonlyRootFilesystem") != true || at(c, "Environment") != nil || at(c, "Secrets") != nil {
		t.Errorf("it is not closed: %v", c)
	}
	if n := len(texts(at(c, "LinuxParameters", "Capabilities", "Drop"))); n != 14 {
		t.Errorf("it drops %d capabilities of 14", n)
	}
}
