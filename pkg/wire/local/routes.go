package local

import (
	"slices"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/builderapi"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/mcpserver"
	"github.com/lazyplane/lazyplane/pkg/oauth"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
)

// agentRoutes are the surfaces of supervisors and agents, and of the authorization
// server that lets MCP clients in: here a person proves who they are by the owner's
// link.
func agentRoutes(o Options, base edge.Base, a *app.App, ops *op.Catalogue) []edge.Route {
	return slices.Concat(
		builderapi.Routes(builderapi.Config{Base: base, Auth: a, App: a}),
		runnerapi.Routes(runnerapi.Config{Base: base, Auth: a, Runs: a}),
		mcpserver.Routes(mcpserver.Config{
			Base: base, Auth: a, App: a, Ops: ops, Turns: a, Await: a, Version: o.Version,
		}),
		oauth.Routes(oauth.Config{Base: base, App: a, Documents: oauth.Guarded()}),
	)
}
