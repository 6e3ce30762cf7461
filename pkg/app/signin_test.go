package app_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

var shop = app.Entry{Tenant: "acme", Project: "shop"}

// team is a rig of a team, with Ada in it and a browser of hers.
func team(t *testing.T) (*rig, app.Browser, app.Bootstrapped) {
	t.Helper()
	r := newRig(t)
	r.Local = false
	b, err := r.Bootstrap(t.Context(), app.Bootstrap{Tenant: "acme", Project: "shop", Email: "Ada@example.com", Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	return r, browser(t, r, "ada@EXAMPLE.com"), b
}

func browser(t *testing.T, r *rig, email string) app.Browser {
	t.Helper()
	cookie, err := r.SignIn(t.Context(), email, "Ada L")
	if err != nil {
		t.Fatal(err)
	}
	b, ok, err := r.BrowserOf(t.Context(), cookie)
	if err != nil || !ok {
		t.Fatal("a browser that signed in is not signed in", err)
	}
	return b
}

func grantCode(err error) string {
	if e, ok := errors.AsType[*app.GrantError](err); ok {
		return e.Code
	}
	if err == nil {
		return ""
	}
	return "not a grant error: " + err.Error()
}

// approved is a sign-in of the CLI.
func approved(t *testing.T, r *rig, b app.Browser, machine string) app.Issued {
	t.Helper()
	return approvedInto(t, r, b, machine, shop)
}

func approvedInto(t *testing.T, r *rig, b app.Browser, machine string, into app.Entry) app.Issued {
	t.Helper()
	codes, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "laptop", ID: machine, From: "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.DecideDevice(t.Context(), b, codes.User, true, into); err != nil {
		t.Fatal(err)
	}
	out, err := r.PollDevice(t.Context(), codes.Device, app.ClientCLI)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rig) works(token, surface string) bool {
	r.t.Helper()
	_, err := r.Authenticate(r.t.Context(), token, surface)
	if err != nil && fault.KindOf(err) != fault.Unauthenticated {
		r.t.Fatal(err)
	}
	return err == nil
}

func TestAPersonSignsInOnAnotherScreen(t *testing.T) {
	req.Covers(t, "LG-001")
	r, b, _ := team(t)
	codes, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "lap\x1b[2Jtop", ID: "m1", From: "192.0.2.7"})
	if err != nil || codes.Expires != 15*time.Minute || codes.Interval != 5*time.Second {
		t.Fatalf("%+v, %v", codes, err)
	}
	poll := func() string {
		t.Helper()
		_, err := r.PollDevice(t.Context(), codes.Device, app.ClientCLI)
		return grantCode(err)
	}
	if got := poll(); got != app.Pending {
		t.Errorf("the first poll is answered %s", got)
	}
	// Too soon: 5 s longer, for all polls after it.
	r.clock.advance(4 * time.Second)
	if got := poll(); got != app.SlowDown {
		t.Errorf("a poll after 4 s is answered %s", got)
	}
	r.clock.advance(9 * time.Second)
	if got := poll(); got != app.SlowDown {
		t.Errorf("a poll after 9 s is answered %s", got)
	}
	r.clock.advance(15 * time.Second)
	if got := poll(); got != app.Pending {
		t.Errorf("a poll after 15 s is answered %s", got)
	}
	d, err := r.LookDevice(t.Context(), b, strings.ToLower(strings.ReplaceAll(codes.User, "-", " ")))
	if err != nil || d.From != "192.0.2.7" || strings.ContainsRune(d.Machine, '\x1b') {
		t.Errorf("the person sees %+v, %v", d, err)
	}
	if err := r.DecideDevice(t.Context(), b, codes.User, true, shop); err != nil {
		t.Fatal(err)
	}
	// A poll must not undo the decision, and no other client may have it.
	if _, err := r.PollDevice(t.Context(), codes.Device, "lzc_other"); grantCode(err) != app.InvalidGrant {
		t.Errorf("another client is answered %v", err)
	}
	out, err := r.PollDevice(t.Context(), codes.Device, app.ClientCLI)
	if err != nil {
		t.Fatal(err)
	}
	who, err := r.Authenticate(t.Context(), out.Access, "rpc")
	if err != nil || who.Kind != identity.User || who.Email != "ada@example.com" || who.Name != "Ada" || who.Tenant != "acme" || who.Project != "shop" {
		t.Errorf("the token is %+v, %v", who, err)
	}
	if got := poll(); got != app.InvalidGrant {
		t.Errorf("the code is answered a second time: %s", got)
	}
	r.clock.advance(names.AccessLife)
	if r.works(out.Access, "rpc") {
		t.Error("an access token outlives its time")
	}
}

