// Command events is the Lambda function that hears of containers and flows that
// ended, of new outbox rows, and of the clock.
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

// rows is how many due rows of each shard one visit of the clock serves.
const rows = 50

func main() {
	p := aws.Main("events")
	h := feed.Handler(feed.Config{
		Cases: p.App, Log: p.Log, Now: p.Base().Now, Container: aws.Container, Park: p.Park(), Overdue: p.Overdue(), Check: p.Check, Rows: rows,
	})
	lambda.Start(p.Events(func(ctx context.Context, in json.RawMessage) (any, error) {
		if err := p.Open(ctx); err != nil && !feed.IsCheck(in) {
			return nil, err
		}
		return h(ctx, in)
	}))
}
