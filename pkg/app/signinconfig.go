package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// SignInConfig says to whom people prove who they are. It is set by whoever runs
// the control plane, and kept sealed.
type SignInConfig struct {
	Issuer string `json:"issuer"` // of OpenID Connect, or https://github.com
	Client string `json:"client"` // id that the provider knows this control plane by
	Secret string `json:"secret,omitempty"`
	// TrustEmail takes an address for proven that the issuer says nothing about: for
	// an issuer whose people cannot choose their own.
	TrustEmail bool `json:"trust_email,omitempty"`
}

// signInPurpose is what the configuration is sealed for.
const signInPurpose = "sign-in"

func signInKey() store.Key { return store.For(names.TenantReserved).Grant("provider", "people") }

// SetSignIn keeps the configuration. No request from outside reaches it.
func (a *App) SetSignIn(ctx context.Context, c SignInConfig) error {
	u, err := url.Parse(c.Issuer)
	loopback := err == nil && u.Scheme == "http" && u.Hostname() == "127.0.0.1"
	if err != nil || u.Scheme != "https" && !loopback || u.Host == "" || c.Client == "" {
		return fault.New(fault.Invalid, "a sign-in takes the https address of an issuer and the id of a client there")
	}
	if a.Seal == nil {
		return fault.New(fault.Unavailable, "there is nothing to seal the client's secret with")
	}
	sealed, err := a.Seal.Seal(ctx, names.TenantReserved, signInPurpose, encode(c))
	if err != nil {
		return err
	}
	// No document of a kind: only who may open it reads any of it.
	return a.Store.Transact(ctx, store.Write{
		Act: store.Put, Item: store.Item{Key: signInKey(), Attr: store.Attr{store.AttrType: "sign-in", "schema": int64(schema)}, Doc: sealed},
	})
}

// SignInOf reads the configuration.
func (a *App) SignInOf(ctx context.Context) (SignInConfig, error) {
	it, err := a.Store.Get(ctx, signInKey())
	if errors.Is(err, store.ErrNotFound) {
		return SignInConfig{}, fault.New(fault.Unavailable, "This control plane has no identity provider yet, so nobody can sign in.").
			WithNext("Whoever runs it names one, as docs/login.md says.")
	}
	if err != nil {
		return SignInConfig{}, err
	}
	plain, err := a.Seal.Open(ctx, names.TenantReserved, signInPurpose, it.Doc)
	if err != nil {
		return SignInConfig{}, err
	}
	var c SignInConfig
	return c, json.Unmarshal(plain, &c)
}
