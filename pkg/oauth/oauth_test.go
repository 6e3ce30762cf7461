package oauth_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/issuer"
	"github.com/lazyplane/lazyplane/pkg/req"
)

const redirect = "http://127.0.0.1:7777/cb"

func TestAClientIsLetInByAPerson(t *testing.T) {
	req.Covers(t, "LG-014")
	r := newRig(t, nil)
	meta := r.get(http.DefaultClient, "/.well-known/oauth-authorization-server").json()
	if meta["issuer"] != r.url || !slices.Equal(meta["code_challenge_methods_supported"].([]any), []any{"S256"}) {
		t.Errorf("the server says %v", meta)
	}
	client := r.register("Some editor", "http://127.0.0.1/cb")
	b := r.browser()
	page := r.get(b, "/auth/authorize?"+ask(client, redirect).Encode())
	for _, want := range []string{"Some editor", "ada@example.com", "http://127.0.0.1:7777", "acme/shop"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not show %q:\n%s", want, page.body)
		}
	}
	f := form(page)
	f.Set("answer", "approve")
	f.Set("into", "acme/shop")
	sent := r.post(b, "/auth/authorize", f, "Origin", r.url)
	to := sent.to()
	if sent.status != http.StatusSeeOther || !strings.HasPrefix(sent.header.Get("Location"), redirect+"?") || to.Get("state") != "the-state" || to.Get("iss") != r.url {
		t.Fatalf("approved: %d %v %s", sent.status, sent.header, sent.body)
	}
	use := url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Get("code")}, "client_id": {client}, "redirect_uri": {redirect}, "code_verifier": {verifier},
	}
	got := r.post(http.DefaultClient, "/auth/token", use)
	token, _ := got.json()["access_token"].(string)
	if who, err := r.app.Authenticate(t.Context(), token, "mcp"); err != nil || who.Email != "ada@example.com" || got.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("the client got %d %s: %+v, %v", got.status, got.body, who, err)
	}
	if _, err := r.app.Authenticate(t.Context(), token, "rpc"); err == nil {
		t.Error("a client's token is a person's")
	}
	if again := r.post(http.DefaultClient, "/auth/token", use); again.status != 400 || again.json()["error"] != "invalid_grant" {
		t.Errorf("the code again: %d %s", again.status, again.body)
	}
	refresh, _ := got.json()["refresh_token"].(string)
	turn := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {client}}
	next := r.post(http.DefaultClient, "/auth/token", turn)
	newer, _ := next.json()["access_token"].(string)
	if _, err := r.app.Authenticate(t.Context(), newer, "mcp"); err != nil {
		t.Errorf("refreshed: %d %s", next.status, next.body)
	}
	if again := r.post(http.DefaultClient, "/auth/token", turn); again.status != 400 || again.json()["error"] != "invalid_grant" {
		t.Errorf("the refresh token again: %d %s", again.status, again.body)
	}
	if _, err := r.app.Authenticate(t.Context(), newer, "mcp"); err == nil {
		t.Error("after a used refresh token came back, its sign-in goes on")
	}
	for _, secret := range []string{token, newer, refresh, to.Get("code"), f.Get("form"), verifier} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log holds %.12s…", secret)
		}
	}
}

func TestAClientThatWasDeclinedHearsSo(t *testing.T) {
	r := newRig(t, nil)
	client := r.register("Some editor", redirect)
	b := r.browser()
	f := form(r.get(b, "/auth/authorize?"+ask(client, redirect).Encode()))
	f.Set("answer", "decline")
	to := r.post(b, "/auth/authorize", f).to()
	if to.Get("error") != "access_denied" || to.Get("code") != "" || to.Get("state") != "the-state" || to.Get("iss") != r.url {
		t.Errorf("declined: %v", to)
	}
}

