package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// makes says what CloudFormation asks of a service to make a resource, for every
// type the stack has.
func makes() map[string][]string {
	return map[string][]string{
		"AWS::ApiGateway::Deployment":             {"apigateway:POST"},
		"AWS::ApiGateway::GatewayResponse":        {"apigateway:PUT"},
		"AWS::ApiGateway::Method":                 {"apigateway:PUT"},
		"AWS::ApiGateway::RequestValidator":       {"apigateway:POST"},
		"AWS::ApiGateway::Resource":               {"apigateway:POST"},
		"AWS::ApiGateway::RestApi":                {"apigateway:POST", "apigateway:PATCH", "apigateway:DELETE"},
		"AWS::ApiGateway::Stage":                  {"apigateway:POST"},
		"AWS::Budgets::Budget":                    {"budgets:ModifyBudget", "budgets:ViewBudget"},
		"AWS::CloudFront::Distribution":           {"cloudfront:CreateDistribution", "cloudfront:UpdateDistribution", "cloudfront:DeleteDistribution"},
		"AWS::CloudFront::Function":               {"cloudfront:CreateFunction", "cloudfront:PublishFunction"},
		"AWS::CloudWatch::Alarm":                  {"cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"},
		"AWS::CloudWatch::Dashboard":              {"cloudwatch:PutDashboard", "cloudwatch:DeleteDashboards"},
		"AWS::DynamoDB::Table":                    {"dynamodb:CreateTable", "dynamodb:UpdateContinuousBackups", "dynamodb:UpdateTimeToLive"},
		"AWS::EC2::FlowLog":                       {"ec2:CreateFlowLogs", "ec2:DeleteFlowLogs"},
		"AWS::EC2::InternetGateway":               {"ec2:CreateInternetGateway"},
		"AWS::EC2::Route":                         {"ec2:CreateRoute"},
		"AWS::EC2::RouteTable":                    {"ec2:CreateRouteTable"},
		"AWS::EC2::SecurityGroup":                 {"ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupEgress", "ec2:RevokeSecurityGroupEgress"},
		"AWS::EC2::Subnet":                        {"ec2:CreateSubnet", "ec2:ModifySubnetAttribute"},
		"AWS::EC2::SubnetRouteTableAssociation":   {"ec2:AssociateRouteTable"},
		"AWS::EC2::VPC":                           {"ec2:CreateVpc", "ec2:ModifyVpcAttribute", "ec2:DeleteVpc"},
		"AWS::EC2::VPCEndpoint":                   {"ec2:CreateVpcEndpoint", "ec2:DeleteVpcEndpoints", "ec2:DescribePrefixLists"},
		"AWS::EC2::VPCGatewayAttachment":          {"ec2:AttachInternetGateway"},
		"AWS::ECR::Repository":                    {"ecr:CreateRepository", "ecr:PutLifecyclePolicy"},
		"AWS::ECS::Cluster":                       {"ecs:CreateCluster", "ecs:PutClusterCapacityProviders", "ecs:DeleteCluster"},
		"AWS::ECS::TaskDefinition":                {"ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition", "iam:PassRole"},
		"AWS::Events::EventBus":                   {"events:CreateEventBus", "events:DeleteEventBus"},
		"AWS::Events::Rule":                       {"events:PutRule", "events:PutTargets", "events:RemoveTargets", "events:DeleteRule"},
		"AWS::IAM::Policy":                        {"iam:PutRolePolicy", "iam:DeleteRolePolicy"},
		"AWS::IAM::Role":                          {"iam:CreateRole", "iam:DeleteRole", "iam:TagRole"},
		"AWS::KMS::Alias":                         {"kms:CreateAlias"},
		"AWS::KMS::Key":                           {"kms:CreateKey", "kms:EnableKeyRotation", "kms:PutKeyPolicy"},
		"AWS::Lambda::Alias":                      {"lambda:CreateAlias", "lambda:UpdateAlias"},
		"AWS::Lambda::EventSourceMapping":         {"lambda:CreateEventSourceMapping", "lambda:DeleteEventSourceMapping"},
		"AWS::Lambda::Function":                   {"lambda:CreateFunction", "lambda:UpdateFunctionCode", "lambda:PutFunctionConcurrency", "iam:PassRole"},
		"AWS::Lambda::LayerVersion":               {"lambda:PublishLayerVersion", "lambda:GetLayerVersion", "lambda:DeleteLayerVersion"},
		"AWS::Lambda::Permission":                 {"lambda:AddPermission", "lambda:RemovePermission"},
		"AWS::Lambda::Version":                    {"lambda:PublishVersion"},
		"AWS::Logs::LogGroup":                     {"logs:CreateLogGroup", "logs:PutRetentionPolicy"},
		"AWS::Route53::RecordSet":                 {"route53:ChangeResourceRecordSets"},
		"AWS::S3::Bucket":                         {"s3:CreateBucket", "s3:PutBucketVersioning", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration", "s3:PutBucketPublicAccessBlock", "s3:PutBucketOwnershipControls", "s3:PutBucketLogging"},
		"AWS::S3::BucketPolicy":                   {"s3:PutBucketPolicy", "s3:DeleteBucketPolicy"},
		"AWS::SecretsManager::Secret":             {"secretsmanager:CreateSecret", "secretsmanager:DeleteSecret"},
		"AWS::SNS::Subscription":                  {"sns:Subscribe", "sns:Unsubscribe"},
		"AWS::SNS::Topic":                         {"sns:CreateTopic", "sns:SetTopicAttributes", "sns:DeleteTopic"},
		"AWS::SNS::TopicPolicy":                   {"sns:SetTopicAttributes"},
		"AWS::SQS::Queue":                         {"sqs:CreateQueue", "sqs:DeleteQueue"},
		"AWS::SQS::QueuePolicy":                   {"sqs:SetQueueAttributes"},
		"AWS::StepFunctions::StateMachine":        {"states:CreateStateMachine", "states:UpdateStateMachine", "logs:CreateLogDelivery", "iam:PassRole"},
		"AWS::StepFunctions::StateMachineVersion": {"states:PublishStateMachineVersion", "states:DeleteStateMachineVersion"},
	}
}

func TestTheDeployPolicyIsEnoughForTheStackAndNoAdministrator(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "deploy-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	// A managed policy may have 6,144 characters, spaces not counted.
	var compact strings.Builder
	for f := range strings.FieldsSeq(string(raw)) {
		compact.WriteString(f)
	}
	if compact.Len() > 6144 {
		t.Errorf("%d characters; IAM takes 6144", compact.Len())
	}
	var may []string
	for _, s := range doc["Statement"].([]any) {
		may = append(may, texts(at(s, "Action"))...)
	}
	for _, a := range may {
		service, verb, ok := strings.Cut(a, ":")
		if !ok || verb == "*" || strings.Contains(service, "*") {
			t.Errorf("%s is a whole service", a)
		}
	}
	allows := func(action string) bool {
		for _, a := range may {
			if ok, err := path.Match(strings.ToLower(a), strings.ToLower(action)); err == nil && ok {
				return true
			}
		}
		return false
	}
	for _, got := range []template{deployed(t), deployedOtherwise(t)} {
		for _, r := range got.Resources {
			need, known := makes()[r.Type]
			if !known {
				t.Errorf("nobody has said what %s takes to be made", r.Type)
			}
			for _, a := range need {
				if !allows(a) {
					t.Errorf("%s needs %s, which docs/deploy-policy.json does not allow", r.Type, a)
				}
			}
		}
	}
}
