// Command mcp is the Lambda function behind /mcp/{segment}, the tools of agents,
// and /builder/storage, the capture of builder sessions.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/pkg/builderapi"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

func main() {
	p := aws.Main("mcp")
	h := edge.Router(append(mcpserver.Routes(mcpserver.Config{
		Base: p.Base(), HopDirect: names.HopMCPDirect, Auth: p.App, App: p.App, Ops: op.Default(), Turns: p.App, Await: p.App,
		Version: p.Config.Version,
	}), builderapi.Routes(builderapi.Config{Base: p.Base(), Auth: p.App, App: p.App})...)...)
	lambda.Start(lambdahttp.Handler(p.Opened("mcp", h)))
}
