package app_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// refreshed exchanges a refresh token, which has to go well.
func refreshed(t *testing.T, r *rig, in app.Issued) app.Issued {
	t.Helper()
	out, err := r.Refresh(t.Context(), in.Refresh, app.ClientCLI)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// over fails unless nothing that was given out is worth anything any more.
func over(t *testing.T, r *rig, all ...app.Issued) {
	t.Helper()
	for i, in := range all {
		if _, err := r.Refresh(t.Context(), in.Refresh, app.ClientCLI); grantCode(err) != app.InvalidGrant || r.works(in.Access, "rpc") {
			t.Errorf("number %d goes on: %v", i, err)
		}
	}
}

func TestARefreshWhoseAnswerWasLostGivesTheSameAnswer(t *testing.T) {
	r, b, _ := team(t)
	first := approved(t, r, b, "m1")
	lost := refreshed(t, r, first)
	// Time goes by, and it is asked again, more than once.
	r.clock.advance(10 * time.Minute)
	for range 3 {
		again := refreshed(t, r, first)
		if again.Access != lost.Access || again.Refresh != lost.Refresh || again.Expires != names.AccessLife-10*time.Minute {
			t.Fatal("another answer than the one that was lost")
		}
	}
	if _, err := r.Refresh(t.Context(), first.Refresh, "lzc_other"); grantCode(err) != app.InvalidGrant {
		t.Errorf("another client is given it: %v", err)
	}
	for range 2 {
		if !r.works(lost.Access, "rpc") {
			t.Fatal("the answer is worth nothing")
		}
	}
	next := refreshed(t, r, lost)
	if next.Refresh == lost.Refresh || !r.works(next.Access, "rpc") {
		t.Error("its sign-in does not go on")
	}
}

func TestAnAnswerThatWasLostForLongerThanItIsWorthIsGivenAnew(t *testing.T) {
	r, b, _ := team(t)
	first := approved(t, r, b, "m1")
	lost := refreshed(t, r, first)
	r.clock.advance(3 * 24 * time.Hour) // the lid was closed in the middle of it
	anew := refreshed(t, r, first)
	if anew.Access == lost.Access || anew.Expires != names.AccessLife {
		t.Fatal("it is given what is worth nothing any more")
	}
	// That answer may be lost as well.
	if again := refreshed(t, r, first); again.Access != anew.Access || again.Refresh != anew.Refresh {
		t.Error("lost a second time it is another one")
	}
	if !r.works(anew.Access, "rpc") {
		t.Fatal("the answer is worth nothing")
	}
	// Whoever shows what was skipped has it from elsewhere.
	over(t, r, lost, anew)
}

func TestAnOldRefreshTokenAfterTheNewOneWasUsedEndsTheSignIn(t *testing.T) {
	req.Covers(t, "ID-029")
	for _, c := range []struct {
		name string
		use  func(*testing.T, *rig, app.Issued) app.Issued
	}{
		{"by a call", func(t *testing.T, r *rig, in app.Issued) app.Issued {
			if !r.works(in.Access, "rpc") {
				t.Error("a renewed token does not work")
			}
			return in
		}},
		{"by a refresh", func(t *testing.T, r *rig, in app.Issued) app.Issued { return refreshed(t, r, in) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, b, _ := team(t)
			elsewhere := approved(t, r, b, "m2")
			first := approved(t, r, b, "m1")
			second := refreshed(t, r, first)
			last := c.use(t, r, second)
			over(t, r, first, second, last) // the first of these is what was stolen
			if !r.works(elsewhere.Access, "rpc") {
				t.Error("the sign-in of another machine has ended too")
			}
			if !strings.Contains(r.logged.String(), "a used refresh token came back") {
				t.Error("nobody is told")
			}
		})
	}
}

func TestATokenStolenOnItsWayIsFoundOutAtTheNextRefresh(t *testing.T) {
	for _, c := range []struct {
		name  string
		thief bool // uses its copy first
	}{{"its owner is first", false}, {"the thief is first", true}} {
		t.Run(c.name, func(t *testing.T) {
			r, b, _ := team(t)
			first := approved(t, r, b, "m1")
			owner, thief := refreshed(t, r, first), refreshed(t, r, first)
			quick, slow := owner, thief
			if c.thief {
				quick, slow = thief, owner
			}
			next := refreshed(t, r, quick)
			if !r.works(next.Access, "rpc") {
				t.Fatal("the quicker one has nothing")
			}
			over(t, r, slow, next)
		})
	}
}

func TestOfManyRefreshesOfOneTokenAllGetTheSamePair(t *testing.T) {
	r, b, _ := team(t)
	first := approved(t, r, b, "m1")
	got := make([]app.Issued, 64)
	won := raceEach(t, got, func() (app.Issued, error) { return r.Refresh(t.Context(), first.Refresh, app.ClientCLI) })
	if won != 64 {
		t.Errorf("%d of 64 were answered", won)
	}
	for _, one := range got {
		if one.Access != got[0].Access || one.Refresh != got[0].Refresh {
			t.Fatal("two of them hold different tokens")
		}
	}
	if !r.works(got[0].Access, "rpc") {
		t.Error("what they hold is worth nothing")
	}
	// Of many that show the old one now nobody gets anything, and it is over.
	if won := raceEach(t, got, func() (app.Issued, error) { return r.Refresh(t.Context(), first.Refresh, app.ClientCLI) }); won != 0 {
		t.Errorf("%d were answered with a token that was spent", won)
	}
	over(t, r, first)
}

// raceEach runs f at once for each place of out and counts those that ended well. The
// others must have been refused as a bad grant.
func raceEach(t *testing.T, out []app.Issued, f func() (app.Issued, error)) int {
	t.Helper()
	errs := make([]error, len(out))
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i], errs[i] = f() })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if grantCode(err) != app.InvalidGrant {
			t.Errorf("a loser is answered %v", err)
		}
	}
	return won
}