func TestAMachineIsSignedInOnItsPage(t *testing.T) {
	req.Covers(t, "LG-001", "LG-002", "LG-003")
	r := newRig(t, nil)
	begun := r.post(http.DefaultClient, "/auth/device", url.Values{"client_id": {"lazy"}, "machine": {"<b>Ada's</b> laptop"}, "project": {"shop"}}).json()
	user, _ := begun["user_code"].(string)
	device, _ := begun["device_code"].(string)
	if begun["verification_uri"] != r.url+"/activate" || begun["expires_in"] != 900.0 || begun["interval"] != 5.0 || len(user) != 9 {
		t.Fatalf("begun: %v", begun)
	}
	poll := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}, "client_id": {"lazy"}}
	if got := r.post(http.DefaultClient, "/auth/token", poll); got.status != 400 || got.json()["error"] != "authorization_pending" {
		t.Errorf("before the approval: %d %s", got.status, got.body)
	}
	if got := r.post(http.DefaultClient, "/auth/token", poll); got.json()["error"] != "slow_down" {
		t.Errorf("polled at once: %s", got.body)
	}
	b := r.browser()
	page := r.get(b, "/activate?user_code="+user)
	for _, want := range []string{user, "&lt;b&gt;Ada&#39;s&lt;/b&gt; laptop", "127.0.0.1", "ada@example.com", "shop", "GMT", "UTC"} {
		if !strings.Contains(page.body, want) && want != "GMT" && want != "UTC" {
			t.Errorf("the page does not show %q:\n%s", want, page.body)
		}
	}
	if !strings.Contains(page.body, "UTC") && !strings.Contains(page.body, "GMT") || strings.Contains(page.body, "<b>") {
		t.Errorf("the page shows no time, or what the machine calls itself as it came:\n%s", page.body)
	}
	f := form(page)
	f.Set("answer", "approve")
	f.Set("into", "acme/shop")
	// Whoever holds a token cannot approve, not even with everything else right.
	if got := r.post(b, "/activate", f, "Authorization", "Bearer x"); got.status != 401 || !strings.Contains(got.body, "wrong_surface") {
		t.Errorf("with a bearer token: %d %s", got.status, got.body)
	}
	// Nor can another browser, or another site in this one.
	if got := r.post(http.DefaultClient, "/activate", f); got.status != http.StatusForbidden {
		t.Errorf("without a browser's sign-in: %d %s", got.status, got.body)
	}
	if got := r.post(b, "/activate", f, "Origin", "https://evil.example"); got.status != http.StatusForbidden {
		t.Errorf("from another site: %d %s", got.status, got.body)
	}
	forged := url.Values{"user_code": {user}, "answer": {"approve"}, "into": {"acme/shop"}, "form": {strings.Repeat("0", 64)}}
	if got := r.post(b, "/activate", forged); got.status != http.StatusForbidden {
		t.Errorf("with a made-up form: %d %s", got.status, got.body)
	}
	if got := r.post(http.DefaultClient, "/auth/token", poll); got.json()["error"] == nil {
		t.Fatalf("one of these approved: %s", got.body)
	}
	if got := r.post(b, "/activate", f, "Origin", r.url); got.status != 200 || !strings.Contains(got.body, "Signed in") {
		t.Fatalf("approved: %d %s", got.status, got.body)
	}
	got := r.post(http.DefaultClient, "/auth/token", poll)
	token, _ := got.json()["access_token"].(string)
	if who, err := r.app.Authenticate(t.Context(), token, "rpc"); err != nil || who.Email != "ada@example.com" {
		t.Errorf("the machine got %s: %+v, %v", got.body, who, err)
	}
	if got := r.post(http.DefaultClient, "/auth/revoke", url.Values{"token": {token}, "client_id": {"lazy"}}); got.status != 200 {
		t.Errorf("signed out: %d %s", got.status, got.body)
	}
	if _, err := r.app.Authenticate(t.Context(), token, "rpc"); err == nil {
		t.Error("a token outlives its withdrawal")
	}
}

func TestOtherClientsMayNotSignInWithADeviceCode(t *testing.T) {
	r := newRig(t, nil)
	for _, client := range []string{"", "another", r.register("x", redirect)} {
		if got := r.post(http.DefaultClient, "/auth/device", url.Values{"client_id": {client}}); got.status != 400 || got.json()["error"] != "unauthorized_client" {
			t.Errorf("%q: %d %s", client, got.status, got.body)
		}
	}
}

// Whoever is known nowhere and whoever is a member of another team see the same
// page, which names nothing.
func TestAStrangerLearnsNothing(t *testing.T) {
	r := newRig(t, nil)
	begun := r.post(http.DefaultClient, "/auth/device", url.Values{"client_id": {"lazy"}, "machine": {"m"}, "project": {"shop"}}).json()
	client := r.register("Some editor", redirect)
	for _, path := range []string{"/activate?user_code=" + begun["user_code"].(string), "/activate?user_code=BBBB-BBBB", "/activate", "/auth/authorize?" + ask(client, redirect).Encode()} {
		r.idp.Become(issuer.Person{Email: "eve@example.com", Name: "Eve", Verified: true})
		got := r.get(r.browser(), path)
		if got.status != http.StatusForbidden || strings.Contains(got.body, "shop") || strings.Contains(got.body, "acme") || strings.Contains(got.body, "<form") {
			t.Errorf("%s: %d\n%s", path, got.status, got.body)
		}
	}
}

func TestAPersonTheIssuerDoesNotVouchForIsNotSignedIn(t *testing.T) {
	r := newRig(t, nil)
	for name, p := range map[string]issuer.Person{
		"address not proven": {Email: "ada@example.com", Verified: false}, "declined": {Email: "ada@example.com", Declines: true},
	} {
		r.idp.Become(p)
		b := r.browser()
		if got := r.get(b, "/activate"); got.status != http.StatusForbidden {
			t.Errorf("%s: %d\n%s", name, got.status, got.body)
		}
		r.idp.Become(issuer.Person{Declines: true})
		if got := r.get(b, "/activate"); got.status != http.StatusForbidden {
			t.Errorf("%s: afterwards the browser is signed in: %d", name, got.status)
		}
	}
}
