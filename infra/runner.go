package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecr"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// What one run gets unless its project says otherwise.
const (
	runCPU      = "1024"
	runMemory   = "4096"
	agentMemory = 4096 - 512 // what the agent cannot take is the supervisor's
	runDiskGiB  = 30
	stopSeconds = 120 // the most that Fargate grants for a last checkpoint

	brokerCPU    = "1024"
	brokerMemory = "2048"
)

// runner is the cluster, the registries, and what runs start under.
type runner struct {
	Cluster       awsecs.CfnCluster
	ClusterName   string
	Family        string
	ExecutionRole awsiam.Role
	Logs          awslogs.LogGroup
	Supervisor    awsecr.Repository
	Runtime       awsecr.Repository
}

func newRunner(p *parts) runner {
	r := runner{ClusterName: p.set.prefix(), Family: p.set.prefix()}
	r.Cluster = awsecs.NewCfnCluster(p.stack, jsii.String("Cluster"), &awsecs.CfnClusterProps{
		ClusterName:       jsii.String(r.ClusterName),
		CapacityProviders: &[]any{"FARGATE", "FARGATE_SPOT"},
		ClusterSettings:   []any{map[string]any{"name": "containerInsights", "value": "disabled"}},
	})
	r.Supervisor = newImages(p, "SupervisorImages", "supervisor")
	r.Runtime = newImages(p, "RuntimeImages", "runtime")
	r.Logs = awslogs.NewLogGroup(p.stack, jsii.String("RunLogs"), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: p.set.removal(),
	})
	r.ExecutionRole = newExecutionRole(p, r.Logs)
	if p.set.Supervisor != "" {
		newDefinition(p, r)
		newBroker(p, r)
	}
	return r
}

// newImages makes a registry whose tags never move.
func newImages(p *parts, id, name string) awsecr.Repository {
	return awsecr.NewRepository(p.stack, jsii.String(id), &awsecr.RepositoryProps{
		RepositoryName:     jsii.String(p.set.prefix() + "/" + name),
		ImageTagMutability: awsecr.TagMutability_IMMUTABLE,
		ImageScanOnPush:    jsii.Bool(true),
		LifecycleRules: &[]*awsecr.LifecycleRule{{
			Description: jsii.String("keep the newest 20"), MaxImageCount: jsii.Number(20),
		}},
		RemovalPolicy: p.set.removal(),
		EmptyOnDelete: jsii.Bool(p.set.Destroy),
	})
}

// newExecutionRole is what Fargate itself may do for a run: pull its images from
// this account's folder and write its log. There is no task role: what runs in
// the containers has no rights at all.
func newExecutionRole(p *parts, logs awslogs.LogGroup) awsiam.Role {
	role := awsiam.NewRole(p.stack, jsii.String("ExecutionRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("ecs-tasks.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": *p.stack.Account()}},
		}),
		Description: jsii.String("lazyplane: pulls the images of a run and writes its log"),
	})
	for _, r := range []right{
		{actions: []string{"ecr:GetAuthorizationToken"}, resources: []string{"*"}},
		{
			actions:   []string{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"},
			resources: []string{p.arn("ecr", "repository/"+p.set.prefix()+"/*")},
		},
		{actions: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, resources: []string{*logs.LogGroupArn()}},
	} {
		role.AddToPolicy(r.statement())
	}
	return role
}
