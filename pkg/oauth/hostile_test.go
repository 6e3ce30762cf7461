package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/issuer"
	"github.com/lazyplane/lazyplane/pkg/oauth"
)

// None of these may send a browser anywhere but to an address that the client
// registered.
func TestNobodyIsSentToAnAddressThatIsNotTheClients(t *testing.T) {
	r := newRig(t, nil)
	client := r.register("app", "https://app.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb")
	b := r.browser()
	for _, bad := range []string{
		"https://evil.example/cb", "https://app.example/cb/", "https://app.example/cb?x=1", "https://app.example/cb#x", "https://app.example/CB",
		"https://app.example:8443/cb", "http://app.example/cb", "https://app.example/cb/../x", "https://app.example%2f@evil.example/cb",
		"https://user@app.example/cb", "//app.example/cb", "/activate", "http://localhost:80/cb", "http://127.0.0.1:80/other", "http://127.0.0.1.evil.example/cb",
		"http://127.0.0.1@evil.example/cb", "https://127.0.0.1/cb", "com.example.app:/other", "com.example.other:/cb", "javascript:alert(1)", "",
	} {
		q := ask(client, bad)
		if got := r.get(b, "/auth/authorize?"+q.Encode()); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d, sent to %s", bad, got.status, got.header.Get("Location"))
		}
		q.Set("response_type", "token") // an error that a client would hear
		if got := r.get(b, "/auth/authorize?"+q.Encode()); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("an error, %s: %d, sent to %s", bad, got.status, got.header.Get("Location"))
		}
	}
	for _, good := range []string{"https://app.example/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb", "com.example.app:/cb"} {
		if got := r.get(b, "/auth/authorize?"+ask(client, good).Encode()); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", good, got.status, got.body)
		}
	}
}

func TestAClientCannotRegisterAnAddressThatCodesMustNotGoTo(t *testing.T) {
	r := newRig(t, nil)
	for _, bad := range []string{
		"", "x", "http://app.example/cb", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https:///cb", "https://a.example/cb#f",
		"https://u:p@a.example/cb", "https://a.example/ cb", `https://a.example/"cb`, "https://a;script-src.example/cb", "app:/cb",
		"https://" + strings.Repeat("a", 2000) + ".example/cb",
	} {
		body := fmt.Sprintf(`{"redirect_uris":[%q]}`, bad)
		got := r.do(http.DefaultClient, http.MethodPost, "/auth/register", "application/json", body)
		if got.status != http.StatusBadRequest || got.json()["error"] != "invalid_redirect_uri" {
			t.Errorf("%.60s: %d %s", bad, got.status, got.body)
		}
	}
	for _, body := range []string{"", "[]", "{", `{"redirect_uris":[]}`, `{"redirect_uris":7}`} {
		if got := r.do(http.DefaultClient, http.MethodPost, "/auth/register", "application/json", body); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

func TestAClientWithoutAProofGetsNoCode(t *testing.T) {
	r := newRig(t, nil)
	client := r.register("app", redirect)
	b := r.browser()
	for name, change := range map[string]func(url.Values){
		"no challenge":    func(q url.Values) { q.Del("code_challenge") },
		"plain challenge": func(q url.Values) { q.Set("code_challenge_method", "plain") },
		"no method":       func(q url.Values) { q.Del("code_challenge_method") },
		"short challenge": func(q url.Values) { q.Set("code_challenge", "x") },
		"another answer":  func(q url.Values) { q.Set("response_type", "token") },
		"another server":  func(q url.Values) { q.Set("resource", "https://other.example/mcp") },
	} {
		q := ask(client, redirect)
		change(q)
		to := r.get(b, "/auth/authorize?"+q.Encode()).to()
		if to.Get("error") == "" || to.Get("code") != "" || to.Get("state") != "the-state" || to.Get("iss") != r.url {
			t.Errorf("%s: the client hears %v", name, to)
		}
	}
	// What was right when the page was made is checked again when it comes back.
	f := form(r.get(b, "/auth/authorize?"+ask(client, redirect).Encode()))
	f.Set("answer", "approve")
	f.Set("into", "acme/shop")
	f.Set("redirect_uri", "https://evil.example/cb")
	if got := r.post(b, "/auth/authorize", f); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("a changed form: %d, sent to %s", got.status, got.header.Get("Location"))
	}
	f.Set("redirect_uri", redirect)
	f.Set("into", "other/shop")
	if got := r.post(b, "/auth/authorize", f); got.status != http.StatusNotFound || got.header.Get("Location") != "" {
		t.Errorf("a project of others: %d %s", got.status, got.body)
	}
	twice := ask(client, redirect).Encode() + "&redirect_uri=" + url.QueryEscape("https://evil.example/cb")
	if got := r.get(b, "/auth/authorize?"+twice); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("a parameter twice: %d, sent to %s", got.status, got.header.Get("Location"))
	}
}

