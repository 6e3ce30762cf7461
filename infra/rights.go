package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// right is one statement of a role, in the words that IAM uses.
type right struct {
	actions   []string
	resources []string
	when      map[string]any
}

func (r right) statement() awsiam.PolicyStatement {
	props := &awsiam.PolicyStatementProps{Actions: jsii.Strings(r.actions...), Resources: jsii.Strings(r.resources...)}
	if r.when != nil {
		props.Conditions = &r.when
	}
	return awsiam.NewPolicyStatement(props)
}

// rights is all that a surface may do, read off the calls that its code makes:
// pkg/store/dynamo, pkg/engine/sfn, pkg/runner/fargate, pkg/blob/s3, pkg/seal,
// pkg/bus/aws.
func rights(p *parts, surface, logs string) []awsiam.PolicyStatement {
	all := []right{{actions: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, resources: []string{logs}}}
	switch surface {
	case names.SurfacePublish: // which is told everything by the stream
	case names.SurfaceAuth: // which keeps nothing but rows
		all = append(all, p.rows(), p.dataKeys())
	default:
		all = append(all, p.rows(), p.blobs(), p.blobNames(), p.dataKeys())
	}
	switch surface {
	case names.SurfaceRPC, names.SurfaceMCP:
		// Accepting again what a failed accept left begins its next execution at
		// once; every other flow is begun by the outbox.
		all = append(all, p.flows([]string{names.MachineAccept}, "states:StartExecution"), p.executions(names.MachineAccept))
	case names.SurfaceRunner:
		all = append(all, p.flows(waiting(), "states:SendTaskHeartbeat"))
	case names.SurfaceStep:
		all = append(all, p.executions(names.MachineTurn), p.forge())
		all = append(all, p.sight()...)
		all = append(all, p.launch()...)
	case names.SurfaceEvents:
		all = append(all,
			p.flows(names.Machines(), "states:StartExecution"),
			p.flows(waiting(), "states:SendTaskSuccess", "states:SendTaskFailure"),
			p.executions(names.Machines()...), p.forge(),
			right{
				actions:   []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
				resources: []string{*p.Queues.Events.QueueArn()},
			},
			right{actions: []string{"sqs:SendMessage"}, resources: []string{*p.Queues.Dead.QueueArn()}},
		)
		all = append(all, p.stream()...)
		all = append(all, p.sight()...)
	case names.SurfacePublish:
		all = append(all,
			right{actions: []string{"events:PutEvents"}, resources: []string{*p.Bus.EventBusArn()}},
			right{actions: []string{"sqs:SendMessage"}, resources: []string{*p.Queues.Unpublished.QueueArn()}},
		)
		all = append(all, p.stream()...)
	}
	var out []awsiam.PolicyStatement
	for _, r := range all {
		out = append(out, r.statement())
	}
	return out
}

// waiting are the flows that wait for a container's word.
func waiting() []string { return []string{names.MachineTurn, names.MachineAccept} }

// rows are the reads and conditional writes of the store. There is no scan and
// no batch of writes.
func (p *parts) rows() right {
	table := *p.Table.TableArn()
	all := []string{table}
	for _, x := range names.TableIndexes() {
		all = append(all, table+"/index/"+x)
	}
	return right{actions: []string{
		"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem",
	}, resources: all}
}

// stream is reading what the table tells.
func (p *parts) stream() []right {
	return []right{
		{
			actions:   []string{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"},
			resources: []string{*p.Table.TableStreamArn()},
		},
		{actions: []string{"dynamodb:ListStreams"}, resources: []string{"*"}},
	}
}

// blobs includes what an upload address allows whoever holds it: an address can
// do no more than its signer.
func (p *parts) blobs() right {
	return right{
		actions:   []string{"s3:GetObject", "s3:PutObject", "s3:DeleteObject"},
		resources: []string{*p.Bucket.BucketArn() + "/*"},
	}
}

// blobNames is also what makes S3 say that a blob is missing, rather than that it
// may not be read.
func (p *parts) blobNames() right {
	return right{actions: []string{"s3:ListBucket"}, resources: []string{*p.Bucket.BucketArn()}}
}

// dataKeys wraps and unwraps a tenant's data key, for a named tenant only.
func (p *parts) dataKeys() right {
	return right{
		actions: []string{"kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey"}, resources: []string{*p.Key.KeyArn()},
		when: map[string]any{"Null": map[string]any{"kms:EncryptionContext:" + names.KeyContext: "false"}},
	}
}

func (p *parts) forge() right {
	return right{actions: []string{"secretsmanager:GetSecretValue"}, resources: []string{*p.Secret.SecretArn()}}
}

func (p *parts) flows(machines []string, actions ...string) right {
	r := right{actions: actions}
	for _, m := range machines {
		r.resources = append(r.resources, p.machineARN(m))
	}
	return r
}

func (p *parts) executions(machines ...string) right {
	r := right{actions: []string{"states:DescribeExecution"}}
	for _, m := range machines {
		r.resources = append(r.resources, p.executionARN(m))
	}
	return r
}

// inCluster narrows an action whose resource is not the cluster to ours.
func (p *parts) inCluster() map[string]any {
	return map[string]any{"ArnEquals": map[string]any{"ecs:cluster": p.clusterARN()}}
}

// sight is looking at containers and ending them.
func (p *parts) sight() []right {
	return []right{
		{actions: []string{"ecs:DescribeTasks", "ecs:StopTask"}, resources: []string{p.arn("ecs", "task/"+p.Runner.ClusterName+"/*")}, when: p.inCluster()},
		{actions: []string{"ecs:ListTasks"}, resources: []string{"*"}, when: p.inCluster()},
	}
}

// launch is starting containers from our own definitions, in our own cluster,
// under our own execution role.
func (p *parts) launch() []right {
	return []right{
		{actions: []string{"ecs:RunTask"}, resources: []string{p.arn("ecs", "task-definition/"+p.Runner.Family+"*:*")}, when: p.inCluster()},
		{
			actions: []string{"ecs:TagResource"}, resources: []string{p.arn("ecs", "task/"+p.Runner.ClusterName+"/*")},
			when: map[string]any{"StringEquals": map[string]any{"ecs:CreateAction": "RunTask"}},
		},
		{
			actions: []string{"ecs:TagResource"}, resources: []string{p.arn("ecs", "task-definition/"+p.Runner.Family+"*:*")},
			when: map[string]any{"StringEquals": map[string]any{"ecs:CreateAction": "RegisterTaskDefinition"}},
		},
		{actions: []string{"ecs:DescribeTaskDefinition", "ecs:RegisterTaskDefinition"}, resources: []string{"*"}},
		{
			actions: []string{"iam:PassRole"}, resources: []string{*p.Runner.ExecutionRole.RoleArn()},
			when: map[string]any{"StringEquals": map[string]any{"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
		},
	}
}

func (p *parts) clusterARN() string { return p.arn("ecs", "cluster/"+p.Runner.ClusterName) }
