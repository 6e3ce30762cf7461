package app

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// GrantError is a refusal of the authorization server in the words of its
// protocol (RFC 6749 5.2, RFC 8628 3.5).
type GrantError struct{ Code, Text string }

func (e *GrantError) Error() string { return e.Code + ": " + e.Text }

// The refusals of the token endpoint.
const (
	InvalidRequest = "invalid_request"
	InvalidClient  = "invalid_client"
	InvalidGrant   = "invalid_grant"
	InvalidTarget  = "invalid_target"
	AccessDenied   = "access_denied"
	Pending        = "authorization_pending"
	SlowDown       = "slow_down"
	ExpiredToken   = "expired_token"
)

// badGrant is the one answer to a code or token that is unknown, another's, used
// or withdrawn: which of them it is helps only whoever guesses.
func badGrant() error {
	return &GrantError{InvalidGrant, "this grant is not valid: it may be used, expired, withdrawn or meant for another client"}
}

// Family is one sign-in of a person on one machine or in one client: the access
// token that lives now and the generation of the refresh token that replaces it.
type Family struct {
	ID         string        `json:"id"`
	Kind       identity.Kind `json:"kind"`
	Project    string        `json:"project"`
	Email      string        `json:"email"`
	Name       string        `json:"name,omitempty"`
	Client     string        `json:"client"`
	ClientName string        `json:"client_name,omitempty"`
	Machine    string        `json:"machine,omitempty"`
	Gen        int64         `json:"gen"`
	From       int64         `json:"from,omitempty"`     // generation that was exchanged for this one; 0 for none
	Answered   bool          `json:"answered,omitempty"` // the access token that lives was used, so whoever renewed has it
	Salt       string        `json:"salt"`
	Access     string        `json:"access"` // hash of the access token that lives
	Created    time.Time     `json:"created"`
	Used       time.Time     `json:"used"`
	Expires    time.Time     `json:"expires"` // of the refresh token
	Revoked    time.Time     `json:"revoked,omitzero"`
	Why        string        `json:"why,omitempty"`
}

// Issued is a pair of tokens. Neither is stored.
type Issued struct {
	Access  string
	Refresh string
	Expires time.Duration // of the access token, from now
	Kind    identity.Kind
	Tenant  string
	Project string
	Email   string
}

const familyRandom = 16 // bytes of a family's id that are drawn

// familyPrefix begins the ids of a person's sign-ins, so that they can be found.
func familyPrefix(email string) string { return whoHash(email)[:16] }

// newFamilyID draws the id of a sign-in. One that belongs to a machine is the same
// each time, so that signing in there again replaces it, whatever the project
// (LG-009).
func newFamilyID(email, machine string) string {
	if machine != "" {
		return familyPrefix(email) + whoHash(machine)[:2*familyRandom]
	}
	return familyPrefix(email) + randomHex(familyRandom)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}

// issue makes the next generation of a sign-in. cond says what its row must be
// for that; the access token before stops with the same transaction.
func (a *App) issue(tenant string, f Family, cond ...store.Cond) (Issued, []store.Write) {
	now := a.Now()
	tn := store.For(tenant)
	old := f.Access
	f.Gen++
	f.Used, f.Expires = now, now.Add(names.RefreshLife)
	tok := identity.Token{
		Kind: f.Kind, Tenant: tenant, Project: f.Project, Subject: f.Email, Email: f.Email, Name: f.Name,
		Salt: randomHex(16), Created: now, Expires: now.Add(names.AccessLife), Family: f.ID,
		Unseen: f.From > 0,
	}
	if f.Kind == identity.Builder {
		tok.Subject = "builder-" + f.ID[len(f.ID)-2*familyRandom:]
	}
	out := a.issued(f, tok)
	tok.Hash = identity.Hash(out.Access)
	f.Access = tok.Hash
	ws := []store.Write{accessWrite(tok, store.Absent()), familyWrite(tenant, f, cond...)}
	if old != "" {
		ws = append(ws, store.Write{Act: store.Delete, Item: store.Item{Key: tn.Token(old)}})
	}
	return out, ws
}

func familyWrite(tenant string, f Family, cond ...store.Cond) store.Write {
	w := put(store.For(tenant).Family(f.ID), "family", f, cond...)
	w.Item.Attr["gen"] = f.Gen
	w.Item.Attr["salt"] = f.Salt
	w.Item.Expires = f.Expires.Add(names.RefreshLife)
	return w
}

