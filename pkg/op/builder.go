package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// BuilderTokenIn is the input of mintBuilderToken.
type BuilderTokenIn struct {
	Label string `json:"label" jsonschema:"builder- and 8 to 40 random letters and digits"`
	PID   int    `json:"pid,omitempty" jsonschema:"process of the launcher, for people to read"`
}

// LabelIn names a builder session.
type LabelIn struct {
	Label string `json:"label" jsonschema:"the label of a builder session"`
}

// builderOps are about the sessions of agents that work for a person across the
// project. An agent that could mint one would have a wider surface than its own.
func builderOps() []Op {
	return []Op{
		Define(Op{
			Name: "mintBuilderToken", People: people(), Refuses: []refusal.Code{refusal.OperatorNotAPerson, refusal.NotFound, refusal.GroundStop, refusal.Draining},
			Doc: "Issue the credential of one builder session of the caller, for /mcp/_ and /builder/storage only.",
		}, func(ctx context.Context, a *app.App, c app.Call, in BuilderTokenIn) (app.BuilderToken, error) {
			return a.MintBuilderToken(ctx, c, in.Label, in.PID)
		}, lengths(1, 60, "label")),
		Define(Op{
			Name: "revokeMcpToken", People: people(), Refuses: []refusal.Code{refusal.OperatorNotAPerson},
			Doc: "Withdraw the credential of one builder session of the caller.",
		}, func(ctx context.Context, a *app.App, c app.Call, in LabelIn) (app.Revoked, error) {
			return a.RevokeBuilderToken(ctx, c, in.Label)
		}, lengths(1, 60, "label")),
		Define(Op{
			Name: "mintLoginLink", People: []identity.Kind{identity.Owner}, Refuses: []refusal.Code{refusal.LocalOnly},
			Doc: "Make a link with which the owner of a laptop signs a browser in, once.",
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.LoginLink, error) {
			return a.MintLoginLink(ctx, c)
		}),
		Define(Op{
			Name: "listConversations", Effect: Read, People: readers(),
			Doc: "List the stored conversations of the caller's builder sessions, newest first.",
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.Conversations, error) {
			return a.ListConversations(ctx, c)
		}),
	}
}
