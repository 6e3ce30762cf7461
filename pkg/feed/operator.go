package feed

import (
	"context"
	"encoding/json"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// What whoever runs the control plane asks for by invoking the events function,
// which takes rights in the account: the source of such an event and its types.
const (
	OperatorSource = "lazyplane.operator"
	BootstrapType  = "Bootstrap"    // a tenant, a project in it, a person
	CheckType      = "Check"        // whether what only fails once it is needed is there
	SignInType     = "SignIn"       // to whom people prove who they are
	RemoveType     = "RemoveMember" // a person is put out
)

// Operator are the use cases that no request from outside reaches.
type Operator interface {
	Bootstrap(ctx context.Context, in app.Bootstrap) (app.Bootstrapped, error)
	SetSignIn(ctx context.Context, c app.SignInConfig) error
	RemoveMember(ctx context.Context, tenant, email string) error
}

// removal names a person to be put out.
type removal struct {
	Tenant string `json:"tenant"`
	Email  string `json:"email"`
}

// single serves an event that came without a batch around it.
func (c Config) single(ctx context.Context, e news) (any, error) {
	if e.Source != OperatorSource {
		return struct{}{}, c.event(ctx, e)
	}
	switch e.Type {
	case CheckType:
		if c.Check != nil {
			return c.Check(ctx), nil
		}
	case BootstrapType:
		in, err := asked[app.Bootstrap](e)
		if err != nil {
			return nil, err
		}
		return c.Cases.Bootstrap(ctx, in)
	case SignInType:
		in, err := asked[app.SignInConfig](e)
		if err == nil {
			err = c.Cases.SetSignIn(ctx, in)
		}
		return struct{}{}, err
	case RemoveType:
		in, err := asked[removal](e)
		if err == nil && (in.Tenant == "" || in.Email == "") {
			err = fault.New(fault.Invalid, "the removal of a person names a tenant and an address")
		}
		if err == nil {
			err = c.Cases.RemoveMember(ctx, in.Tenant, in.Email)
		}
		return struct{}{}, err
	}
	return struct{}{}, c.event(ctx, e)
}

func asked[T any](e news) (in T, err error) {
	if err := json.Unmarshal(e.Detail, &in); err != nil {
		return in, fault.Wrap(fault.Invalid, err, "what the operator asks for is not readable")
	}
	return in, nil
}
