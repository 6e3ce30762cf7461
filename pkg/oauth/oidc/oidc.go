// Package oidc lets people prove who they are to an OpenID Connect issuer or to
// GitHub, which speaks OAuth only.
package oidc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/oauth"
)

// GitHub is the issuer of people who prove themselves to GitHub.
const GitHub = "https://github.com"

// api is where GitHub says who somebody is.
const api = "https://api.github.com"

// Provider is one identity provider.
type Provider struct {
	conf app.SignInConfig
	http *http.Client

	mu     sync.Mutex
	issuer *oidc.Provider // guarded by mu: nil until it was discovered
}

var _ oauth.People = (*Provider)(nil)

// New returns the provider that a configuration names. It makes no request.
func New(conf app.SignInConfig, client *http.Client) *Provider {
	return &Provider{conf: conf, http: client}
}

// Config is the configuration it was made from.
func (p *Provider) Config() app.SignInConfig { return p.conf }

// discover reads the issuer's own document, once it can be had.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.issuer != nil {
		return p.issuer, nil
	}
	// What was discovered outlives the request that asked, and so must its context.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.http), p.conf.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", p.conf.Issuer, err)
	}
	p.issuer = found
	return found, nil
}

func (p *Provider) config(ctx context.Context, redirect string) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: p.conf.Client, ClientSecret: p.conf.Secret, RedirectURL: redirect}
	if p.conf.Issuer == GitHub {
		c.Endpoint = oauth2.Endpoint{
			AuthURL: GitHub + "/login/oauth/authorize", TokenURL: GitHub + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams,
		}
		c.Scopes = []string{"user:email"}
		return c, nil
	}
	issuer, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	c.Endpoint, c.Scopes = issuer.Endpoint(), []string{oidc.ScopeOpenID, "email", "profile"}
	if p.conf.Secret == "" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has nothing for a header
	}
	return c, nil
}

// Begin returns the address at which the person proves who they are.
func (p *Provider) Begin(ctx context.Context, redirect, state, nonce, verifier string) (string, error) {
	c, err := p.config(ctx, redirect)
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oidc.Nonce(nonce)), nil
}

// End exchanges the code for the person. An address that the provider has not seen
// proven is nobody's.
func (p *Provider) End(ctx context.Context, redirect, code, nonce, verifier string) (oauth.Person, error) {
	ctx = oidc.ClientContext(ctx, p.http)
	c, err := p.config(ctx, redirect)
	if err != nil {
		return oauth.Person{}, err
	}
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return oauth.Person{}, fmt.Errorf("exchange the code: %w", err)
	}
	if p.conf.Issuer == GitHub {
		return p.github(ctx, c.Client(ctx, token))
	}
	text, ok := token.Extra("id_token").(string)
	if !ok {
		return oauth.Person{}, fmt.Errorf("%s gave no id_token", p.conf.Issuer)
	}
	issuer, err := p.discover(ctx)
	if err != nil {
		return oauth.Person{}, err
	}
	id, err := issuer.VerifierContext(ctx, &oidc.Config{ClientID: p.conf.Client}).Verify(ctx, text)
	if err != nil {
		return oauth.Person{}, fmt.Errorf("verify the id_token: %w", err)
	}
	if id.Nonce != nonce {
		return oauth.Person{}, fault.New(fault.Denied, "The identity provider answered another sign-in than this one.")
	}
	var claims struct {
		Email    string `json:"email"`
		Verified any    `json:"email_verified"` // some say "true"
		Name     string `json:"name"`
	}
	if err := id.Claims(&claims); err != nil {
		return oauth.Person{}, fmt.Errorf("read the id_token: %w", err)
	}
	proven := strings.EqualFold(fmt.Sprint(claims.Verified), "true")
	if claims.Email == "" || !proven && !p.conf.TrustEmail {
		return oauth.Person{}, unproven()
	}
	return oauth.Person{Email: claims.Email, Name: claims.Name}, nil
}

func unproven() error {
	return fault.New(fault.Denied, "The identity provider has no proven e-mail address of yours.").
		WithNext("Confirm your address there, then try again.")
}

// github reads who a token of GitHub belongs to: the primary address, if it was
// proven.
func (p *Provider) github(ctx context.Context, c *http.Client) (oauth.Person, error) {
	var emails []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	var user struct {
		Name string `json:"name"`
	}
	if err := get(ctx, c, api+"/user/emails", &emails); err != nil {
		return oauth.Person{}, err
	}
	if err := get(ctx, c, api+"/user", &user); err != nil {
		return oauth.Person{}, err
	}
	for _, e := range emails {
		if e.Primary && e.Verified {
			return oauth.Person{Email: e.Email, Name: user.Name}, nil
		}
	}
	return oauth.Person{}, unproven()
}

func get(ctx context.Context, c *http.Client, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	res, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(v)
}
