package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
)

func TestSynthesisIsQuiet(t *testing.T) {
	for name, got := range map[string]template{"by default": deployed(t), "with everything chosen": deployedOtherwise(t)} {
		if len(got.Findings) > 0 {
			t.Errorf("%s:\n%s", name, strings.Join(got.Findings, "\n"))
		}
	}
	if n := len(excused()); n > 10 {
		t.Errorf("%d rules of cdk-nag are excused, at most ten may be", n)
	}
	for id, why := range excused() {
		if len(why) < 30 {
			t.Errorf("%s is excused without a reason", id)
		}
	}
	flags, err := cdkContext()
	if err != nil {
		t.Fatal(err)
	}
	if flags["@aws-cdk/core:validateAgainstDefaultRules"] != true {
		t.Error("without that flag a circular dependency is no error")
	}
}

func TestNoResourceWaitsForItself(t *testing.T) {
	got := deployed(t)
	edges := map[string][]string{}
	var walk func(id string, v any)
	walk = func(id string, v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(id, x)
			}
		case map[string]any:
			if ref, ok := v["Ref"].(string); ok {
				edges[id] = append(edges[id], ref)
			}
			if get, ok := v["Fn::GetAtt"].([]any); ok {
				edges[id] = append(edges[id], text(get[0]))
			}
			for _, x := range v {
				walk(id, x)
			}
		}
	}
	for id, r := range got.Resources {
		walk(id, r.Properties)
		edges[id] = append(edges[id], texts(r.DependsOn)...)
	}
	state := map[string]int{} // 1 while it is being walked, 2 afterwards
	var visit func(id string, path []string)
	visit = func(id string, path []string) {
		switch state[id] {
		case 1:
			t.Errorf("a circle: %s", strings.Join(append(path, id), " → "))
			return
		case 2:
			return
		}
		state[id] = 1
		for _, next := range edges[id] {
			visit(next, append(path, id))
		}
		state[id] = 2
	}
	for id := range got.Resources {
		visit(id, nil)
	}
}

