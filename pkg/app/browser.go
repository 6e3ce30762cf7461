package app

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Browser is a browser whose person has proven who they are. It may approve and
// decline, and nothing else.
type Browser struct {
	Email   string    `json:"email"`
	Name    string    `json:"name,omitempty"`
	Owns    Entry     `json:"owns,omitzero"` // on a laptop: the owner's project
	Expires time.Time `json:"expires"`

	secret string // its cookie
}

// Flow is a sign-in at an identity provider on its way: what only this browser and
// this server know of it.
type Flow struct {
	Back     string    `json:"back"` // path of ours to come back to
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Cookie   string    `json:"cookie"` // hash of what the browser keeps
	Expires  time.Time `json:"expires"`
}

// BeginFlow begins a sign-in. state goes to the provider and back, cookie stays
// with the browser; both are needed to end it.
func (a *App) BeginFlow(ctx context.Context, back string) (f Flow, state, cookie string, err error) {
	state, cookie = randomHex(32), randomHex(32)
	f = Flow{
		Back: back, Nonce: randomHex(16), Verifier: randomHex(32), Cookie: a.blind(grantFlow, cookie), Expires: a.Now().Add(names.FlowLife),
	}
	return f, state, cookie, a.Store.Transact(ctx, grantRow(a.grantKey(grantFlow, state), "flow", f, f.Expires, store.Absent()))
}

// EndFlow ends a sign-in that its own browser came back from, once.
func (a *App) EndFlow(ctx context.Context, state, cookie string) (Flow, error) {
	bad := refusal.Of(refusal.LoginDeclined, "not begun in this browser, or too long ago")
	k := a.grantKey(grantFlow, state)
	f, ok, err := get[Flow](ctx, a.Store, k)
	if err != nil {
		return Flow{}, err
	}
	mine := subtle.ConstantTimeCompare([]byte(a.blind(grantFlow, cookie)), []byte(f.Cookie)) == 1
	if !ok || !mine || !a.Now().Before(f.Expires) {
		return Flow{}, bad
	}
	if ok, err := a.take(ctx, k); err != nil || !ok {
		if err == nil {
			err = bad
		}
		return Flow{}, err
	}
	return f, nil
}

// SignIn remembers a browser whose person was proven, and returns its cookie. The
// person may be a member of nothing.
func (a *App) SignIn(ctx context.Context, email, name string) (string, error) {
	email, ok := mailbox(email)
	if !ok {
		return "", fault.New(fault.Denied, "The identity provider names no address for you.")
	}
	name, _ = text.Cut(text.Line(name), 80)
	return a.signedIn(ctx, Browser{Email: email, Name: name})
}

func (a *App) signedIn(ctx context.Context, b Browser) (string, error) {
	b.Expires = a.Now().Add(names.BrowserLife)
	cookie := randomHex(32)
	return cookie, a.Store.Transact(ctx, grantRow(a.grantKey(grantLogin, cookie), "browser", b, b.Expires, store.Absent()))
}

// BrowserOf finds the browser that a cookie belongs to; ok is false when it has to
// sign in.
func (a *App) BrowserOf(ctx context.Context, cookie string) (b Browser, ok bool, err error) {
	if cookie == "" {
		return Browser{}, false, nil
	}
	b, ok, err = get[Browser](ctx, a.Store, a.grantKey(grantLogin, cookie))
	b.secret = cookie
	return b, ok && a.Now().Before(b.Expires), err
}

// Form is the anti-forgery token of this browser's forms.
func (a *App) Form(b Browser) string { return a.blind("form", b.secret) }

// Mine lists what the browser's person may enter.
func (a *App) Mine(ctx context.Context, b Browser) ([]Entry, error) {
	if a.Local {
		if b.Owns.Project == "" {
			return nil, nil
		}
		return []Entry{b.Owns}, nil
	}
	return a.Entries(ctx, b.Email)
}

// LoginLink answers the mint of an owner's link.
type LoginLink struct {
	Link string `json:"link" jsonschema:"path and query of the link on this control plane; it works once, for five minutes"`
}

// MintLoginLink makes a link with which the owner of a laptop proves to a browser
// who they are: whoever may ask for it holds the owner's credential already.
func (a *App) MintLoginLink(ctx context.Context, c Call) (LoginLink, error) {
	if !a.Local {
		return LoginLink{}, refusal.Of(refusal.LocalOnly, "`lazy dashboard`")
	}
	secret := randomHex(32)
	b := Browser{Email: c.Who.Email, Name: c.Who.Name, Owns: Entry{Tenant: c.Who.Tenant, Project: c.Who.Project, Role: RoleAdmin}}
	b.Expires = a.Now().Add(names.LinkLife)
	err := a.Store.Transact(ctx, grantRow(a.grantKey(grantLink, secret), "link", b, b.Expires, store.Absent()))
	return LoginLink{Link: "/auth/owner?link=" + secret}, err
}

// UseLoginLink turns an owner's link into a signed-in browser, once.
func (a *App) UseLoginLink(ctx context.Context, secret string) (string, error) {
	bad := fault.New(fault.Denied, "This link was used before or is too old.").WithNext("Make another one: `lazy dashboard`")
	k := a.grantKey(grantLink, secret)
	b, ok, err := get[Browser](ctx, a.Store, k)
	if err != nil {
		return "", err
	}
	if !ok || !a.Now().Before(b.Expires) {
		return "", bad
	}
	if ok, err := a.take(ctx, k); err != nil || !ok {
		if err == nil {
			err = bad
		}
		return "", err
	}
	return a.signedIn(ctx, b)
}
