package app

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// CredentialShown is a stored model credential without its secret.
type CredentialShown struct {
	Name     string       `json:"name" jsonschema:"what it is called"`
	Provider string       `json:"provider" jsonschema:"the service it is for"`
	Scheme   model.Scheme `json:"scheme" jsonschema:"api-key or subscription"`
	Upstream string       `json:"base_url" jsonschema:"where the service is called"`
	Owner    string       `json:"owner,omitempty" jsonschema:"email of the person it belongs to; absent on the project's own"`
	Used     bool         `json:"used" jsonschema:"of several for the service, the one that your launches spend"`
	Added    time.Time    `json:"added_at" jsonschema:"when it was stored"`
	Rotated  time.Time    `json:"rotated_at,omitzero" jsonschema:"when its secret was last replaced"`
}

// Credentials is the list of stored model credentials.
type Credentials struct {
	Credentials []CredentialShown `json:"credentials" jsonschema:"what is stored; no secret is ever part of it"`
}

// CredentialIn is a model credential to store. Rotating keeps everything but the
// secret.
type CredentialIn struct {
	Name     string
	Provider string
	Scheme   model.Scheme
	Upstream string
	Secret   string
	Rotate   bool
}

// Removed answers the removal of a credential.
type Removed struct {
	Name    string `json:"name" jsonschema:"what it was called"`
	Removed bool   `json:"removed" jsonschema:"it is gone; runs under way keep it until they end"`
}

var credentialName = pattern.New(`^[a-z0-9][a-z0-9._-]{0,39}$`)

// vault is where credentials lie: the keeper that was wired, else the table.
func (a *App) vault() secret.Keeper {
	if a.Secrets != nil {
		return a.Secrets
	}
	return table{a.Store}
}

// owns is whose credentials a person's launches spend. A laptop has one person,
// whatever git calls them (US-021).
func (a *App) owns(email string) string {
	if a.Local {
		return ""
	}
	return secret.Fold(email)
}

// PutModelCredential stores a credential of the caller, or replaces the secret of
// one (HO-022). The secret is sealed before anything else sees it and is part of
// no answer, error or log.
func (a *App) PutModelCredential(ctx context.Context, c Call, in CredentialIn) (CredentialShown, error) {
	return a.putCredential(ctx, c.Who.Tenant, a.owns(c.Who.Email), in)
}

// PushModelCredential stores a credential on behalf of a person (OP-004).
func (a *App) PushModelCredential(ctx context.Context, c Call, email string, in CredentialIn) (CredentialShown, error) {
	if a.Local {
		return CredentialShown{}, refusal.Of(refusal.SingleOwner)
	}
	if secret.Fold(email) == "" {
		return CredentialShown{}, refusal.Of(refusal.InvalidArguments, "email", "the person's email", "nothing")
	}
	return a.putCredential(ctx, c.Who.Tenant, secret.Fold(email), in)
}

func (a *App) putCredential(ctx context.Context, tenant, owner string, in CredentialIn) (CredentialShown, error) {
	if a.Seal == nil {
		return CredentialShown{}, fault.New(fault.Unavailable, "this control plane has nothing to seal secrets with")
	}
	all, err := a.vault().List(ctx, tenant)
	if err != nil {
		return CredentialShown{}, err
	}
	cr := secret.Credential{Owner: owner, Name: in.Name, Added: a.Now()}
	if in.Rotate {
		i := slices.IndexFunc(all, func(x secret.Credential) bool { return x.Owner == owner && x.Name == in.Name })
		if i < 0 {
			return CredentialShown{}, noCredential(in.Name)
		}
		cr = all[i]
		cr.Rotated = a.Now()
	} else if err := describe(&cr, in); err != nil {
		return CredentialShown{}, err
	}
	text := strings.TrimSpace(in.Secret)
	if bad := badSecret(text); bad != "" {
		return CredentialShown{}, refusal.Of(refusal.InvalidArguments, "secret", "the key or token of the service", bad)
	}
	if cr.Sealed, err = a.Seal.Seal(ctx, tenant, cr.Purpose(), []byte(text)); err != nil {
		return CredentialShown{}, err
	}
	if in.Rotate {
		err = a.vault().Replace(ctx, tenant, cr)
	} else {
		err = a.vault().Create(ctx, tenant, cr)
	}
	switch {
	case errors.Is(err, secret.ErrExists):
		// The same again is the request whose answer was lost.
		i := slices.IndexFunc(all, func(x secret.Credential) bool { return x.Owner == owner && x.Name == cr.Name })
		if i >= 0 && all[i].Provider == cr.Provider && all[i].Scheme == cr.Scheme && all[i].Upstream == cr.Upstream {
			if have, err := a.Seal.Open(ctx, tenant, cr.Purpose(), all[i].Sealed); err == nil && string(have) == text {
				cr = all[i]
				break
			}
		}
		return CredentialShown{}, fault.New(fault.Conflict, "there is a credential named %s already", cr.Name).
			WithNext("To replace its secret: `lazy auth rotate " + cr.Name + "`. To keep both, give this one a --name.")
	case errors.Is(err, secret.ErrNone):
		return CredentialShown{}, noCredential(in.Name)
	case err != nil:
		return CredentialShown{}, err
	}
	v := shownCredential(cr)
	if all, err = a.vault().List(ctx, tenant); err == nil {
		used, ok := chosen(all, cr.Provider, owner)
		v.Used = ok && used.Name == cr.Name && used.Owner == cr.Owner
	}
	return v, nil
}

