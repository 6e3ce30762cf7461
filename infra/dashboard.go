package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newDashboard shows on one page what the alarms watch and what costs money. It
// has fewer than 50 metrics, up to which the first three dashboards are free.
func newDashboard(p *parts) {
	graph := func(name string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(name), Width: jsii.Number(8), Height: jsii.Number(6), Left: &metrics,
		})
	}
	own := func(name string) awscloudwatch.IMetric {
		return metric(names.MetricNamespace, name, "Sum", map[string]*string{"stage": jsii.String(p.set.Stage)})
	}
	lambda := func(name, statistic string) []awscloudwatch.IMetric {
		var all []awscloudwatch.IMetric
		for _, s := range names.Surfaces() {
			all = append(all, metric("AWS/Lambda", name, statistic, map[string]*string{"FunctionName": p.Functions[s].Function.FunctionName()}))
		}
		return all
	}
	flow := func(name string) []awscloudwatch.IMetric {
		var all []awscloudwatch.IMetric
		for _, m := range names.Machines() {
			all = append(all, metric("AWS/States", name, "Sum", map[string]*string{"StateMachineArn": jsii.String(p.machineARN(m))}))
		}
		return all
	}
	table := func(name string) awscloudwatch.IMetric {
		return metric("AWS/DynamoDB", name, "Sum", map[string]*string{"TableName": p.Table.TableName()})
	}
	api := func(name, statistic string) awscloudwatch.IMetric {
		return metric("AWS/ApiGateway", name, statistic, map[string]*string{"ApiName": p.API.RestApiName(), "Stage": jsii.String(p.set.Stage)})
	}
	depth := func(name *string) awscloudwatch.IMetric {
		return metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", map[string]*string{"QueueName": name})
	}
	d := awscloudwatch.NewDashboard(p.stack, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DashboardName: jsii.String(p.set.prefix()), DefaultInterval: awscdk.Duration_Hours(jsii.Number(24)),
	})
	d.AddWidgets(
		graph("What a person must look at", own(names.MetricBreaker), own(names.MetricLaunch), own(names.MetricNonce), own(names.MetricSweepRepair)),
		graph("Dead letters", depth(p.Queues.Dead.QueueName()), depth(p.Queues.Unpublished.QueueName()), depth(p.Queues.Events.QueueName())),
		graph("Requests and errors", api("Count", "Sum"), api("4XXError", "Sum"), api("5XXError", "Sum")),
	)
	d.AddWidgets(
		graph("Flows started", flow("ExecutionsStarted")...), graph("Flows failed", flow("ExecutionsFailed")...), graph("Function time", lambda("Duration", "p95")...),
	)
	d.AddWidgets(
		graph("Function calls", lambda("Invocations", "Sum")...), graph("Function errors", lambda("Errors", "Sum")...),
		graph("Table units", table("ConsumedReadCapacityUnits"), table("ConsumedWriteCapacityUnits")),
	)
	d.AddWidgets(
		graph("Function throttles", lambda("Throttles", "Sum")...), graph("Table throttles", table("ReadThrottleEvents"), table("WriteThrottleEvents")),
	)
}
