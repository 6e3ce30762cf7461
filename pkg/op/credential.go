package op

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// CredentialIn is the input of putModelCredential. No schema judges the secret:
// what a judge says about it could repeat it.
type CredentialIn struct {
	Provider string `json:"provider,omitempty" jsonschema:"the service it is for; left out when rotating"`
	Name     string `json:"name,omitempty" jsonschema:"what to call it; the service's name when left out"`
	Scheme   string `json:"scheme,omitempty" jsonschema:"api-key or subscription; told by the secret when left out"`
	Upstream string `json:"base_url,omitempty" jsonschema:"where the service is called, when not at its usual address"`
	Secret   string `json:"secret" jsonschema:"the key or token; sealed at once and never shown again"`
	Rotate   bool   `json:"rotate,omitempty" jsonschema:"replace the secret of the one of that name and keep everything else"`
}

// PushIn is the input of pushPersonModelCredential.
type PushIn struct {
	Email string `json:"email" jsonschema:"the person it is stored for"`
	CredentialIn
}

// CredentialNameIn names a stored credential.
type CredentialNameIn struct {
	Name string `json:"name" jsonschema:"what the credential is called"`
}

func (in CredentialIn) app() app.CredentialIn {
	return app.CredentialIn{
		Name: in.Name, Provider: in.Provider, Scheme: model.Scheme(in.Scheme), Upstream: in.Upstream, Secret: in.Secret, Rotate: in.Rotate,
	}
}

// credentialOps are about the keys that launches spend. None is a tool: an agent
// that could write one would redirect every launch (HO-022).
func credentialOps() []Op {
	schemes := oneOf("scheme", string(model.APIKey), string(model.Subscription))
	size := func(s *jsonschema.Schema) {
		lengths(0, 40, "name")(s)
		lengths(0, 60, "provider")(s)
		lengths(0, 500, "base_url")(s)
	}
	return []Op{
		Define(Op{
			Name: "putModelCredential", People: people(), Refuses: []refusal.Code{refusal.NotFound},
			Doc: "Store a key or subscription token of a model service, sealed, or replace the secret of a stored one. Launches whose agent needs it spend it; no agent ever sees it.",
		}, func(ctx context.Context, a *app.App, c app.Call, in CredentialIn) (app.CredentialShown, error) {
			return a.PutModelCredential(ctx, c, in.app())
		}, schemes, size),
		Define(Op{
			Name: "listModelCredentials", Effect: Read, People: readers(),
			Doc: "List the stored model credentials without their secrets.",
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (app.Credentials, error) {
			return a.ListModelCredentials(ctx, c)
		}),
		Define(Op{
			Name: "deleteModelCredential", People: people(), Refuses: []refusal.Code{refusal.NotFound},
			Doc: "Forget a stored model credential. Runs under way keep it until they end.",
		}, func(ctx context.Context, a *app.App, c app.Call, in CredentialNameIn) (app.Removed, error) {
			return a.DeleteModelCredential(ctx, c, in.Name)
		}, lengths(1, 60, "name")),
		Define(Op{
			Name: "pushPersonModelCredential", People: []identity.Kind{identity.Operator},
			Doc:     "Store a model credential on behalf of a person of the team.",
			Refuses: []refusal.Code{refusal.ControlOnly, refusal.SingleOwner},
		}, func(ctx context.Context, a *app.App, c app.Call, in PushIn) (app.CredentialShown, error) {
			return a.PushModelCredential(ctx, c, in.Email, in.app())
		}, schemes, size, lengths(1, 320, "email")),
	}
}