func TestADeclinedOrForgottenSignInGivesNothing(t *testing.T) {
	req.Covers(t, "LG-001")
	r, b, _ := team(t)
	begin := func() app.DeviceCodes {
		codes, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "laptop"})
		if err != nil {
			t.Fatal(err)
		}
		return codes
	}
	no := begin()
	if err := r.DecideDevice(t.Context(), b, no.User, false, app.Entry{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PollDevice(t.Context(), no.Device, app.ClientCLI); grantCode(err) != app.AccessDenied {
		t.Errorf("a declined sign-in is answered %v", err)
	}
	if err := r.DecideDevice(t.Context(), b, no.User, true, shop); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a declined sign-in is approved: %v", err)
	}
	late := begin()
	r.clock.advance(names.DeviceLife - time.Second)
	if _, err := r.PollDevice(t.Context(), late.Device, app.ClientCLI); grantCode(err) != app.Pending {
		t.Errorf("before its end a sign-in is answered %v", err)
	}
	r.clock.advance(time.Second)
	if _, err := r.PollDevice(t.Context(), late.Device, app.ClientCLI); grantCode(err) != app.ExpiredToken {
		t.Errorf("a sign-in too late is answered %v", err)
	}
	if err := r.DecideDevice(t.Context(), browser(t, r, "ada@example.com"), late.User, true, shop); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a sign-in too late is approved: %v", err)
	}
	if _, err := r.PollDevice(t.Context(), "lzd_"+strings.Repeat("0", 64), app.ClientCLI); grantCode(err) != app.InvalidGrant {
		t.Errorf("a code of nobody is answered %v", err)
	}
}

func TestAStrangerMayEnterNothing(t *testing.T) {
	r, _, _ := team(t)
	if _, err := r.Bootstrap(t.Context(), app.Bootstrap{Tenant: "other", Project: "shop", Email: "eve@example.com"}); err != nil {
		t.Fatal(err)
	}
	codes, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, email := range []string{"eve@example.com", "nobody@example.com"} {
		b := browser(t, r, email)
		mine, err := r.Mine(t.Context(), b)
		if err != nil || slices.ContainsFunc(mine, func(e app.Entry) bool { return e.Tenant == "acme" }) {
			t.Errorf("%s may enter %v, %v", email, mine, err)
		}
		for _, into := range []app.Entry{shop, {Tenant: "acme", Project: "nothing"}, {Tenant: "nobody", Project: "shop"}} {
			err := r.DecideDevice(t.Context(), b, codes.User, true, into)
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s enters %v: %v", email, into, err)
			}
			said = append(said, strings.ReplaceAll(err.Error(), into.Project, "P"))
		}
		if _, err := r.GrantCode(t.Context(), b, app.CodeAsk{}, shop); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s approves a client: %v", email, err)
		}
	}
	if len(slices.Compact(said)) != 1 {
		t.Errorf("a stranger is told apart from a member elsewhere: %q", said)
	}
	if _, err := r.PollDevice(t.Context(), codes.Device, app.ClientCLI); grantCode(err) != app.Pending {
		t.Errorf("after all that the sign-in is %v", err)
	}
}