// One client gets hold of the code that another was given.
func TestACodeIsNothingToAnotherClient(t *testing.T) {
	r := newRig(t, nil)
	mine, other := r.register("mine", redirect), r.register("other", redirect)
	b := r.browser()
	f := form(r.get(b, "/auth/authorize?"+ask(mine, redirect).Encode()))
	f.Set("answer", "approve")
	f.Set("into", "acme/shop")
	code := r.post(b, "/auth/authorize", f).to().Get("code")
	use := func(client, verifier, to string) answer {
		return r.post(http.DefaultClient, "/auth/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client}, "redirect_uri": {to}, "code_verifier": {verifier},
		})
	}
	for name, got := range map[string]answer{
		"another client": use(other, verifier, redirect), "its own verifier": use(other, verifier+"x", redirect),
		"another address": use(mine, verifier, "http://127.0.0.1:1/cb"), "no verifier": use(mine, "", redirect),
	} {
		if got.status != 400 || got.json()["error"] != "invalid_grant" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := use(mine, verifier, redirect); got.status != 200 {
		t.Errorf("the client itself: %d %s", got.status, got.body)
	}
}

func TestAPageShowsTextAndCanBeFramedByNobody(t *testing.T) {
	r := newRig(t, nil)
	r.idp.Become(issuer.Person{Email: "ada@example.com", Name: "<img src=x>", Verified: true})
	client := r.register(`<script>alert(1)</script>"'>`, redirect)
	q := ask(client, redirect)
	q.Set("state", `"><script>alert(2)</script>`)
	page := r.get(r.browser(), "/auth/authorize?"+q.Encode())
	if page.status != 200 || strings.Contains(page.body, "<script") || !strings.Contains(page.body, "&lt;script&gt;alert(1)") || !strings.Contains(page.body, "&lt;script&gt;alert(2)") {
		t.Errorf("%d\n%s", page.status, page.body)
	}
	csp := page.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self' http://127.0.0.1:7777"} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy of the page has no %q: %s", want, csp)
		}
	}
	if page.header.Get("X-Frame-Options") != "DENY" || page.header.Get("Cache-Control") != "no-store" || page.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the page comes with %v", page.header)
	}
}

