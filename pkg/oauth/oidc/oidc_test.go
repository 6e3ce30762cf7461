package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/issuer"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/oauth"
	"github.com/lazyplane/lazyplane/pkg/oauth/oidc"
)

const (
	redirect = "http://127.0.0.1:9/auth/callback"
	verifier = "a-verifier-of-at-least-forty-three-characters-x"
)

func provider(t *testing.T, bend func(map[string]any)) (*issuer.Issuer, *oidc.Provider) {
	t.Helper()
	i, err := issuer.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	i.Bend = bend
	return i, oidc.New(app.SignInConfig{Issuer: i.URL, Client: i.Client, Secret: i.Secret}, http.DefaultClient)
}

// visit is a person's visit to the issuer: the code that it sends them back with.
func visit(t *testing.T, p *oidc.Provider, nonce string) string {
	t.Helper()
	at, err := p.Begin(t.Context(), redirect, "the-state", nonce, verifier)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	back, err := url.Parse(res.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(back.String(), redirect) || back.Query().Get("state") != "the-state" {
		t.Fatalf("the issuer sends the person to %q, %v", back, err)
	}
	return back.Query().Get("code")
}

func TestAnIssuerVouchesForAPerson(t *testing.T) {
	i, p := provider(t, nil)
	for _, c := range []struct {
		who  issuer.Person
		want string
	}{
		{issuer.Person{Email: "ada@example.com", Name: "Ada", Verified: true}, "ada@example.com"},
		{issuer.Person{Email: "ada@example.com", Name: "Ada", Verified: "true"}, "ada@example.com"},
		{issuer.Person{Email: "ada@example.com", Name: "Ada", Verified: false}, ""},
		{issuer.Person{Email: "ada@example.com", Name: "Ada"}, ""},
		{issuer.Person{Verified: true}, ""},
	} {
		i.Become(c.who)
		got, err := p.End(t.Context(), redirect, visit(t, p, "n"), "n", verifier)
		if got.Email != c.want || c.want == "" && fault.KindOf(err) != fault.Denied || c.want != "" && (err != nil || got != oauth.Person{Email: c.want, Name: "Ada"}) {
			t.Errorf("%+v is %+v, %v", c.who, got, err)
		}
	}
}

func TestWhatTheIssuerDidNotSayToThisSignInIsWorthNothing(t *testing.T) {
	for name, bend := range map[string]func(map[string]any){
		"another issuer":   func(c map[string]any) { c["iss"] = "https://evil.example" },
		"another audience": func(c map[string]any) { c["aud"] = "somebody-else" },
		"expired":          func(c map[string]any) { c["exp"] = 1 },
		"another nonce":    func(c map[string]any) { c["nonce"] = "other" },
		"no nonce":         func(c map[string]any) { delete(c, "nonce") },
	} {
		i, p := provider(t, bend)
		i.Become(issuer.Person{Email: "ada@example.com", Verified: true})
		if got, err := p.End(t.Context(), redirect, visit(t, p, "n"), "n", verifier); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	i, p := provider(t, nil)
	i.Become(issuer.Person{Email: "ada@example.com", Verified: true})
	code := visit(t, p, "n")
	if _, err := p.End(t.Context(), redirect, code, "n", "another-verifier-of-at-least-forty-three-chars"); err == nil {
		t.Error("a code was exchanged with another verifier")
	}
	if _, err := p.End(t.Context(), redirect, code, "n", verifier); err == nil {
		t.Error("a code was exchanged twice")
	}
}

func TestGitHubIsAskedWithoutBeingDiscovered(t *testing.T) {
	p := oidc.New(app.SignInConfig{Issuer: oidc.GitHub, Client: "c"}, http.DefaultClient)
	at, err := p.Begin(t.Context(), redirect, "s", "n", verifier)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	q := u.Query()
	if err != nil || u.Host != "github.com" || u.Path != "/login/oauth/authorize" || q.Get("scope") != "user:email" || q.Get("code_challenge") == "" || q.Get("state") != "s" {
		t.Errorf("the person is sent to %s", at)
	}
}

// elsewhere sends every request to a server of the test, whatever its host.
type elsewhere struct{ handler http.Handler }

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestGitHubVouchesForAProvenPrimaryAddress(t *testing.T) {
	emails := ""
	mux := http.NewServeMux()
	mux.HandleFunc("POST github.com/login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("client_secret") != "s" || r.PostFormValue("code_verifier") != verifier {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"t","token_type":"bearer"}`))
	})
	mux.HandleFunc("GET api.github.com/user/emails", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(emails))
	})
	mux.HandleFunc("GET api.github.com/user", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"name":"Ada"}`)) })
	p := oidc.New(app.SignInConfig{Issuer: oidc.GitHub, Client: "c", Secret: "s"}, &http.Client{Transport: elsewhere{mux}})
	for text, want := range map[string]string{
		`[{"email":"old@example.com","verified":true},{"email":"ada@example.com","primary":true,"verified":true}]`: "ada@example.com",
		`[{"email":"ada@example.com","primary":true,"verified":false},{"email":"b@example.com","verified":true}]`:  "",
		`[]`: "",
	} {
		emails = text
		got, err := p.End(t.Context(), redirect, "code", "n", verifier)
		if got.Email != want || want == "" && fault.KindOf(err) != fault.Denied {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}
