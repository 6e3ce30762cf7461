package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newFeeds connects functions with what they read. All feeds take a partial
// answer, so one poison record never blocks or repeats its neighbours. The work of
// the product and the telling of others are two consumers of the stream, each with
// tries and a dead-letter queue of its own: neither waits for the other.
func newFeeds(p *parts) {
	events := p.Functions[names.SurfaceEvents]
	partial := jsii.Strings("ReportBatchItemFailures")
	// A mapping that runs before its role may read fails the deployment.
	may := events.Role.Node().FindChild(jsii.String("DefaultPolicy"))
	queue := awslambda.NewCfnEventSourceMapping(p.stack, jsii.String("QueueFeed"), &awslambda.CfnEventSourceMappingProps{
		FunctionName: events.Live.FunctionArn(), EventSourceArn: p.Queues.Events.QueueArn(),
		BatchSize: jsii.Number(10), FunctionResponseTypes: partial,
		// Below the function's reserved concurrency, which the stream also needs.
		ScalingConfig: &awslambda.CfnEventSourceMapping_ScalingConfigProperty{MaximumConcurrency: jsii.Number(10)},
	})
	// Only new rows of the outbox, and rows that ask for work by a mark of their own:
	// everything else in the table is nobody's news.
	stream := awslambda.NewCfnEventSourceMapping(p.stack, jsii.String("OutboxFeed"), &awslambda.CfnEventSourceMappingProps{
		FunctionName: events.Live.FunctionArn(), EventSourceArn: p.Table.TableStreamArn(),
		StartingPosition: jsii.String("TRIM_HORIZON"), BatchSize: jsii.Number(10), FunctionResponseTypes: partial,
		BisectBatchOnFunctionError: jsii.Bool(true), MaximumRetryAttempts: jsii.Number(receives), MaximumRecordAgeInSeconds: jsii.Number(3600),
		ParallelizationFactor: jsii.Number(4),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: p.Queues.Dead.QueueArn()},
		},
		FilterCriteria: &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{Filters: []any{
			&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(
				`{"eventName":["INSERT"],"dynamodb":{"Keys":{"` + names.TableSK + `":{"S":[{"prefix":"` + names.OutboxPrefix + `"}]}}}}`,
			)},
			&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(
				`{"eventName":["INSERT","MODIFY"],"dynamodb":{"NewImage":{"` + names.TableFollow + `":{"BOOL":[true]}}}}`,
			)},
		}},
	})
	for _, m := range []awslambda.CfnEventSourceMapping{queue, stream} {
		m.Node().AddDependency(may)
	}
	publish := p.Functions[names.SurfacePublish]
	changes := awslambda.NewCfnEventSourceMapping(p.stack, jsii.String("ChangesFeed"), &awslambda.CfnEventSourceMappingProps{
		FunctionName: publish.Live.FunctionArn(), EventSourceArn: p.Table.TableStreamArn(),
		StartingPosition: jsii.String("TRIM_HORIZON"), BatchSize: jsii.Number(100), FunctionResponseTypes: partial,
		// Events are for others and none of them is in a hurry; a change rarely comes
		// alone.
		MaximumBatchingWindowInSeconds: jsii.Number(1),
		// No row says that its event is still to be told, so the stream itself is what
		// tells again: for nearly as long as it keeps a record.
		BisectBatchOnFunctionError: jsii.Bool(true), MaximumRetryAttempts: jsii.Number(-1), MaximumRecordAgeInSeconds: jsii.Number(23 * 3600),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: p.Queues.Unpublished.QueueArn()},
		},
		FilterCriteria: &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{Filters: []any{
			&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: jsii.String(
				`{"eventName":["INSERT"],"dynamodb":{"Keys":{"` + names.TableSK + `":{"S":[{"prefix":"` + names.HistoryPrefix + `"}]}}}}`,
			)},
		}},
	})
	changes.Node().AddDependency(publish.Role.Node().FindChild(jsii.String("DefaultPolicy")))
}