func TestUserCodesCannotBeGuessed(t *testing.T) {
	r, b, _ := team(t)
	codes, err := r.BeginDevice(t.Context(), app.DeviceAsk{Machine: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	guesses := 0
	for range 20 {
		_, err := r.LookDevice(t.Context(), b, "BBBB-BBBB")
		switch fault.KindOf(err) {
		case fault.NotFound:
			guesses++
		case fault.Limited:
		default:
			t.Fatalf("a guess is answered %v", err)
		}
	}
	if guesses != 10 {
		t.Errorf("a person may guess %d times", guesses)
	}
	// The right code is not looked up any more either, but others go on.
	if _, err := r.LookDevice(t.Context(), b, codes.User); fault.KindOf(err) != fault.Limited {
		t.Errorf("after all guesses the right one is answered %v", err)
	}
	r.clock.advance(names.DeviceLife)
	if _, err := r.LookDevice(t.Context(), browser(t, r, "ada@example.com"), codes.User); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a window later a code is answered %v", err)
	}
}

func TestSigningInAgainOnAMachineReplacesWhatItHad(t *testing.T) {
	req.Covers(t, "LG-009")
	r, b, _ := team(t)
	bakery := member(t, r, "bakery", "ada@example.com")
	member(t, r, "shop", "bob@example.com")
	first := approved(t, r, b, "m1")
	elsewhere := approved(t, r, b, "m2")
	bobs := approved(t, r, browser(t, r, "bob@example.com"), "m1")
	// Whatever the project is: there is one sign-in for a person and a machine.
	second := approvedInto(t, r, b, "m1", bakery)
	if r.works(first.Access, "rpc") || !r.works(elsewhere.Access, "rpc") || !r.works(bobs.Access, "rpc") || !r.works(second.Access, "rpc") {
		t.Error("not the one sign-in of the machine was replaced")
	}
	if _, err := r.Refresh(t.Context(), first.Refresh, app.ClientCLI); grantCode(err) != app.InvalidGrant {
		t.Errorf("the refresh token of the one before gives %v", err)
	}
	if _, err := r.Refresh(t.Context(), second.Refresh, app.ClientCLI); err != nil {
		t.Error(err)
	}
}

func TestASignInOfAMachineReplacesThoseOfOneProjectEach(t *testing.T) {
	r, b, _ := team(t)
	member(t, r, "bakery", "ada@example.com")
	alone := map[string]app.Issued{}
	for _, machine := range []string{"m1", "m2"} {
		for _, project := range []string{"shop", "bakery"} {
			out, err := r.SignInAlone(t.Context(), "acme", project, "ada@example.com", machine)
			if err != nil {
				t.Fatal(err)
			}
			alone[machine+" "+project] = out
		}
	}
	// Until then each goes on.
	renewed, err := r.Refresh(t.Context(), alone["m1 bakery"].Refresh, app.ClientCLI)
	if err != nil || !r.works(renewed.Access, "rpc") || !r.works(alone["m1 shop"].Access, "rpc") {
		t.Fatalf("an earlier sign-in does not go on: %v", err)
	}
	now := approved(t, r, b, "m1")
	for _, gone := range []app.Issued{alone["m1 shop"], renewed} {
		if _, err := r.Refresh(t.Context(), gone.Refresh, app.ClientCLI); grantCode(err) != app.InvalidGrant || r.works(gone.Access, "rpc") {
			t.Errorf("an earlier sign-in of the machine goes on: %v", err)
		}
	}
	for _, stays := range []app.Issued{now, alone["m2 shop"], alone["m2 bakery"]} {
		if !r.works(stays.Access, "rpc") {
			t.Errorf("a sign-in elsewhere ended, into %s", stays.Project)
		}
	}
}

// member lets a person into a project of the team.
func member(t *testing.T, r *rig, project, email string) app.Entry {
	t.Helper()
	if _, err := r.Bootstrap(t.Context(), app.Bootstrap{Tenant: "acme", Project: project, Email: email}); err != nil {
		t.Fatal(err)
	}
	return app.Entry{Tenant: "acme", Project: project}
}

func TestASignInIsGoodForEachProjectThatItsPersonMayEnter(t *testing.T) {
	r, b, boot := team(t)
	member(t, r, "bakery", "ada@example.com")
	member(t, r, "bank", "bob@example.com")
	who, err := r.Authenticate(t.Context(), approved(t, r, b, "m1").Access, "rpc")
	if err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{"", "shop", "bakery"} {
		got, err := r.Enter(t.Context(), who, project)
		want := who
		if project != "" {
			want.Project = project
		}
		if err != nil || got != want {
			t.Errorf("in %q Ada is %+v, %v", project, got, err)
		}
	}
	var said []string
	for _, project := range []string{"bank", "nothing", "no#thing", "../shop"} {
		got, err := r.Enter(t.Context(), who, project)
		if fault.KindOf(err) != fault.NotFound || got != (identity.Caller{}) {
			t.Errorf("Ada enters %q: %+v, %v", project, got, err)
		}
		said = append(said, err.Error())
	}
	if len(slices.Compact(said)) != 1 {
		t.Errorf("what is not hers is told apart from what is not there: %q", said)
	}
	list, err := r.ListProjects(t.Context(), app.Call{Who: who})
	want := []app.ProjectEntry{{Project: "bakery", Role: app.RoleAdmin}, {Project: "shop", Role: app.RoleAdmin, Current: true}}
	if err != nil || !slices.Equal(list.Projects, want) {
		t.Errorf("hers are %+v, %v", list.Projects, err)
	}
	// A credential of another kind is of its one project.
	op, err := r.Bootstrap(t.Context(), app.Bootstrap{Tenant: "acme", Project: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	operator, err := r.Authenticate(t.Context(), op.Token, "rpc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Enter(t.Context(), operator, "bakery"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the operator of one project enters another: %v", err)
	}
	// Put out, she enters nothing with what she was given before.
	minted, err := r.Authenticate(t.Context(), boot.Token, "rpc")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveMember(t.Context(), "acme", "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	for _, was := range []identity.Caller{who, minted} {
		if _, err := r.Enter(t.Context(), was, "bakery"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("removed, Ada enters: %v", err)
		}
		if list, err := r.ListProjects(t.Context(), app.Call{Who: was}); err != nil || len(list.Projects) != 0 {
			t.Errorf("removed, Ada may enter %v, %v", list.Projects, err)
		}
	}
}

func TestAUsedRefreshTokenEndsTheSignInForBoth(t *testing.T) {
	req.Covers(t, "LG-014")
	r, b, _ := team(t)
	first := approved(t, r, b, "")
	second, err := r.Refresh(t.Context(), first.Refresh, app.ClientCLI)
	if err != nil || second.Refresh == first.Refresh || r.works(first.Access, "rpc") || !r.works(second.Access, "rpc") {
		t.Fatalf("refreshed: %v", err)
	}
	for _, forged := range []string{
		"", "x", first.Access, strings.Replace(second.Refresh, "lzr_acme", "lzr_other", 1),
		identity.RefreshText([]byte("another key"), identity.Refresh{Tenant: "acme", Family: strings.Repeat("0", 48), Gen: 1}, ""),
	} {
		if _, err := r.Refresh(t.Context(), forged, app.ClientCLI); grantCode(err) != app.InvalidGrant {
			t.Errorf("%.20q gives %v", forged, err)
		}
	}
	if _, err := r.Refresh(t.Context(), second.Refresh, "lzc_another"); grantCode(err) != app.InvalidGrant {
		t.Errorf("another client refreshes: %v", err)
	}
	if !r.works(second.Access, "rpc") {
		t.Fatal("a forgery ended somebody's sign-in")
	}
	if _, err := r.Refresh(t.Context(), first.Refresh, app.ClientCLI); grantCode(err) != app.InvalidGrant {
		t.Errorf("a used refresh token gives %v", err)
	}
	if r.works(second.Access, "rpc") {
		t.Error("after a used refresh token came back, the access token goes on")
	}
	if _, err := r.Refresh(t.Context(), second.Refresh, app.ClientCLI); grantCode(err) != app.InvalidGrant {
		t.Errorf("after a used refresh token came back, the newest gives %v", err)
	}
}

// race runs f n times at once and counts those that ended well. All others must
// have been refused as a bad grant.
func race(n int, f func() error, t *testing.T) int {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case grantCode(err) != app.InvalidGrant:
			t.Errorf("a loser is answered %v", err)
		}
	}
	return won
}
