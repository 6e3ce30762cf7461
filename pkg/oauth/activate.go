package oauth

import (
	"net/http"
	"net/url"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
)

// activate is where a person types the code that their terminal shows.
func (s *server) activate(v visit) {
	typed := v.R.URL.Query().Get("user_code")
	here := pathActivate
	if code := app.UserCode(typed); code != "" {
		here += "?user_code=" + url.QueryEscape(code)
	}
	b, mine, ok := s.member(v, here)
	if !ok {
		return
	}
	if typed == "" {
		p := page{Title: "Sign a machine in", Person: b.Email, Action: pathActivate}
		v.show(http.StatusOK, p, p.code, nil)
		return
	}
	if err := s.tries(v); err != nil {
		s.sorry(v, err)
		return
	}
	d, err := s.App.LookDevice(v.R.Context(), b, typed)
	if err != nil {
		s.sorry(v, err)
		return
	}
	p := page{
		Title: "Sign a machine in", Form: s.App.Form(b), Person: b.Email, Action: pathActivate, Code: app.UserCode(typed),
		Machine: d.Machine, From: d.From, At: d.Created.UTC().Format(time.RFC1123), Project: d.Project, Entries: mine,
		Hidden: []field{{"user_code", app.UserCode(typed)}},
	}
	for _, e := range mine {
		if d.Project != "" && e.Project == d.Project { // the one asked for comes first
			p.Entries = []app.Entry{e}
			for _, other := range mine {
				if other != e {
					p.Entries = append(p.Entries, other)
				}
			}
			break
		}
	}
	v.show(http.StatusOK, p, p.device, nil)
}

// tries bounds how often codes are typed from one place, whoever does.
func (s *server) tries(v visit) error {
	return s.App.Allow(v.R.Context(), "user-code-from", v.peer, 60, 15*time.Minute)
}

// decideDevice takes the person's answer.
func (s *server) decideDevice(v visit) {
	b, form, ok := s.answer(v)
	if !ok {
		return
	}
	if err := s.tries(v); err != nil {
		s.sorry(v, err)
		return
	}
	approve := form.Get("answer") == "approve"
	if err := s.App.DecideDevice(v.R.Context(), b, form.Get("user_code"), approve, entry(form)); err != nil {
		s.sorry(v, err)
		return
	}
	p := page{Title: "Declined", Text: "The machine was not signed in. Nothing else has changed."}
	if approve {
		p = page{Title: "Signed in", Text: "The machine is signed in. Go back to your terminal; you can close this page."}
	}
	v.show(http.StatusOK, p, p.done, nil)
}
