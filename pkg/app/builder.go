package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// BuilderSession is a builder session whose token lives: one agent of a person
// that works for them across the project.
type BuilderSession struct {
	Label   string    `json:"label"`
	Email   string    `json:"email,omitempty"`
	Name    string    `json:"name,omitempty"`
	PID     int       `json:"pid,omitempty"` // of its launcher, for people to read
	Created time.Time `json:"created_at"`
	Seen    time.Time `json:"seen_at"` // renewed by the session, at most 30 s apart (ID-012)
}

// BuilderToken answers the mint of a builder session's token.
type BuilderToken struct {
	Label string `json:"label" jsonschema:"what the session is called"`
	Token string `json:"token" jsonschema:"its credential, for /mcp/_ and /builder/storage only; shown here and nowhere else"`
}

// Revoked answers the withdrawal of a token.
type Revoked struct {
	Label   string `json:"label" jsonschema:"what the session was called"`
	Revoked bool   `json:"revoked" jsonschema:"its credential is worth nothing any more"`
}

var builderLabel = pattern.New(`^builder-[a-z0-9]{8,40}$`)

func sessionKey(c identity.Caller, label string) store.Key {
	return store.For(c.Tenant).Project(c.Project).Key("BLD#" + label)
}

// MintBuilderToken gives a person's builder session its credential, the same one
// when it is asked for again (BL-002, ID-008). A project has at most fifty; the
// ones of sessions that show no life go first (ID-011).
func (a *App) MintBuilderToken(ctx context.Context, c Call, label string, pid int) (BuilderToken, error) {
	if !builderLabel.MatchString(label) {
		return BuilderToken{}, refusal.Of(refusal.InvalidArguments, "label", "builder- and 8 to 40 of a-z and 0-9", "another text")
	}
	if s, ok, err := get[BuilderSession](ctx, a.Store, sessionKey(c.Who, label)); err != nil {
		return BuilderToken{}, err
	} else if ok && s.Email != c.Who.Email {
		// Labels are drawn at random: whoever names another person's guessed it.
		return BuilderToken{}, refusal.Of(refusal.NotFound, "builder session", label)
	} else if !ok {
		g, err := a.gatesOf(ctx, c.Who.Tenant, c.Who.Project)
		if err != nil {
			return BuilderToken{}, err
		}
		if err := g.refuse(); err != nil {
			return BuilderToken{}, err // a session that is there goes on; none begins (US-022)
		}
	}
	text, err := a.MintBuilder(ctx, c.Who.Tenant, c.Who.Project, label, c.Who.Email, c.Who.Name)
	if err != nil {
		return BuilderToken{}, err
	}
	now := a.Now()
	s := BuilderSession{Label: label, Email: c.Who.Email, Name: c.Who.Name, PID: pid, Created: now, Seen: now}
	err = a.Store.Transact(ctx, put(sessionKey(c.Who, label), "builder-session", s, store.Absent()))
	if _, lost := errors.AsType[*store.ConflictError](err); err != nil && !lost {
		return BuilderToken{}, err // lost: minted before, and so is its row
	}
	return BuilderToken{Label: label, Token: text}, a.evictBuilders(ctx, c.Who, label)
}

// evictBuilders withdraws tokens beyond the most a project has, never the one
// that was just minted.
func (a *App) evictBuilders(ctx context.Context, who identity.Caller, kept string) error {
	all, err := a.builders(ctx, who)
	if err != nil || len(all) <= names.BuilderTokens {
		return err
	}
	dead := func(s BuilderSession) bool { return a.Now().Sub(s.Seen) > names.BuilderResidue }
	slices.SortStableFunc(all, func(x, y BuilderSession) int {
		if d, e := dead(x), dead(y); d != e {
			if d {
				return -1
			}
			return 1
		}
		return x.Created.Compare(y.Created)
	})
	for _, s := range all[:len(all)-names.BuilderTokens] {
		if s.Label == kept {
			continue
		}
		a.Log.WarnContext(ctx, "a builder session's token is withdrawn: the project has the most it may have", "label", s.Label, "seen", s.Seen)
		if err := a.endBuilder(ctx, who, s.Label, "it was replaced by a newer one"); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) builders(ctx context.Context, who identity.Caller) ([]BuilderSession, error) {
	return allOf[BuilderSession](ctx, a.Store, store.For(who.Tenant).Project(who.Project), "BLD#")
}

// allOf decodes every row of a partition below a prefix.
func allOf[T any](ctx context.Context, s store.Store, p store.Partition, prefix string) ([]T, error) {
	var out []T
	var bad error
	err := store.All(ctx, s, store.Query{PK: p.PK, Prefix: prefix}, func(it store.Item) bool {
		v, err := decode[T](it)
		bad = err
		out = append(out, v)
		return err == nil
	})
	return out, errors.Join(err, bad)
}

// RevokeBuilderToken withdraws the credential of a session of the caller (ID-010).
// One that is gone already is no error: every exit of a session comes here.
func (a *App) RevokeBuilderToken(ctx context.Context, c Call, label string) (Revoked, error) {
	if !builderLabel.MatchString(label) {
		return Revoked{}, refusal.Of(refusal.InvalidArguments, "label", "the label of a builder session", "another text")
	}
	s, ok, err := get[BuilderSession](ctx, a.Store, sessionKey(c.Who, label))
	if err != nil {
		return Revoked{}, err
	}
	if !ok || s.Email != c.Who.Email {
		return Revoked{Label: label}, nil
	}
	return Revoked{Label: label, Revoked: true}, a.endBuilder(ctx, c.Who, label, "its session ended")
}

// endBuilder withdraws a token. The row of its identity goes, so that the same
// label would be given another secret: revocation is final (MC-021).
func (a *App) endBuilder(ctx context.Context, who identity.Caller, label, why string) error {
	tn := store.For(who.Tenant)
	of := tn.TokenOf(string(identity.Builder), who.Project, label)
	have, ok, err := get[identity.Token](ctx, a.Store, of)
	if err != nil {
		return err
	}
	gone := func(k store.Key) store.Write { return store.Write{Act: store.Delete, Item: store.Item{Key: k}} }
	ws := []store.Write{gone(sessionKey(who, label))}
	if ok {
		have.Revoked, have.Why = a.Now(), why
		ws = append(ws, gone(of), put(tn.Token(have.Hash), "token", have, store.Present()))
	}
	if err := a.Store.Transact(ctx, ws...); err != nil {
		if _, lost := errors.AsType[*store.ConflictError](err); !lost {
			return fmt.Errorf("withdraw token of %s: %w", label, err)
		}
	}
	return nil
}

// seen renews a session's sign of life, at most every 30 s.
func (a *App) seen(ctx context.Context, who identity.Caller) error {
	k := sessionKey(who, who.Subject)
	s, ok, err := get[BuilderSession](ctx, a.Store, k)
	if err != nil || !ok || a.Now().Sub(s.Seen) < names.BuilderRenew/2 {
		return err
	}
	s.Seen = a.Now()
	err = a.Store.Transact(ctx, put(k, "builder-session", s, store.Present()))
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil // it was ended meanwhile, which its next call will be told
	}
	return err
}
