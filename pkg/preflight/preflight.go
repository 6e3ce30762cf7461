// Package preflight looks at an AWS account before a deployment: who asks, whether
// the Region answers, whether the account is prepared, which of its quotas are too
// small, and whether the one who asks may deploy. It only reads.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn, fail
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// Config says what to look at.
type Config struct {
	Credentials aws.CredentialsProvider
	Region      string
	Stage       string // of the stack that is to be deployed
	Endpoint    string // takes the place of every service's own address, for an emulator
	HTTP        *http.Client
	Now         func() time.Time
}

// What the stack reserves for its functions, and what AWS keeps for the others of
// an account.
const (
	reserved   = 170
	unreserved = 100
)

// bootstrapLeast is the version of the bootstrap stack that the deployment needs.
const bootstrapLeast = 6

// quota is a limit of the account that a deployment, or its first agents, may
// meet.
type quota struct {
	service, code, name string
	least               float64
	fails               bool // else it only bites later
	remedy              string
}

func quotas() []quota {
	return []quota{
		{"fargate", "L-3032A538", "Fargate processors", 4, false, "Each agent takes one. Ask for more under Service Quotas, AWS Fargate."},
		{"fargate", "L-36FBB829", "Fargate Spot processors", 4, false, "Without them agents run on demand, which costs about three times as much."},
		{"vpc", "L-F678F1CE", "VPCs", 1, true, "The stack makes one. Ask for more under Service Quotas, Amazon VPC."},
	}
}

// Look makes all checks. One that cannot be made says so and stops no other, but
// for the first: without an identity there is nothing to ask.
func Look(ctx context.Context, c Config) []Check {
	if c.Region == "" {
		return []Check{{"region", "fail", "no Region is set", "Give --region, or set AWS_REGION."}}
	}
	a := asker{c}
	who, err := a.identity(ctx)
	if err != nil {
		return []Check{{"identity", "fail", short(err), "Log in (for example `aws sso login`), and check the name of the Region: " + c.Region + "."}}
	}
	all := []Check{
		{"identity", "ok", who.ARN, ""},
		{"region", "ok", c.Region + " answers for account " + who.Account, ""},
		a.bootstrap(ctx), a.stack(ctx), a.concurrency(ctx),
	}
	for _, q := range quotas() {
		all = append(all, a.quota(ctx, q))
	}
	return append(all, a.rights(ctx, who))
}

// short is an error in one line.
func short(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	if len(s) > 300 {
		s = s[:300]
	}
	return s
}

// cannot is the outcome of a check that the account does not let be made.
func cannot(name string, err error) Check {
	return Check{name, "warn", "cannot be told: " + short(err), "It needs a read-only right; the deployment itself does not."}
}

type identity struct{ Account, ARN string }

func (a asker) identity(ctx context.Context) (identity, error) {
	var out struct {
		Account string `xml:"GetCallerIdentityResult>Account"`
		ARN     string `xml:"GetCallerIdentityResult>Arn"`
	}
	err := a.query(ctx, "sts", "2011-06-15", "GetCallerIdentity", nil, &out)
	if err == nil && out.Account == "" {
		err = fmt.Errorf("the answer of sts names no account")
	}
	return identity{out.Account, out.ARN}, err
}

// stacks is the answer to DescribeStacks.
type stacks struct {
	Stacks []struct {
		Status  string `xml:"StackStatus"`
		Outputs []struct {
			Key   string `xml:"OutputKey"`
			Value string `xml:"OutputValue"`
		} `xml:"Outputs>member"`
	} `xml:"DescribeStacksResult>Stacks>member"`
}

func (a asker) describe(ctx context.Context, name string) (s stacks, found bool, err error) {
	err = a.query(ctx, "cloudformation", "2010-05-15", "DescribeStacks", url.Values{"StackName": {name}}, &s)
	if e, ok := errors.AsType[*refused](err); ok && e.code == "ValidationError" {
		return s, false, nil
	}
	return s, len(s.Stacks) > 0, err
}

func (a asker) bootstrap(ctx context.Context) Check {
	const name = "bootstrap"
	remedy := "npx cdk bootstrap --cloudformation-execution-policies …; see docs/deploy.md."
	s, found, err := a.describe(ctx, "CDKToolkit")
	switch {
	case err != nil:
		return cannot(name, err)
	case !found:
		return Check{name, "fail", "the account is not prepared for CDK in " + a.Region, remedy}
	}
	version := 0
	for _, o := range s.Stacks[0].Outputs {
		if o.Key == "BootstrapVersion" {
			_, _ = fmt.Sscan(o.Value, &version)
		}
	}
	if version < bootstrapLeast {
		return Check{name, "fail", fmt.Sprintf("the bootstrap has version %d, and %d is needed", version, bootstrapLeast), remedy}
	}
	return Check{name, "ok", fmt.Sprintf("version %d", version), ""}
}