// startFamily makes the writes that begin a sign-in, or begin it anew on a machine that
// has one: what the one before gave out is worth nothing afterwards.
func (a *App) startFamily(ctx context.Context, tenant string, want Family) (Issued, []store.Write, error) {
	have, there, err := get[Family](ctx, a.Store, store.For(tenant).Family(want.ID))
	if err != nil {
		return Issued{}, nil, err
	}
	cond := store.Absent()
	if there {
		want.Access, cond = have.Access, store.FieldIs("salt", have.Salt)
	}
	want.Created, want.Salt = a.Now(), randomHex(16)
	out, ws := a.issue(tenant, want, cond)
	return out, ws, nil
}

// Refresh exchanges a refresh token for the next pair. One whose answer was lost on
// its way may be shown again and gives the very same pair, until somebody uses that:
// from then on it is spent, and when it comes back two hold it, so the sign-in ends
// for both (LG-014, ID-029). A person who is no member any more gets nothing.
func (a *App) Refresh(ctx context.Context, text, client string) (Issued, error) {
	for range tries {
		f, r, err := a.family(ctx, text, client)
		if err != nil {
			return Issued{}, err
		}
		lost := r.Gen == f.From && !f.Answered
		if r.Gen < f.Gen && !lost {
			a.Log.WarnContext(ctx, "a used refresh token came back; its sign-in is withdrawn", "tenant", r.Tenant, "project", f.Project, "client", f.Client)
			if err := a.endFamily(ctx, r.Tenant, f, "a used refresh token came back"); err != nil {
				return Issued{}, err
			}
			return Issued{}, badGrant()
		}
		if ok, err := a.stays(ctx, r.Tenant, f); err != nil || !ok {
			if err == nil {
				err = a.endFamily(ctx, r.Tenant, f, "the person is no member any more")
			}
			return Issued{}, errors.Join(badGrant(), err)
		}
		if lost {
			tok, ok, err := get[identity.Token](ctx, a.Store, store.For(r.Tenant).Token(f.Access))
			switch {
			case err != nil:
				return Issued{}, err
			case ok && !tok.Unseen:
				continue // used since its sign-in was read
			case ok && a.Now().Before(tok.Expires):
				return a.issued(f, tok), nil
			}
			// Nobody has used the pair and its access token has run out, so another one
			// takes its place.
		}
		f.From, f.Answered = r.Gen, false
		out, ws := a.issue(r.Tenant, f, store.FieldIs("gen", f.Gen), store.FieldIs("salt", f.Salt))
		err = a.Store.Transact(ctx, ws...)
		if err == nil {
			return out, nil
		}
		if !lostRace(err) {
			return Issued{}, err
		}
	}
	return Issued{}, badGrant()
}

// issued is the pair of a sign-in's generation. Both texts are derived, so they are
// the same each time although neither is stored.
func (a *App) issued(f Family, tok identity.Token) Issued {
	return Issued{
		Access:  identity.Text(a.Key, tok),
		Refresh: identity.RefreshText(a.Key, identity.Refresh{Tenant: tok.Tenant, Family: f.ID, Gen: f.Gen}, f.Salt),
		Expires: tok.Expires.Sub(a.Now()), Kind: f.Kind, Tenant: tok.Tenant, Project: f.Project, Email: f.Email,
	}
}

// arrived notes the first use of an access token that a refresh gave: its answer has
// arrived, so the refresh token before it is spent.
func (a *App) arrived(ctx context.Context, tok identity.Token) error {
	tn := store.For(tok.Tenant)
	for range tries {
		f, ok, err := get[Family](ctx, a.Store, tn.Family(tok.Family))
		if err != nil {
			return err
		}
		if !ok || f.Access != tok.Hash {
			return refusal.Of(refusal.Unauthenticated) // renewed or ended since the token was read
		}
		if f.Answered {
			return nil
		}
		f.Answered, tok.Unseen = true, false
		err = a.Store.Transact(ctx, accessWrite(tok, store.Present()),
			familyWrite(tok.Tenant, f, store.FieldIs("gen", f.Gen), store.FieldIs("salt", f.Salt)))
		if !lostRace(err) {
			return err
		}
	}
	return store.ErrContention
}

