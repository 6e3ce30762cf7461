package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// receives is how often a message is tried before it counts as dead.
const receives = 5

// queues are the ways events come in, and what becomes of those nobody can take.
type queues struct {
	Events awssqs.Queue // what EventBridge sends
	Dead   awssqs.Queue // with the outbox rows whose work could not be done
	// Unpublished is the same for the function that tells others: what it cannot
	// tell is no reason to look at the work of the product.
	Unpublished awssqs.Queue
}

func newQueues(p *parts) queues {
	dead := func(id string, further *awssqs.DeadLetterQueue) awssqs.Queue {
		return awssqs.NewQueue(p.stack, jsii.String(id), &awssqs.QueueProps{
			Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true), DeadLetterQueue: further,
			RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)), RemovalPolicy: p.set.removal(),
		})
	}
	q := queues{Dead: dead("DeadLetters", nil)}
	// Only people read it. The count is the most there is: it is for a reader that
	// fails at a message for ever.
	q.Unpublished = dead("Unpublished", &awssqs.DeadLetterQueue{Queue: q.Dead, MaxReceiveCount: jsii.Number(1000)})
	q.Events = awssqs.NewQueue(p.stack, jsii.String("Events"), &awssqs.QueueProps{
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true),
		// Six times the function's own limit: a message whose function was cut off
		// or throttled comes back, one that is being worked on does not.
		VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(6 * names.TimeoutEvents.Seconds())),
		RetentionPeriod:   awscdk.Duration_Days(jsii.Number(4)), RemovalPolicy: p.set.removal(),
		DeadLetterQueue: &awssqs.DeadLetterQueue{Queue: q.Dead, MaxReceiveCount: jsii.Number(receives)},
	})
	return q
}
