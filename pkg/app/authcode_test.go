package app_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func code(t *testing.T, r *rig, b app.Browser, verifier string) (string, app.OAuthClient) {
	t.Helper()
	c, err := r.RegisterClient(t.Context(), "Some editor", []string{"http://127.0.0.1/cb"})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(verifier))
	out, err := r.GrantCode(t.Context(), b, app.CodeAsk{
		Client: c, Redirect: "http://127.0.0.1:5000/cb", Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, shop)
	if err != nil {
		t.Fatal(err)
	}
	return out, c
}

const verifier = "a-verifier-that-only-the-client-has-0123456789"

func TestACodeIsExchangedOnceByItsOwnClientWithItsVerifier(t *testing.T) {
	req.Covers(t, "LG-014")
	r, b, _ := team(t)
	text, c := code(t, r, b, verifier)
	_, other := code(t, r, b, "another")
	good := app.CodeUse{Code: text, Client: c.ID, Redirect: "http://127.0.0.1:5000/cb", Verifier: verifier}
	for name, change := range map[string]func(*app.CodeUse){
		"another client":   func(u *app.CodeUse) { u.Client = other.ID },
		"another redirect": func(u *app.CodeUse) { u.Redirect = "http://127.0.0.1:5001/cb" },
		"another verifier": func(u *app.CodeUse) { u.Verifier = "another" },
		"no verifier":      func(u *app.CodeUse) { u.Verifier = "" },
		"another code":     func(u *app.CodeUse) { u.Code = "lzo_" + strings.Repeat("0", 64) },
	} {
		u := good
		change(&u)
		if _, err := r.RedeemCode(t.Context(), u); grantCode(err) != app.InvalidGrant {
			t.Errorf("%s: %v", name, err)
		}
	}
	var once sync.Once
	var got app.Issued
	won := race(64, func() error {
		out, err := r.RedeemCode(t.Context(), good)
		if err == nil {
			once.Do(func() { got = out })
		}
		return err
	}, t)
	if won != 1 {
		t.Fatalf("%d of 64 exchanges of one code won", won)
	}
	who, err := r.Authenticate(t.Context(), got.Access, "mcp")
	if err != nil || who.Kind != identity.Builder || who.Email != "ada@example.com" || who.Project != "shop" {
		t.Errorf("the client is %+v, %v", who, err)
	}
	if r.works(got.Access, "rpc") || r.works(got.Access, "runner") {
		t.Error("a client's token works where only people's do")
	}
	late, c2 := code(t, r, b, verifier)
	r.clock.advance(names.CodeLife)
	if _, err := r.RedeemCode(t.Context(), app.CodeUse{Code: late, Client: c2.ID, Redirect: good.Redirect, Verifier: verifier}); grantCode(err) != app.InvalidGrant {
		t.Errorf("an old code gives %v", err)
	}
}

func TestAnApprovedClientIsKeptAndAnyOtherForgotten(t *testing.T) {
	r, b, _ := team(t)
	_, kept := code(t, r, b, verifier)
	bot, err := r.RegisterClient(t.Context(), "bot", []string{"https://bot.example/cb"})
	if err != nil {
		t.Fatal(err)
	}
	r.clock.advance(names.NewClientLife)
	if _, ok, err := r.RegisteredClient(t.Context(), kept.ID); err != nil || !ok {
		t.Errorf("an approved client is gone: %v", err)
	}
	if _, ok, err := r.RegisteredClient(t.Context(), bot.ID); err != nil || ok {
		t.Errorf("a client that nobody approved is there: %v", err)
	}
}

func TestSigningOutEndsBothTokens(t *testing.T) {
	r, b, boot := team(t)
	for name, pick := range map[string]func(app.Issued) string{
		"access": func(i app.Issued) string { return i.Access }, "refresh": func(i app.Issued) string { return i.Refresh },
	} {
		in := approved(t, r, b, "")
		if err := r.RevokeGrant(t.Context(), pick(in), "lzc_other"); err != nil || !r.works(in.Access, "rpc") {
			t.Errorf("%s: another client signs out: %v", name, err)
		}
		if err := r.RevokeGrant(t.Context(), pick(in), app.ClientCLI); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Refresh(t.Context(), in.Refresh, app.ClientCLI); r.works(in.Access, "rpc") || grantCode(err) != app.InvalidGrant {
			t.Errorf("%s: after signing out there is more to have: %v", name, err)
		}
	}
	for _, nothing := range []string{"", "x", "lzr_acme_x", strings.Replace(boot.Token, "acme", "other", 1)} {
		if err := r.RevokeGrant(t.Context(), nothing, app.ClientCLI); err != nil {
			t.Errorf("%.10q: %v", nothing, err)
		}
	}
	if !r.works(boot.Token, "rpc") {
		t.Fatal("somebody else's token is gone")
	}
	if err := r.RevokeGrant(t.Context(), boot.Token, app.ClientCLI); err != nil || r.works(boot.Token, "rpc") {
		t.Errorf("the first token outlives its withdrawal: %v", err)
	}
}

