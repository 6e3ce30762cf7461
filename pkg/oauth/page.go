package oauth

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// field is a value that a form carries along.
type field struct{ Name, Value string }

// page is everything a page may show. All of it is text; sheet escapes it.
type page struct {
	Title, Text string
	Next        []string
	Person      string // who is signed in
	Form        string // anti-forgery token
	Action      string
	Hidden      []field
	Entries     []app.Entry

	Code, Machine, From, At, Project string // of a device grant
	Client, ID, Redirect             string // of a client
	FormTo                           string // where the answer to a form may lead besides here
}

// sheet is a page being written. Templates would do as well, but a program with
// them keeps every method of every library it links, which doubles a function.
type sheet struct{ strings.Builder }

// put writes markup with texts in it. Every text is escaped, for between tags and
// for values in double quotes, which is where markup here has them.
func (s *sheet) put(markup string, texts ...string) {
	safe := make([]any, len(texts))
	for i, t := range texts {
		safe[i] = html.EscapeString(t)
	}
	fmt.Fprintf(&s.Builder, markup, safe...)
}

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:10vh auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}dt{color:#57606a;font-size:.85rem}dd{margin:0 0 .6rem;overflow-wrap:anywhere}
.code{font:600 1.8rem/1.4 ui-monospace,monospace;letter-spacing:.1em}
button,input,select{font:inherit;padding:.5rem .9rem;border:1px solid #57606a;border-radius:.4rem;background:#fff;color:inherit}
button[value=approve]{background:#1b1f24;color:#fff}.who{color:#57606a;font-size:.9rem}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}button,input,select{background:#161b22}
button[value=approve]{background:#e6edf3;color:#0d1117}}`

// whole puts a page's body between its head and its foot.
func (p page) whole(body func(*sheet)) string {
	var s sheet
	s.put(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>%s · lazyplane</title><style>
`, p.Title)
	s.WriteString(style)
	s.put("\n</style></head><body><main><h1>%s</h1>\n", p.Title)
	body(&s)
	if p.Person != "" {
		s.put("<p class=\"who\">You are signed in as %s.</p>\n", p.Person)
	}
	s.put("</main></body></html>\n")
	return s.String()
}

// done says how something ended.
func (p page) done(s *sheet) {
	for _, text := range append([]string{p.Text}, p.Next...) {
		s.put("<p>%s</p>\n", text)
	}
}

// owner says how the owner of a laptop signs in.
func (p page) owner(s *sheet) {
	s.put(`<p>This control plane belongs to one person, who proves it from a terminal. In the project, run</p>
<p class="code">lazy dashboard</p><p>open the link that it prints in this browser, then load this page again.</p>
`)
}

// code asks for the code of a terminal.
func (p page) code(s *sheet) {
	s.put(`<form method="get" action="%s"><p><label>Code that the terminal shows<br>
<input name="user_code" class="code" autocomplete="off" autocapitalize="characters" spellcheck="false" size="11" required autofocus></label></p>
<p><button>Go on</button></p></form>
`, p.Action)
}

// device asks whether a machine may be signed in.
func (p page) device(s *sheet) {
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	s.put(`<p>Approve only if you started <code>lazy login</code> yourself and the terminal shows this very code:</p>
<p class="code">%s</p>
<dl><dt>Machine</dt><dd>%s</dd><dt>Asked from</dt><dd>%s</dd><dt>Asked at</dt><dd>%s</dd><dt>Project asked for</dt><dd>%s</dd></dl>
`, p.Code, or(p.Machine, "not named"), p.From, p.At, or(p.Project, "yours to choose"))
	s.put("<p>The machine can then work, as you, on every project of the team that you may enter; the one chosen here is where it begins.</p>\n")
	p.answers(s)
}

// client asks whether a client may work for the person.
func (p page) client(s *sheet) {
	called := p.Client
	if called == "" {
		called = "nothing"
	}
	s.put(`<p>A program that calls itself <strong>%s</strong> asks to work on a project for you. It can make tasks, start agents, and
accept their work as your builder. Anybody can call a program anything: approve only what you started yourself.</p>
<dl><dt>Client</dt><dd>%s</dd><dt>The answer goes to</dt><dd>%s</dd></dl>
`, called, p.ID, p.Redirect)
	p.answers(s)
}

// answers is the form that a person answers with.
func (p page) answers(s *sheet) {
	s.put("<form method=\"post\" action=\"%s\">\n<p><label>Project <select name=\"into\">", p.Action)
	for _, e := range p.Entries {
		s.put(`<option value="%s/%s">%s (%s)</option>`, e.Tenant, e.Project, e.Project, e.Tenant)
	}
	s.put("</select></label></p>\n<input type=\"hidden\" name=\"form\" value=\"%s\">", p.Form)
	for _, f := range p.Hidden {
		s.put(`<input type="hidden" name="%s" value="%s">`, f.Name, f.Value)
	}
	s.put("\n<p><button name=\"answer\" value=\"approve\">Approve</button> <button name=\"answer\" value=\"decline\">Decline</button></p></form>\n")
}

// show answers with a page. It has no script and can be framed by nobody.
func (v visit) show(status int, p page, body func(*sheet), err error) {
	h := v.W.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' "+p.FormTo)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	v.W.WriteHeader(status)
	_, _ = v.W.Write([]byte(p.whole(body)))
	v.Outcome(status, err)
}

// sorry shows a person what went wrong.
func (s *server) sorry(v visit, err error) {
	status := http.StatusBadRequest
	p := page{Title: "That did not work"}
	if e, ok := errors.AsType[*app.GrantError](err); ok {
		p.Text = e.Text + "."
	} else {
		f := fault.Of(err)
		status, p.Text = fault.HTTP(f), f.Public
		for _, n := range f.Next {
			if n.For == "" || n.For == "web" || n.For == "person" {
				p.Next = append(p.Next, n.Text)
			}
		}
		if f.Kind == fault.Internal {
			p.Next = append(p.Next, "The log has more under the request "+v.ID+".")
		}
	}
	v.show(status, p, p.done, err)
}