func (a asker) stack(ctx context.Context) Check {
	stack := "lazyplane-" + a.Stage
	s, found, err := a.describe(ctx, stack)
	switch {
	case err != nil:
		return cannot("stack", err)
	case !found:
		return Check{"stack", "ok", stack + " is not there yet", ""}
	}
	status := s.Stacks[0].Status
	switch {
	case status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED":
		return Check{"stack", "fail", stack + " was never made: " + status, "Delete it, and deploy again."}
	case strings.HasSuffix(status, "_FAILED"):
		return Check{"stack", "fail", stack + " is stuck: " + status, "npx cdk rollback, then look at its events."}
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		return Check{"stack", "warn", stack + " is being changed: " + status, "Wait until that is over."}
	}
	return Check{"stack", "ok", stack + " is there: " + status, ""}
}

func (a asker) concurrency(ctx context.Context) Check {
	const name = "functions"
	var out struct {
		AccountLimit struct{ ConcurrentExecutions, UnreservedConcurrentExecutions int }
	}
	if err := a.rest(ctx, "lambda", "/2016-08-19/account-settings/", &out); err != nil {
		return cannot(name, err)
	}
	all, free := out.AccountLimit.ConcurrentExecutions, out.AccountLimit.UnreservedConcurrentExecutions
	if free < reserved+unreserved {
		return Check{
			name, "warn", fmt.Sprintf("%d functions may run at once, %d of them not reserved; the stack reserves %d and AWS keeps %d", all, free, reserved, unreserved),
			"Deploy with -c reserve=false, or ask for more under Service Quotas, AWS Lambda.",
		}
	}
	return Check{name, "ok", fmt.Sprintf("%d may run at once, %d of them not reserved", all, free), ""}
}

func (a asker) quota(ctx context.Context, q quota) Check {
	var out struct{ Quota struct{ Value float64 } }
	in := map[string]string{"ServiceCode": q.service, "QuotaCode": q.code}
	if err := a.json(ctx, "servicequotas", "ServiceQuotasV20190624.GetServiceQuota", in, &out); err != nil {
		return cannot(q.name, err)
	}
	if out.Quota.Value < q.least {
		state := "warn"
		if q.fails {
			state = "fail"
		}
		return Check{q.name, state, fmt.Sprintf("the quota is %g", out.Quota.Value), q.remedy}
	}
	return Check{q.name, "ok", fmt.Sprintf("the quota is %g", out.Quota.Value), ""}
}

// rights asks whether the one who asks may take the roles that CDK deploys with.
func (a asker) rights(ctx context.Context, who identity) Check {
	const name = "rights"
	part := strings.Split(who.ARN, ":")
	if len(part) != 6 {
		return Check{name, "warn", "cannot be told of " + who.ARN, ""}
	}
	if part[5] == "root" {
		return Check{name, "warn", "this is the account's root, which may do everything", "Use a role that may only deploy; see docs/deploy.md."}
	}
	source := who.ARN
	if r, ok := strings.CutPrefix(part[5], "assumed-role/"); ok {
		role, _, _ := strings.Cut(r, "/")
		source = "arn:" + part[1] + ":iam::" + who.Account + ":role/" + role
	}
	in := url.Values{"PolicySourceArn": {source}, "ActionNames.member.1": {"sts:AssumeRole"}}
	for i, role := range []string{"deploy", "file-publishing", "lookup"} {
		in.Set(fmt.Sprintf("ResourceArns.member.%d", i+1), fmt.Sprintf("arn:%s:iam::%s:role/cdk-hnb659fds-%s-role-%s-%s", part[1], who.Account, role, who.Account, a.Region))
	}
	var out struct {
		Results []struct {
			Decision string `xml:"EvalDecision"`
			Specific []struct {
				Decision string `xml:"EvalResourceDecision"`
			} `xml:"ResourceSpecificResults>member"`
		} `xml:"SimulatePrincipalPolicyResult>EvaluationResults>member"`
	}
	if err := a.query(ctx, "iam", "2010-05-08", "SimulatePrincipalPolicy", in, &out); err != nil {
		return cannot(name, err)
	}
	denied := false
	for _, r := range out.Results {
		denied = denied || r.Decision != "allowed"
		for _, s := range r.Specific {
			denied = denied || s.Decision != "allowed"
		}
	}
	switch {
	case len(out.Results) == 0:
		return Check{name, "warn", "cannot be told: IAM says nothing about " + source, ""}
	case denied:
		return Check{name, "fail", source + " may not assume the roles that CDK deploys with", "Allow sts:AssumeRole on arn:aws:iam::" + who.Account + ":role/cdk-hnb659fds-*."}
	}
	return Check{name, "ok", source + " may deploy with CDK's roles", ""}
}
