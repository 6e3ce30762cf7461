package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newBus makes the bus that domain events are published on, for whoever wants to
// be told. Nothing of the product listens to it; events/ has what is said on it.
func newBus(p *parts) awsevents.EventBus {
	return awsevents.NewEventBus(p.stack, jsii.String("Bus"), &awsevents.EventBusProps{EventBusName: jsii.String(p.set.prefix())})
}

// newRules sends the endings of containers and flows, and the clock, to the
// events function. They make things fast; the clock alone makes them true.
func newRules(p *parts) {
	target := &[]awsevents.IRuleTarget{awseventstargets.NewSqsQueue(p.Queues.Events, &awseventstargets.SqsQueueProps{
		DeadLetterQueue: p.Queues.Dead,
	})}
	awsevents.NewRule(p.stack, jsii.String("ContainerEnded"), &awsevents.RuleProps{
		Description: jsii.String("A container of an agent stopped"),
		EventPattern: &awsevents.EventPattern{
			Source: jsii.Strings("aws.ecs"), DetailType: jsii.Strings("ECS Task State Change"),
			Detail: &map[string]any{"clusterArn": []*string{p.Runner.Cluster.AttrArn()}, "lastStatus": []string{"STOPPED"}},
		},
		Targets: target,
	})
	var machines []string
	for _, m := range names.Machines() {
		machines = append(machines, p.machineARN(m))
	}
	awsevents.NewRule(p.stack, jsii.String("FlowEnded"), &awsevents.RuleProps{
		Description: jsii.String("A flow ended otherwise than by its own decision"),
		EventPattern: &awsevents.EventPattern{
			Source: jsii.Strings("aws.states"), DetailType: jsii.Strings("Step Functions Execution Status Change"),
			Detail: &map[string]any{"stateMachineArn": machines, "status": []string{"FAILED", "TIMED_OUT", "ABORTED"}},
		},
		Targets: target,
	})
	awsevents.NewRule(p.stack, jsii.String("Clock"), &awsevents.RuleProps{
		Description: jsii.String("Rows that something must still happen to are looked at every minute"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Seconds(jsii.Number(names.SweepHosted.Seconds()))),
		Targets:     target,
	})
}