func TestASignInOfAnotherBrowserEndsNowhere(t *testing.T) {
	r := newRig(t, nil)
	// Eve begins a sign-in and has Ada's browser end it, so that Ada works as Eve.
	r.idp.Become(issuer.Person{Email: "eve@example.com", Verified: true})
	eve := r.browser()
	eve.CheckRedirect = func(q *http.Request, _ []*http.Request) error {
		if q.URL.Path == "/auth/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	end, err := url.Parse(r.get(eve, "/activate").header.Get("Location"))
	if err != nil || end.Path != "/auth/callback" {
		t.Fatalf("Eve is sent to %s, %v", end, err)
	}
	ada := r.browser()
	if got := r.get(ada, end.RequestURI()); got.status != http.StatusForbidden {
		t.Errorf("Ada's browser: %d %s", got.status, got.body)
	}
	eve.CheckRedirect = nil
	if got := r.get(eve, end.RequestURI()); got.status != http.StatusForbidden || !strings.Contains(got.body, "eve@example.com") {
		t.Errorf("Eve's own: %d %s", got.status, got.body) // signed in, and a member of nothing
	}
	if got := r.get(eve, end.RequestURI()); got.status != http.StatusForbidden || strings.Contains(got.body, "eve@example.com") {
		t.Errorf("Eve's own, again: %d %s", got.status, got.body)
	}
}

func TestGuessingAndFloodingEndSoon(t *testing.T) {
	r := newRig(t, nil)
	b := r.browser()
	count := func(most int, try func() int, refused ...int) int {
		for n := range most {
			if slices.Contains(refused, try()) {
				return n
			}
		}
		return most
	}
	if n := count(100, func() int { return r.get(b, "/activate?user_code=BBBB-BBBB").status }, http.StatusTooManyRequests); n != 10 {
		t.Errorf("a person may guess %d codes", n)
	}
	if n := count(100, func() int {
		return r.do(http.DefaultClient, http.MethodPost, "/auth/register", "application/json", `{"redirect_uris":["`+redirect+`"]}`).status
	}, http.StatusTooManyRequests); n != 20 {
		t.Errorf("one origin may register %d clients", n)
	}
	if n := count(100, func() int {
		return r.post(http.DefaultClient, "/auth/device", url.Values{"client_id": {"lazy"}}).status
	}, http.StatusTooManyRequests); n != 30 {
		t.Errorf("one origin may begin %d sign-ins", n)
	}
}

func TestAClientMayBeKnownByItsOwnDocument(t *testing.T) {
	doc := ""
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/moved" {
			http.Redirect(w, q, "/client.json", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(doc))
	}))
	defer srv.Close()
	docs := srv.Client()
	docs.CheckRedirect = oauth.Guarded().CheckRedirect
	r := newRig(t, docs)
	if r.get(http.DefaultClient, "/.well-known/oauth-authorization-server").json()["client_id_metadata_document_supported"] != true {
		t.Error("the server does not say that it reads documents")
	}
	b, id := r.browser(), srv.URL+"/client.json"
	right := `{"client_id":"` + id + `","client_name":"Documented","redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none"}`
	doc = right
	page := r.get(b, "/auth/authorize?"+ask(id, "http://localhost:99/cb").Encode())
	if page.status != 200 || !strings.Contains(page.body, "Documented") || !strings.Contains(page.body, id) {
		t.Fatalf("%d\n%s", page.status, page.body)
	}
	for name, c := range map[string]struct{ id, doc, redirect string }{
		"about another":    {id, strings.Replace(right, id, "https://evil.example/client.json", 1), "http://localhost:99/cb"},
		"another address":  {id, right, "https://evil.example/cb"},
		"a secret":         {id, strings.Replace(right, `"none"`, `"client_secret_basic"`, 1), "http://localhost:99/cb"},
		"no document":      {id, "<html>", "http://localhost:99/cb"},
		"too long":         {id, strings.Replace(right, "{", "{"+strings.Repeat(" ", 9000), 1), "http://localhost:99/cb"},
		"moved":            {srv.URL + "/moved", strings.Replace(right, "/client.json", "/moved", 1), "http://localhost:99/cb"},
		"no path":          {srv.URL, right, "http://localhost:99/cb"},
		"not over https":   {strings.Replace(id, "https:", "http:", 1), right, "http://localhost:99/cb"},
		"nobody registers": {"lzc_" + strings.Repeat("0", 32), right, "http://localhost:99/cb"},
	} {
		doc = c.doc
		if got := r.get(b, "/auth/authorize?"+ask(c.id, c.redirect).Encode()); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
			t.Errorf("%s: %d, sent to %s", name, got.status, got.header.Get("Location"))
		}
	}
}

func TestADocumentIsLookedForOnPublicHostsOnly(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was asked") }))
	defer srv.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1",
		"[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "224.0.0.1", "255.255.255.255",
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+port+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := oauth.Guarded().Do(q)
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("%s answers %s", host, res.Status)
		} else if !strings.Contains(err.Error(), "not a public one") {
			t.Errorf("%s: %v", host, err)
		}
	}
}
