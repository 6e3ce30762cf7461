// Command rpc is the Lambda function behind POST /rpc/{command} and
// GET /daemon/status.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/rpc"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main("rpc")
	h := rpc.New(rpc.Config{
		Base: p.Base(), Auth: p.App, App: p.App, Ops: op.Default(),
		Status: rpc.Status{Version: p.Config.Version, CodeSHA: p.Config.Version, Generation: p.App.IDs.New()},
	})
	lambda.Start(lambdahttp.Handler(p.Opened("rpc", h)))
}
