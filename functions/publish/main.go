// Command publish is the Lambda function that tells others what happened: it reads
// the table's stream and publishes domain events on the bus.
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main(names.SurfacePublish)
	h := feed.Publisher(feed.PublishConfig{Bus: p.Bus(), Log: p.Log, Now: p.Base().Now, Park: p.Park()})
	lambda.Start(p.Events(func(ctx context.Context, in json.RawMessage) (any, error) {
		if err := p.Whole(); err != nil {
			return nil, err
		}
		return h(ctx, in)
	}))
}
