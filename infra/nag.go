package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// excused are the rules of cdk-nag that do not hold here, each with its reason.
// There are at most ten, and a test counts them.
func excused() map[string]string {
	return map[string]string{
		"AwsSolutions-APIG3": "A web application firewall costs more a month than the idle stack; throttles bound what a flood costs. Attach one to the distribution where policy asks for it.",
		"AwsSolutions-APIG4": "Credentials are opaque and hashed at rest, so only the surfaces can check them; they do so before the first byte of an answer.",
		"AwsSolutions-APIG6": "Execution logs would hold request headers with credentials; the access log names every request without them.",
		"AwsSolutions-CFR1":  "A control plane is used from wherever its people are.",
		"AwsSolutions-CFR2":  "As APIG3: the firewall is a choice of the account.",
		"AwsSolutions-CFR4":  "The default certificate of CloudFront fixes its security policy; with the setting domain it is TLS 1.2.",
		"AwsSolutions-COG4":  "As APIG4: people, supervisors and agents carry credentials of the product's own.",
		"AwsSolutions-ECS4":  "Container Insights is paid for by the metric and run; supervisors report what matters themselves.",
		"AwsSolutions-IAM5":  "Each wildcard is listed with its reason in wildcards(), and a test fails on any other.",
		"AwsSolutions-SMG4":  "The key of a forge App is made by the forge and cannot be rotated by a function.",
	}
}

// wildcards are the resources with a star that a role or an endpoint may name,
// each with the actions it may stand for and the reason.
func wildcards(s settings) []wildcard {
	p := s.prefix()
	return []wildcard{
		{"*", []string{"ecs:ListTasks"}, "takes no resource but container instances, which Fargate has none of; narrowed to our cluster by condition"},
		{"*", []string{"ecs:DescribeTaskDefinition", "ecs:RegisterTaskDefinition"}, "take no resource; what is registered cannot run without RunTask and PassRole, which are narrow"},
		{"*", []string{"ecr:GetAuthorizationToken"}, "takes no resource, and gives nothing without the rights to pull"},
		{"*", []string{"dynamodb:ListStreams"}, "takes no resource; the mapping of the stream needs it"},
		{"*", []string{
			"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries",
			"logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups",
		}, "deliveries of a state machine's log take no resource"},
		{"*", []string{"xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets"}, "traces take no resource"},
		{"*", []string{"kms:*"}, "the key's own policy, in which a star is this key, for the account that owns it"},
		{"Blobs/*", []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject"}, "objects of the blob store have keys that are drawn"},
		{".Arn>/blobs/*", []string{"s3:PutObject"}, "S3 itself delivers the blob store's access log under names that it draws"},
		{"starport-layer-bucket/*", []string{"s3:GetObject"}, "layers of images come through the endpoint from a bucket of the registry's"},
		{"execution:" + p + "-turn:*", []string{"states:DescribeExecution"}, "executions are named after turns"},
		{"execution:" + p + "-recovery:*", []string{"states:DescribeExecution"}, "executions are named after turns"},
		{"execution:" + p + "-accept:*", []string{"states:DescribeExecution"}, "executions are named after operations"},
		{"task/" + p + "/*", []string{"ecs:DescribeTasks", "ecs:StopTask", "ecs:TagResource"}, "tasks have ids that ECS draws"},
		{"task-definition/" + p + "*:*", []string{"ecs:RunTask", "ecs:TagResource"}, "each image of a project has a definition of its own"},
		{"repository/" + p + "/*", []string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, "images of projects lie in folders below ours"},
	}
}

// wildcard is one of them: a resource that ends in resource may be named by
// these actions only.
type wildcard struct {
	resource string
	actions  []string
	why      string
}

func excuse(stack awscdk.Stack) {
	var all []*cdknag.NagPackSuppression
	for id, why := range excused() {
		all = append(all, &cdknag.NagPackSuppression{Id: jsii.String(id), Reason: jsii.String(why)})
	}
	cdknag.NagSuppressions_AddStackSuppressions(stack, &all, jsii.Bool(false))
}
