package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newTopic makes the topic that alarms and the budget are told on.
func newTopic(p *parts) awssns.Topic {
	t := awssns.NewTopic(p.stack, jsii.String("Alarms"), &awssns.TopicProps{
		DisplayName: jsii.String("lazyplane " + p.set.Stage), EnforceSSL: jsii.Bool(true),
	})
	t.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("budgets.amazonaws.com"), nil), awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil),
		},
		Actions: jsii.Strings("sns:Publish"), Resources: jsii.Strings(*t.TopicArn()),
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": *p.stack.Account()}},
	}))
	if p.set.AlarmEmail != "" {
		t.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String(p.set.AlarmEmail), nil))
	}
	return t
}

// watch is one alarm over one metric.
type watch struct {
	id      string
	metric  awscloudwatch.IMetric
	least   float64 // the value that is one too many
	periods float64
	says    string // what it means and where to look
}

// watches are few, because each is paid for, and each is something that a person
// must act on.
func watches(p *parts) []watch {
	own := func(name string) awscloudwatch.IMetric {
		return metric(names.MetricNamespace, name, "Sum", map[string]*string{"stage": jsii.String(p.set.Stage)})
	}
	throttled := func(surface string) awscloudwatch.IMetric {
		return metric("AWS/Lambda", "Throttles", "Sum", map[string]*string{"FunctionName": p.Functions[surface].Function.FunctionName()})
	}
	return []watch{
		{
			"DeadLetters", metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", map[string]*string{"QueueName": p.Queues.Dead.QueueName()}),
			1, 1, "An event or an outbox row could not be taken five times; the sweep still does its work. docs/operations.md, dead letters.",
		},
		{
			"Unpublished", metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", map[string]*string{"QueueName": p.Queues.Unpublished.QueueName()}),
			1, 1, "An event could not be told to those who listen; the product itself misses nothing. docs/operations.md, unpublished.",
		},
		{"SweepRepairs", own(names.MetricSweepRepair), 10, 3, "The sweep keeps doing what events should have done: an event is being lost. docs/operations.md, sweep repairs."},
		{"BreakerTrips", own(names.MetricBreaker), 1, 1, "Three turns of a task died in a row and it waits for a person. docs/operations.md, breaker."},
		{"LaunchFailures", own(names.MetricLaunch), 3, 2, "Runs cannot be started: capacity, an image or a quota. docs/operations.md, launches."},
		{"NonceReplays", own(names.MetricNonce), 1, 1, "A nonce was claimed a second time: somebody copied the parameters of a launch. docs/operations.md, nonce."},
		{
			"Errors", metric("AWS/ApiGateway", "5XXError", "Sum", map[string]*string{
				"ApiName": p.API.RestApiName(), "Stage": jsii.String(p.set.Stage),
			}), 5, 2, "The API answers with errors of its own. docs/operations.md, 5xx.",
		},
		{"StepThrottles", throttled(names.SurfaceStep), 5, 3, "Steps wait for each other: more tasks run than the reserved concurrency lets through. docs/operations.md, throttles."},
		{
			"TableThrottles", metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", map[string]*string{"TableName": p.Table.TableName()}),
			10, 3, "The table takes writes more slowly than they come. docs/operations.md, table throttles.",
		},
		{
			"RecoveryFailed", metric("AWS/States", "ExecutionsFailed", "Sum", map[string]*string{
				"StateMachineArn": jsii.String(p.machineARN(names.MachineRecovery)),
			}), 1, 1, "A recovery gave up; the sweep begins the next one. docs/operations.md, recovery.",
		},
	}
}

func metric(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), DimensionsMap: &dimensions,
		Statistic: jsii.String(statistic), Period: awscdk.Duration_Minutes(jsii.Number(5)),
	})
}

func newAlarms(p *parts) {
	tell := awscloudwatchactions.NewSnsAction(p.Topic)
	for _, w := range watches(p) {
		a := awscloudwatch.NewAlarm(p.stack, jsii.String(w.id+"Alarm"), &awscloudwatch.AlarmProps{
			AlarmName:        jsii.String(p.set.prefix() + "-" + w.id),
			AlarmDescription: jsii.String(w.says),
			Metric:           w.metric, Threshold: jsii.Number(w.least),
			ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
			EvaluationPeriods:  jsii.Number(w.periods), DatapointsToAlarm: jsii.Number(w.periods),
			TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
		})
		a.AddAlarmAction(tell)
		a.AddOkAction(tell)
	}
}