func TestSigningOutTakesAPersonsOwnToken(t *testing.T) {
	req.Covers(t, "LG-005")
	r, b, _ := team(t)
	member(t, r, "shop", "bob@example.com")
	adas := approved(t, r, b, "m1")
	bobs := approved(t, r, browser(t, r, "bob@example.com"), "m1")
	builder, err := r.MintBuilder(t.Context(), "acme", "shop", "builder-1", "ada@example.com", "Ada")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := r.Bootstrap(t.Context(), app.Bootstrap{Tenant: "acme", Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	// Hers is not ended by another's, and neither by what works for her.
	for _, with := range []string{bobs.Access, bobs.Refresh, builder, operator.Token} {
		if err := r.RevokeGrant(t.Context(), with, app.ClientCLI); err != nil {
			t.Fatal(err)
		}
		if !r.works(adas.Access, "rpc") {
			t.Fatalf("%.12s signs her out", with)
		}
	}
	if !r.works(builder, "mcp") || !r.works(operator.Token, "rpc") {
		t.Error("what is no sign-in was ended as one")
	}
	if r.works(bobs.Access, "rpc") {
		t.Error("Bob is not signed out by his own")
	}
	if err := r.RevokeGrant(t.Context(), adas.Access, app.ClientCLI); err != nil || r.works(adas.Access, "rpc") {
		t.Errorf("her own does not sign her out: %v", err)
	}
	for _, o := range op.Default().All() {
		if name := strings.ToLower(o.Name + " " + o.Tool); strings.Contains(name, "logout") || strings.Contains(name, "unbind") {
			t.Errorf("%s is an operation", o.Name)
		}
	}
	if !refusal.Is(op.Reserved("lazy_logout"), refusal.ReservedTool) {
		t.Error("lazy_logout is not reserved")
	}
}

func TestARemovedMemberHoldsNothing(t *testing.T) {
	req.Covers(t, "OP-012")
	r, b, boot := team(t)
	if err := r.AddMember(t.Context(), "acme", "shop", "bob@example.com", "Bob", app.RoleMember); err != nil {
		t.Fatal(err)
	}
	bob := approved(t, r, browser(t, r, "bob@example.com"), "m")
	in := approved(t, r, b, "m")
	who, err := r.Authenticate(t.Context(), in.Access, "rpc")
	if err != nil {
		t.Fatal(err)
	}
	built, err := r.MintBuilderToken(t.Context(), r.call(who), "builder-12345678", 1)
	if err != nil {
		t.Fatal(err)
	}
	text, c := code(t, r, b, verifier)
	editor, err := r.RedeemCode(t.Context(), app.CodeUse{Code: text, Client: c.ID, Redirect: "http://127.0.0.1:5000/cb", Verifier: verifier})
	if err != nil {
		t.Fatal(err)
	}
	open, c2 := code(t, r, b, verifier)
	if err := r.RemoveMember(t.Context(), "acme", "ADA@example.com"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ token, surface string }{
		"first token": {boot.Token, "rpc"}, "sign-in": {in.Access, "rpc"}, "builder": {built.Token, "mcp"}, "client": {editor.Access, "mcp"},
	} {
		if r.works(c.token, c.surface) {
			t.Errorf("%s still works", name)
		}
	}
	for _, f := range []string{in.Refresh, editor.Refresh} {
		if _, err := r.Refresh(t.Context(), f, app.ClientCLI); grantCode(err) != app.InvalidGrant {
			t.Errorf("a refresh gives %v", err)
		}
	}
	if _, err := r.RedeemCode(t.Context(), app.CodeUse{Code: open, Client: c2.ID, Redirect: "http://127.0.0.1:5000/cb", Verifier: verifier}); grantCode(err) != app.InvalidGrant {
		t.Errorf("a code from before gives %v", err)
	}
	if mine, err := r.Mine(t.Context(), b); err != nil || len(mine) != 0 {
		t.Errorf("the browser may enter %v, %v", mine, err)
	}
	if !r.works(bob.Access, "rpc") {
		t.Error("somebody else was put out, too")
	}
	if err := r.RemoveMember(t.Context(), "acme", "ada@example.com"); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

func TestALaptopHasOneCredentialAndTheOwnersLink(t *testing.T) {
	req.Covers(t, "OP-010", "LG-014")
	r := newRig(t)
	_, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "laptop"})
	if fault.Code(err) != string(refusal.SingleOwner) {
		t.Errorf("a device grant on a laptop: %v", err)
	}
	link, err := r.MintLoginLink(t.Context(), r.call(r.owner()))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(link.Link, "=")
	cookie, err := r.UseLoginLink(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.UseLoginLink(t.Context(), secret); fault.KindOf(err) != fault.Denied {
		t.Errorf("a link works twice: %v", err)
	}
	b, ok, err := r.BrowserOf(t.Context(), cookie)
	mine, merr := r.Mine(t.Context(), b)
	if err != nil || !ok || merr != nil || len(mine) != 1 || mine[0].Project != project || mine[0].Tenant != tenant {
		t.Fatalf("the owner's browser may enter %v, %v, %v", mine, err, merr)
	}
	r.Local = false
	if _, err := r.MintLoginLink(t.Context(), r.call(r.owner())); fault.Code(err) != string(refusal.LocalOnly) {
		t.Errorf("a link on a team's host: %v", err)
	}
	r.Local = true
	old, err := r.MintLoginLink(t.Context(), r.call(r.owner()))
	if err != nil {
		t.Fatal(err)
	}
	r.clock.advance(names.LinkLife)
	_, secret, _ = strings.Cut(old.Link, "=")
	if _, err := r.UseLoginLink(t.Context(), secret); fault.KindOf(err) != fault.Denied {
		t.Errorf("an old link works: %v", err)
	}
}

func TestASignInComesBackToTheBrowserItBeganIn(t *testing.T) {
	r, _, _ := team(t)
	f, state, cookie, err := r.BeginFlow(t.Context(), "/activate")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{"another browser": {state, "x"}, "no browser": {state, ""}, "another state": {"x", cookie}} {
		if _, err := r.EndFlow(t.Context(), c[0], c[1]); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := r.EndFlow(t.Context(), state, cookie); err != nil || got != f {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.EndFlow(t.Context(), state, cookie); fault.KindOf(err) != fault.Denied {
		t.Errorf("a sign-in ends twice: %v", err)
	}
}

// What a person is refused with must not tell an unknown one from another's, in
// words or in work.
func TestUnknownAndForeignGrantsCostTheSame(t *testing.T) {
	r, b, _ := team(t)
	mine := approved(t, r, b, "")
	ref, err := identity.ParseRefresh(mine.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	ref.Gen++
	forged := identity.RefreshText([]byte("no key"), ref, "no salt")
	ref.Family = strings.Repeat("0", 48)
	unknown := identity.RefreshText([]byte("no key"), ref, "no salt")
	var said []string
	var reads []int
	for _, text := range []string{forged, unknown} {
		before := r.log.count()
		_, err := r.Refresh(t.Context(), text, app.ClientCLI)
		said, reads = append(said, err.Error()), append(reads, r.log.count()-before)
	}
	if said[0] != said[1] || reads[0] != reads[1] || reads[0] != 1 {
		t.Errorf("known and unknown sign-ins differ: %q, %v reads", said, reads)
	}
}

func TestAnIdentityProviderIsNamedByAnAddressOfItsOwn(t *testing.T) {
	r, _, _ := team(t)
	for _, c := range []app.SignInConfig{
		{}, {Issuer: "https://id.example"}, {Client: "c"}, {Issuer: "http://id.example", Client: "c"}, {Issuer: "id.example", Client: "c"}, {Issuer: "https://", Client: "c"},
	} {
		if err := r.SetSignIn(t.Context(), c); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// Without a way to seal the secret it is not taken.
	if err := r.SetSignIn(t.Context(), app.SignInConfig{Issuer: "https://id.example", Client: "c", Secret: "s"}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("unsealed: %v", err)
	}
	if _, err := r.SignInOf(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("before one is named: %v", err)
	}
}
