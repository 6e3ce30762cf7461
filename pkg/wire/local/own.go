package local

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
	secretfile "github.com/lazyplane/lazyplane/pkg/secret/file"
)

// ownCommands are the operations that need no project: what they are about lies in
// one folder that serves every project of this machine (HO-021).
func ownCommands() []string {
	return []string{"putModelCredential", "listModelCredentials", "deleteModelCredential"}
}

// Own runs an operation about the model credentials of this machine's person where
// there is no project, so no control plane either: in this process, through the
// same operation and over the same folder as a plane of the machine would.
func Own(ctx context.Context, home, command string, in any) (json.RawMessage, error) {
	o, ok := op.Default().Command(command)
	if !ok || !slices.Contains(ownCommands(), command) {
		return nil, fault.New(fault.Invalid, "%s needs a project", command)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	dir := config.CredentialsIn(home)
	a := app.New(app.Deps{Now: time.Now, Log: slog.New(slog.DiscardHandler), Local: true, Secrets: secretfile.New(dir), Seal: newSealer(dir)})
	who := identity.Caller{Kind: identity.Owner, Tenant: Tenant, Subject: "owner"}
	out, err := o.Call(ctx, a, app.Call{Who: who}, body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}