// describe fills in what is stored beside the secret.
func describe(cr *secret.Credential, in CredentialIn) error {
	p, ok := model.Find(in.Provider)
	if !ok {
		var known []string
		for _, p := range model.Providers() {
			known = append(known, p.Name)
		}
		return refusal.Of(refusal.InvalidArguments, "provider", "one of "+strings.Join(known, ", "), "another text")
	}
	cr.Provider, cr.Scheme, cr.Upstream = p.Name, in.Scheme, p.Upstream
	if cr.Name == "" {
		cr.Name = p.Name
	}
	if !credentialName.MatchString(cr.Name) {
		return refusal.Of(refusal.InvalidArguments, "name", "up to 40 of a-z, 0-9, dot, dash and underscore", "another text")
	}
	if cr.Scheme == "" {
		cr.Scheme = schemeOf(p, in.Secret)
	}
	if !slices.Contains(p.Schemes, cr.Scheme) {
		return refusal.Of(refusal.InvalidArguments, "scheme", "one that "+p.Title+" has", "another one")
	}
	if in.Upstream == "" {
		return nil
	}
	bad := refusal.Of(refusal.InvalidArguments, "base_url", "an https address without a user or query; http only on this machine", "another text")
	u, err := url.Parse(strings.TrimRight(in.Upstream, "/"))
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return bad
	}
	host := net.ParseIP(u.Hostname())
	here := u.Hostname() == "localhost" || host != nil && host.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !here) {
		return bad
	}
	cr.Upstream = u.String()
	return nil
}

// subscriptionPrefix begins the tokens that Claude plans hand out.
const subscriptionPrefix = "sk-ant-oat"

func schemeOf(p model.Provider, text string) model.Scheme {
	if slices.Contains(p.Schemes, model.Subscription) && strings.HasPrefix(strings.TrimSpace(text), subscriptionPrefix) {
		return model.Subscription
	}
	return p.Schemes[0]
}

// badSecret says what is wrong with a secret without repeating any of it.
func badSecret(s string) string {
	switch {
	case s == "":
		return "nothing"
	case len(s) > names.SecretMax:
		return "a longer text than any of them"
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r > unicode.MaxASCII }):
		return "a text with spaces, line breaks or odd characters"
	}
	return ""
}

func noCredential(name string) error {
	return refusal.Of(refusal.NotFound, "credential", cut(name, 60)).WithNext("`lazy auth list` shows what is stored.")
}

// ListModelCredentials lists what the caller's launches can spend: their own and
// the project's. The operator sees all of the tenant's. Secrets stay sealed.
func (a *App) ListModelCredentials(ctx context.Context, c Call) (Credentials, error) {
	out := Credentials{Credentials: []CredentialShown{}}
	all, err := a.vault().List(ctx, c.Who.Tenant)
	if err != nil {
		return out, err
	}
	owner := a.owns(c.Who.Email)
	for _, cr := range all {
		if cr.Owner != "" && cr.Owner != owner && c.Who.Person() {
			continue
		}
		v := shownCredential(cr)
		used, ok := chosen(all, cr.Provider, owner)
		v.Used = ok && used.Name == cr.Name && used.Owner == cr.Owner
		out.Credentials = append(out.Credentials, v)
	}
	return out, nil
}

// DeleteModelCredential forgets a credential of the caller.
func (a *App) DeleteModelCredential(ctx context.Context, c Call, name string) (Removed, error) {
	err := a.vault().Delete(ctx, c.Who.Tenant, a.owns(c.Who.Email), name)
	if errors.Is(err, secret.ErrNone) {
		return Removed{}, noCredential(name)
	}
	if err != nil {
		return Removed{}, err
	}
	out := Removed{Name: name, Removed: true}
	return out, a.remember(ctx, c, out)
}

// remember keeps an answer under the call's key where what was done lies outside
// of the table.
func (a *App) remember(ctx context.Context, c Call, result any) error {
	if c.Key == "" {
		return nil
	}
	return a.transact(ctx, c, []store.Write{a.idemWrite(c.Who.Tenant, c, "", result, a.Now())})
}

func shownCredential(cr secret.Credential) CredentialShown {
	return CredentialShown{
		Name: cr.Name, Provider: cr.Provider, Scheme: cr.Scheme, Upstream: cr.Upstream, Owner: cr.Owner, Added: cr.Added, Rotated: cr.Rotated,
	}
}

// chosen is the credential that a launch on behalf of owner spends at a provider:
// their own before the project's, and of several the one whose secret is newest.
func chosen(all []secret.Credential, provider, owner string) (secret.Credential, bool) {
	var best secret.Credential
	found := false
	fresh := func(c secret.Credential) time.Time {
		if c.Rotated.After(c.Added) {
			return c.Rotated
		}
		return c.Added
	}
	for _, c := range all {
		if c.Provider != provider || c.Owner != "" && c.Owner != owner {
			continue
		}
		own, have := c.Owner == owner, best.Owner == owner
		if !found || own && !have || own == have && fresh(c).After(fresh(best)) {
			best, found = c, true
		}
	}
	return best, found
}

// label names a credential in records and readings. It is no secret.
func label(c secret.Credential) string {
	if c.Owner == "" {
		return c.Name
	}
	return c.Owner + "/" + c.Name
}
