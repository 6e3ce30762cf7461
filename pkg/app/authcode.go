package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// OAuthClient is a program that people let work for them: a public client, known
// by what it registered or by a document of its own (RFC 7591).
type OAuthClient struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"` // what it calls itself; anybody can call itself anything
	Redirects []string  `json:"redirects"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero once a person has approved it
}

// RegisterClient keeps a client that introduced itself. Unless a person approves
// it within a day it is forgotten.
func (a *App) RegisterClient(ctx context.Context, name string, redirects []string) (OAuthClient, error) {
	now := a.Now()
	c := OAuthClient{ID: "lzc_" + randomHex(16), Name: name, Redirects: redirects, Created: now, Expires: now.Add(names.NewClientLife)}
	return c, a.Store.Transact(ctx, grantRow(a.grantKey(grantClient, c.ID), "client", c, c.Expires, store.Absent()))
}

// RegisteredClient finds a client that registered; ok is false for one that nobody
// knows.
func (a *App) RegisteredClient(ctx context.Context, id string) (c OAuthClient, ok bool, err error) {
	c, ok, err = get[OAuthClient](ctx, a.Store, a.grantKey(grantClient, id))
	return c, ok && (c.Expires.IsZero() || a.Now().Before(c.Expires)), err
}

// CodeAsk is what a client asks a person for, checked by the surface.
type CodeAsk struct {
	Client    OAuthClient
	Redirect  string
	Challenge string // S256 of the verifier that only the client knows (RFC 7636)
}

// authCode is an authorization code that was given out.
type authCode struct {
	Client     string    `json:"client"`
	ClientName string    `json:"client_name"`
	Redirect   string    `json:"redirect"`
	Challenge  string    `json:"challenge"`
	Tenant     string    `json:"tenant"`
	Project    string    `json:"project"`
	Email      string    `json:"email"`
	Name       string    `json:"name"`
	Expires    time.Time `json:"expires"`
}

// GrantCode is a person's approval of a client. What the client gets for the code
// is a builder's credential of that person and no other (LG-014).
func (a *App) GrantCode(ctx context.Context, by Browser, ask CodeAsk, into Entry) (string, error) {
	m := Member{Email: by.Email, Name: by.Name}
	ok := a.Local && by.Owns.Project != "" && by.Owns.Tenant == into.Tenant && by.Owns.Project == into.Project
	if !a.Local {
		var err error
		if m, ok, err = a.enters(ctx, into.Tenant, into.Project, by.Email); err != nil {
			return "", err
		}
	}
	if !ok {
		return "", noEntry()
	}
	c := authCode{
		Client: ask.Client.ID, ClientName: ask.Client.Name, Redirect: ask.Redirect, Challenge: ask.Challenge,
		Tenant: into.Tenant, Project: into.Project, Email: m.Email, Name: m.Name, Expires: a.Now().Add(names.CodeLife),
	}
	code := "lzo_" + randomHex(32)
	ws := []store.Write{grantRow(a.grantKey(grantCode, code), "auth-code", c, c.Expires, store.Absent())}
	if !ask.Client.Expires.IsZero() {
		ask.Client.Expires = time.Time{}
		ws = append(ws, put(a.grantKey(grantClient, ask.Client.ID), "client", ask.Client))
	}
	return code, a.Store.Transact(ctx, ws...)
}

// CodeUse is a client's exchange of a code.
type CodeUse struct{ Code, Client, Redirect, Verifier string }

// RedeemCode exchanges an authorization code, once: of many that try with the same
// one, one gets tokens. A code does nothing without the verifier that its client
// kept to itself, so that one which was read or put under another client's nose is
// worthless.
func (a *App) RedeemCode(ctx context.Context, use CodeUse) (Issued, error) {
	k := a.grantKey(grantCode, use.Code)
	c, ok, err := get[authCode](ctx, a.Store, k)
	if err != nil {
		return Issued{}, err
	}
	sum := sha256.Sum256([]byte(use.Verifier))
	proven := subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(c.Challenge)) == 1
	if !ok || !proven || c.Client != use.Client || c.Redirect != use.Redirect || !a.Now().Before(c.Expires) {
		return Issued{}, badGrant()
	}
	f := Family{
		ID: newFamilyID(c.Email, ""), Kind: identity.Builder, Project: c.Project, Email: c.Email, Name: c.Name,
		Client: c.Client, ClientName: c.ClientName,
	}
	if ok, err := a.stays(ctx, c.Tenant, f); err != nil || !ok {
		return Issued{}, errors.Join(badGrant(), err)
	}
	out, ws, err := a.startFamily(ctx, c.Tenant, f)
	if err != nil {
		return Issued{}, err
	}
	once := store.Write{Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.Present()}}
	err = a.Store.Transact(ctx, append(ws, once)...)
	if lostRace(err) {
		return Issued{}, badGrant()
	}
	return out, err
}
