package oauth

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// challengeShape is an S256 challenge: 32 bytes.
var challengeShape = pattern.New(`^[A-Za-z0-9_-]{43}$`)

// asked are the parameters of an authorization that the page carries along.
func asked() []string {
	return []string{"response_type", "client_id", "redirect_uri", "code_challenge", "code_challenge_method", "state", "resource", "scope"}
}

// request reads an authorization request. Until the client and its redirect are
// known to be right nobody is sent anywhere: the error is shown here. After that
// errors are the client's to hear, and told is true.
func (s *server) request(v visit, form url.Values) (ask app.CodeAsk, told bool, err error) {
	if err := once(form); err != nil {
		return ask, false, err
	}
	ask.Client, err = s.client(v, form.Get("client_id"))
	if err != nil {
		return ask, false, err
	}
	ask.Redirect = form.Get("redirect_uri")
	if ask.Redirect == "" && len(ask.Client.Redirects) == 1 {
		ask.Redirect = ask.Client.Redirects[0]
	}
	if !redirects(ask.Client.Redirects, ask.Redirect) {
		return ask, false, &app.GrantError{Code: app.InvalidRequest, Text: "the address to send you back to is none that the client registered"}
	}
	ask.Challenge = form.Get("code_challenge")
	switch {
	case form.Get("response_type") != "code":
		err = &app.GrantError{Code: "unsupported_response_type", Text: "only a code is given out"}
	case form.Get("code_challenge_method") != "S256" || !challengeShape.MatchString(ask.Challenge):
		err = &app.GrantError{Code: app.InvalidRequest, Text: "a code takes a challenge by S256 (RFC 7636)"}
	default:
		err = target(v, form)
	}
	return ask, true, err
}

// fail tells an error to whoever is to hear it.
func (s *server) fail(v visit, ask app.CodeAsk, form url.Values, told bool, err error) {
	e, ok := errors.AsType[*app.GrantError](err)
	if !told || !ok {
		s.sorry(v, err)
		return
	}
	v.redirect(back(ask.Redirect, v.at, form.Get("state"), map[string]string{"error": e.Code, "error_description": e.Text}), err)
}

// authorize asks a person whether a client may work for them.
func (s *server) authorize(v visit) {
	form := v.R.URL.Query()
	ask, told, err := s.request(v, form)
	if err != nil {
		s.fail(v, ask, form, told, err)
		return
	}
	b, mine, ok := s.member(v, pathAuthorize+"?"+v.R.URL.RawQuery)
	if !ok {
		return
	}
	p := page{
		Title: "Let a client work for you", Form: s.App.Form(b), Person: b.Email, Entries: mine, Action: pathAuthorize,
		Client: ask.Client.Name, ID: ask.Client.ID, Redirect: origin(ask.Redirect), FormTo: origin(ask.Redirect),
	}
	for _, name := range asked() {
		if form.Has(name) {
			p.Hidden = append(p.Hidden, field{name, form.Get(name)})
		}
	}
	v.show(http.StatusOK, p, p.client, nil)
}

// answer is what a signed-in person sent with a form of ours. Where it is not ok the
// visitor was told why.
func (s *server) answer(v visit) (b app.Browser, form url.Values, ok bool) {
	form, err := v.form()
	if err != nil {
		s.sorry(v, err)
		return b, nil, false
	}
	if b, ok = s.signedIn(v, ""); !ok {
		return b, nil, false
	}
	if err := s.submitted(v, b, form); err != nil {
		s.sorry(v, err)
		return b, nil, false
	}
	return b, form, true
}

// decideClient takes the person's answer. Everything is checked again: the form
// came through a browser.
func (s *server) decideClient(v visit) {
	b, form, ok := s.answer(v)
	if !ok {
		return
	}
	ask, told, err := s.request(v, form)
	if err == nil && form.Get("answer") != "approve" {
		err = &app.GrantError{Code: app.AccessDenied, Text: "the person declined"}
	}
	if err != nil {
		s.fail(v, ask, form, told, err)
		return
	}
	code, err := s.App.GrantCode(v.R.Context(), b, ask, entry(form))
	if err != nil {
		s.sorry(v, err)
		return
	}
	v.redirect(back(ask.Redirect, v.at, form.Get("state"), map[string]string{"code": code}), nil)
}

// stranger answers a person who may enter nothing. It is the same for somebody
// nobody has heard of and for a member of another team.
func (s *server) stranger(v visit, b app.Browser) {
	err := fault.New(fault.Denied, "There is no project here that %s may enter.", b.Email).
		WithNext("Ask whoever runs this control plane to let you in, or sign in as somebody else.")
	s.sorry(v, err)
}