// The table is the one that the store's tests run on.
func TestTheTableIsTheOneTheStoreMakes(t *testing.T) {
	var want map[string]any
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".CreateTable") {
				if err := json.Unmarshal(body, &want); err != nil {
					return nil, err
				}
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"Table":{"TableStatus":"ACTIVE"}}`))}, nil
		}),
		RetryMaxAttempts: 1, Retryer: aws.NopRetryer{},
	})
	if err := dynamo.CreateTable(t.Context(), client, "table"); err != nil {
		t.Fatal(err)
	}
	got := deployed(t).only(t, "AWS::DynamoDB::Table")
	for _, name := range []string{"KeySchema", "GlobalSecondaryIndexes", "AttributeDefinitions", "BillingMode"} {
		if a, b := normal(got.at(name)), normal(want[name]); a != b || a == "null" {
			t.Errorf("%s:\ndeployed %s\nmade     %s", name, a, b)
		}
	}
	if a, b := text(got.at("StreamSpecification", "StreamViewType")), text(at(want, "StreamSpecification", "StreamViewType")); a != b {
		t.Errorf("the stream shows %s, want %s", a, b)
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// normal writes a value with its lists sorted.
func normal(v any) string {
	if l, ok := v.([]any); ok {
		var all []string
		for _, x := range l {
			all = append(all, normal(x))
		}
		slices.Sort(all)
		return "[" + strings.Join(all, ",") + "]"
	}
	if m, ok := v.(map[string]any); ok {
		for k, x := range m {
			if _, list := x.([]any); list {
				m[k] = normal(x)
			}
		}
	}
	raw, _ := json.Marshal(v)
	return string(bytes.ReplaceAll(raw, []byte(`\"`), []byte(`"`)))
}

func TestTheTableCanBeRestoredAndIsNotDeletedByMistake(t *testing.T) {
	r := deployed(t).only(t, "AWS::DynamoDB::Table")
	for path, want := range map[string]any{
		"PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": true,
		"SSESpecification.SSEEnabled":                                 true,
		"DeletionProtectionEnabled":                                   true,
		"TimeToLiveSpecification.Enabled":                             true,
		"TimeToLiveSpecification.AttributeName":                       names.TableTTL,
		"BillingMode":                                                 "PAY_PER_REQUEST",
	} {
		var steps []any
		for s := range strings.SplitSeq(path, ".") {
			steps = append(steps, s)
		}
		if got := r.at(steps...); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// keeps are the resources that hold something that cannot be made again.
var keeps = []string{
	"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key", "AWS::SecretsManager::Secret", "AWS::ECR::Repository",
	"AWS::Logs::LogGroup", "AWS::SQS::Queue", "AWS::StepFunctions::StateMachine",
}

func TestRemovingTheStackKeepsTheDataUnlessToldOtherwise(t *testing.T) {
	for _, c := range []struct {
		got  template
		want string
	}{{deployed(t), "Retain"}, {deployedOtherwise(t), "Delete"}} {
		for _, kind := range keeps {
			all := c.got.of(kind)
			if len(all) == 0 {
				t.Errorf("there is no %s", kind)
			}
			for _, r := range all {
				if r.DeletionPolicy != c.want {
					t.Errorf("%s (%s): %s, want %s", r.ID, kind, r.DeletionPolicy, c.want)
				}
			}
		}
	}
}

func TestVersionsOfFunctionsStayForAWayBack(t *testing.T) {
	req.Covers(t, "SY-042")
	got := deployed(t)
	versions := got.of("AWS::Lambda::Version")
	if len(versions) != len(names.Surfaces()) {
		t.Fatalf("%d versions for %d surfaces", len(versions), len(names.Surfaces()))
	}
	for _, v := range versions {
		if v.DeletionPolicy != "Retain" {
			t.Errorf("%s goes with the next deployment", v.ID)
		}
	}
	// So do the definitions, each under the state machine that it is one of.
	of := map[string]bool{}
	for _, v := range got.of("AWS::StepFunctions::StateMachineVersion") {
		if v.DeletionPolicy != "Retain" {
			t.Errorf("%s goes with the next deployment", v.ID)
		}
		of[text(v.at("StateMachineArn"))] = true
	}
	if len(of) != len(names.Machines()) {
		t.Errorf("definitions of %v are published", of)
	}
	// One function has the steps, and it may answer no task token.
	step := allowed(t, got, names.SurfaceStep)
	for action := range step {
		if strings.HasPrefix(action, "states:SendTask") {
			t.Errorf("the function that the flows call may %s", action)
		}
	}
	called := map[string]bool{}
	for _, m := range got.of("AWS::StepFunctions::StateMachine") {
		called[text(m.at("DefinitionSubstitutions", "StepFunction"))] = true
	}
	if len(called) != 1 {
		t.Errorf("the flows call %v", called)
	}
	for _, a := range got.of("AWS::Lambda::Alias") {
		if strings.HasPrefix(a.ID, "Step") && !called["<"+a.ID+">"] {
			// The reference is also why the code that knows a definition's steps is there
			// before the definition.
			t.Errorf("the flows call %v, not the alias %s", called, a.ID)
		}
	}
}

func TestTheBucketsAreClosedEncryptedAndVersioned(t *testing.T) {
	got := deployed(t)
	for _, b := range got.of("AWS::S3::Bucket") {
		for _, k := range []string{"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"} {
			if b.at("PublicAccessBlockConfiguration", k) != true {
				t.Errorf("%s: %s is not set", b.ID, k)
			}
		}
		if b.at("BucketEncryption", "ServerSideEncryptionConfiguration", 0, "ServerSideEncryptionByDefault", "SSEAlgorithm") != "AES256" {
			t.Errorf("%s is not encrypted", b.ID)
		}
		if b.at("VersioningConfiguration", "Status") != "Enabled" {
			t.Errorf("%s has no versions", b.ID)
		}
		tls := false
		for _, p := range got.of("AWS::S3::BucketPolicy") {
			if text(p.at("Bucket")) != "<"+b.ID+">" {
				continue
			}
			for _, s := range p.at("PolicyDocument", "Statement").([]any) {
				tls = tls || text(at(s, "Effect")) == "Deny" && text(at(s, "Condition", "Bool", "aws:SecureTransport")) == "false"
			}
		}
		if !tls {
			t.Errorf("%s takes requests without TLS", b.ID)
		}
	}
}

func TestTheMasterKeyTurnsAndIsUsedForANamedTenantOnly(t *testing.T) {
	got := deployed(t)
	if got.only(t, "AWS::KMS::Key").at("EnableKeyRotation") != true {
		t.Error("the key does not turn")
	}
	uses := 0
	for _, g := range grants(got) {
		if !slices.Contains(g.Actions, "kms:Decrypt") || strings.HasPrefix(g.Where, "Key") {
			continue
		}
		uses++
		if text(at(g.Condition, "Null", "kms:EncryptionContext:"+names.KeyContext)) != "false" {
			t.Errorf("%s may unwrap a key without saying whose", g.Where)
		}
	}
	if uses == 0 {
		t.Error("nobody may unwrap a key")
	}
}

func TestEverythingThatCanBeTaggedIs(t *testing.T) {
	got := deployed(t)
	for _, kind := range []string{
		"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Lambda::Function", "AWS::StepFunctions::StateMachine", "AWS::SQS::Queue",
		"AWS::ECS::Cluster", "AWS::ECS::TaskDefinition", "AWS::Logs::LogGroup", "AWS::KMS::Key", "AWS::SecretsManager::Secret",
		"AWS::CloudFront::Distribution", "AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::EC2::VPC", "AWS::ECR::Repository",
		"AWS::CloudWatch::Alarm", "AWS::SNS::Topic", "AWS::IAM::Role",
	} {
		for _, r := range got.of(kind) {
			tags := map[string]string{}
			list, _ := r.at("Tags").([]any)
			for _, x := range list {
				tags[text(at(x, "Key"))] = text(at(x, "Value"))
			}
			for k, v := range preset().tags() {
				if tags[k] != v {
					t.Errorf("%s (%s): tag %s is %q", r.ID, kind, k, tags[k])
				}
			}
		}
	}
}

func TestADomainOfOnesOwnIsTheAddress(t *testing.T) {
	got := deployedOtherwise(t)
	d := got.only(t, "AWS::CloudFront::Distribution")
	if s := texts(d.at("DistributionConfig", "Aliases")); !slices.Equal(s, []string{"lazy.example.com"}) {
		t.Errorf("it answers to %v", s)
	}
	if v := text(d.at("DistributionConfig", "ViewerCertificate", "MinimumProtocolVersion")); v != "TLSv1.2_2021" {
		t.Errorf("it speaks %s", v)
	}
	if v := text(at(got.Outputs, "Address", "Value")); v != "https://lazy.example.com" {
		t.Errorf("the printed address is %s", v)
	}
	got.only(t, "AWS::Route53::RecordSet")
}