func TestManyFirstUsesOfATokenAllCount(t *testing.T) {
	r, b, _ := team(t)
	first := approved(t, r, b, "m1")
	second := refreshed(t, r, first)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if _, err := r.Authenticate(t.Context(), second.Access, "rpc"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// It is noted once: from then on a call costs the one read of its credential.
	before, wrote := r.log.count(), r.log.writes()
	if !r.works(second.Access, "rpc") || r.log.count() != before+1 || r.log.writes() != wrote {
		t.Errorf("a later call takes %d reads and %d writes", r.log.count()-before, r.log.writes()-wrote)
	}
	over(t, r, first)
}

// family is the id of the sign-in that an access token is of.
func family(t *testing.T, r *rig, in app.Issued) store.Key {
	t.Helper()
	it, err := r.Store.Get(t.Context(), store.For("acme").Token(identity.Hash(in.Access)))
	if err != nil {
		t.Fatal(err)
	}
	var tok identity.Token
	if err := json.Unmarshal(it.Doc, &tok); err != nil {
		t.Fatal(err)
	}
	return store.For("acme").Family(tok.Family)
}

// Between the look and the write of each, its person signs out.
func TestNothingUndoesASignOut(t *testing.T) {
	for _, c := range []struct {
		name string
		act  func(r *rig, first, second app.Issued)
	}{
		{"a refresh", func(r *rig, _, second app.Issued) {
			_, _ = r.Refresh(r.t.Context(), second.Refresh, app.ClientCLI)
		}},
		{"a first use", func(r *rig, _, second app.Issued) {
			_, _ = r.Authenticate(r.t.Context(), second.Access, "rpc")
		}},
		{"an answer given anew", func(r *rig, first, _ app.Issued) {
			r.clock.advance(2 * names.AccessLife)
			_, _ = r.Refresh(r.t.Context(), first.Refresh, app.ClientCLI)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, b, _ := team(t)
			first := approved(t, r, b, "m1")
			second := refreshed(t, r, first)
			out := false
			r.log.before(family(t, r, second), func() {
				out = true
				if err := r.RevokeGrant(t.Context(), second.Refresh, app.ClientCLI); err != nil {
					t.Error(err)
				}
			})
			c.act(r, first, second)
			if !out {
				t.Fatal("nothing was written, so nothing came in between")
			}
			over(t, r, second, first)
		})
	}
}

func TestNeitherTokenOfASignInIsStored(t *testing.T) {
	r, b, _ := team(t)
	first := approved(t, r, b, "m1")
	second := refreshed(t, r, first)
	refreshed(t, r, first)
	for _, k := range r.log.all() {
		it, err := r.Store.Get(t.Context(), k)
		if err != nil {
			continue // it is gone
		}
		for _, text := range []string{first.Access, first.Refresh, second.Access, second.Refresh} {
			secret := strings.Split(text, "_")[3]
			if strings.Contains(string(it.Doc), secret) || strings.Contains(k.SK, secret) {
				t.Errorf("%s holds a token", k.SK)
			}
		}
	}
}
