// Command auth is the Lambda function of the authorization server: what clients
// discover, the token endpoint, and the pages on which people approve.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
	"github.com/lazyplane/lazyplane/pkg/oauth"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main("auth")
	h := oauth.New(oauth.Config{Base: p.Base(), App: p.App, People: p.People(), Documents: oauth.Guarded()})
	lambda.Start(lambdahttp.Handler(p.Opened("auth", h)))
}
