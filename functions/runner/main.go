// Command runner is the Lambda function behind POST /runner/{op}: what supervisors
// say.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main("runner")
	h := runnerapi.New(runnerapi.Config{Base: p.Base(), Auth: p.App, Runs: p.App})
	lambda.Start(lambdahttp.Handler(p.Opened("runner", h)))
}
