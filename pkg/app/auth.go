package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// surfaces says which credentials each surface takes; the populations are
// disjoint (CM-004).
func surfaces(surface string) []identity.Kind {
	switch surface {
	case "rpc":
		return []identity.Kind{identity.Owner, identity.User, identity.Operator}
	case "mcp":
		return []identity.Kind{identity.Task, identity.Builder}
	case "runner":
		return []identity.Kind{identity.Runner}
	case "builder":
		return []identity.Kind{identity.Builder}
	}
	return nil
}

// Authenticate says who presented bearer on a surface: one consistent read, no
// cache, so that a revocation acts at once (ID-005). The first use of a renewed
// token takes one read and one write more. A text whose checksum is
// wrong costs no read at all (ID-006).
func (a *App) Authenticate(ctx context.Context, bearer, surface string) (identity.Caller, error) {
	unknown := refusal.Of(refusal.Unauthenticated)
	kind, tenant, err := identity.Parse(bearer)
	if err != nil {
		return identity.Caller{}, unknown
	}
	hash := identity.Hash(bearer)
	tok, ok, err := get[identity.Token](ctx, a.Store, store.For(tenant).Token(hash))
	if err != nil {
		return identity.Caller{}, err
	}
	if !ok || tok.Kind != kind || tok.Hash != hash {
		return identity.Caller{}, unknown
	}
	if !tok.Revoked.IsZero() {
		if tok.Why != "" {
			return identity.Caller{}, refusal.Of(refusal.SessionEnded, tok.Subject, tok.Why)
		}
		return identity.Caller{}, unknown
	}
	if !tok.Expires.IsZero() && !a.Now().Before(tok.Expires) {
		return identity.Caller{}, unknown
	}
	if tok.Kind == identity.Task || tok.Kind == identity.Runner {
		if err := a.ended(ctx, tok); err != nil {
			return identity.Caller{}, err
		}
	}
	if slices.Contains(surfaces(surface), tok.Kind) {
		if tok.Unseen {
			if err := a.arrived(ctx, tok); err != nil {
				return identity.Caller{}, err
			}
		}
		return identity.Caller{
			Kind: tok.Kind, Tenant: tok.Tenant, Project: tok.Project, Subject: tok.Subject,
			Email: tok.Email, Name: tok.Name, Hash: hash, Turn: tok.Turn, Epoch: tok.Epoch,
		}, nil
	}
	return identity.Caller{}, refusal.Of(refusal.WrongSurface, string(tok.Kind), "/"+surface).
		WithNext("It belongs on /" + surfaceOf(tok.Kind) + ".")
}

func surfaceOf(k identity.Kind) string {
	for _, s := range []string{"rpc", "mcp", "runner"} {
		if slices.Contains(surfaces(s), k) {
			return s
		}
	}
	return "tasks"
}

// mint returns the token of an identity: the same text every time until it is
// rotated, although only its hash is stored (ID-006, ID-018). The writes are
// empty when the row exists already.
func (a *App) mint(ctx context.Context, want identity.Token) (string, []store.Write, error) {
	tn := store.For(want.Tenant)
	of := tn.TokenOf(string(want.Kind), want.Project, want.Subject)
	have, ok, err := get[identity.Token](ctx, a.Store, of)
	if err != nil {
		return "", nil, err
	}
	if ok && have.Revoked.IsZero() {
		return identity.Text(a.Key, have), nil, nil
	}
	want.Salt = salt()
	want.Created = a.Now()
	text := identity.Text(a.Key, want)
	want.Hash = identity.Hash(text)
	cond := store.Absent()
	if ok {
		cond = store.FieldIs("salt", have.Salt)
	}
	w := put(of, "token-of", want, cond)
	w.Item.Attr["salt"] = want.Salt
	return text, []store.Write{w, put(tn.Token(want.Hash), "token", want, store.Absent())}, nil
}

func salt() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}

// MintOwner returns the credential of a laptop's one person (ID-014).
func (a *App) MintOwner(ctx context.Context, tenant, project, email, name string) (string, error) {
	return a.mintNow(ctx, identity.Token{Kind: identity.Owner, Tenant: tenant, Project: project, Subject: "owner", Email: email, Name: name})
}

