package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/id"
	port "github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// registered is the definition that the runner registers for an image, as it
// leaves for ECS.
func registered(t *testing.T, d fargate.Definition, image string, broker bool) map[string]any {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got map[string]any
	api := ecs.New(ecs.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{},
		HTTPClient: doer(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			status, answer := http.StatusBadRequest, `{"__type":"ClientException","message":"there is none"}`
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".RegisterTaskDefinition") {
				status, answer = http.StatusOK, `{"taskDefinition":{"taskDefinitionArn":"arn:aws:ecs:us-east-1:1:task-definition/x:1"}}`
				err = json.Unmarshal(body, &got)
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, err
		}),
	})
	r := fargate.New(api, db, fargate.Config{
		Cluster: "c", Task: d, Now: time.Now,
		Image: func(context.Context, port.Spec) (string, error) { return image, nil },
	})
	// Nothing is started: the answer to RunTask is a refusal.
	_, _ = r.Launch(t.Context(), port.Spec{Tenant: "a", Project: "p", Task: id.Task("3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10"), Turn: "u", Epoch: 1, Nonce: "n", Broker: broker})
	if got == nil {
		t.Fatal("the runner registers nothing")
	}
	return got
}

func number(s string) int32 {
	n, _ := strconv.ParseInt(s, 10, 32)
	return int32(n)
}

// plain writes a value with keys in one case and references as text, as far as the
// two ways of writing a definition differ.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		var all []any
		for _, x := range v {
			all = append(all, plain(x))
		}
		return all
	case map[string]any:
		if _, ref := v["Ref"]; ref || v["Fn::GetAtt"] != nil || v["Fn::Join"] != nil {
			return text(v)
		}
		m := map[string]any{}
		for k, x := range v {
			m[strings.ToLower(k)] = plain(x)
		}
		return m
	}
	return v
}

// What cfn-lint and cdk-nag judge in the stack is what really runs.
func TestTheDefinitionIsTheOneTheRunnerRegisters(t *testing.T) {
	for id, broker := range map[string]bool{"Run": false, "Broker": true} {
		same(t, deployed(t).named(t, "AWS::ECS::TaskDefinition", id), broker)
	}
}

func same(t *testing.T, r resource, broker bool) {
	t.Helper()
	set := preset()
	want := plain(map[string]any(registered(t, fargate.Definition{
		Family: set.prefix(), SupervisorImage: set.Supervisor, ExecutionRole: text(r.at("ExecutionRoleArn")),
		LogGroup: text(r.at("ContainerDefinitions", 0, "LogConfiguration", "Options", "awslogs-group")), Region: "<AWS::Region>",
		CPU: number(runCPU), MemoryMiB: number(runMemory), DiskGiB: runDiskGiB, ARM: true,
	}, set.Runtime, broker))).(map[string]any)
	got := plain(r.Properties).(map[string]any)
	if family, _ := want["family"].(string); !strings.HasPrefix(family, set.prefix()+"-") {
		t.Errorf("the family %q is not one that the step function may run", family)
	}
	for _, m := range []map[string]any{want, got} {
		delete(m, "family")
		delete(m, "tags")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, registered (-) and deployed (+):\n%s", r.ID, diff)
	}
}
