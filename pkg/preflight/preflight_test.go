package preflight_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/preflight"
)

func look(t *testing.T, endpoint string) map[string]preflight.Check {
	t.Helper()
	got := map[string]preflight.Check{}
	for _, c := range preflight.Look(t.Context(), preflight.Config{
		Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "secret", ""),
		Region:      "us-east-1", Stage: "prod", Endpoint: endpoint, HTTP: &http.Client{Timeout: time.Minute}, Now: time.Now,
	}) {
		if c.State != "ok" && c.Detail == "" {
			t.Errorf("%s is %s and says nothing", c.Name, c.State)
		}
		got[c.Name] = c
	}
	return got
}

// account is an AWS that answers as it is told, by action.
type account map[string]string

func (a account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action := r.FormValue("Action")
	if t := r.Header.Get("X-Amz-Target"); t != "" {
		_, action, _ = strings.Cut(t, ".")
	}
	if action == "DescribeStacks" {
		action += " " + r.FormValue("StackName")
	}
	if strings.HasSuffix(r.URL.Path, "/account-settings/") {
		action = "GetAccountSettings"
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIA") {
		action = "unsigned"
	}
	if text, ok := a[action]; ok {
		_, _ = fmt.Fprint(w, text)
		return
	}
	w.WriteHeader(http.StatusForbidden)
	if r.Header.Get("X-Amz-Target") != "" || action == "GetAccountSettings" {
		_, _ = fmt.Fprint(w, `{"__type":"com.amazonaws#AccessDeniedException","message":"no"}`)
		return
	}
	_, _ = fmt.Fprint(w, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`)
}

func ready() account {
	return account{
		"GetCallerIdentity":             `<R><GetCallerIdentityResult><Arn>arn:aws:sts::111122223333:assumed-role/dev/ada</Arn><Account>111122223333</Account></GetCallerIdentityResult></R>`,
		"DescribeStacks CDKToolkit":     `<R><DescribeStacksResult><Stacks><member><StackStatus>CREATE_COMPLETE</StackStatus><Outputs><member><OutputKey>BootstrapVersion</OutputKey><OutputValue>30</OutputValue></member></Outputs></member></Stacks></DescribeStacksResult></R>`,
		"DescribeStacks lazyplane-prod": `<R><DescribeStacksResult><Stacks/></DescribeStacksResult></R>`,
		"GetAccountSettings":            `{"AccountLimit":{"ConcurrentExecutions":1000,"UnreservedConcurrentExecutions":1000}}`,
		"GetServiceQuota":               `{"Quota":{"Value":6}}`,
		"SimulatePrincipalPolicy":       `<R><SimulatePrincipalPolicyResult><EvaluationResults><member><EvalDecision>allowed</EvalDecision></member></EvaluationResults></SimulatePrincipalPolicyResult></R>`,
	}
}

func served(t *testing.T, a account) map[string]preflight.Check {
	t.Helper()
	srv := httptest.NewServer(a)
	defer srv.Close()
	return look(t, srv.URL)
}

func TestAnAccountThatIsReadyPassesEveryCheck(t *testing.T) {
	got := served(t, ready())
	if len(got) != 9 {
		t.Errorf("%d checks: %v", len(got), got)
	}
	for _, c := range got {
		if c.State != "ok" {
			t.Errorf("%+v", c)
		}
	}
}

func TestWhatIsWrongIsSaidWithWhatToDo(t *testing.T) {
	for _, c := range []struct{ action, answer, check, state string }{
		{"DescribeStacks CDKToolkit", `<R/>`, "bootstrap", "fail"},
		{"DescribeStacks CDKToolkit", strings.Replace(ready()["DescribeStacks CDKToolkit"], "30", "5", 1), "bootstrap", "fail"},
		{"DescribeStacks lazyplane-prod", `<R><DescribeStacksResult><Stacks><member><StackStatus>ROLLBACK_COMPLETE</StackStatus></member></Stacks></DescribeStacksResult></R>`, "stack", "fail"},
		{"DescribeStacks lazyplane-prod", `<R><DescribeStacksResult><Stacks><member><StackStatus>UPDATE_IN_PROGRESS</StackStatus></member></Stacks></DescribeStacksResult></R>`, "stack", "warn"},
		{"GetAccountSettings", `{"AccountLimit":{"ConcurrentExecutions":10,"UnreservedConcurrentExecutions":10}}`, "functions", "warn"},
		{"GetServiceQuota", `{"Quota":{"Value":0}}`, "VPCs", "fail"},
		{"GetServiceQuota", `{"Quota":{"Value":2}}`, "Fargate processors", "warn"},
		{"SimulatePrincipalPolicy", strings.Replace(ready()["SimulatePrincipalPolicy"], "allowed", "implicitDeny", 1), "rights", "fail"},
	} {
		a := ready()
		a[c.action] = c.answer
		got := served(t, a)[c.check]
		if got.State != c.state || got.Remedy == "" {
			t.Errorf("%s answers %s: %+v", c.action, c.answer, got)
		}
	}
}

func TestWhatMayNotBeReadStopsNoOtherCheck(t *testing.T) {
	got := served(t, account{"GetCallerIdentity": ready()["GetCallerIdentity"]})
	if len(got) != 9 {
		t.Errorf("%d checks", len(got))
	}
	for name, c := range got {
		if name == "identity" || name == "region" {
			continue
		}
		if c.State != "warn" || !strings.Contains(c.Detail, "AccessDenied") {
			t.Errorf("%+v", c)
		}
	}
	got = served(t, account{})
	if len(got) != 1 || got["identity"].State != "fail" || !strings.Contains(got["identity"].Detail, "AccessDenied") {
		t.Errorf("nobody is logged in: %v", got)
	}
}

func TestMotoIsAskedAsAWSIs(t *testing.T) {
	got := look(t, moto.Start(t))
	if c := got["identity"]; c.State != "ok" || !strings.HasPrefix(c.Detail, "arn:aws:") {
		t.Errorf("%+v", c)
	}
	if c := got["bootstrap"]; c.State != "fail" {
		t.Errorf("an empty account: %+v", c)
	}
	if c := got["stack"]; c.State != "ok" || !strings.Contains(c.Detail, "not there") {
		t.Errorf("an empty account: %+v", c)
	}
	t.Logf("%v", got)
}
