package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// tags are on everything that can carry one. The first two are the ones to
// activate as cost allocation tags.
func (s settings) tags() map[string]string {
	return map[string]string{"lazyplane:product": "lazyplane", "lazyplane:stage": s.Stage, "lazyplane:managed-by": "cdk"}
}

// newStack puts all constructs together. Arrows between them go one way: state
// machines and the cluster are named, so that whoever only calls them needs no
// reference, and no two constructs wait for each other.
func newStack(scope constructs.Construct, set settings) (awscdk.Stack, error) {
	stack := awscdk.NewStack(scope, jsii.String(set.prefix()), &awscdk.StackProps{
		StackName:   jsii.String(set.prefix()),
		Description: jsii.String("lazyplane: a control plane for coding agents"),
		Env:         environment(set),
	})
	for k, v := range set.tags() {
		awscdk.Tags_Of(stack).Add(jsii.String(k), jsii.String(v), &awscdk.TagProps{
			ExcludeResourceTypes: jsii.Strings("AWS::CloudWatch::Dashboard"), // not in every Region
		})
	}
	p := &parts{stack: stack, set: set}
	p.Key = newKey(p)
	p.Table = newTable(p)
	p.AccessLogs = newAccessLogs(p)
	p.Bucket = newBucket(p)
	p.Queues = newQueues(p)
	p.Bus = newBus(p)
	p.Secret = newSecret(p)
	p.Network = newNetwork(p)
	p.Runner = newRunner(p)
	p.Functions = newFunctions(p, names.SurfaceRPC, names.SurfaceMCP, names.SurfaceRunner, names.SurfaceAuth)
	p.API = newAPI(p)
	p.CDN = newCDN(p)
	maps.Copy(p.Functions, newFunctions(p, names.SurfaceStep, names.SurfaceEvents, names.SurfacePublish))
	flows, err := newFlows(p)
	if err != nil {
		return nil, err
	}
	p.Flows = flows
	newFeeds(p)
	newRules(p)
	p.Topic = newTopic(p)
	newAlarms(p)
	newBudget(p)
	if set.Dashboard {
		newDashboard(p)
	}
	newOutputs(p)
	excuse(stack)
	return stack, nil
}

func environment(set settings) *awscdk.Environment {
	if set.Account == "" || set.Region == "" {
		return nil
	}
	return &awscdk.Environment{Account: jsii.String(set.Account), Region: jsii.String(set.Region)}
}

// removal is what happens to data when the stack goes.
func (s settings) removal() awscdk.RemovalPolicy {
	if s.Destroy {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN
}

func newOutputs(p *parts) {
	out := func(id, value, what string) {
		awscdk.NewCfnOutput(p.stack, jsii.String("Out"+id), &awscdk.CfnOutputProps{Value: jsii.String(value), Description: jsii.String(what)}).OverrideLogicalId(jsii.String(id))
	}
	out("Address", p.CDN.URL, "The control plane: what lazy is told with "+names.EnvTarget)
	out("Table", *p.Table.TableName(), "The one table")
	out("Bucket", *p.Bucket.BucketName(), "Sealed texts, conversations and checkpoints")
	out("SupervisorImages", *p.Runner.Supervisor.RepositoryUri(), "Where the supervisor's image is pushed to")
	out("RuntimeImages", *p.Runner.Runtime.RepositoryUri(), "Where images that agents run in are pushed to")
}

// machineARN is the ARN of a state machine by its name alone.
func (p *parts) machineARN(machine string) string {
	return p.arn("states", "stateMachine:"+p.set.prefix()+"-"+machine)
}

// executionARN matches the executions of a state machine.
func (p *parts) executionARN(machine string) string {
	return p.arn("states", "execution:"+p.set.prefix()+"-"+machine+":*")
}

// arn builds one in this stack's account and Region.
func (p *parts) arn(service, rest string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", *p.stack.Partition(), service, *p.stack.Region(), *p.stack.Account(), rest)
}

func title(name string) string {
	if len(name) <= 3 {
		return strings.ToUpper(name)
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
