package oauth

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Cookies. Over https their names say that no other host may have set them.
const (
	cookieBrowser = "lazy_browser"
	cookieFlow    = "lazy_flow"
)

func (v visit) secure() bool { return strings.HasPrefix(v.at, "https://") }

func (v visit) cookieName(name string) string {
	if v.secure() {
		return "__Host-" + name
	}
	return name
}

func (v visit) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.W, &http.Cookie{
		Name: v.cookieName(name), Value: value, Path: "/", MaxAge: int(seconds(life)), Secure: v.secure(), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // the provider sends people back from a site of its own
	})
}

func (v visit) cookie(name string) string {
	c, err := v.R.Cookie(v.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// noBearer refuses a request with a token: what a token holds began this, and who
// begins a sign-in takes no part in approving it (LG-002).
func noBearer(v visit) error {
	if v.R.Header.Get("Authorization") != "" {
		return refusal.Of(refusal.WrongSurface, "bearer", pathActivate).WithNext("Open the address in a browser and sign in there.")
	}
	return nil
}

// member is signedIn for whoever has something to choose from. A person without a
// membership is told so.
func (s *server) member(v visit, here string) (b app.Browser, mine []app.Entry, ok bool) {
	if b, ok = s.signedIn(v, here); !ok {
		return b, nil, false
	}
	mine, err := s.App.Mine(v.R.Context(), b)
	switch {
	case err != nil:
		s.sorry(v, err)
	case len(mine) == 0:
		s.stranger(v, b)
	}
	return b, mine, err == nil && len(mine) > 0
}

// signedIn finds the person at the browser. Where there is none it answers with
// the way to sign in, and returns false. A form that comes too late, with here "",
// is not sent on.
func (s *server) signedIn(v visit, here string) (app.Browser, bool) {
	err := noBearer(v)
	if err != nil {
		v.Fail(err)
		return app.Browser{}, false
	}
	b, ok, err := s.App.BrowserOf(v.R.Context(), v.cookie(cookieBrowser))
	switch {
	case err != nil:
		s.sorry(v, err)
	case ok:
		return b, true
	case here == "":
		s.sorry(v, fault.New(fault.Denied, "This browser is not signed in any more, so nothing was done.").WithNext("Load the page before this one again."))
	case s.People == nil:
		p := page{Title: "Sign in"}
		v.show(http.StatusUnauthorized, p, p.owner, nil)
	default:
		s.send(v, here)
	}
	return app.Browser{}, false
}

// send sends a browser to the identity provider. Where it comes back to is kept
// here, not in the request that brings it back, so that no address can be slipped
// in.
func (s *server) send(v visit, here string) {
	err := s.App.Allow(v.R.Context(), "flow", v.peer, 60, 15*time.Minute)
	if err != nil {
		s.sorry(v, err)
		return
	}
	people, err := s.People(v.R.Context())
	if err != nil {
		s.sorry(v, err)
		return
	}
	f, state, cookie, err := s.App.BeginFlow(v.R.Context(), here)
	if err != nil {
		s.sorry(v, err)
		return
	}
	to, err := people.Begin(v.R.Context(), v.at+pathCallback, state, f.Nonce, f.Verifier)
	if err != nil {
		s.sorry(v, fault.Wrap(fault.Unavailable, err, "The identity provider cannot be reached."))
		return
	}
	v.setCookie(cookieFlow, cookie, names.FlowLife)
	v.redirect(to, nil)
}

// redirect sends the browser elsewhere with a GET.
func (v visit) redirect(to string, err error) {
	h := v.W.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	v.W.WriteHeader(http.StatusSeeOther)
	v.Outcome(http.StatusSeeOther, err)
}

// callback is where the identity provider sends a person back to.
func (s *server) callback(v visit) {
	if s.People == nil {
		s.sorry(v, fault.New(fault.NotFound, "There is nothing at this address."))
		return
	}
	q := v.R.URL.Query()
	f, err := s.App.EndFlow(v.R.Context(), q.Get("state"), v.cookie(cookieFlow))
	if err != nil {
		s.sorry(v, err)
		return
	}
	v.setCookie(cookieFlow, "", -time.Second)
	if q.Get("error") != "" || q.Get("code") == "" {
		s.sorry(v, refusal.Of(refusal.LoginDeclined, "declined at the identity provider"))
		return
	}
	people, err := s.People(v.R.Context())
	if err != nil {
		s.sorry(v, err)
		return
	}
	p, err := people.End(v.R.Context(), v.at+pathCallback, q.Get("code"), f.Nonce, f.Verifier)
	if err != nil {
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Denied {
			err = fault.Wrap(fault.Unavailable, err, "The identity provider could not say who you are.")
		}
		s.sorry(v, err)
		return
	}
	cookie, err := s.App.SignIn(v.R.Context(), p.Email, p.Name)
	if err != nil {
		s.sorry(v, err)
		return
	}
	v.setCookie(cookieBrowser, cookie, names.BrowserLife)
	v.redirect(f.Back, nil)
}

// owner takes the link with which the owner of a laptop signs a browser in.
func (s *server) owner(v visit) {
	if !s.App.Local {
		s.sorry(v, fault.New(fault.NotFound, "There is nothing at this address."))
		return
	}
	cookie, err := s.App.UseLoginLink(v.R.Context(), v.R.URL.Query().Get("link"))
	if err != nil {
		s.sorry(v, err)
		return
	}
	v.setCookie(cookieBrowser, cookie, names.BrowserLife)
	p := page{Title: "Signed in", Text: "This browser is signed in for 30 minutes. Go back to the page that asked for it and load it again."}
	v.show(http.StatusOK, p, p.done, nil)
}

// submitted checks that a form comes from a page of ours in the browser it was
// made for.
func (s *server) submitted(v visit, b app.Browser, form url.Values) error {
	from := v.R.Header.Get("Origin")
	mine := subtle.ConstantTimeCompare([]byte(form.Get("form")), []byte(s.App.Form(b))) == 1
	if !mine || from != "" && from != v.at {
		return fault.New(fault.Denied, "This form was not sent from this server's own page, so nothing was done.").WithNext("Load the page again.")
	}
	return nil
}

// entry reads which project a person chose. Whether they may enter it is decided
// where it is granted.
func entry(form url.Values) app.Entry {
	tenant, project, _ := strings.Cut(form.Get("into"), "/")
	return app.Entry{Tenant: tenant, Project: project}
}