func accessWrite(tok identity.Token, cond store.Cond) store.Write {
	w := put(store.For(tok.Tenant).Token(tok.Hash), "token", tok, cond)
	w.Item.Expires = tok.Expires
	return w
}

// family finds the sign-in of a refresh token. Whatever is wrong with the token,
// the answer and the reads are the same.
func (a *App) family(ctx context.Context, text, client string) (Family, identity.Refresh, error) {
	r, err := identity.ParseRefresh(text)
	if err != nil {
		return Family{}, r, badGrant()
	}
	f, ok, err := get[Family](ctx, a.Store, store.For(r.Tenant).Family(r.Family))
	if err != nil {
		return Family{}, r, err
	}
	same := subtle.ConstantTimeCompare([]byte(identity.RefreshText(a.Key, r, f.Salt)), []byte(text)) == 1
	if !ok || !same || f.Client != client || !f.Revoked.IsZero() || r.Gen > f.Gen || !a.Now().Before(f.Expires) {
		return Family{}, r, badGrant()
	}
	return f, r, nil
}

// stays reports whether the person of a sign-in still may enter its project. On a
// laptop the owner always may.
func (a *App) stays(ctx context.Context, tenant string, f Family) (bool, error) {
	if a.Local {
		return true, nil
	}
	_, ok, err := a.enters(ctx, tenant, f.Project, f.Email)
	return ok, err
}

// endFamily withdraws a sign-in and the access token that lives.
func (a *App) endFamily(ctx context.Context, tenant string, f Family, why string) error {
	tn := store.For(tenant)
	for range tries {
		if !f.Revoked.IsZero() {
			return nil
		}
		was := f.Gen
		f.Revoked, f.Why, f.Gen = a.Now(), why, f.Gen+1 // a refresh that read it before must not undo this
		err := a.Store.Transact(ctx,
			familyWrite(tenant, f, store.FieldIs("gen", was), store.FieldIs("salt", f.Salt)),
			store.Write{Act: store.Delete, Item: store.Item{Key: tn.Token(f.Access)}})
		if !lostRace(err) {
			return err
		}
		again, ok, err := get[Family](ctx, a.Store, tn.Family(f.ID))
		if err != nil || !ok || again.Salt != f.Salt {
			return err // it was begun anew, which ended this one
		}
		f = again
	}
	return store.ErrContention
}

func (a *App) familiesOf(ctx context.Context, tenant, email string) ([]Family, error) {
	pk, prefix := store.For(tenant).Families(familyPrefix(email))
	all, err := allOf[Family](ctx, a.Store, store.Partition{PK: pk}, prefix)
	out := all[:0]
	for _, f := range all {
		if f.Email == email {
			out = append(out, f)
		}
	}
	return out, err
}

// RevokeGrant withdraws what a token belongs to, whether it is an access token or
// a refresh token (RFC 7009). Holding it is the right to; a token that is worth
// nothing is no error, and says nothing.
func (a *App) RevokeGrant(ctx context.Context, text, client string) error {
	if r, err := identity.ParseRefresh(text); err == nil {
		f, _, err := a.family(ctx, text, client)
		if _, bad := errors.AsType[*GrantError](err); bad {
			return nil
		}
		if err != nil {
			return err
		}
		return a.endFamily(ctx, r.Tenant, f, "its person signed out")
	}
	_, tenant, err := identity.Parse(text)
	if err != nil {
		return nil //nolint:nilerr // no token, so nothing to withdraw
	}
	tn := store.For(tenant)
	tok, ok, err := get[identity.Token](ctx, a.Store, tn.Token(identity.Hash(text)))
	if err != nil || !ok {
		return err
	}
	if tok.Family != "" {
		f, ok, err := get[Family](ctx, a.Store, tn.Family(tok.Family))
		if err != nil || !ok || f.Client != client || f.Access != tok.Hash {
			return err
		}
		return a.endFamily(ctx, tenant, f, "its person signed out")
	}
	if tok.Kind == identity.User && tok.Revoked.IsZero() {
		return a.endToken(ctx, tenant, string(tok.Kind), tok.Project, tok.Subject, "its person signed out")
	}
	return nil
}

func lostRace(err error) bool {
	_, lost := errors.AsType[*store.ConflictError](err)
	return lost || errors.Is(err, store.ErrContention)
}