// MintBuilder returns the credential of one builder session, by its label.
func (a *App) MintBuilder(ctx context.Context, tenant, project, label, email, name string) (string, error) {
	return a.mintNow(ctx, identity.Token{Kind: identity.Builder, Tenant: tenant, Project: project, Subject: label, Email: email, Name: name})
}

func (a *App) mintNow(ctx context.Context, want identity.Token) (string, error) {
	text, ws, err := a.mint(ctx, want)
	if err != nil || len(ws) == 0 {
		return text, err
	}
	if err := a.Store.Transact(ctx, ws...); err != nil {
		// Another process minted the same identity first: its row decides.
		text, again, merr := a.mint(ctx, want)
		if merr != nil || len(again) > 0 {
			return "", err
		}
		return text, nil
	}
	return text, nil
}

// mintRun makes sure of the credentials of one run: the supervisor's own, whose
// salt lies in the run, and its task's, whose salt lies in the task (ID-006). Their
// texts are the same every time; a row that is there is left alone.
func (a *App) mintRun(ctx context.Context, t task.Task, r turn.Run) (run, own string, err error) {
	var ownErr error
	both := make(chan struct{})
	go func() {
		defer close(both)
		own, _, ownErr = a.ensure(ctx, identity.Token{Kind: identity.Task, Tenant: t.Tenant, Project: t.Project, Subject: string(t.ID), Salt: t.Salt})
	}()
	run, _, err = a.ensure(ctx, runnerToken(t, r))
	<-both
	return run, own, errors.Join(err, ownErr)
}

// runnerToken is a run's own credential, bound to its epoch.
func runnerToken(t task.Task, r turn.Run) identity.Token {
	return identity.Token{
		Kind: identity.Runner, Tenant: t.Tenant, Project: t.Project, Subject: string(t.ID), Turn: r.Turn, Epoch: r.Epoch, Salt: r.Salt,
	}
}

// Token gives the live run of the present epoch its task's token anew, against
// its own (MC-020). One that was withdrawn stays so: its record is there.
func (a *App) Token(ctx context.Context, who identity.Caller, in turn.TokenIn) (turn.TokenOut, error) {
	if in.Turn != who.Turn || in.Epoch != who.Epoch {
		return turn.TokenOut{}, refusal.Of(refusal.InvalidArguments, "turn_id, epoch", "those of this runner's token", "others")
	}
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return turn.TokenOut{}, err
	}
	if !held {
		return turn.TokenOut{}, fenced(t, who.Epoch)
	}
	if err := notOfAccept(t, who); err != nil {
		return turn.TokenOut{}, err
	}
	var out turn.TokenOut
	out.TaskToken, out.Issued, err = a.ensure(ctx, identity.Token{
		Kind: identity.Task, Tenant: t.Tenant, Project: t.Project, Subject: string(t.ID), Salt: t.Salt,
	})
	return out, err
}

// ensure makes the record of a token unless it is there, which made tells.
func (a *App) ensure(ctx context.Context, want identity.Token) (text string, made bool, err error) {
	want.Created = a.Now()
	text = identity.Text(a.Key, want)
	want.Hash = identity.Hash(text)
	k := store.For(want.Tenant).Token(want.Hash)
	if _, ok, err := get[identity.Token](ctx, a.Store, k); ok || err != nil {
		return text, false, err
	}
	err = a.Store.Transact(ctx, put(k, "token", want, store.Absent()))
	if _, there := errors.AsType[*store.ConflictError](err); there {
		return text, false, nil // another copy of the same request came first
	}
	return text, err == nil, err
}

// ended refuses the credentials of a task that has ended, and of a life of it
// before it was taken up again. The task's own row decides, so the transaction
// that ends a task withdraws them (CM-006, ID-009).
func (a *App) ended(ctx context.Context, tok identity.Token) error {
	t, ok, err := a.loadTask(ctx, tok.Tenant, id.Task(tok.Subject))
	switch {
	case err != nil:
		return err
	case ok && t.Status.Terminal():
		return refusal.Of(refusal.SessionEnded, tok.Subject, howEnded(t))
	case !ok:
		return refusal.Of(refusal.Unauthenticated)
	case tok.Kind == identity.Task && tok.Salt != t.Salt:
		return refusal.Of(refusal.SessionEnded, tok.Subject, "finished before it was taken up again")
	}
	return nil
}
